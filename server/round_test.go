package server

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// until resumes the session, as the transport would, until a condition holds.
func (c *testClient) until(holds func() bool) {
	c.t.Helper()
	for begin := time.Now(); !holds(); {
		select {
		case <-c.conn.woken:
			c.s.Resume()
		default:
			runtime.Gosched()
		}
		if time.Since(begin) > patience() {
			c.t.Fatal("it does not happen")
		}
	}
}

// shares makes all nodes keep the states of each group in the same engine, as if what one has decided were at once at the others.
func (n *groupNodes) shares() {
	for g := range n.led {
		for _, ts := range n.nodes[1:] {
			ts.every[g].Engine.Store(n.nodes[0].every[g].Engine.Load())
		}
	}
}

// passes makes another node lead a group whose engine all share. Sessions of other nodes may run meanwhile.
func (n *groupNodes) passes(g, to int, meanwhile func()) {
	n.follow(g)
	meanwhile()
	of := n.nodes[to].every[g]
	n.turns[to][g].Store(n.terms.Add(1))
	of.Since.Store(of.Clock.Now())
	of.Set(specialFollowing, false)
	n.led[g].Store(int32(to))
	for _, ts := range n.nodes {
		ts.LeaderChanged()
	}
}

// The commands of a pipeline are underway at several nodes at once, and those of groups that the node leads run meanwhile. The replies come in the
// order of the commands.
func TestRoundIsUnderwayAtSeveralNodes(t *testing.T) {
	n := newGroupNodes(t)
	c := n.nodes[0].client()
	here, b, d := n.key(1), n.key(2), n.key(3)
	for i, g := range []int{1, 2, 3} {
		at := []int{0, 1, 2}[i]
		kept := n.kept[at][g]
		keys := []string{here, b, d}
		kept.holds.Store(true)
		c.conn.take()
		in := ""
		for range 3 {
			in += "INCR " + b + "\r\nINCR " + here + "\r\nINCR " + d + "\r\nGET " + here + "\r\n"
		}
		c.s.Data([]byte(in))
		c.until(func() bool { return kept.owes() })
		for j, key := range keys {
			if j != i { // what the other groups have decided is there while one keeps its replies
				other := n.nodes[[]int{0, 1, 2}[j]].client()
				c.until(func() bool { return other.send("GET "+key+"\r\n", 1)[0] == strconv.Quote(strconv.Itoa(3*i+3)) })
			}
		}
		kept.holds.Store(false)
		c.until(func() bool {
			kept.endWaits(nil)
			return c.s.pending == nil
		})
		want := ""
		for k := range 3 {
			v := 3*i + k + 1
			want += fmt.Sprintf(`%d %d %d "%d" `, v, v, v, v)
		}
		if got := strings.Join(c.receive(12), " ") + " "; got != want {
			t.Errorf("group %d keeps its replies:\n got %s\nwant %s", g, got, want)
		}
	}
	if len(c.s.fwd.legs) != 2 || c.s.fwd.away() {
		t.Errorf("%d legs", len(c.s.fwd.legs))
	}
}

// If the state that replies reveal is lost, only these are unknown, whatever node has decided.
func TestRoundOfWhichSomeIsLost(t *testing.T) {
	n := newGroupNodes(t)
	c := n.nodes[0].client()
	here, b, d := n.key(1), n.key(2), n.key(3)
	in := strings.Repeat("INCR "+b+"\r\nINCR "+here+"\r\nINCR "+d+"\r\n", 2)
	lost := func(at, g int) {
		n.kept[at][g].holds.Store(true)
		c.conn.take()
		c.s.Data([]byte(in))
		c.until(n.kept[at][g].owes)
		n.kept[at][g].holds.Store(false)
		n.kept[at][g].endWaits(errUnknown)
	}
	const u = "-" + errUnknownOutcome
	lost(0, 1)
	if got := strings.Join(c.receive(6), " "); got != "1 "+u+" 1 2 "+u+" 2" {
		t.Error(got)
	}
	lost(1, 2)
	if got := strings.Join(c.receive(6), " "); got != u+" 3 3 "+u+" 4 4" {
		t.Error(got)
	}
	n.kept[1][2].holds.Store(true)
	c.s.Data([]byte(in))
	c.until(n.kept[1][2].owes)
	n.kept[1][2].holds.Store(false)
	n.links[0][1].Load().Close()
	n.connect(0, 1)
	if got := strings.Join(c.receive(6), " "); got != u+" 5 5 "+u+" 6 6" {
		t.Error(got)
	}
	c.gets(in, "7", "7", "7", "8", "8", "8")
}

