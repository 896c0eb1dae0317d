package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// explodingRules is a file whose aliases stand for 10^20 values.
func explodingRules() string {
	var b strings.Builder
	b.WriteString("version: 1\nnamespaces:\n  n0: &n0 []\n")
	for i := range 20 {
		fmt.Fprintf(&b, "  n%d: &n%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*n%d,", i), 10), ","))
	}
	return b.String()
}

// TestHostileRulesFiles puts other files in the place of a file of rules. Each time the error says why, the old rules
// stay in force, and nothing is charged. A file that is written in two parts is in force once it is whole.
func TestHostileRulesFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	put(t, path, limitFile("fixed 1000000/52w"))
	p := start(t, "--rules-file", path)
	write := func(text string) error { return os.WriteFile(path, []byte(text), 0o644) }
	whole := limitFile("fixed 2000000/52w")
	for i, test := range []struct {
		name  string
		place func() error
		want  string
	}{
		{"100 MB", func() error { return os.Truncate(path, 100<<20) }, "line 1, column 1: the file has more than 4194304 bytes"},
		{"empty", func() error { return write("") }, "line 1, column 1: the file is empty"},
		{"zeros", func() error { return write(strings.Repeat("\x00", 1000)) }, "line 1, column 1: control characters are not allowed"},
		{"aliases that explode", func() error { return write(explodingRules()) }, "a rule must be a mapping, not a list (and 199 more)"},
		{"gone", func() error { return os.Remove(path) }, "no such file"},
		{"a folder", func() error { return os.Mkdir(path, 0o755) }, "is not a regular file"},
		{"a pipe", func() error { return syscall.Mkfifo(path, 0o644) }, "is not a regular file"},
		{"a device", func() error { return os.Symlink("/dev/zero", path) }, "is not a regular file"},
		{"a link to itself", func() error { return os.Symlink("rules.yaml", path) }, "too many levels of symbolic links"},
		{"half", func() error { return write(whole[:len(whole)/2]) }, "line 2, column "},
	} {
		if i > 3 {
			os.Remove(path)
		}
		if err := test.place(); err != nil && test.name != "gone" {
			t.Fatalf("%s: %v", test.name, err)
		}
		if got := one(t, p.Addr, "RL.RULES", "RELOAD").Text; !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if got := flat(one(t, p.Addr, "RL.CHECK", "shop", "0")); got != fmt.Sprintf("0 1000000 %d r", 1000000-i-1) {
			t.Errorf("%s: %s", test.name, got)
		}
		if info := one(t, p.Addr, "INFO", "limiter").Text; !strings.Contains(info, "rules_last_load_status:err\r\nrules_last_error:") {
			t.Errorf("%s: %s", test.name, info)
		}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(whole[len(whole)/2:]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the whole file is in force", func() bool {
		return flat(one(t, p.Addr, "RL.CHECK", "shop", "0", "COST", "0")) == "0 2000000 1999990 r"
	})
}
