package serve

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A file of rules has changed if it is not as it was when it was read last, whoever read it: what the watch then reads once
// more would undo what RL.RULES MODE has changed since.
func TestRulesFileChanged(t *testing.T) {
	dir := t.TempDir()
	f := &rulesFile{path: filepath.Join(dir, "rules.yaml")}
	other := filepath.Join(dir, "other.yaml")
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name   string
		change func() error
		fails  bool // reading it
	}{
		{"it is there", func() error { put(f.path, "one"); return nil }, false},
		{"it is longer", func() error { put(f.path, "three"); return nil }, false},
		{"it is later", func() error { return os.Chtimes(f.path, time.Time{}, time.Unix(1, 0)) }, false},
		{"another has its name", func() error {
			put(other, "seven")
			if err := os.Chtimes(other, time.Time{}, time.Unix(1, 0)); err != nil {
				return err
			}
			return os.Rename(other, f.path)
		}, false},
		{"it is away", func() error { return os.Remove(f.path) }, true},
		{"it is a directory", func() error { return os.Mkdir(f.path, 0o755) }, true},
		{"it is a link", func() error { put(other, "eight"); _ = os.Remove(f.path); return os.Symlink(other, f.path) }, false},
		{"what the link leads to is longer", func() error { put(other, "nine lives"); return nil }, false},
	} {
		if f.last.Load() != nil && f.changed() {
			t.Errorf("before %s: changed", step.name)
		}
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if f.last.Load() != nil && !f.changed() {
			t.Errorf("%s: not changed", step.name)
		}
		if _, err := f.read(); (err != nil) != step.fails {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}
