package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestDecisionLog logs decisions, reads them back with limitdb simulate, and finds the denials that the server
// made. The file is reopened after SIGHUP.
func TestDecisionLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "decisions.log")
	p := start(t, "--decision-log", path)
	c := dial(t, p.Addr)
	for i := range 30 {
		c.do("RL.TAKE", fmt.Sprintf("user:%d", i%3), "GCRA", "5/h")
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGHUP)
	eventually(t, "a new file", func() bool { _, err := os.Stat(path); return err == nil })
	c.do("RL.TAKE", "user:9", "GCRA", "5/h")
	if page := get("http://" + p.HTTPAddr + "/metrics"); !strings.Contains(page, "\nlimitdb_decision_log_dropped_total 0\n") {
		t.Error("no count of what was dropped")
	}
	p.Stop()
	r := run(t, "", plainBinary(t), "simulate", "--limit", "gcra 5/h", path+".old", path)
	if want := `(?m)^31 requests of 4 callers [^\n]*\n(.*\n)*GCRA 5/h +15 `; r.Code != 0 || !regexp.MustCompile(want).MatchString(r.Stdout) {
		t.Errorf("%d, want %s:\n%s%s", r.Code, want, r.Stdout, r.Stderr)
	}
}
