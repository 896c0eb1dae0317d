package replication

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// nodeWithState makes a directory of a node that has decided something, with a snapshot and entries behind it.
func nodeWithState(t *testing.T, dir, address string) {
	t.Helper()
	table := &list{states: map[string]string{}}
	n, err := openAt(realOptions(t, "a", table), Disk{Dir: dir, Bootstrap: true}, address)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "a leader", func() bool { return n.Turn() != 0 })
	for i, d := range []string{"1", "2", "3"} {
		if !table.decide(d, "k") {
			t.Fatal("it does not decide")
		}
		done := make(chan error, 1)
		n.Wait(n.Turn(), func(err error) { done <- err })
		n.Kick()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if err := n.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// Check reports what a directory has, and finds damage in each of its files.
func TestCheck(t *testing.T) {
	t.Parallel()
	sound, address := t.TempDir(), freeAddress(t)
	nodeWithState(t, sound, address)
	r, err := Check(CheckOptions{Dir: sound, Known: func(byte) bool { return true }})
	if err != nil || len(r.Problems) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if r.ID != "a" || len(r.Cluster) != 16 || r.Term != 2 || r.Last < 5 || r.Epochs != 1 || r.Batches < 3 || r.Records < 3 || len(r.Snapshots) != 1 ||
		r.Snapshots[0].Records != 1 || len(r.Members) != 1 || r.Members[0].Address != address || !r.Members[0].Voter || r.Leader != "client-a" || r.Sequence < 3 || r.Clock == 0 {
		t.Errorf("%+v", r)
	}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[(at+len(b))%len(b)] ^= 0x55; return b }
	}
	logFile := filepath.Join(logDir, "0000000000000001"+segmentEnd)
	snapshot := func(file string) string { return filepath.Join(snapshotsDir, r.Snapshots[0].Name, file) }
	for _, c := range []struct {
		name, file string
		change     func([]byte) []byte
		want       string
	}{
		{"no node file", nodeFile, nil, "missing"},
		{"a node file that is none", nodeFile, func([]byte) []byte { return []byte("{") }, "node: "},
		{"no vote", voteFile, nil, "vote.db is missing"},
		{"no last index", lastFile, nil, "last is missing"},
		{"a last index that is none", lastFile, flip(-1), "damaged"},

		{"a log that is cut short", logFile, func(b []byte) []byte { return b[:segmentHead-1] }, "damaged log"},
		{"an empty log", logFile, func([]byte) []byte { return nil }, "damaged log"},
		{"a log of zeros", logFile, func(b []byte) []byte { return make([]byte, len(b)) }, "damaged log"},
		{"a flipped bit in a snapshot", snapshot(stateFile), flip(40), "damaged snapshot"},
		{"a flipped bit at the end of a snapshot", snapshot(stateFile), flip(-1), "damaged snapshot"},
		{"a snapshot that is cut short", snapshot(stateFile), func(b []byte) []byte { return b[:len(b)-1] }, "damaged snapshot"},
		{"a flipped bit in a snapshot's meta", snapshot(metaFile), func(b []byte) []byte { return []byte(strings.Replace(string(b), `"Index":`, `"Index":1`, 1)) }, "damaged snapshot"},
		{"no meta", snapshot(metaFile), nil, "no such file"},
	} {
		dir := filepath.Join(t.TempDir(), "bad")
		if err := os.CopyFS(dir, os.DirFS(sound)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, c.file)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			if err := os.WriteFile(path, c.change(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Check(CheckOptions{Dir: dir})
		if err != nil || !slices.ContainsFunc(r.Problems, func(p string) bool { return strings.Contains(p, c.want) }) {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
	if r, err := Check(CheckOptions{Dir: sound, Known: func(byte) bool { return false }}); err != nil || len(r.Problems) == 0 {
		t.Errorf("states of unknown kinds: %+v, %v", r, err)
	}
}

// Check verifies the checksums of all entries, wherever in the file they are.
func TestCheckFindsDamagedEntries(t *testing.T) {
	dir := t.TempDir()
	nodeWithState(t, dir, freeAddress(t))
	path := filepath.Join(dir, logDir, "0000000000000001"+segmentEnd)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for at := range b {
		if at+9 < len(b) && string(b[at:at+9]) == "client-a " || at+8 < len(b) && string(b[at:at+8]) == "client-a" {
			b[at] ^= 1
			found++
		}
	}
	if found == 0 {
		t.Fatal("no entry is found in the file")
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Check(CheckOptions{Dir: dir})
	if err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "damaged log") {
		t.Errorf("%+v, %v", r, err)
	}
}

// One node of three is left. It becomes a cluster of its own, and the others, should they come back, are refused.
func TestRecover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	addresses := []string{freeAddress(t), freeAddress(t), freeAddress(t)}
	ids := []string{"a", "b", "c"}
	tables, nodes := make([]*list, 3), make([]*Node, 3)
	for i, id := range ids {
		tables[i] = &list{states: map[string]string{}}
		var err error
		if nodes[i], err = openAt(realOptions(t, id, tables[i]), Disk{Dir: filepath.Join(dir, id), Bootstrap: i == 0}, addresses[i]); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "a leader", func() bool { return nodes[0].Turn() != 0 })
	for i := 1; i < 3; i++ {
		add(t, nodes[0], ids[i], addresses[i])
	}
	tables[0].decide("1", "k")
	nodes[0].Kick()
	until(t, "the decision is everywhere", func() bool { return tables[2].snapshot()["k"] == ".1." })
	o := realOptions(t, "", &list{states: map[string]string{}})
	if _, err := Recover(o, filepath.Join(dir, "c")); err == nil {
		t.Error("a node that runs is recovered")
	}
	for _, n := range nodes {
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Recover(o, filepath.Join(dir, "c"))
	if err != nil || len(r.Members) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	tables[2] = &list{states: map[string]string{}}
	left, err := openAt(realOptions(t, "c", tables[2]), Disk{Dir: filepath.Join(dir, "c")}, addresses[2])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = left.Close() }()
	until(t, "the node leads alone", func() bool { return left.Turn() != 0 })
	if got := tables[2].snapshot()["k"]; got != ".1." {
		t.Errorf("the state is %q", got)
	}
	all, err := left.Members()
	if err != nil || len(all) != 1 || left.Status().Cluster == r.Cluster {
		t.Errorf("%+v, %v; of the cluster %s", all, err, left.Status().Cluster)
	}
	old, err := openAt(realOptions(t, "a", &list{states: map[string]string{}}), Disk{Dir: filepath.Join(dir, "a")}, addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := tryAdd(t, left, "a", addresses[0]); err == nil || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("a node of the lost cluster is added: %v", err)
	}
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Recover(o, t.TempDir()); err == nil || errors.Is(err, ErrNothing) {
		t.Errorf("an empty directory: %v", err)
	}
}
