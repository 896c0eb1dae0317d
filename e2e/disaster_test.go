package e2e

import (
	"bytes"
	"os"
	"path/filepath"
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

// A node whose directory is damaged does not start, and limitdb check says why. A damaged note of the time does no harm.
func TestDamagedNode(t *testing.T) {
	t.Parallel()
	n := &raftNode{id: "n1", raft: "127.0.0.1:" + freePort(t)}
	n.args = []string{"--raft-addr", n.raft, "--raft-id", n.id, "--raft-bootstrap", "yes"}
	n.begin(t, t.TempDir())
	eventually(t, "the node leads", func() bool { return n.ask(t, "RAFT", "LEADER") == n.Addr })
	for range 5 {
		n.ask(t, "RL.TAKE", "key", "GCRA", "1/d", "BURST", "100")
	}
	raft := filepath.Join(n.Dir, "raft", "1")
	eventually(t, "the time is noted", func() bool {
		_, err := os.Stat(filepath.Join(raft, "clock"))
		return err == nil
	})
	n.Stop()
	logs, err := filepath.Glob(filepath.Join(raft, "log", "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	change := func(path string, f func(b []byte) []byte) (undo func()) {
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.Remove(path)
		}
		if bad := f(bytes.Clone(b)); err == nil && bad != nil {
			err = os.WriteFile(path, bad, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	flip := func(b []byte) []byte { b[len(b)-5] ^= 1; return b }
	lose := func([]byte) []byte { return nil }
	cut := func(b []byte) []byte { return b[:len(bytes.TrimRight(b, "\x00"))-1] }
	for _, c := range []struct {
		what, path string
		damage     func([]byte) []byte
		want       string
	}{
		{"a flipped bit in who it is", filepath.Join(raft, "node"), flip, "raft/1/node: the checksum is wrong"},
		{"no votes", filepath.Join(raft, "vote.db"), lose, "raft/1/vote.db is missing"},
		{"no last index", filepath.Join(raft, "last"), lose, "raft/1/last is missing"},
		{"a flipped bit in the last index", filepath.Join(raft, "last"), flip, "raft/1/last: the checksum is wrong"},
		{"a log that is cut short", logs[0], cut, "the log and the snapshots end too early"},
		{"no log", logs[0], lose, "the log and the snapshots end too early"},
	} {
		undo := change(c.path, c.damage)
		for _, args := range [][]string{{"check", n.Dir}, append([]string{"--port", freePort(t), "--http-port", "0", "--dir", n.Dir}, n.args...)} {
			if r := run(t, "", plainBinary(t), args...); r.Code != 65 || !strings.Contains(r.Stdout+r.Stderr, c.want) || strings.Count(r.Stderr, "\nlimitdb: ") > 1 {
				t.Errorf("%s: %s: exit %d, want %q in\n%s%s", c.what, args[0], r.Code, c.want, r.Stdout, r.Stderr)
			}
		}
		undo()
	}
	change(filepath.Join(raft, "clock"), flip)
	if r := run(t, "", plainBinary(t), "check", n.Dir); r.Code != 0 || !strings.Contains(r.Stdout, "damaged: ") || !strings.Contains(r.Stdout, "\nall else is well\n") {
		t.Errorf("a damaged note: exit %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	n.restart(t)
	eventually(t, "the node leads", func() bool { return n.ask(t, "RAFT", "LEADER") == n.Addr })
	if got := n.ask(t, "RL.TAKE", "key", "GCRA", "1/d", "BURST", "100"); !strings.HasPrefix(got, "[0 100 94 ") {
		t.Errorf("the sixth request: %s", got)
	}
}
