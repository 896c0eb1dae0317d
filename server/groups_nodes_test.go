package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/script"
	"limitdb/uplink"
)

// groupNodes are nodes that each lead some of several groups, with uplinks between all of them.
type groupNodes struct {
	t     *testing.T
	nodes []*testServer
	kept  [][]*primary       // by node and group
	turns [][5]atomic.Uint64 // the same
	terms atomic.Uint64
	links [][]atomic.Pointer[uplink.Link] // from, to
	led   []atomic.Int32                  // by group: the node that leads it, -1 for none
}

// newGroupNodes starts three nodes and four groups with keys. Group 0 and 2 are led by node 1, 3 by node 2, 1 and 4 by node 0.
func newGroupNodes(t *testing.T) *groupNodes {
	n := &groupNodes{t: t, led: make([]atomic.Int32, 5), turns: make([][5]atomic.Uint64, 3)}
	for i := range 3 {
		ts, kept := newGroupsKept(t, 4, func(g int) *Replication { return n.replication(i, g) })
		for g, p := range kept {
			p.holds.Store(false)
			ts.every[g].Keeper.Turn = n.turns[i][g].Load
		}
		n.nodes, n.kept, n.links = append(n.nodes, ts), append(n.kept, kept), append(n.links, make([]atomic.Pointer[uplink.Link], 3))
	}
	for g, to := range []int{1, 0, 1, 2, 0} {
		n.led[g].Store(-1)
		for _, ts := range n.nodes {
			ts.every[g].Follow()
		}
		n.lead(g, to)
	}
	for from := range 3 {
		for to := range 3 {
			if from != to {
				n.connect(from, to)
			}
		}
	}
	return n
}

func (n *groupNodes) address(i int) string { return "127.0.0.1:" + strconv.Itoa(7000+i) }

// replication is what a node knows of a group.
func (n *groupNodes) replication(self, g int) *Replication {
	return &Replication{
		Leader: func() (id, leader string) {
			if at := n.led[g].Load(); at >= 0 {
				leader = n.address(int(at))
			}
			return "n" + strconv.Itoa(self), leader
		},
		Members: func() (all []Member, _ error) {
			for i := range n.nodes {
				all = append(all, Member{ID: "n" + strconv.Itoa(i), Voter: true, Self: i == self, Client: n.address(i), Address: n.address(i + 100)})
			}
			return all, nil
		},
		Status: func() stats.Replication { return stats.Replication{On: true, Current: true} },
		Table:  func() *engine.Engine { return n.nodes[self].every[g].Engine.Load() },
		Uplink: func(int) *uplink.Link {
			if at := n.led[g].Load(); at >= 0 && int(at) != self {
				return n.links[self][at].Load()
			}
			return nil
		},
	}
}

// connect replaces the uplink from one node to another.
func (n *groupNodes) connect(from, to int) {
	near, far := net.Pipe()
	host := uplink.NewHost(n.nodes[to].Server, func() {}, n.nodes[to].clock, n.nodes[to].clock.Now)
	go func() { _ = host.Serve(far) }()
	l := uplink.NewLink(near)
	n.t.Cleanup(l.Close)
	n.links[from][to].Store(l)
	n.nodes[from].LeaderChanged()
}

// follow makes the node that leads a group follow.
func (n *groupNodes) follow(g int) {
	at := n.led[g].Swap(-1)
	n.nodes[at].every[g].Follow()
	n.turns[at][g].Store(0)
}

// lead makes a node lead a group, with the state of the one that led it before.
func (n *groupNodes) lead(g, to int) {
	of := n.nodes[to].every[g]
	n.turns[to][g].Store(n.terms.Add(1))
	n.led[g].Store(int32(to))
	of.Lead(of.Engine.Load(), 0)
	for _, ts := range n.nodes {
		ts.LeaderChanged()
	}
}

// move makes another node lead a group.
func (n *groupNodes) move(g, to int) {
	e := n.nodes[n.led[g].Load()].every[g].Engine.Load()
	n.follow(g)
	n.nodes[to].every[g].Engine.Store(e)
	n.lead(g, to)
}