// Commands that a node refuses are run again, in their order, and reply in their places, wherever their group is led then.
func TestRoundOfWhichSomeIsRefused(t *testing.T) {
	for to := range 3 {
		n := newGroupNodes(t)
		n.shares()
		c := n.nodes[0].client()
		here, b, d := n.key(1), n.key(2), n.key(3)
		c.s.Data([]byte("INCR " + here + "\r\nINCR " + b + "\r\n"))
		if got := strings.Join(c.receive(2), " "); got != "1 1" {
			t.Fatal(got)
		}
		n.nodes[1].every[2].Follow() // the others do not know yet
		in := ""
		for range 3 {
			in += "INCR " + b + "\r\nINCR " + d + "\r\nINCR " + here + "\r\nRL.TAKE {" + b + "}t GCRA 9/h\r\n"
		}
		c.s.Data([]byte(in + "PING\r\n"))
		c.until(func() bool {
			_, waits := n.nodes[0].leaderless.Until(c.conn)
			return waits
		})
		n.nodes[2].client().gets("INCR "+d+"\r\n", "4")
		n.passes(2, to, func() {})
		const want = "2 1 2 [0 9 8 -1 400000] 3 2 3 [0 9 7 -1 800000] 4 3 4 [0 9 6 -1 1200000] PONG"
		if got := strings.Join(c.receive(13), " "); got != want {
			t.Errorf("node %d leads:\n got %s\nwant %s", to, got, want)
		}
		c.gets("INCR "+b+"\r\nINCR "+d+"\r\n", "5", "5")
	}
}

// A node that stops leading a group between two commands of a pipeline has begun none of those behind, and the client sees what it sees of a single
// command: they wait for the next leader. So it is at the client's own node.
func TestRoundWhoseLeaderStops(t *testing.T) {
	for client := range 2 {
		for to := range 3 {
			n := newGroupNodes(t)
			n.shares()
			c := n.nodes[client].client()
			b, d := n.key(2), n.key(3)
			c.gets("INCR "+b+"\r\nINCR "+d+"\r\n", "1", "1")
			n.turns[1][2].Store(0) // nothing but its turn says so
			c.conn.take()
			c.s.Data([]byte("GET " + d + "\r\nINCR " + b + "\r\nRL.TAKE {" + b + "}t GCRA 9/h\r\nINCR " + b + "\r\nSTRLEN " + b + "\r\nINCR " + d + "\r\nPING\r\n"))
			c.until(func() bool {
				_, waits := n.nodes[client].leaderless.Until(c.conn)
				return waits
			})
			n.passes(2, to, func() {})
			if got := strings.Join(c.receive(7), " "); got != `"1" 2 [0 9 8 -1 400000] 3 1 2 PONG` {
				t.Errorf("a client of node %d, node %d leads: %s", client, to, got)
			}
			c.gets("INCR "+b+"\r\n", "4")
		}
	}
}

// While the replies of one node are awaited, about 1 MB of those of others is parked, and no more is sent.
func TestParkedReplies(t *testing.T) {
	n := newGroupNodes(t)
	c := n.nodes[0].client()
	b, d := n.key(2), n.key(3)
	const size, many = 20_000, 900
	c.gets("SET "+d+" "+strings.Repeat("x", size)+"\r\n", "OK")
	n.kept[1][2].holds.Store(true)
	c.conn.take()
	c.s.Data([]byte("INCR " + b + "\r\n" + strings.Repeat("GET "+d+"\r\n", many)))
	f := c.s.fwd
	l := f.legOf(n.nodes[0].every[3])
	c.until(func() bool { return f.live >= parkedMost && l.answered == l.sent })
	if most := parkedMost + legMost*(size+20); f.live > most || l.sent >= many/2 || len(c.conn.take()) > 0 {
		t.Errorf("%d bytes are parked, %d commands were sent", f.live, l.sent)
	}
	if got := c.s.pub.ArgMemory.Load(); got < parkedMost {
		t.Errorf("the client's memory is %d", got)
	}
	n.kept[1][2].holds.Store(false)
	n.kept[1][2].endWaits(nil)
	got := c.receive(many + 1)
	for i, g := range got {
		if want := size + 2; i > 0 && len(g) != want || i == 0 && g != "1" {
			t.Fatalf("reply %d has %d bytes: %.20q", i, len(g), g)
		}
	}
	if f.live != 0 || cap(f.parked) > 2*batchBytes || c.s.pub.ArgMemory.Load() != 0 {
		t.Errorf("%d bytes are parked, %d are kept", f.live, cap(f.parked))
	}
}

// Of replies that are known to be large, no more are awaited than may be parked, and of what runs here no more are kept.
//
//test:norace
func TestParkedRepliesAreFewIfTheyAreLarge(t *testing.T) {
	n := newGroupNodes(t)
	c := n.nodes[0].client()
	here, b, d := n.key(1), n.key(2), n.key(3)
	const size, many = 60_000, 300
	for _, key := range []string{here, d} {
		c.gets("SET "+key+" "+strings.Repeat("x", size)+"\r\nGET "+key+"\r\n", "OK", strconv.Quote(strings.Repeat("x", size)))
	}
	for _, key := range []string{here, d} {
		n.kept[1][2].holds.Store(true)
		c.conn.take()
		c.s.Data([]byte("INCR " + b + "\r\n" + strings.Repeat("GET "+key+"\r\n", many)))
		f := c.s.fwd
		l := f.legOf(n.nodes[0].every[3])
		kept := func() (bytes int) {
			if bytes = f.live; f.here != nil {
				bytes += len(f.here.b)
			}
			return bytes
		}
		c.until(func() bool { return kept() >= parkedMost-size && (l == nil || l.answered == l.sent) })
		if kept() > 2*parkedMost+aheadMost*size || len(c.conn.take()) > 0 {
			t.Errorf("key %s: %d bytes are parked", key, kept())
		}
		n.kept[1][2].holds.Store(false)
		n.kept[1][2].endWaits(nil)
		for i, g := range c.receive(many + 1) {
			if i > 0 && len(g) != size+2 {
				t.Fatalf("key %s: reply %d has %d bytes: %.20q", key, i, len(g), g)
			}
		}
	}
}

