package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"limitdb/resp"
)

// shopFile is the example of docs/rules.md.
const shopFile = "../rules/testdata/shop.yaml"

// checkWords returns the RL.CHECK of "field value …" in the namespace shop.
func checkWords(fields string) []string {
	words := strings.Fields(fields)
	n := len(words)
	for i, w := range words {
		if w == "COST" || w == "PEEK" {
			n = i
			break
		}
	}
	return append([]string{"RL.CHECK", "shop", fmt.Sprint(n / 2)}, words...)
}

// checkAtOnce makes all checks in one transaction, so at one time, and returns the replies as lines.
func checkAtOnce(t *testing.T, addr string, checks []string) (replies []string) {
	t.Helper()
	b := []byte("MULTI\r\n")
	for _, fields := range checks {
		b = resp.AppendCommand(b, checkWords(fields)...)
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(deadline))
	if _, err := c.Write(append(b, "EXEC\r\n"...)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	var v resp.Value
	for range len(checks) + 2 { // OK, QUEUED for each, and the replies
		if v, err = resp.ReadReply(r, 1<<20); err != nil || v.Err() != nil {
			t.Fatalf("%v %v", err, v.Err())
		}
	}
	for _, e := range v.Elems {
		replies = append(replies, flat(e))
	}
	return replies
}

// flat renders the first four parts of a decision and the rule: limited, limit, remaining and whether there is a wait.
func flat(v resp.Value) string {
	if len(v.Elems) < 6 {
		return v.Text
	}
	return fmt.Sprintf("%d %d %d %s", v.Elems[0].Int, v.Elems[1].Int, v.Elems[2].Int, v.Elems[5].Text)
}

func expectCheck(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestShopOverTheWire asks the real server about each rule of the example file.
func TestShopOverTheWire(t *testing.T) {
	p := start(t, "--rules-file", abs(t, shopFile))
	var checks, wants []string
	add := func(times int, fields, last string) { // last is the last reply
		for n := range times {
			checks, wants = append(checks, fields), append(wants, "")
			if n == times-1 {
				wants[len(wants)-1] = last
			}
		}
	}
	add(1, "COST 20001", "1 20000 20000 global")
	add(1, "method POST path /checkout COST 500", "0 500 0 checkout")
	add(1, "method POST path /checkout COST 500", "1 500 0 checkout")
	add(21, "user u1 path /a", "1 20 0 user-api")
	add(1, "user u1 path /b", "0 20 19 user-api")
	add(1, "user acme-batch path /a COST 500", "0 1000 500 user-day")
	add(1, "user healthcheck path /a COST 900", "0 1000 100 user-day")
	add(1, "user u2 plan pro path /a COST 21", "1 20 20 user-api")
	add(1, "user u3 COST 1001", "1 1000 1000 user-day")
	add(4, "path /export/x tenant t", "1 3 0 exports")
	logins := len(checks)
	add(9, "path /login ip 2001:db8::7", "")
	got := checkAtOnce(t, p.Addr, checks)
	if len(got) != len(checks) {
		t.Fatalf("%d replies to %d checks", len(got), len(checks))
	}
	for i, want := range wants {
		if want != "" {
			expectCheck(t, got[i], want)
		}
		if i >= logins && (!strings.HasSuffix(got[i], " global") || got[i][0] != '0') {
			t.Errorf("shadow mode denies: %s", got[i])
		}
	}
	stats := map[string]resp.Value{}
	for _, r := range one(t, p.Addr, "RL.RULES", "STATS", "shop").Elems {
		stats[r.Elems[3].Text] = r
	}
	if n := stats["login-ip"].Elems[13].Int; n != 4 {
		t.Errorf("login-ip would have denied %d", n)
	}
	if n := stats["exports"].Elems[11].Int; n != 1 {
		t.Errorf("exports denied %d", n)
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// put writes a file as editors do: beside it, then over it.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func limitFile(limit string) string {
	return "version: 1\nnamespaces: {shop: [{name: r, limit: " + limit + "}]}\n"
}

// TestRulesFileIsReadAgain changes the file as editors, SIGHUP and Kubernetes do, with mistakes in between, while
// clients check.
func TestRulesFileIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	// A ConfigMap is a link to a link: rules.yaml -> ..data/rules.yaml, ..data -> version1.
	version := func(name, text string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, name, "rules.yaml"), text)
		if err := os.Symlink(name, filepath.Join(dir, "..tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("version1", limitFile("fixed 10000000/52w"))
	path := filepath.Join(dir, "rules.yaml")
	if err := os.Symlink(filepath.Join("..data", "rules.yaml"), path); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--rules-file", path)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	checks := 0
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				v := one(t, p.Addr, "RL.CHECK", "shop", "0")
				if len(v.Elems) != 6 || v.Elems[0].Int != 0 || v.Elems[5].Text != "r" {
					t.Errorf("reply %v", v)
					return
				}
				mu.Lock()
				checks++
				mu.Unlock()
			}
		})
	}
	becomes := func(what string, limit int64) {
		t.Helper()
		eventually(t, what, func() bool { return one(t, p.Addr, "RL.CHECK", "shop", "0", "COST", "0").Elems[1].Int == limit })
	}
	version("version2", limitFile("fixed 20000000/52w"))
	becomes("the link's new file is read", 20000000)
	version("version3", "version: 1\nnamespaces: {shop: [{name: r, limit: 1/q}]}\n")
	eventually(t, "the mistake is logged", func() bool { return strings.Contains(p.Log(), "line 2, column 38") })
	becomes("the old rules stay", 20000000)
	version("version4", limitFile("fixed 30000000/52w"))
	becomes("the next file is read", 30000000)
	put(t, filepath.Join(dir, "version4", "rules.yaml"), limitFile("fixed 40000000/52w")) // not in the directory that is watched
	p.Signal(syscall.SIGHUP)
	becomes("SIGHUP has read it", 40000000)
	close(stop)
	wg.Wait()
	left := one(t, p.Addr, "RL.CHECK", "shop", "0", "COST", "0").Elems[2].Int
	counted := one(t, p.Addr, "RL.RULES", "STATS", "shop").Elems[0].Elems[7].Int
	if used := 40000000 - left; used != int64(checks) || counted != used {
		t.Errorf("%d checks, but %d are used, and %d are counted", checks, used, counted)
	}
	p.Stop()
}

