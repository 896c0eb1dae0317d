package server

import (
	"fmt"
	"strings"
	"testing"

	"limitdb/server/cluster"
	"limitdb/server/spec"
)

// CLUSTER lists the node that leads first, or this node while no leader is known.
func TestClusterOfANode(t *testing.T) {
	ts, p := newNode(t)
	c := ts.client()
	me, b, absent := cluster.NodeID("me"), cluster.NodeID("b"), cluster.NodeID("c")
	replies := func(want map[string]string) {
		t.Helper()
		for in, w := range want {
			if got := line(c.do(strings.Fields(in)...)); got != w {
				t.Errorf("%s:\n got %s\nwant %s", in, got, w)
			}
		}
	}
	const node = `["id" %q "port" %d "ip" "127.0.0.1" "endpoint" "127.0.0.1" "role" %q "replication-offset" %d "health" %q]`
	p.status.ID, p.status.Term = "me", 5
	p.leader = "127.0.0.1:7"
	ts.group.Follow()
	c.do("CONFIG", "SET", "raft-redirect", "moved")
	replies(map[string]string{
		"CLUSTER SLOTS": fmt.Sprintf(`[[0 16383 ["127.0.0.1" 7 %q []] ["127.0.0.1" 6 %q []]]]`, b, me),
		"CLUSTER SHARDS": `[["slots" [0 16383] "nodes" [` + fmt.Sprintf(node, b, 7, "master", 8, "online") + " " +
			fmt.Sprintf(node, me, 6, "replica", 9, "loading") + `]]]`,
		"CLUSTER MYID":              fmt.Sprintf("%q", me),
		"CLUSTER KEYSLOT foo":       "12182",
		"CLUSTER KEYSLOT {foo}bar":  "12182",
		"CLUSTER COUNTKEYSINSLOT 1": "-MOVED 0 127.0.0.1:7",
		"ASKING":                    "-" + cluster.ErrNoCluster,
	})
	// The order matters: after READONLY, the node's own table answers.
	c.steps(ts, [2]string{"READONLY", "OK"}, [2]string{"READWRITE", "OK"})
	nodes := fmt.Sprintf("%s 127.0.0.1:7@7001 master - 0 0 5 connected 0-16383\n%s 127.0.0.1:6@7000 myself,slave %s 0 0 5 connected\n%s :0@7002 slave,fail,noaddr %s 0 0 5 disconnected\n",
		b, me, b, absent, b)
	for _, part := range strings.Split(nodes, "\n") {
		if got := c.do("CLUSTER", "NODES").Text; strings.Count(got, "\n") != 3 || !strings.Contains(got, part) {
			t.Errorf("CLUSTER NODES:\n%slacks %s", got, part)
		}
	}
	if got := c.do("CLUSTER", "INFO").Text; !strings.Contains(got, "cluster_state:ok\r\n") || !strings.Contains(got, "cluster_slots_assigned:16384\r\n") || !strings.Contains(got, "cluster_known_nodes:3\r\n") {
		t.Errorf("CLUSTER INFO: %s", got)
	}

	p.leader, p.status.Current = "", true
	replies(map[string]string{
		"CLUSTER SLOTS": fmt.Sprintf(`[[0 16383 ["127.0.0.1" 6 %q []] ["127.0.0.1" 7 %q []]]]`, me, b),
		"CLUSTER SHARDS": `[["slots" [0 16383] "nodes" [` + fmt.Sprintf(node, me, 6, "master", 9, "online") + " " +
			fmt.Sprintf(node, b, 7, "replica", 8, "online") + `]]]`,
	})
	// A node that has just started knows less than the others.
	p.status.Behind = true
	if got := c.do("CLUSTER", "SLOTS").Err(); got == nil || !strings.HasPrefix(got.Error(), "LOADING ") || ts.Ready() == nil {
		t.Errorf("CLUSTER SLOTS: %v", got)
	}
	p.leader = "127.0.0.1:7"
	if got := c.do("CLUSTER", "SLOTS").Err(); got != nil || ts.Ready() == nil || !strings.Contains(ts.Ready().Error(), "caught up") {
		t.Errorf("CLUSTER SLOTS: %v, ready: %v", got, ts.Ready())
	}
	p.leader, p.status.Behind = "", false
	if got := c.do("CLUSTER", "INFO").Text; !strings.Contains(got, "cluster_state:fail\r\n") || !strings.Contains(got, "cluster_slots_ok:0\r\n") {
		t.Errorf("CLUSTER INFO: %s", got)
	}

	ts.group.Lead(ts.engine, 0)
	for _, key := range []string{"foo", "{foo}a", "bar"} {
		c.raw("RL.TAKE " + key + " GCRA 1/m\r\n")
		p.endWaits(nil)
		c.resume()
	}
	for slot, want := range map[string]string{"12182": ":2\r\n", "5061": ":1\r\n", "0": ":0\r\n", "16384": "-ERR Invalid slot\r\n", "-1": "-ERR Invalid slot\r\n", "x": "-" + spec.ErrNotInt + "\r\n"} {
		got := c.raw("CLUSTER COUNTKEYSINSLOT " + slot + "\r\n")
		if got == "" { // a count waits for what it has seen
			p.endWaits(nil)
			got = c.resume()
		}
		if got != want {
			t.Errorf("COUNTKEYSINSLOT %s: %q, want %q", slot, got, want)
		}
	}
}
