package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestAuditLog fills the disk of a strict audit log: changes are refused, decisions go on, and changes are made again when there is room. The
// file is opened again after SIGHUP, which is in it, too.
func TestAuditLog(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		lacking(t, "mounting a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	path := filepath.Join(dir, "audit.log")
	p := start(t, "--audit-log", path, "--audit-log-strict", "yes")
	c := dial(t, p.Addr)
	text := func() string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	c.do("RL.TAKE", "a", "GCRA", "5/h")
	if got := one(t, p.Addr, "RL.RULES", "SET", "shop", "user", "{limit: 5/m, key: [user]}"); got.Err() != nil {
		t.Fatal(got.Err())
	}
	if want := `"addr":"127.0.0.1:\d+","way":"resp","command":"rl.rules\|set","args":\["RL.RULES","SET","shop","user",[^\n]*"before":null}\n{[^\n]*"result":"OK","after":{"mode":"enforce","limit":"GCRA 5/m"`; !regexp.MustCompile(want).MatchString(text()) {
		t.Errorf("no %s in\n%s", want, text())
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	for one(t, p.Addr, "RL.RESET", "none").Err() == nil { // what is left of the file's last page
	}
	before := text()
	if !strings.HasSuffix(before, "}\n") {
		t.Errorf("half a line: %q", before[max(0, len(before)-100):])
	}
	for _, words := range [][]string{{"RL.RESET", "a"}, {"FLUSHALL"}, {"CONFIG", "SET", "maxclients", "50"}, {"RL.RULES", "DEL", "shop", "user"}} {
		if got := one(t, p.Addr, words...); got.Err() == nil || !strings.HasPrefix(got.Text, "MISCONF the audit log cannot be written") {
			t.Errorf("%q: %q", words, got.Text)
		}
	}
	if got := one(t, p.Addr, "RL.TAKE", "a", "GCRA", "5/h"); len(got.Elems) != 5 || got.Elems[2].Int != 3 {
		t.Errorf("%+v", got)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if got := one(t, p.Addr, "RL.RESET", "a"); got.Int != 1 {
		t.Errorf("%+v", got)
	}
	if got := text(); !strings.HasPrefix(got, before) || strings.Count(got, "\n") != strings.Count(before, "\n")+2 {
		t.Errorf("%s", got[min(len(got), len(before)):])
	}
	if page := get("http://" + p.HTTPAddr + "/metrics"); !regexp.MustCompile(`\nlimitdb_audit_log_failed_total [1-9]`).MatchString(page) {
		t.Error("no count of what was not written")
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGHUP)
	eventually(t, "a new file", func() bool { _, err := os.Stat(path); return err == nil })
	c.do("RL.RESET", "a")
	if !strings.Contains(text(), `"rl.reset"`) {
		t.Error(text())
	}
	p.Stop()
}