// TestStartWithBadRules checks that a server does not start with a file that has a mistake.
func TestStartWithBadRules(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	put(t, bad, "version: 1\nnamespaces: {a: [{name: x, limit: 1/q}]}\n")
	for _, args := range [][]string{{"--rules-file", bad}, {"--check-config", "--rules-file", bad}} {
		r := run(t, "", plainBinary(t), append(args, "--port", "0", "--http-port", "0", "--appendonly", "no")...)
		if r.Code == 0 || !strings.Contains((r.Stdout+r.Stderr), "line 2, column 35: period must be") {
			t.Errorf("%v: status %d, %s", args, r.Code, (r.Stdout + r.Stderr))
		}
	}
}

// TestRulesByCommandSurviveAKill checks that rules set by command are kept with the data, with their callers.
func TestRulesByCommandSurviveAKill(t *testing.T) {
	dir := t.TempDir()
	p := startIn(t, dir, "--appendfsync", "always")
	long := strings.Repeat("u", 4000)
	one(t, p.Addr, "RL.RULES", "LOAD", limitFile("1000/d"))
	one(t, p.Addr, "RL.RULES", "SET", "shop", "u", "{key: [user], limit: 10/d}")
	one(t, p.Addr, "RL.RULES", "MODE", "shop", "r", "shadow")
	expectCheck(t, flat(one(t, p.Addr, "RL.CHECK", "shop", "1", "user", long, "COST", "7")), "0 10 3 u")
	p.Kill()
	p = startIn(t, dir, "--appendfsync", "always")
	eventually(t, "the state is loaded", func() bool { return hasLoaded(p) })
	expectCheck(t, flat(one(t, p.Addr, "RL.CHECK", "shop", "1", "user", long, "COST", "0")), "0 10 3 u")
	if got := one(t, p.Addr, "RL.RULES", "LIST", "shop"); len(got.Elems) != 2 || got.Elems[0].Elems[3].Text != "shadow" {
		t.Errorf("%v", got)
	}
	one(t, p.Addr, "BGREWRITEAOF")
	one(t, p.Addr, "RL.RULES", "DEL", "shop", "r")
	one(t, p.Addr, "RL.CHECK", "shop", "1", "user", "another", "COST", "8")
	counted := func() []int64 {
		stats := one(t, p.Addr, "RL.RULES", "STATS", "shop").Elems[0].Elems
		field := func(name string) int64 {
			at := slices.IndexFunc(stats, func(v resp.Value) bool { return v.Text == name })
			return stats[at+1].Int
		}
		return []int64{field("allowed"), field("since")}
	}
	before := counted()
	p.Stop()
	p = startIn(t, dir, "--appendfsync", "always")
	eventually(t, "the state is loaded", func() bool { return hasLoaded(p) })
	expectCheck(t, flat(one(t, p.Addr, "RL.CHECK", "shop", "1", "user", long, "COST", "0")), "0 10 3 u")
	if got := counted(); before[0] != 1 || before[1] == 0 || !slices.Equal(got, before) {
		t.Errorf("counted %d before the stop, %d after it", before, got)
	}
	p.Stop()
}

