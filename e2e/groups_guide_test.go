package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// groupsGuide returns the command lines of docs/groups.md that begin a cluster, those that make another one of its nodes' directories, and the one
// that makes one directory of backups, which is in docs/operations.md.
func groupsGuide(t *testing.T) (begin, again []string, restore string) {
	t.Helper()
	lines := func(page, start string) (all []string) {
		t.Helper()
		text, err := os.ReadFile("../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		block := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta("    "+start) + `.*\n(    .*\n)*`).FindString(string(text))
		for line := range strings.Lines(block) {
			all = append(all, strings.TrimSuffix(strings.TrimSpace(line), " &"))
		}
		return all
	}
	begin, again = lines("groups.md", "limitdb --dir n1 "), lines("groups.md", "limitdb export ")
	all := lines("operations.md", "limitdb restore /srv/backups/n1/")
	if len(begin) != 3 || len(again) != 2 || len(all) != 1 {
		t.Fatalf("%q, %q, %q", begin, again, all)
	}
	return begin, again, all[0]
}

// guided runs the command lines of a page in a directory, with ports that are free here.
type guided struct {
	t     *testing.T
	dir   string
	ports map[string]string
}

// run runs a command that ends, and returns what it says.
func (g *guided) run(line string, swap ...string) string {
	g.t.Helper()
	words := strings.Fields(strings.NewReplacer(swap...).Replace(line))
	cmd := exec.Command(plainBinary(g.t), words[1:]...)
	cmd.Dir, cmd.Env = g.dir, cleanEnviron()
	out, err := cmd.CombinedOutput()
	if err != nil {
		g.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// node starts a node.
func (g *guided) node(line string, swap ...string) *raftNode {
	t := g.t
	t.Helper()
	words := strings.Fields(strings.NewReplacer(swap...).Replace(line))[1:]
	n, dir, port := &raftNode{}, "", ""
	for i := 0; i < len(words); i += 2 {
		value := words[i+1]
		switch words[i] {
		case "--dir":
			dir = value
			continue
		case "--port":
			port = value
			continue
		case "--http-port":
			continue
		case "--raft-id":
			n.id = value
		case "--raft-addr", "--raft-join":
			host, at, _ := strings.Cut(value, ":")
			if g.ports[at] == "" {
				g.ports[at] = freePort(t)
			}
			value = host + ":" + g.ports[at]
		}
		n.args = append(n.args, words[i], value)
	}
	n.args = append(n.args, timeouts(patience)...)
	n.begin(t, filepath.Join(g.dir, dir))
	g.ports[port] = n.Port()
	eventually(t, n.id+" is ready", func() bool { return get("http://"+n.HTTPAddr+"/readyz") != "" })
	return n
}

// stateRules are rules for a caller and for all.
const stateRules = `version: 1
namespaces: {shop: [{name: user, key: [user], limit: fixed 10/365d first}, {name: all, limit: gcra 150/365d}]}
`

// makeState has a server hold something of every kind.
func makeState(t *testing.T, p *proc) {
	t.Helper()
	n := &raftNode{proc: p}
	do := func(words ...string) {
		t.Helper()
		if got := n.ask(t, words...); strings.HasPrefix(got, "ERR") || strings.HasPrefix(got, "WRONG") {
			t.Fatalf("%q: %s", words, got)
		}
	}
	for i := range stateKeys {
		for _, limit := range stateLimits {
			do(slices.Concat([]string{"RL.TAKE", fmt.Sprint("k", i, strings.Fields(limit)[0])}, strings.Fields(limit), []string{"COST", strconv.Itoa(1 + i%5)})...)
		}
		do("RL.HOLD", fmt.Sprint("held", i), "FIXED", "1000/365d", "FIRST", "COST", strconv.Itoa(10+i), "TTL", "1h", "ID", fmt.Sprint("h", i))
		do("RL.LEASE", fmt.Sprint("lease", i), "5", "1h", "ID", fmt.Sprint("me", i))
		do("SET", fmt.Sprint("value", i), fmt.Sprint("text", i))
		do("RL.TAKE", fmt.Sprint("once", i), "FIXED", "1000/365d", "FIRST", "COST", "7", "ONCE", "id", "FOR", "1h")
		do("RL.CHECK", "shop", "1", "user", fmt.Sprint("u", i%9))
	}
}

// stateKeys is how many keys there are of a kind.
const stateKeys = 6

// stateLimits are limits of which nothing recovers during a test.
var stateLimits = []string{"GCRA 20/365d", "TOKEN 20/365d", "FIXED 20/365d FIRST", "SLIDING 20/365d", "LOG 20/365d"}

// stateOf returns what a server says of all that makeState has made. It changes nothing.
func stateOf(t *testing.T, p *proc) []string {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: p.Addr, MaxRetries: -1, ReadTimeout: deadline})
	defer func() { _ = c.Close() }()
	var all []string
	ask := func(words ...any) {
		t.Helper()
		eventually(t, fmt.Sprintf("%q is answered", words), func() bool {
			v, err := c.Do(context.Background(), words...).Result()
			if err != nil && (strings.HasPrefix(err.Error(), "CLUSTERDOWN") || strings.HasPrefix(err.Error(), "TRYAGAIN")) {
				return false
			}
			if err != nil {
				t.Fatalf("%q: %v", words, err)
			}
			all = append(all, fmt.Sprintf("%q: %s", words, timeless(v)))
			return true
		})
	}
	for i := range stateKeys {
		for _, limit := range stateLimits {
			words := []any{"RL.PEEK", fmt.Sprint("k", i, strings.Fields(limit)[0])}
			for _, w := range strings.Fields(limit) {
				words = append(words, w)
			}
			ask(append(words, "COST", 0)...)
		}
		ask("RL.PEEK", fmt.Sprint("held", i), "FIXED", "1000/365d", "FIRST", "COST", 0)
		ask("RL.HOLDS", fmt.Sprint("held", i))
		ask("RL.HOLDERS", fmt.Sprint("lease", i))
		ask("GET", fmt.Sprint("value", i))
		ask("RL.TAKE", fmt.Sprint("once", i), "FIXED", "1000/365d", "FIRST", "COST", "7", "ONCE", "id", "FOR", "1h") // counts once only
		ask("RL.CHECK", "shop", 1, "user", fmt.Sprint("u", i%9), "PEEK", "EXPLAIN")
	}
	ask("DBSIZE")
	return all
}

// From one server to several groups, to another number of groups and back to one server, by the commands of the page: all that was used, held, leased and
// kept is there each time, on every node, and what is used on the way counts.
func TestGroupsGuide(t *testing.T) {
	t.Parallel()
	begin, again, restore := groupsGuide(t)
	g := &guided{t, t.TempDir(), map[string]string{}}
	const few = "--raft-groups 4"

	alone := startIn(t, filepath.Join(g.dir, "n1"))
	if got := (&raftNode{proc: alone}).ask(t, "RL.RULES", "LOAD", stateRules); strings.HasPrefix(got, "ERR") {
		t.Fatal(got)
	}
	makeState(t, alone)
	want := stateOf(t, alone)
	used := 0
	same := func(what string, p *proc) {
		t.Helper()
		for i, got := range stateOf(t, p) {
			if got != want[i] {
				t.Errorf("%s: %s, want %s", what, got, want[i])
			}
		}
	}
	// one takes one of a limit that all of this shares.
	one := func(what string, p *proc) {
		t.Helper()
		got := (&raftNode{proc: p}).ask(t, "RL.TAKE", "shared", "FIXED", "100/365d", "FIRST")
		if used++; !strings.HasPrefix(got, fmt.Sprintf("[0 100 %d ", 100-used)) {
			t.Errorf("%s: the %d. request: %s", what, used, got)
		}
	}
	one("alone", alone)
	want = stateOf(t, alone)
	alone.Stop()

	// One server, three nodes with four groups.
	var nodes []*raftNode
	for _, line := range begin {
		nodes = append(nodes, g.node(line, "--raft-groups 16", few))
	}
	groupsRest(t, nodes[2], 4, 3, false, nodes...)
	for _, n := range nodes {
		same("four groups at "+n.id, n.proc)
		one("at "+n.id, n.proc)
	}

	// Backups of all nodes: those of the nodes that lead have all that was answered.
	var backups []string
	for _, n := range nodes {
		to := filepath.Join(g.dir, "backup-"+n.id)
		if err := os.Mkdir(to, 0o700); err != nil {
			t.Fatal(err)
		}
		g.run("limitdb backup --to " + to + " -a " + n.Addr)
		made, err := filepath.Glob(filepath.Join(to, "*"))
		if err != nil || len(made) != 1 {
			t.Fatalf("%q, %v", made, err)
		}
		backups = append(backups, made[0])
	}
	g.run(restore, strings.Fields(restore)[2], backups[0], strings.Fields(restore)[3], strings.Join(backups[1:], " "))
	for _, n := range nodes {
		n.Signal(syscall.SIGTERM)
	}
	for _, n := range nodes {
		n.Wait()
	}

	// One server of the backup, and one of the nodes' directories. Then two groups.
	if said := g.run(again[0]); strings.Count(said, "group ") != 5 || !strings.Contains(said, "all has ") {
		t.Errorf("export: %s", said)
	}
	wasUsed := used
	for _, dir := range []string{"data", "all"} {
		p := startIn(t, filepath.Join(g.dir, dir))
		same("one server of "+dir, p)
		used = wasUsed
		one("one server of "+dir, p)
		p.Stop()
	}
	n := g.node(again[1], "--raft-addr …", "--raft-addr 127.0.0.1:1", "--raft-groups 16", "--raft-groups 2", "--raft-id", "--port 2 --raft-id")
	groupsRest(t, n, 2, 1, false, n)
	same("two groups", n.proc)
	one("two groups", n.proc)
	n.Stop()
	if said := g.run("limitdb export all back"); !strings.Contains(said, "back has ") {
		t.Errorf("export: %s", said)
	}
	p := startIn(t, filepath.Join(g.dir, "back"))
	same("one server", p)
	one("one server", p)
}
