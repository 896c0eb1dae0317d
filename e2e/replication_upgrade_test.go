package e2e

import (
	"strings"
	"testing"
)

// Nodes of a version with another format of entries replace the old ones, one by one. The new format begins when all have it, and
// not before the leader changes.
func TestUpgradeBetweenFormats(t *testing.T) {
	t.Parallel()
	next := nextBinary(t)
	nodes := startCluster(t, 3)
	taken := 0
	take := func() {
		t.Helper()
		at := leader(t, nodes)
		for range 5 {
			if got := at.ask(t, "RL.TAKE", "key", "GCRA", "1/d", "BURST", "1000"); !strings.HasPrefix(got, "[0 ") {
				t.Fatalf("RL.TAKE: %s", got)
			}
			taken++
		}
		if used := usedOf(t, at, []string{"GCRA", "1/d", "BURST", "1000"}, 1000); used != taken {
			t.Fatalf("%d are used, and %d were taken", used, taken)
		}
	}
	format := func(want string) {
		t.Helper()
		for _, n := range nodes {
			eventually(t, n.id+" has format "+want, func() bool { return strings.Contains(n.ask(t, "INFO", "replication"), "raft_format:"+want+"\r\n") })
		}
	}
	take()
	for _, n := range nodes {
		format("1")
		n.Stop()
		n.bin = next
		n.restart(t)
		eventually(t, n.id+" follows", func() bool {
			return strings.Contains(n.ask(t, "INFO", "replication"), "master_link_status:up")
		})
		take()
	}
	eventually(t, "all have told one another what they read", func() bool {
		at := leader(t, nodes)
		at.ask(t, "RAFT", "TRANSFER")
		leader(t, nodes)
		return strings.Contains(nodes[0].ask(t, "INFO", "replication"), "raft_format:2\r\n")
	})
	format("2")
	take()
	at := leader(t, nodes)
	if got := at.ask(t, "RAFT", "SNAPSHOT"); got != "OK" {
		t.Errorf("RAFT SNAPSHOT: %s", got)
	}

	old := &raftNode{id: "n4", raft: "127.0.0.1:" + freePort(t)}
	old.args = append([]string{"--raft-addr", old.raft, "--raft-id", old.id}, timeouts(patience)...)
	old.begin(t, t.TempDir())
	if got := at.ask(t, "RAFT", "SERVER", "ADD", old.id, old.raft); !strings.Contains(got, "format") {
		t.Errorf("adding a node of the old version: %s", got)
	}
	back := nodes[0]
	back.Stop()
	r := run(t, "", plainBinary(t), append([]string{"--port", freePort(t), "--http-port", "0", "--dir", back.Dir}, back.args...)...)
	if r.Code != 65 || !strings.Contains(r.Stderr, "newer version") {
		t.Errorf("the old version on a newer log: exit %d, %s", r.Code, r.Stderr)
	}
	back.restart(t)
	take()
}
