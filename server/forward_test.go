package server

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"limitdb/server/clients"
	"limitdb/server/forward"
	"limitdb/server/spec"
)

// A client of a node that does not lead gets the replies of the leader, one for each command, in their order.
func TestForwarding(t *testing.T) {
	n := newTwoNodes(t)
	c := n.follower.client()
	c.gets("RL.TAKE a GCRA 1/m\r\n", "[0 1 0 -1 60000]")
	c.gets("RL.TAKE a GCRA 1/m\r\nPING\r\nRL.TAKE b GCRA 1/m\r\nnonsense\r\nDBSIZE\r\nRL.TAKE\r\nPING x\r\n",
		"[1 1 0 60000 60000]", "PONG", "[0 1 0 -1 60000]",
		"-ERR unknown command 'nonsense', with args beginning with: ", "2", "-"+n.leader.table.find([]byte("RL.TAKE")).WrongArity(), `"x"`)
	if n.follower.engine.Stats().Keys != 0 || n.leader.engine.Stats().Keys != 2 {
		t.Error("the follower decides")
	}
	c.gets("KEYS a*\r\nRL.INFO none\r\n*x\r\n", `["a"]`, "nil", "-ERR Protocol error: invalid multibulk length")
}

// A command that is too large is refused here, in its turn, also when half of it has come while others are underway.
func TestForwardingBesideTooLargeCommands(t *testing.T) {
	n := newTwoNodes(t)
	c := n.follower.client()
	big := string(encode("SET", "k", strings.Repeat("x", 90_000)))
	const text = "-ERR an argument may have at most 65536 bytes (proto-max-bulk-len), a file of rules 4194304"
	c.gets("RL.TAKE a GCRA 9/h\r\n"+big+"RL.TAKE a GCRA 9/h\r\n"+big+"PING\r\n", "[0 9 8 -1 400000]", text, "[0 9 7 -1 800000]", text, "PONG")
	c.conn.take()
	c.s.Data([]byte("RL.PEEK a GCRA 9/h\r\n" + big[:70_000]))
	<-c.conn.woken
	c.s.Resume()
	if got := string(c.conn.take()); !strings.HasPrefix(got, "*5\r\n:0\r\n") {
		t.Errorf("%q", got)
	}
	c.gets(big[70_000:]+"RL.PEEK b GCRA 9/h\r\n", text, "[0 9 8 -1 400000]")
	c.gets("MULTI\r\n"+big+"EXEC\r\nPING\r\n", "OK", text, "-EXECABORT Transaction discarded because of previous errors.", "PONG")
}

// A long pipeline is sent in several batches, and other clients are served in between.
func TestForwardedPipeline(t *testing.T) {
	n := newTwoNodes(t)
	c := n.follower.client()
	const many = 5000
	got := c.send(strings.Repeat("RL.TAKE a GCRA 3000/h BURST 3000\r\nPING\r\n", 3)+strings.Repeat("RL.TAKE a GCRA 3000/h BURST 3000\r\n", many), many+6)
	granted := 0
	for _, g := range got {
		if strings.HasPrefix(g, "[0 ") {
			granted++
		}
	}
	if granted != 3000 || got[1] != "PONG" || got[5] != "PONG" {
		t.Errorf("%d granted", granted)
	}
}