// TestRulesInACluster sets rules by command, waits under them, kills the leader, and finds the rules and their callers at the next one,
// also through a node that does not lead, and after all nodes have been restarted.
func TestRulesInACluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	first := leader(t, nodes)
	long := strings.Repeat("u", 4000)
	if got := first.ask(t, "RL.RULES", "SET", "shop", "u", "{key: [user], limit: 10/d}"); !strings.Contains(got, "shop/u") {
		t.Fatal(got)
	}
	if got := first.ask(t, "RL.CHECK", "shop", "1", "user", long, "COST", "7"); !strings.HasPrefix(got, "[0 10 3 ") {
		t.Fatal(got)
	}
	// A check waits at the leader for clients of every node.
	first.ask(t, "RL.RULES", "SET", "paced", "all", "{limit: 5/s burst 1}")
	for _, n := range append(nodes, nodes...) {
		if got := n.ask(t, "RL.CHECK", "paced", "0", "WAIT", "1m"); !strings.HasPrefix(got, "[0 1 0 -1 ") {
			t.Fatal(got)
		}
	}
	first.Kill()
	var others []*raftNode
	for _, n := range nodes {
		if n != first {
			others = append(others, n)
		}
	}
	next := leader(t, others)
	if got := next.ask(t, "RL.CHECK", "shop", "1", "user", long, "COST", "2"); !strings.HasPrefix(got, "[0 10 1 ") {
		t.Error(got)
	}
	for _, n := range others {
		eventually(t, "every node answers for the leader", func() bool {
			return strings.HasPrefix(n.ask(t, "RL.CHECK", "shop", "1", "user", long, "COST", "2"), "[1 10 1 ")
		})
	}
	if got := next.ask(t, "RL.RULES", "MODE", "shop", "u", "shadow"); got != "OK" {
		t.Error(got)
	}
	stats := func(n *raftNode) string { // without the checks in the namespace, which are those of the node
		return regexp.MustCompile(` namespace_\w+:\d+`).ReplaceAllString(n.ask(t, "RL.RULES", "STATS", "shop"), "")
	}
	counted := stats(next)
	next.Stop() // while the other one still makes a majority with it, which keeps the counters
	for _, n := range others {
		n.Stop()
	}
	for _, n := range nodes {
		n.restart(t)
	}
	last := leader(t, nodes)
	if got := last.ask(t, "RL.RULES", "GET", "shop", "u"); !strings.Contains(got, "mode: shadow") {
		t.Error(got)
	}
	if got := stats(last); got != counted || !strings.Contains(got, "allowed:1 ") {
		t.Errorf("the rules had counted %s before the restart, and %s after it", counted, got)
	}
	if got := last.ask(t, "RL.RULES", "INFO", "shop", "u", "user", long); !strings.Contains(got, "gcra") {
		t.Error(got)
	}
}