// key returns a key of a group.
func (n *groupNodes) key(g int) string { return n.nodes[0].keyIn(g) }

// ask sends a command to a node over RESP, or as callers without a connection do, such as HTTP and gRPC, and returns the reply on a line.
func (n *groupNodes) ask(at int, direct bool, words ...string) string {
	n.t.Helper()
	if !direct {
		return n.nodes[at].client().send(string(encode(words...)), 1)[0]
	}
	out, err := n.nodes[at].Do(context.Background(), toBytes(words)...)
	if err != nil {
		n.t.Fatal(err)
	}
	v, err := resp.ReadReply(bufio.NewReader(bytes.NewReader(out)), 1<<20)
	if err != nil {
		n.t.Fatal(err)
	}
	return line(v)
}

// rulesAre gives all nodes the same rules.
func (n *groupNodes) rulesAre(text string) {
	for _, ts := range n.nodes {
		ts.rulesAre(text)
		ts.rules.SetSecret([16]byte{})
	}
}

// A client of any node gets the replies of all groups, in their order.
func TestForwardingToSeveralNodes(t *testing.T) {
	n := newGroupNodes(t)
	for at, ts := range n.nodes {
		c, in, counts := ts.client(), "", map[string]int{}
		var want []string
		for i := range 60 {
			key := n.key(1+i*7%4) + ":" + strconv.Itoa(at)
			in += "INCR " + key + "\r\n"
			counts[key]++
			if want = append(want, strconv.Itoa(counts[key])); i%9 == 8 {
				in += "PING\r\n"
				want = append(want, "PONG")
			}
		}
		c.gets(in, want...)
	}
	for g := 1; g <= 4; g++ {
		for i, ts := range n.nodes {
			if keys := ts.every[g].Engine.Load().Stats().Keys; keys > 0 != (int32(i) == n.led[g].Load()) {
				t.Errorf("node %d has %d keys of group %d", i, keys, g)
			}
		}
	}
}

// What a session has learned of a command that another node decides, it knows rightly when it decides the next one itself.
func TestLearnedFromAnotherNodesCommand(t *testing.T) {
	n := newGroupNodes(t)
	for _, of := range []string{"21", "2121", "22221111", "1212", "23412341"} {
		for range 4 {
			c, in := n.nodes[0].client(), ""
			var want []string
			for i := range 5 * len(of) {
				in += fmt.Sprintf("RL.TAKE {%s}%s:%d GCRA 9/h\r\n", n.key(int(of[i%len(of)]-'0')), of, i)
				want = append(want, "[0 9 8 -1 400000]")
			}
			in += "FLUSHALL\r\n"
			c.gets(in, append(want, "OK")...)
		}
	}
	take := func(g int, key, limit string) string {
		return string(encode("RL.TAKE", "{"+n.key(g)+"}"+key, "GCRA", limit))
	}
	// Learned from the other node's, then another one that is parsed in its place, and one like the first.
	n.nodes[0].client().gets(take(2, "a", "9/h")+take(2, "b", "9/h")+take(2, "c", "9/h")+take(1, "d", "5/h")+take(1, "e", "9/h"),
		"[0 9 8 -1 400000]", "[0 9 8 -1 400000]", "[0 9 8 -1 400000]", "[0 5 4 -1 720000]", "[0 9 8 -1 400000]")
}

// A command that another node decides is learned for the next one, and not for those before it. This client is told where the others are, so its
// commands do not leave for there, and all are of one batch.
func TestLearnedForTheNextCommand(t *testing.T) {
	n := newGroupNodes(t)
	c := n.nodes[0].client()
	c.send("CLUSTER SLOTS\r\n", 1)
	take := func(g int, key, limit string) string {
		return string(encode("RL.TAKE", "{"+n.key(g)+"}"+key, "GCRA", limit))
	}
	in := strings.Repeat(take(2, "a", "9/h"), 3) // of another node's group, and learned
	in += take(1, "b", "9/h") + take(1, "c", "9/h") + take(1, "d", "5/h")
	in += take(2, "e", "5/h") // learned as well
	got := c.send(in, 7)
	if want := []string{"[0 9 8 -1 400000]", "[0 9 8 -1 400000]", "[0 5 4 -1 720000]"}; !slices.Equal(got[3:6], want) || !strings.HasPrefix(got[6], "-MOVED ") {
		t.Errorf("%q, want %q", got, want)
	}
}