// The modes of a client's connection apply wherever its commands run.
func TestForwardingKeepsModes(t *testing.T) {
	n := newTwoNodes(t)
	c := n.follower.client()
	c.send("RL.INFO none\r\nHELLO 3\r\n", 2)
	c.conn.take()
	c.s.Data([]byte("RL.INFO none\r\n"))
	<-c.conn.woken
	c.s.Resume()
	if got := string(c.conn.take()); got != "_\r\n" {
		t.Errorf("RESP3: %q", got)
	}
	c.send("HELLO 2\r\n", 1)
	c.gets("CLIENT REPLY OFF\r\nRL.TAKE a GCRA 9/h\r\nRL.TAKE a GCRA 9/h\r\nCLIENT REPLY ON\r\nRL.PEEK a GCRA 9/h\r\n",
		"OK", "[0 9 6 -1 1200000]")
	c.gets("RL.TAKE b GCRA 9/h\r\nCLIENT REPLY SKIP\r\nRL.TAKE b GCRA 9/h\r\nRL.PEEK b GCRA 9/h\r\nCLIENT REPLY SKIP\r\nPING\r\nPING\r\n",
		"[0 9 8 -1 400000]", "[0 9 6 -1 1200000]", "PONG")
	name := strings.Fields(line(c.do("CLIENT", "INFO")))[1]
	c.gets("CLIENT SETNAME me\r\nRL.PEEK a GCRA 9/h\r\n", "OK", "[0 9 6 -1 1200000]")
	list := n.leader.client().do("CLIENT", "LIST").Text
	if !strings.Contains(list, " name=me ") || !strings.Contains(list, name) {
		t.Errorf("the leader's CLIENT LIST is %s, the client's %s", list, name)
	}
}

// When the leader closes a forwarded client, the client's own node closes it too.
func TestForwardedClientIsKilled(t *testing.T) {
	n := newTwoNodes(t)
	c := n.follower.clientFrom("127.0.0.1:40001")
	c.gets("RL.TAKE a GCRA 1/m\r\n", "[0 1 0 -1 60000]")
	c.s.Data([]byte("RL.TAKE a GCRA 1/m WAIT 1d\r\n"))
	admin := n.leader.client()
	for !strings.Contains(admin.do("CLIENT", "LIST").Text, "flags=b ") {
		runtime.Gosched()
	}
	if got := line(admin.do("CLIENT", "KILL", "ADDR", "127.0.0.1:40001")); got != "1" {
		t.Fatal(got)
	}
	if got := c.receive(1); got[0] != "end" || !errors.Is(c.conn.reason(), errClosedByLead) {
		t.Errorf("%q, %v", got, c.conn.reason())
	}
}

