package server

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// waits has a client write, something happen, and WAIT say that what it was told may be lost. The next WAIT is about nothing else.
func waits(t *testing.T, c *testClient, write string, lost bool, what string, happens func()) {
	t.Helper()
	if got := c.send(write, 1)[0]; got[0] == '-' {
		t.Fatalf("%s: %s", what, got)
	}
	happens()
	want := "1"
	if lost {
		want = "-" + errUnknownOutcome
	}
	if got := c.send("WAIT 1 0\r\n", 1)[0]; got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
	if got := c.send("WAIT 1 0\r\n", 1)[0]; got != "1" {
		t.Errorf("%s: then %s", what, got)
	}
}

// With raft-ack leader, WAIT does not count what a leader has told in a turn that is over.
func TestWaitAfterATurn(t *testing.T) {
	for _, early := range []bool{true, false} {
		ts, p := newNode(t)
		ts.durable.AckLeader.Store(early)
		p.holds.Store(false)
		c := ts.client()
		waits(t, c, "SET k v\r\n", false, "in the turn", func() {})
		waits(t, c, "SET k v\r\n", early, "in the next turn", func() { p.turn++ })
		waits(t, c, "GET k\r\n", early, "a read", func() { p.turn++ })
		waits(t, c, "PING\r\n", false, "without state", func() { p.turn++ })
	}
}

// So it is for a client of another node, which may have lost sight of the leader.
func TestWaitAfterATurnElsewhere(t *testing.T) {
	for _, early := range []bool{true, false} {
		n := newTwoNodes(t)
		n.leader.durable.AckLeader.Store(early)
		n.follower.durable.AckLeader.Store(early)
		c := n.follower.client()
		waits(t, c, "SET k v\r\n", false, "in the turn", func() {})
		waits(t, c, "SET k v\r\n", early, "in the next turn", func() { n.primary.turn++ })
		waits(t, c, "SET k v\r\n", early, "over another uplink", n.connect)
		waits(t, c, "SET k v\r\n", early, "after a cut", func() {
			n.cut()
			n.connect()
		})
		waits(t, c, "SET k v\r\n", early, "when this node leads", n.followerLeads)
	}
}

// And for one of several groups, whichever nodes lead them.
func TestWaitAfterTurnsOfSeveralGroups(t *testing.T) {
	for _, early := range []bool{true, false} {
		n := newGroupNodes(t)
		for _, ts := range n.nodes {
			for _, g := range ts.every {
				g.Keeper.AckLeader.Store(early)
			}
		}
		c := n.nodes[0].client()
		here, far := "INCR "+n.key(1)+"\r\n", "INCR "+n.key(2)+"\r\n"
		waits(t, c, here, false, "here", func() {})
		waits(t, c, far, false, "elsewhere", func() {})
		waits(t, c, here, early, "in the next turn here", func() { n.move(1, 0) })
		waits(t, c, far, early, "in the next turn elsewhere", func() { n.move(2, 1) })
		waits(t, c, far, false, "a turn of another group", func() { n.move(3, 2) })
		waits(t, c, far, early, "when another node leads", func() { n.move(2, 2) })
		waits(t, c, far, early, "after a cut", func() {
			n.links[0][2].Load().Close()
			n.connect(0, 2)
		})
		waits(t, c, far, early, "when this node leads", func() { n.move(2, 0) })
		waits(t, c, far, early, "when this node leads no more", func() { n.move(2, 1) })
		waits(t, c, far, false, "at last", func() {})
	}
}

// A node that answers a WAIT too late disturbs no later command.
func TestWaitIsAnsweredLate(t *testing.T) {
	n := newGroupNodes(t)
	for _, ts := range n.nodes {
		for _, g := range ts.every {
			g.Keeper.AckLeader.Store(true)
		}
	}
	p, c := n.kept[1][2], n.nodes[0].client()
	p.holds.Store(true)
	far := "INCR " + n.key(2) + "\r\n"
	for i, in := range []string{far, "WAIT 1 1\r\n", far, "WAIT 1 1\r\n", "WAIT 1 1\r\n", far} {
		if i == 3 {
			p.mu.Lock() // the other node cannot answer
		}
		got := c.send(in, 1)[0]
		if i == 4 {
			p.mu.Unlock() // it answers twice
		}
		if want := []string{"1", "0", "2", "0", "0", "3"}[i]; got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	if t.Failed() {
		return // what follows would wait for ever
	}
	c.s.Data([]byte("WAIT 1 0\r\n"))
	c.until(p.owes)
	for c.s.pending != nil {
		p.endWaits(nil)
		c.s.Resume()
	}
	if got := c.receive(1)[0]; got != "1" {
		t.Error(got)
	}
}

// WAIT waits for every group that the node leads.
func TestWaitForAllGroups(t *testing.T) {
	ts, of := newGroupsKept(t, 2, alone)
	ts.group.Replication = &Replication{Members: func() ([]Member, error) { return make([]Member, 1), nil }}
	of[1].turn = 0
	c := ts.client()
	if got := c.raw("WAIT 1 0\r\n"); got != "" {
		t.Fatalf("%q", got)
	}
	for !of[0].owes() || !of[2].owes() {
		runtime.Gosched()
	}
	of[0].endWaits(nil)
	of[2].endWaits(nil)
	if got := c.resume(); got != ":0\r\n" || of[1].owes() {
		t.Errorf("%q", got)
	}
}

// WAIT waits for what other nodes have decided for the connection.
func TestWaitForSeveralNodes(t *testing.T) {
	n := newGroupNodes(t)
	n.shares()
	far, c := n.kept[1][2], n.nodes[0].client()
	for _, ts := range n.nodes {
		for _, g := range ts.every {
			g.Keeper.AckLeader.Store(true)
		}
	}
	far.holds.Store(true)
	in := "INCR " + n.key(2) + "\r\n"
	for i, end := range []error{nil, errUnknown} {
		c.gets(in, strconv.Itoa(i+1))
		c.s.Data([]byte("WAIT 1 0\r\nPING\r\n"))
		c.until(far.owes)
		if c.s.pending == nil {
			t.Fatal("it does not wait")
		}
		far.endWaits(end)
		want := "1 PONG"
		if end != nil {
			want = "-" + errUnknownOutcome + " PONG"
		}
		if got := strings.Join(c.receive(2), " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	c.gets(in+"WAIT 1 1\r\n", "3", "0")           // ms
	n.nodes[2].client().gets("WAIT 1 0\r\n", "1") // it has written nothing elsewhere
	far.holds.Store(false)
	c.s.Data([]byte(in))
	c.receive(1)
	n.passes(2, 0, func() { c.s.Data([]byte("WAIT 1 0\r\n")) })
	if got := c.receive(1)[0]; got != "-"+errUnknownOutcome {
		t.Error(got)
	}
	c.gets("WAIT 1 0\r\n", "1")
}