// A transaction runs where its keys are, and so does WATCH, also if its client asks other nodes meanwhile.
func TestTransactionsOnSeveralNodes(t *testing.T) {
	n := newGroupNodes(t)
	for _, ts := range n.nodes {
		for g := 1; g <= 4; g++ {
			key, other := n.key(g), n.key(1+g%4)
			c := ts.client()
			c.gets("DEL "+key+"\r\nWATCH "+key+"\r\nGET {"+other+"}\r\nMULTI\r\nINCR "+key+"\r\nPING\r\nEXEC\r\nPING\r\n",
				ts.client().send("EXISTS "+key+"\r\n", 1)[0], "OK", "nil", "OK", "QUEUED", "QUEUED", "[1 PONG]", "PONG")
			c.gets("WATCH "+key+"\r\n", "OK")
			ts.client().gets("INCR "+key+"\r\n", "2")
			c.gets("MULTI\r\nINCR "+key+"\r\nEXEC\r\n", "OK", "QUEUED", "nil")
			c.gets("MULTI\r\nINCR "+key+"\r\nGET "+other+"\r\nEXEC\r\n", "OK", "QUEUED", "QUEUED", "-"+errCrossSlot)
		}
	}
}

// A command waits for the leader of its group only, and is decided once, wherever that is.
func TestGroupsThatMove(t *testing.T) {
	n := newGroupNodes(t)
	c := n.nodes[0].client()
	k2, k3 := n.key(2), n.key(3)
	n.follow(2)
	c.gets("INCR "+k3+"\r\n", "1")
	c.conn.take()
	c.s.Data([]byte("INCR " + k2 + "\r\nINCR " + k3 + "\r\nPING\r\n"))
	for _, waits := n.nodes[0].leaderless.Until(c.conn); !waits; _, waits = n.nodes[0].leaderless.Until(c.conn) {
		<-c.conn.woken
		c.s.Resume()
	}
	n.nodes[1].client().gets("INCR "+k3+"\r\n", "3") // the group of this key has a leader, so the client's command did not wait
	n.lead(2, 0)
	if got := strings.Join(c.receive(3), " "); got != "1 2 PONG" {
		t.Errorf("%q", got)
	}
	n.move(2, 2)
	c.gets("INCR "+k2+"\r\nINCR "+k3+"\r\n", "2", "4")
	n.move(3, 0)
	c.gets("INCR "+k2+"\r\nINCR "+k3+"\r\n", "3", "5")
}

// A client that knows clusters is told where the group of a key is led. Commands without keys are never redirected.
func TestMovedOfSeveralGroups(t *testing.T) {
	n := newGroupNodes(t)
	for _, ts := range n.nodes {
		ts.rulesAre("version: 1\nnamespaces:\n  one:\n    - {name: user, key: [u], limit: 5/m}\n")
		ts.rules.SetSecret([16]byte{})
	}
	for i, ts := range n.nodes {
		c := ts.client()
		c.do("CLUSTER", "NODES")
		for g := 1; g <= 4; g++ {
			want := "nil"
			if at := int(n.led[g].Load()); at != i {
				want = fmt.Sprintf("-MOVED %d %s", resp.Slot([]byte(n.key(g))), n.address(at))
			}
			c.gets("GET "+n.key(g)+"\r\n", want)
		}
		for u := range 8 {
			c.gets(fmt.Sprintf("RL.CHECK one 1 u %d\r\n", 10*i+u), `[0 5 4 -1 12000 "user"]`)
		}
	}
}