// A client that goes away gives up its place at the leader.
func TestForwardedClientGoesAway(t *testing.T) {
	n := newTwoNodes(t)
	for name, leave := range map[string]func(*testClient){
		"half-closed": func(c *testClient) { c.s.EOF() },
		"closed":      func(c *testClient) { c.hangUp(clients.ErrEOF) },
	} {
		c := n.follower.client()
		c.send("RL.RESET a\r\n", 1)
		c.gets("RL.TAKE a GCRA 1/m\r\n", "[0 1 0 -1 60000]")
		c.s.Data([]byte("RL.TAKE a GCRA 1/m WAIT 1d\r\n"))
		for n.leader.engine.Stats().Waiting == 0 {
			runtime.Gosched()
		}
		leave(c)
		for n.leader.engine.Stats().Waiting != 0 {
			runtime.Gosched()
		}
		if name == "half-closed" {
			if got := c.receive(1); got[0] != "[1 1 0 60000 60000]" {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
}

// When an uplink ends, its replies are lost: each command that was sent gets an error that says so, and commands that
// were not sent are sent over the next uplink.
func TestUplinkThatEnds(t *testing.T) {
	n := newTwoNodes(t)
	n.primary.holds.Store(true)
	c := n.follower.client()
	c.s.Data([]byte("RL.TAKE a GCRA 1/m\r\nRL.TAKE b GCRA 1/m\r\nPING\r\nRL.TAKE c GCRA 1/m\r\n"))
	for n.leader.engine.Stats().Keys < 2 {
		runtime.Gosched()
	}
	n.cut()
	if got := c.receive(3); strings.Join(got, " ") != "-"+errUnknownOutcome+" -"+errUnknownOutcome+" PONG" {
		t.Errorf("%q", got)
	}
	n.primary.holds.Store(false)
	n.connect()
	if got := c.receive(1); got[0] != "[0 1 0 -1 60000]" {
		t.Errorf("%q", got)
	}
	if info := c.do("INFO", "replication").Text; !strings.Contains(info, "raft_forwarded_commands:3\r\nraft_unknown_outcomes:2\r\n") {
		t.Errorf("%s", info)
	}
}

// A node that no longer leads has begun none of the commands that it does not answer. They wait, and are decided once.
func TestLeaderThatSteppedDown(t *testing.T) {
	n := newTwoNodes(t)
	n.primary.holds.Store(true)
	c := n.follower.client()
	c.s.Data([]byte("RL.TAKE a GCRA 1/m\r\n"))
	for !n.primary.owes() {
		runtime.Gosched()
	}
	n.leader.group.Follow()
	n.primary.endWaits(errors.New("abdicated"))
	if got := c.receive(1); got[0] != "-"+errUnknownOutcome {
		t.Errorf("%q", got)
	}
	// The other node refuses the next commands. Then this node leads.
	c.s.Data([]byte("RL.TAKE b GCRA 1/m\r\nRL.TAKE b GCRA 1/m\r\nPING\r\n"))
	n.refused(c)
	if got := c.conn.take(); len(got) > 0 {
		t.Fatalf("%q", got)
	}
	n.followerLeads()
	if got := strings.Join(c.receive(3), " "); got != "[0 1 0 -1 60000] [1 1 0 60000 60000] PONG" {
		t.Errorf("%q", got)
	}
}

// refuses begins a command of a client of the follower, which the leader refuses.
func (n *twoNodes) refuses() *testClient {
	c := n.follower.client()
	c.s.Data([]byte("RL.TAKE a GCRA 1/m\r\n"))
	n.refused(c)
	return c
}

// A leader that stops has handed over, and begins nothing that other nodes send it.
func TestLeaderThatStops(t *testing.T) {
	n := newTwoNodes(t)
	n.leader.Stopping()
	c := n.refuses()
	n.followerLeads()
	if got := c.receive(1); got[0] != "[0 1 0 -1 60000]" {
		t.Errorf("%q", got)
	}
}

// Other nodes may learn of a new leader before it decides. A command that it refuses meanwhile is soon sent again, without
// waiting for the housekeeper.
func TestNodeThatIsAboutToLead(t *testing.T) {
	n := newTwoNodes(t)
	n.leader.group.Follow()
	c := n.refuses()
	n.leader.group.Lead(n.leader.engine, 0)
	out := c.conn.take()
	for ; len(out) == 0; out = c.conn.take() {
		<-c.conn.woken
		c.s.Resume()
	}
	c.conn.putBack(out)
	if got := c.receive(1); got[0] != "[0 1 0 -1 60000]" {
		t.Errorf("%q", got)
	}
}

// Without a leader that can be reached, commands wait and are then refused. The node may still know the address of one that is gone: clients
// that rely on the node are not told it.
func TestWaitForALeader(t *testing.T) {
	n := newTwoNodes(t)
	n.cut()
	c := n.follower.client()
	down := "-" + spec.ErrNoLeader
	look := func(by time.Duration) {
		n.follower.clock.Advance(by)
		n.follower.LeaderChanged()
		<-c.conn.woken
		c.s.Resume()
	}
	c.s.Data([]byte("PING\r\nRL.TAKE a GCRA 1/m\r\nRL.TAKE a GCRA 1/m\r\nPING\r\n"))
	look(leaderWait - 1)
	if got := string(c.conn.take()); got != "+PONG\r\n" {
		t.Errorf("%q", got)
	}
	look(1)
	if got := strings.Join(c.receive(3), " "); got != down+" "+down+" PONG" {
		t.Errorf("%q", got)
	}
	// Later commands wait by themselves.
	c.s.Data([]byte("RL.TAKE a GCRA 1/m\r\n"))
	look(leaderWait / 2)
	n.connect()
	if got := c.receive(1); got[0] != "[0 1 0 -1 60000]" {
		t.Errorf("%q", got)
	}
	if n.follower.leaderless.Len() != 0 {
		t.Error("a client still waits")
	}
	// A node that refuses commands for that long counts as no leader.
	n.leader.group.Follow()
	c.s.Data([]byte("RL.TAKE a GCRA 1/m\r\n"))
	for range 3 {
		n.refused(c)
		look(leaderWait / 3)
	}
	if got := c.receive(1); got[0] != down {
		t.Errorf("%q", got)
	}
	// The queue is bounded.
	n.cut()
	for range forward.MaxLeaderless {
		n.follower.leaderless.Add(make(forward.Waker, 1))
	}
	c.gets("RL.TAKE a GCRA 1/m\r\n", down)
	c.gets("MULTI\r\nRL.TAKE a GCRA 1/m\r\nEXEC\r\n", "OK", "QUEUED", "-EXECABORT Transaction discarded because of: "+spec.ErrNoLeader)
}

// A client that knows clusters is told the leader's address.
func TestClientsThatKnowClusters(t *testing.T) {
	n := newTwoNodes(t)
	moved := "-MOVED 12182 127.0.0.1:7"
	for _, word := range []string{"CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "READONLY", "READWRITE"} {
		c := n.follower.client()
		c.send("RL.TAKE foo GCRA 1/m\r\n", 1)
		c.send(word+"\r\n", 1)
		c.gets("RL.TAKE foo GCRA 1/m\r\nPING\r\n", moved, "PONG")
		c.send("RESET\r\n", 1)
		if got := c.send("RL.PEEK foo GCRA 1/m\r\n", 1); !strings.HasPrefix(got[0], "[") {
			t.Errorf("after %s and RESET: %q", word, got)
		}
	}
	c := n.follower.client()
	c.gets("CONFIG SET raft-redirect moved\r\nRL.TAKE foo GCRA 1/m\r\n", "OK", moved)
}

// A client gets one reply for each command, in order, and each command is counted once: with a leader, with a leader that comes later, and if the
// uplink ends meanwhile, when the outcome is unknown.
func TestForwardedCommandsAreAnsweredOnce(t *testing.T) {
	const in = "RL.TAKE a GCRA 9/h\r\nRL.TAKE a GCRA 9/h\r\nPING 1\r\nRL.TAKE a GCRA 9/h\r\nPING 2\r\n"
	const taken = "[0 9 8 -1 400000] [0 9 7 -1 800000]"
	unknown := "-" + errUnknownOutcome
	for name, c := range map[string]struct {
		before, after func(n *twoNodes)
		want          string
	}{
		"a leader": {func(*twoNodes) {}, func(*twoNodes) {}, taken + ` "1" [0 9 6 -1 1200000] "2"`},
		"a leader that comes later": {
			func(n *twoNodes) { n.cut() },
			func(n *twoNodes) { n.awaits(1); n.connect() }, taken + ` "1" [0 9 6 -1 1200000] "2"`,
		},
		"an uplink that ends": {
			func(n *twoNodes) { n.primary.holds.Store(true) },
			func(n *twoNodes) {
				for !n.primary.owes() {
					runtime.Gosched()
				}
				n.primary.holds.Store(false)
				n.cut()
				n.connect()
			}, unknown + " " + unknown + ` "1" [0 9 6 -1 1200000] "2"`,
		},
	} {
		n := newTwoNodes(t)
		client := n.follower.client()
		c.before(n)
		client.s.Data([]byte(in))
		c.after(n)
		if got := strings.Join(client.untilEnd(), " "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		if got := line(n.leader.client().do("RL.PEEK", "a", "GCRA", "9/h")); got != "[0 9 5 -1 1600000]" {
			t.Errorf("%s: the leader says %s", name, got)
		}
	}
}
