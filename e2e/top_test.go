package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// TestTop watches a server with limitdb top, in a terminal and without one.
func TestTop(t *testing.T) {
	t.Parallel()
	p := start(t, "--requirepass", password)
	c := dial(t, p.Addr)
	c.do("AUTH", password)
	for range 5 {
		c.do("RL.TAKE", "user:\x1b]0;x", "GCRA", "1/h")
	}
	bin := plainBinary(t)
	env := []string{"LIMITDB_REQUIREPASS=" + password}
	r := runEnv(t, env, "", bin, "top", "--once", "--port", p.Port())
	// Counts fade with each minute of the clock, so the four denials may be fewer.
	for _, want := range []string{`^limitdb \S+  127\.0\.0\.1:\d+  ready  up `, `(?m)^Decisions +\d+/s`, `(?m)^Time +no decisions$`, `(?m)^Keys +1 `, `(?m)^ +[1-4] █+ "user:\\x1b\]0;x"$`} {
		if r.Code != 0 || !regexp.MustCompile(want).MatchString(r.Stdout) {
			t.Errorf("%d, no %s in:\n%s%s", r.Code, want, r.Stdout, r.Stderr)
		}
	}
	if r := run(t, "", bin, "top", "--once", "--port", p.Port()); r.Code != 1 || !strings.Contains(r.Stderr, "NOAUTH") {
		t.Errorf("without the password: %d %q", r.Code, r.Stderr)
	}
	if r := run(t, "", bin, "top", "--once", "--port", freePort(t)); r.Code != 1 || !strings.Contains(r.Stderr, "no answer") {
		t.Errorf("nobody: %d %q", r.Code, r.Stderr)
	}
	term := openTerminal(t, bin, "top", "--port", p.Port(), "--requirepass", password)
	term.press("", "LIMITED MOST NOW")
	term.press("q", "\x1b[?1049l") // back on the screen from before
}

// TestTopOfACluster watches three nodes, and two of them while the third is gone: each shows what the one that leads decides.
func TestTopOfACluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	leads, follows, third := roles(t, nodes)
	c := dial(t, follows.Addr)
	for range 5 {
		c.do("RL.TAKE", "user:1", "GCRA", "1/h")
	}
	bin := plainBinary(t)
	shows := func(n *raftNode, wants ...string) {
		t.Helper()
		eventually(t, n.id+" shows the cluster", func() bool {
			r := run(t, "", bin, "top", "--once", "--port", n.Port())
			for _, want := range wants {
				if r.Code != 0 || !regexp.MustCompile(want).MatchString(r.Stdout) {
					t.Logf("%d, no %s in:\n%s%s", r.Code, want, r.Stdout, r.Stderr)
					return false
				}
			}
			return true
		})
	}
	led := `(?m)^ +` + leads.id + ` +leads +up to date$`
	shows(leads, `(?m)^limitdb .*  leads  up `, `(?m)^Cluster     3 of 3 nodes `, leads.id+` \(this node\) +leads +up to date`, `(?m)^Keys        1 `)
	shows(follows, `follows `+leads.id+`, whose figures these are`, `(?m)^Cluster     3 of 3 nodes `, led, follows.id+` \(this node\) +follows +up to date`, `(?m)^Keys        1 `, `█ user:1`)
	third.Kill()
	shows(follows, `(?m)^Cluster     2 of 3 nodes `, led, `(?m)^ +`+third.id+` +follows +(silent for|does not answer)`)
}
