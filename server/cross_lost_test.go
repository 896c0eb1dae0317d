package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"limitdb/engine"
	"limitdb/server/spec"
)

// ends runs a client's session until replies of a node about a group wait, and ends the wait.
func (n *groupNodes) ends(c *testClient, node, g int, err error) {
	p := n.kept[node][g]
	c.until(p.owes)
	p.endWaits(err)
}

// What other nodes take is durable before the client is told, and is given back if it may be lost.
func TestSeveralNodesAreDurable(t *testing.T) {
	n := newGroupNodes(t)
	c := n.nodes[0].client()
	k2, k3 := n.key(2), n.key(3)
	take := "RL.TAKEALL 2 " + k2 + " " + k3 + " FIXED 9/h FIRST FIXED 9/h FIRST\r\n"
	holds := func(on bool) {
		n.kept[1][2].holds.Store(on)
		n.kept[2][3].holds.Store(on)
	}
	for i, ack := range []string{"quorum", "leader"} {
		for _, lost := range []error{nil, errors.New("lost")} {
			for _, ts := range n.nodes {
				for _, g := range ts.every {
					g.Keeper.AckLeader.Store(ack == "leader")
				}
			}
			holds(true)
			c.conn.take()
			c.s.Data([]byte(take))
			if ack == "quorum" {
				n.ends(c, 1, 2, nil) // what they have seen
				n.ends(c, 2, 3, nil)
			}
			n.ends(c, 1, 2, nil)
			c.until(n.kept[2][3].owes)
			if out := c.conn.take(); len(out) > 0 {
				t.Fatalf("%q before the second group", out)
			}
			holds(false)
			n.ends(c, 2, 3, lost)
			want := fmt.Sprintf("[0 -1 [0 9 %d -1 3600000] [0 9 %d -1 3600000]]", 8-i, 8-i)
			if lost != nil {
				want = "-" + errUnknownOutcome
			}
			if got := c.receive(1)[0]; got != want {
				t.Errorf("%s, %v: %s, want %s", ack, lost, got, want)
			}
			if lost != nil {
				c.until(func() bool { return n.nodes[0].crossings.GivenBack.Load() == uint64(2+2*i) })
			}
		}
	}
}

// A node that leads no longer begins nothing; a stream that is lost leaves the outcome unknown, and what was taken is given back.
func TestSeveralNodesAreLost(t *testing.T) {
	n := newGroupNodes(t)
	c, counts := n.nodes[0].client(), &n.nodes[0].crossings
	keys := []string{n.key(1), n.key(2), n.key(3)}
	take := "RL.TAKEALL 3 " + strings.Join(keys, " ") + " FIXED 9/h FIRST FIXED 9/h FIRST FIXED 9/h FIRST\r\n"
	whole := func(what string, back uint64) {
		t.Helper()
		c.until(func() bool { return counts.GivenBack.Load() == back })
		for _, key := range keys {
			if got := n.ask(1, false, "RL.PEEK", key, "FIXED", "9/h", "FIRST", "COST", "0"); !strings.HasPrefix(got, "[0 9 9 ") {
				t.Errorf("%s: %s of %s is left", what, got, key)
			}
		}
		if counts.Left.Load() > 0 {
			t.Errorf("%s: something is left", what)
		}
	}
	waits := func() {
		t.Helper()
		c.conn.take()
		c.s.Data([]byte(take))
		c.until(func() bool { return n.nodes[0].leaderless.Len() == 1 })
	}
	inVain := func() {
		t.Helper()
		waits()
		n.nodes[0].clock.Advance(leaderWait)
		n.nodes[0].LeaderChanged()
		if got := c.receive(1)[0]; got != "-"+spec.ErrNoLeader || n.nodes[0].leaderless.Len() > 0 {
			t.Errorf("%s, or it still waits", got)
		}
	}
	g := n.nodes[1].every[2]
	g.Follow() // others do not know it
	inVain()
	g.Set(specialFollowing, false)
	whole("a node that follows", 0)

	e := g.Engine.Load()
	closed := engine.New(engine.Options{Seed: 9})
	closed.Close()
	g.Engine.Store(closed)
	inVain()
	g.Engine.Store(e)
	whole("a closed engine", 0)

	link := n.links[0][1].Swap(nil)
	inVain()
	n.links[0][1].Store(link)
	whole("no uplink", 0)

	p := n.kept[1][2]
	p.holds.Store(true)
	c.conn.take()
	c.s.Data([]byte(take))
	c.until(p.owes)
	g.Follow()
	p.holds.Store(false)
	p.endWaits(nil) // what it has seen
	c.until(func() bool { return n.nodes[0].leaderless.Len() == 1 })
	n.nodes[0].clock.Advance(leaderWait)
	n.nodes[0].LeaderChanged()
	if got := c.receive(1)[0]; got != "-"+errUnknownOutcome {
		t.Error(got)
	}
	g.Set(specialFollowing, false)
	whole("a node that follows after the look", 2)

	p.holds.Store(true)
	c.conn.take()
	c.s.Data([]byte(take))
	n.ends(c, 1, 2, nil)
	c.until(p.owes)
	p.holds.Store(false)
	link.Close()
	if got := c.receive(1)[0]; got != "-"+errUnknownOutcome {
		t.Error(got)
	}
	c.until(func() bool { return counts.GivenBack.Load() == 4 && n.nodes[0].returns.Len() == 1 })
	n.nodes[0].returns.Again() // as the housekeeper does
	if n.nodes[0].returns.Len() != 1 {
		t.Error("it is not tried again")
	}
	n.connect(0, 1)
	n.nodes[0].returns.Again()
	whole("a lost uplink", 5)

	g.Follow()
	waits()
	g.Set(specialFollowing, false)
	n.nodes[0].LeaderChanged()
	if got := c.receive(1)[0]; !strings.HasPrefix(got, "[0 -1 [0 9 8 ") || n.nodes[0].leaderless.Len() > 0 {
		t.Errorf("%s, or it still waits", got)
	}

	if out, err := n.nodes[0].Do(context.Background(), toBytes(strings.Fields(take))...); err != nil || !strings.HasPrefix(string(out), "*5\r\n:0\r\n") {
		t.Errorf("%q, %v", out, err)
	}
}

// A client that goes away while other nodes decide leaves nothing half done.
func TestClientLeavesSeveralNodes(t *testing.T) {
	n := newGroupNodes(t)
	c := n.nodes[0].client()
	keys := []string{n.key(2), n.key(3)}
	p := n.kept[1][2]
	p.holds.Store(true)
	c.conn.take()
	c.s.Data([]byte("RL.TAKEALL 2 " + strings.Join(keys, " ") + " FIXED 9/h FIRST FIXED 9/h FIRST\r\n"))
	n.ends(c, 1, 2, nil)
	c.until(p.owes)
	c.hangUp(errors.New("gone"))
	p.holds.Store(false)
	p.endWaits(errors.New("lost"))
	n.nodes[0].client().until(func() bool { return n.nodes[0].crossings.GivenBack.Load() == 2 })
	for _, key := range keys {
		if got := n.ask(0, false, "RL.PEEK", key, "FIXED", "9/h", "FIRST", "COST", "0"); !strings.HasPrefix(got, "[0 9 9 ") {
			t.Error(got)
		}
	}
}
