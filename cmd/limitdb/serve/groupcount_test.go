package serve

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"limitdb/config"
	"limitdb/replication"
)

// How many groups there are is kept in the directory. Who joins learns it, and no process works with another number.
func TestCountGroups(t *testing.T) {
	t.Parallel()
	made := func(group, groups int) string {
		dir := t.TempDir()
		if groups != 0 {
			d := replication.Disk{Dir: filepath.Join(dir, raftDirs, string(rune('0'+group))), Group: group, Bootstrap: true}
			if group == 0 {
				d.Groups = groups
			}
			if _, _, err := replication.Found("a", d); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	for what, c := range map[string]struct {
		dir     string
		learned int
		set     string // raft-groups
		want    int
		err     string
	}{
		"nothing is known":           {made(0, 0), 0, "1", 1, ""},
		"learned":                    {made(0, 0), 4, "1", 4, ""},
		"in the directory":           {made(0, 8), 0, "1", 8, ""},
		"the same":                   {made(0, 8), 8, "1", 8, ""},
		"another number":             {made(0, 8), 4, "1", 0, "has 8 groups, which never changes"},
		"a cluster of one group":     {made(1, 1), 0, "1", 1, ""},
		"more than one where one is": {made(1, 1), 4, "1", 0, "has one group, which never changes"},
		"no power of two":            {made(0, 0), 3, "1", 0, "a power of two"},
		"begun with":                 {made(0, 0), 0, "16", 16, ""},
		"begun with others":          {made(0, 8), 0, "16", 0, "raft-groups is 16, and the cluster of this node has 8 groups, which never changes"},
		"set where one is":           {made(1, 1), 0, "16", 0, "has one group, which never changes"},
		"too many":                   {made(0, 0), 128, "1", 0, "a power of two from 1 to 64"},
	} {
		registry, set := config.New()
		if err := registry.Load(config.Sources{Args: []string{"--dir", c.dir, "--raft-addr", "127.0.0.1:1", "--raft-groups", c.set}}); err != nil {
			t.Fatal(err)
		}
		m := &member{p: &process{set: set, learned: c.learned}}
		got, err := m.countGroups()
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %d, %v", what, got, err)
		}
	}
	one, four := &member{}, &member{several: &several{count: 4}}
	for _, m := range []*member{one, four} {
		if err := m.agrees(""); err != nil {
			t.Error(err)
		}
	}
	var n learned
	if err := one.agrees("4"); !errors.As(err, &n) || n != 4 {
		t.Error(err)
	}
	if err := errors.Join(one.agrees("1"), four.agrees("4")); err != nil {
		t.Error(err)
	}
	for _, said := range []string{"1", "8", "3", "many"} {
		if err := four.agrees(said); err == nil || errors.As(err, &n) {
			t.Errorf("%s groups: %v", said, err)
		}
	}
	if err := one.agrees("3"); err == nil || errors.As(err, &n) {
		t.Errorf("3 groups: %v", err)
	}
}
