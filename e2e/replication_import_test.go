package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files returns the names and contents of a standalone server's files in a directory.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

// From one server to three nodes and back to one: nothing that was used is given back on the way.
func TestOneServerToThreeAndBack(t *testing.T) {
	t.Parallel()
	limit := strings.Fields("GCRA 1/h BURST 1000")
	used := func(p *proc, key string) string {
		n := &raftNode{proc: p}
		return n.ask(t, append([]string{"RL.TAKE", key}, limit...)...)
	}
	alone := start(t, "--appendfsync", "always")
	for i := range 30 {
		used(alone, fmt.Sprint("key", i%3))
	}
	(&raftNode{proc: alone}).ask(t, "RL.LEASE", "lease", "5", "1h", "ID", "me")
	alone.Kill() // its log ends wherever it does
	before := filesOf(t, alone.Dir)

	refused := run(t, "", plainBinary(t), "--port", freePort(t), "--http-port", "0", "--dir", alone.Dir, "--raft-addr", "127.0.0.1:"+freePort(t))
	if refused.Code != 1 || !strings.Contains(refused.Stderr, "raft-bootstrap") {
		t.Errorf("without raft-bootstrap: exit %d, %s", refused.Code, refused.Stderr)
	}
	for name, b := range filesOf(t, alone.Dir) {
		if before[name] != b {
			t.Errorf("%s has changed", name)
		}
	}

	first := &raftNode{id: "n1", raft: "127.0.0.1:" + freePort(t)}
	first.args = []string{"--raft-addr", first.raft, "--raft-id", first.id, "--raft-bootstrap", "yes"}
	first.begin(t, alone.Dir)
	eventually(t, "the first node leads", func() bool { return first.ask(t, "RAFT", "LEADER") == first.Addr })
	if got := used(first.proc, "key0"); !strings.HasPrefix(got, "[0 1000 989 ") {
		t.Errorf("the 11th request after the import: %s", got)
	}
	after := filesOf(t, alone.Dir)
	for name, b := range before {
		if name != "MANIFEST" && after[name] != b {
			t.Errorf("%s has changed", name)
		}
	}
	if _, there := after["MANIFEST"]; there {
		t.Error("the state that was imported is still in force")
	}
	second := &raftNode{id: "n2", raft: "127.0.0.1:" + freePort(t)}
	second.args = append([]string{"--raft-addr", second.raft, "--raft-id", second.id}, timeouts(patience)...)
	second.begin(t, t.TempDir())
	if got := first.ask(t, "RAFT", "SERVER", "ADD", "n2", second.raft); got != "OK" {
		t.Fatalf("adding the second: %s", got)
	}
	if got := used(first.proc, "key0"); !strings.HasPrefix(got, "[0 1000 988 ") {
		t.Errorf("the 12th: %s", got)
	}
	first.Kill()
	first.restart(t)
	at := leader(t, []*raftNode{first, second})
	if got := used(at.proc, "key0"); !strings.HasPrefix(got, "[0 1000 987 ") {
		t.Errorf("the 13th, after a kill: %s", got)
	}
	if got := at.ask(t, "RL.HOLDERS", "lease"); !strings.Contains(got, "me") {
		t.Errorf("the lease: %s", got)
	}

	for i := range 20 { // expire at once, and nobody asks for them again
		at.ask(t, "SET", fmt.Sprint("gone", i), "x", "PX", "1")
	}
	eventually(t, "the last has expired", func() bool { return at.ask(t, "TTL", "gone19") == "-2" })
	at.ask(t, "SET", "later", "x")
	at.ask(t, "DEL", "later")

	back := filepath.Join(t.TempDir(), "back")
	if r := run(t, "", plainBinary(t), "export", at.Dir, back); r.Code == 0 || !strings.Contains(r.Stderr, "stop the node first") {
		t.Errorf("the export of a node that runs: exit %d, %s", r.Code, r.Stderr)
	}
	dir := at.Dir
	for _, n := range []*raftNode{first, second} {
		n.Kill()
	}
	if r := run(t, "", plainBinary(t), "--port", freePort(t), "--http-port", "0", "--dir", dir); r.Code != 1 || !strings.Contains(r.Stderr, "limitdb export") {
		t.Errorf("alone in the directory of a node: exit %d, %s", r.Code, r.Stderr)
	}
	r := run(t, "", plainBinary(t), "export", dir, back)
	if r.Code != 0 || !strings.Contains(r.Stdout, "has 4 keys") {
		t.Fatalf("export: exit %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if r := run(t, "", plainBinary(t), "export", dir, back); r.Code != 1 {
		t.Errorf("export over a directory: exit %d, %s", r.Code, r.Stderr)
	}
	if r := run(t, "", plainBinary(t), "check", back); r.Code != 0 {
		t.Errorf("check: exit %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	p := launch(t, options{bin: plainBinary(t), ready: hasLoaded}, back, nil)
	t.Cleanup(p.Stop)
	if got := used(p, "key0"); !strings.HasPrefix(got, "[0 1000 986 ") {
		t.Errorf("the 14th, alone again: %s", got)
	}
}

// After a crash between the import and the end of the old state, the next start continues and imports nothing again.
func TestImportThatWasCutShort(t *testing.T) {
	t.Parallel()
	alone := start(t, "--appendfsync", "always")
	one := &raftNode{proc: alone}
	one.ask(t, "RL.TAKE", "key", "GCRA", "1/h", "BURST", "1000")
	alone.Stop()
	old := filesOf(t, alone.Dir)
	first := &raftNode{id: "n1", raft: "127.0.0.1:" + freePort(t)}
	first.args = []string{"--raft-addr", first.raft, "--raft-id", first.id, "--raft-bootstrap", "yes"}
	first.begin(t, alone.Dir)
	eventually(t, "the node leads", func() bool { return first.ask(t, "RAFT", "LEADER") == first.Addr })
	take := func(want string) {
		t.Helper()
		if got := first.ask(t, "RL.TAKE", "key", "GCRA", "1/h", "BURST", "1000"); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	take("[0 1000 998 ")
	first.Stop()
	if err := os.WriteFile(filepath.Join(alone.Dir, "MANIFEST"), []byte(old["MANIFEST"]), 0o600); err != nil { // as if it had not yet been renamed
		t.Fatal(err)
	}
	first.restart(t)
	eventually(t, "the node leads again", func() bool { return first.ask(t, "RAFT", "LEADER") == first.Addr })
	take("[0 1000 997 ")
	first.Stop()

	other := start(t)
	other.Stop()
	for name, b := range filesOf(t, other.Dir) {
		if err := os.WriteFile(filepath.Join(alone.Dir, name), []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name := range old {
		if _, there := filesOf(t, other.Dir)[name]; !there {
			_ = os.Remove(filepath.Join(alone.Dir, name))
		}
	}
	r := run(t, "", plainBinary(t), append([]string{"--port", freePort(t), "--http-port", "0", "--dir", alone.Dir}, first.args...)...)
	if r.Code != 1 || !strings.Contains(r.Stderr, "which the node has not imported") {
		t.Errorf("the state of another server: exit %d, %s", r.Code, r.Stderr)
	}
}