// What the client has got is dropped, although others are parked all the time.
func TestParkedRepliesThatHaveGone(t *testing.T) {
	c := newGroupNodes(t).nodes[0].client()
	f := c.s.forwarding()
	const size, many = 60_000, 1000
	reply := func(i int) []byte { return fmt.Appendf(nil, "+%0*d\r\n", size, i) }
	f.slots = make([]slot, many)
	f.hold(1, nil, reply(1))
	var got []string
	for i := 0; i+3 < many; i += 2 {
		f.hold(i+3, nil, reply(i+3))
		c.s.call.Out = append(c.s.call.Out, reply(i)...)
		f.pass()
		c.s.flush()
		for line := range strings.Lines(string(c.conn.take())) {
			got = append(got, line)
		}
		if cap(f.parked) > 4*parkedMost || f.live != size+3 {
			t.Fatalf("behind reply %d, %d bytes are parked in %d", i, f.live, cap(f.parked))
		}
	}
	for i, line := range got {
		if line != string(reply(i)) {
			t.Fatalf("reply %d is %.20q", i, strings.TrimLeft(line, "+0"))
		}
	}
	if len(got) != many-2 {
		t.Errorf("%d replies", len(got))
	}
}

// Commands that run here are not run before those of other nodes that come behind them have been collected. They reply in their places.
func TestQueueGoesOverOthersCommands(t *testing.T) {
	n := newGroupNodes(t)
	for _, turn := range []string{"long", "none"} {
		c := n.nodes[0].client()
		if turn == "none" {
			c.tiny()
		}
		var in strings.Builder
		var want []string
		for i := range 500 {
			in.Write(encode("INCR", "{"+n.key([]int{1, 2, 4, 3, 1}[i%5])+"}"+turn+strconv.Itoa(i%5)))
			want = append(want, strconv.Itoa(i/5+1))
		}
		c.gets(in.String()+"PING\r\n", append(want, "PONG")...)
	}

	// A command is not collected before an earlier one of its group has run.
	c := n.nodes[0].client()
	q := lendQueue(&c.s.srv.queues)
	c.s.begin()
	c.s.rd.Feed(slices.Concat(encode("INCR", n.key(1)), encode("INCR", n.key(2)), encode("INCR", n.key(1)), encode("INCR", n.key(1))))
	for range 2 {
		if args, _, ok := q.nextHere(c.s); !ok {
			t.Fatalf("%q is not collected", args)
		}
	}
	if q.n != 1 || q.placed != 1 || c.s.fwd.collected != 1 {
		t.Errorf("%d commands are in the queue, %d have places, %d are in the round", q.n, q.placed, c.s.fwd.collected)
	}
	n.nodes[0].every[1].Follow()
	n.led[1].Store(1)
	if args, _, ok := q.nextHere(c.s); ok || string(args[1]) != n.key(1) {
		t.Errorf("the next one of group 1 is collected")
	}
}

// If the node has stopped leading the group of a queued command, and those of other nodes are collected behind it, the rest of the queue
// runs when these are answered, and replies in its places.
func TestQueueWhoseLeaderStops(t *testing.T) {
	for to := range 3 {
		n := newGroupNodes(t)
		n.shares()
		c := n.nodes[0].client()
		here, b, d, other := n.key(1), n.key(2), n.key(3), n.key(4)
		in := encode("INCR", other)
		for range 2 {
			for _, key := range []string{here, b, "{" + here + "}x", d, other, here} {
				in = append(in, encode("INCR", key)...)
			}
		}
		n.turns[0][1].Store(0) // nothing but its turn says so
		c.s.Data(append(in, "ECHO\r\nPING\r\n*"...))
		c.until(func() bool {
			_, waits := n.nodes[0].leaderless.Until(c.conn)
			return waits
		})
		n.passes(1, to, func() {})
		c.s.Data([]byte("1\r\n$4\r\nPING\r\n"))
		const want = "1 1 1 1 1 2 2 3 2 2 2 3 4 -ERR wrong number of arguments for 'echo' command PONG PONG"
		if got := strings.Join(c.receive(16), " "); got != want {
			t.Errorf("node %d leads:\n got %s\nwant %s", to, got, want)
		}
	}
}
