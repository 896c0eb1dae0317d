package e2e

import (
	"strings"
	"testing"
)

// Two of three nodes are lost for good. The commands of docs/replication.md make the third a new cluster.
func TestMajorityLost(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	limit := []string{"GCRA", "1/d", "BURST", "100"}
	at := leader(t, nodes)
	for range 10 {
		at.ask(t, append([]string{"RL.TAKE", "key"}, limit...)...)
	}
	used := usedOf(t, at, limit, 100)
	left := nodes[2]
	indexes := func(n *raftNode) string {
		for _, l := range strings.Split(n.ask(t, "INFO", "replication"), "\r\n") {
			if strings.HasPrefix(l, "raft_applied_index:") {
				return l
			}
		}
		return ""
	}
	eventually(t, "the third node has all", func() bool { return indexes(left) != "" && indexes(left) == indexes(at) })
	if got := run(t, "", plainBinary(t), "recover", left.Dir); got.Code == 0 {
		t.Errorf("a node that runs is recovered: %s", got.Stdout)
	}
	nodes[0].Kill()
	nodes[1].Kill()
	left.Kill()

	check := run(t, "", plainBinary(t), "check", left.Dir)
	for _, want := range []string{"node n3, incarnation ", "member n1: " + nodes[0].raft + ", voter\n", "member n3: ", "\nall is well\n"} {
		if check.Code != 0 || !strings.Contains(check.Stdout, want) {
			t.Errorf("limitdb check: exit %d, want %q in\n%s%s", check.Code, want, check.Stdout, check.Stderr)
		}
	}
	recovered := run(t, "", plainBinary(t), "recover", left.Dir)
	if recovered.Code != 0 || !strings.HasSuffix(recovered.Stdout, "node n3 is a cluster of its own now: start it, and add the others with empty directories\n") {
		t.Fatalf("limitdb recover: exit %d, %s%s", recovered.Code, recovered.Stdout, recovered.Stderr)
	}
	left.restart(t)
	eventually(t, "the node decides", func() bool { return left.ask(t, "RAFT", "LEADER") == left.Addr })
	if got := usedOf(t, left, limit, 100); got != used || used < 10 {
		t.Errorf("%d are used, and were %d before", got, used)
	}
	// A node of the lost cluster that comes back is refused, until its directory is empty.
	old := nodes[0]
	old.restart(t)
	if got := left.ask(t, "RAFT", "SERVER", "ADD", old.id, old.raft); !strings.Contains(got, "another cluster") {
		t.Errorf("a node of the lost cluster is added: %s", got)
	}
	old.Kill()
	again := &raftNode{id: "n1", raft: old.raft, args: []string{"--raft-addr", old.raft, "--raft-id", "n1", "--raft-join", left.Addr}}
	again.begin(t, t.TempDir())
	eventually(t, "the new node has a vote", func() bool { return strings.Contains(left.ask(t, "INFO", "replication"), "raft_voters:2\r\n") })
}