// CLUSTER shows all slots, each at the node that leads its group, and a node has one role.
func TestClusterOfSeveralGroups(t *testing.T) {
	n := newGroupNodes(t)
	c := n.nodes[2].client()
	slots := func() (out string) {
		next := int64(0)
		for _, e := range c.do("CLUSTER", "SLOTS").Elems {
			if e.Elems[0].Int != next {
				t.Fatalf("a hole before slot %d", e.Elems[0].Int)
			}
			next = e.Elems[1].Int + 1
			for _, node := range e.Elems[2:] {
				out += fmt.Sprintf(" %d", node.Elems[1].Int)
			}
			out += ";"
		}
		if next != resp.Slots {
			t.Fatalf("a hole at the end: %d", next)
		}
		return out
	}
	if got := slots(); got != " 7000; 7001; 7002; 7000;" {
		t.Error(got)
	}
	n.move(3, 1)
	if got := slots(); got != " 7000 7002; 7001 7002; 7001 7002; 7000 7002;" {
		t.Error(got)
	}
	info := c.do("CLUSTER", "INFO").Text
	n.follow(2)
	if got := slots(); got != " 7000; 7002; 7001; 7000;" { // this node is asked again
		t.Error(got)
	}
	if now := c.do("CLUSTER", "INFO").Text; !strings.Contains(info, "cluster_state:ok\r\n") || !strings.Contains(info, "cluster_size:2\r\n") ||
		!strings.Contains(now, "cluster_state:fail\r\n") || !strings.Contains(now, "cluster_slots_ok:12288\r\n") {
		t.Errorf("%s\n%s", info, now)
	}
	n.lead(2, 2)
	text := c.do("CLUSTER", "NODES").Text
	for _, want := range []string{":7000@7100 master - 0 0 0 connected 0-4095 12288-16383\n", ":7001@7101 master - 0 0 0 connected 8192-12287\n", ":7002@7102 myself,master - 0 0 0 connected 4096-8191\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("CLUSTER NODES lacks %q:\n%s", want, text)
		}
	}
	if got := line(c.do("CLUSTER", "SHARDS")); strings.Count(got, `"role" "master"`) != 3 || !strings.Contains(got, `["slots" [0 4095 12288 16383] "nodes"`) {
		t.Error(got)
	}
	slot := resp.Slot([]byte(n.key(1)))
	n.nodes[0].client().do("SET", n.key(1), "v")
	c.gets(fmt.Sprintf("CLUSTER COUNTKEYSINSLOT %d\r\n", slot), "1")
}

// Commands on all keys show those of all groups to a client of any node, and those of the groups that the node leads to a client that knows clusters.
func TestKeysOfSeveralNodes(t *testing.T) {
	n := newGroupNodes(t)
	want := map[string]bool{}
	c := n.nodes[0].client()
	for i := range 100 {
		want["key"+strconv.Itoa(i)] = true
		c.gets("SET key"+strconv.Itoa(i)+" v\r\n", "OK")
	}
	same := func(how string, got []string) {
		t.Helper()
		slices.Sort(got)
		if got = slices.Compact(got); len(got) != len(want) {
			t.Errorf("%s: %d keys", how, len(got))
		}
	}
	scanned := func(c *testClient) (all []string) {
		for cursor := "0"; ; {
			out := c.send("SCAN "+cursor+" COUNT 9\r\n", 1)[0]
			words := strings.FieldsFunc(out, func(r rune) bool { return strings.ContainsRune(`[]" `, r) })
			all = append(all, words[1:]...)
			if cursor = words[0]; cursor == "0" || strings.HasPrefix(cursor, "-") {
				return all
			}
		}
	}
	var parts []string
	counted := 0
	for _, ts := range n.nodes {
		c := ts.client()
		c.gets("DBSIZE\r\n", "100")
		same("KEYS", strings.Fields(strings.Trim(c.send("KEYS *\r\n", 1)[0], "[]")))
		same("SCAN", scanned(c))
		if got := strings.Trim(c.send("RANDOMKEY\r\n", 1)[0], `"`); !want[got] {
			t.Errorf("RANDOMKEY: %s", got)
		}
		if out, err := ts.Do(context.Background(), []byte("DBSIZE")); string(out) != ":100\r\n" {
			t.Errorf("%q, %v", out, err)
		}
		knows := ts.client()
		knows.do("CLUSTER", "SLOTS")
		parts = append(parts, scanned(knows)...)
		own, _ := strconv.Atoi(knows.send("DBSIZE\r\n", 1)[0])
		counted += own
	}
	if len(parts) < 100 || counted != 100 {
		t.Errorf("%d keys of %d, %d counted", len(parts), len(want), counted)
	}
	for i := range 3 {
		for range 3 + i {
			c.send("RL.TAKE "+n.key(1+i)+" GCRA 1/h\r\n", 1)
		}
	}
	if got := c.send("RL.TOP COUNT 2\r\n", 1)[0]; got != fmt.Sprintf("[[%q 4] [%q 3]]", n.key(3), n.key(2)) {
		t.Error(got)
	}
	c.gets("FLUSHALL\r\nDBSIZE\r\nPING\r\n", "OK", "0", "PONG")
	c.gets("KEYS [\r\nSCAN x\r\n", "[]", "-ERR invalid cursor")
	n.follow(3)
	c.s.Data([]byte("DBSIZE\r\n"))
	n.lead(3, 1)
	if got := c.receive(1); got[0] != "0" {
		t.Errorf("%q", got)
	}
}

