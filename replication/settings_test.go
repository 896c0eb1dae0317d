package replication

import (
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Nodes compare the settings that must be the same, and report which differ, and on which
// node.
func TestNodesCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	addresses := []string{freeAddress(t), freeAddress(t)}
	var nodes []*Node
	for i, memory := range []string{"100", "200"} {
		o := realOptions(t, []string{"a", "b"}[i], &list{states: map[string]string{}})
		o.Agree = func() map[string]string { return map[string]string{"maxmemory": memory, "requirepass": "set"} }
		n, err := openAt(o, Disk{Dir: filepath.Join(dir, o.ID), Bootstrap: i == 0}, addresses[i])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = n.Close() }()
		nodes = append(nodes, n)
	}
	if s := nodes[1].Status(); s.Member || s.Members != 0 || s.Unready() != "this node is a member of no cluster yet" {
		t.Errorf("%+v", s)
	}
	until(t, "a leader", func() bool { return nodes[0].Turn() != 0 })
	add(t, nodes[0], "b", addresses[1])
	for i, want := range []string{"maxmemory of b", "maxmemory of a"} {
		until(t, want, func() bool { return slices.Equal(nodes[i].Status().Differ, []string{want}) })
		until(t, "both answer", func() bool {
			s := nodes[i].Status()
			return s.Member && s.Voter && s.Members == 2 && s.Voters == 2 && s.Answering == 2 && s.Unready() == ""
		})
	}
	for i, n := range nodes {
		if refused := n.Status().Refused; refused != 0 {
			t.Errorf("node %d has refused %d connections", i, refused)
		}
	}
	if err := nodes[0].SetTimeouts(1, 1); err == nil {
		t.Error("timeouts of a nanosecond are accepted")
	}
	if err := nodes[0].SetTimeouts(4700e6, 4800e6); err != nil || nodes[0].raft.ReloadableConfig().HeartbeatTimeout != 4700e6 {
		t.Errorf("%v, %+v", err, nodes[0].raft.ReloadableConfig())
	}
}

// The log reports differences at once, and after that at most once a minute.
func TestDifferencesAreSaidSeldom(t *testing.T) {
	var d differs
	one, two := []string{"maxmemory of b"}, []string{"maxmemory of b", "rules of c"}
	for i, step := range []struct {
		at    time.Duration
		found []string
		says  bool
	}{
		{0, nil, false},
		{time.Second, one, true},
		{2 * time.Second, nil, false},
		{3 * time.Second, one, false},
		{4 * time.Second, two, false},
		{saysEvery, two, false},
		{saysEvery + time.Second, two, true},
		{3 * saysEvery, two, false},
		{3*saysEvery + 1, nil, true},
	} {
		if says := d.find(step.found, int64(step.at)); says != step.says || !slices.Equal(d.now, step.found) {
			t.Errorf("step %d: %v", i, says)
		}
	}
}

// The connections of a node that has led are closed once, when it has not led for a while.
func TestStreamsAreReleased(t *testing.T) {
	var s streams
	closed := 0
	ticks := func(n int, leads bool, want int) {
		t.Helper()
		for range n {
			if s.unused(leads) {
				closed++
			}
		}
		if closed != want {
			t.Errorf("closed %d times, want %d", closed, want)
		}
	}
	ticks(5*releaseAfter, false, 0) // it has not led
	ticks(5*releaseAfter, true, 0)
	ticks(releaseAfter-1, false, 0)
	ticks(1, true, 0)
	ticks(releaseAfter-1, false, 0)
	ticks(1, false, 1)
	ticks(5*releaseAfter, false, 1)
}
