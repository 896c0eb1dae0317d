package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"limitdb/rules"
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

// The files of envoy-rules-dir have changed if they are not as they were when they were read last, and no read mixes files
// of two states.
func TestEnvoyRulesChanged(t *testing.T) {
	e := &envoyRules{dir: t.TempDir()}
	path := func(name string) string { return filepath.Join(e.dir, name) }
	put := func(name, text string) error { return os.WriteFile(path(name), []byte(text), 0o644) }
	for _, step := range []struct {
		name   string
		change func() error
		same   bool
		files  string // that are read; "-": reading fails
	}{
		{"nothing", func() error { return nil }, false, ""},
		{"others", func() error {
			return errors.Join(put("README", "x"), put(".hidden.yaml", "x"), os.Mkdir(path("..data"), 0o755), put("..data/a.yaml", "a"))
		}, true, ""},
		{"one", func() error { return put("b.yaml", "b") }, false, "b.yaml=b"},
		{"more", func() error { return errors.Join(put("a.json", "a"), put("c.yml", "c")) }, false, "a.json=a b.yaml=b c.yml=c"},
		{"longer", func() error { return put("b.yaml", "bb") }, false, "a.json=a b.yaml=bb c.yml=c"},
		{"later", func() error { return os.Chtimes(path("b.yaml"), time.Time{}, time.Unix(1, 0)) }, false, "a.json=a b.yaml=bb c.yml=c"},
		{"renamed", func() error { return os.Rename(path("b.yaml"), path("d.yaml")) }, false, "a.json=a c.yml=c d.yaml=bb"},
		{"a link", func() error {
			_ = os.Remove(path("d.yaml"))
			return os.Symlink(filepath.Join("..data", "a.yaml"), path("d.yaml"))
		}, false, "a.json=a c.yml=c d.yaml=a"},
		{"what it leads to", func() error { return put("..data/a.yaml", "aa") }, false, "a.json=a c.yml=c d.yaml=aa"},
		{"a broken link", func() error { return os.Remove(path("..data/a.yaml")) }, false, "-"},
		{"still broken", func() error { return nil }, true, "-"},
		{"a directory", func() error { return errors.Join(os.Remove(path("d.yaml")), os.Mkdir(path("d.yaml"), 0o755)) }, false, "-"},
		{"gone", func() error { return os.RemoveAll(e.dir) }, false, "-"},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if last := e.last.Load(); last != nil && e.changed() == step.same {
			t.Errorf("%s: changed: %v", step.name, !step.same)
		}
		files, err := e.read()
		var got []string
		for _, f := range files {
			got = append(got, f.Name+"="+string(f.Text))
		}
		if (err != nil) != (step.files == "-") || err == nil && strings.Join(got, " ") != step.files {
			t.Errorf("%s: %v, %v", step.name, got, err)
		}
	}
}

// TestEnvoyRulesBounds checks that no more is read than may be.
func TestEnvoyRulesBounds(t *testing.T) {
	e := &envoyRules{dir: t.TempDir()}
	large := make([]byte, rules.MaxText+1)
	for i := range rules.MaxTexts/rules.MaxText + 1 {
		if err := os.WriteFile(filepath.Join(e.dir, fmt.Sprint(i, ".yaml")), large, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.read(); err == nil || err.Error() != "the files have more than 16777216 bytes" {
		t.Error(err)
	}
	for i := range rules.MaxFiles {
		if err := os.WriteFile(filepath.Join(e.dir, fmt.Sprint("x", i, ".yaml")), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.read(); err == nil || err.Error() != "there are 1005 files: at most 1000 are read" {
		t.Error(err)
	}
}