// A script that a client has loaded runs wherever its keys are, also in a transaction, and again after another node has forgotten it.
func TestLoadedScriptsAtSeveralNodes(t *testing.T) {
	n := newGroupNodes(t)
	n.shares()
	const source = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
	for at, ts := range n.nodes {
		c := ts.client()
		sum := strings.Trim(line(c.do("SCRIPT", "LOAD", source+" -- "+strconv.Itoa(at))), `"`)
		in, want := "", []string(nil)
		for range 2 {
			for g := 1; g <= 4; g++ {
				in += string(encode("EVALSHA", sum, "1", n.key(g), "1"))
			}
		}
		for range 2 {
			for range 4 {
				want = append(want, strconv.Itoa(5*at+len(want)/4+1))
			}
		}
		c.gets(in, want...)
		for g := 1; g <= 4; g++ {
			c.gets("MULTI\r\n"+string(encode("EVALSHA", strings.ToUpper(sum), "1", n.key(g), "1"))+"EXEC\r\n", "OK", "QUEUED", "["+strconv.Itoa(5*at+3)+"]")
		}
		for i, other := range n.nodes {
			if i != at {
				other.client().gets("SCRIPT FLUSH\r\n", "OK")
			}
		}
		c.do("SCRIPT", "LOAD", source+" -- "+strconv.Itoa(at))
		for g := 1; g <= 4; g++ {
			c.gets(string(encode("EVALSHA", sum, "1", n.key(g), "2")), strconv.Itoa(5*at+5))
		}
		// EVAL lets this node know the script, wherever it runs.
		for g := 1; g <= 4; g++ {
			text := "return " + strconv.Itoa(100*at+g)
			c.gets(string(encode("EVAL", text, "1", n.key(g))), strconv.Itoa(100*at+g))
			c.gets(string(encode("EVALSHA", script.SHA([]byte(text)), "1", n.key(1+g%4))), strconv.Itoa(100*at+g))
		}
	}
}

// A script that another node leads no longer goes back as it came.
func TestLoadedScriptWhoseGroupMoves(t *testing.T) {
	n := newGroupNodes(t)
	n.shares()
	c := n.nodes[0].client()
	sum := strings.Trim(line(c.do("SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])")), `"`)
	in := string(encode("EVALSHA", sum, "1", n.key(3)))
	c.gets(in, "1")
	for i, to := range []int{1, 0, 2, 1} {
		n.passes(3, to, func() {
			c.conn.take()
			c.s.Data([]byte(in + in))
		})
		if got := strings.Join(c.receive(2), " "); got != fmt.Sprintf("%d %d", 2*i+2, 2*i+3) {
			t.Error(got)
		}
	}
}
