package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// tableOf runs a command that replies a list of fields, and returns them as texts; nil after an error.
func (n *raftNode) tableOf(words ...any) (rows []map[string]string) {
	c := goredis.NewClient(&goredis.Options{Addr: n.Addr, Password: n.password, MaxRetries: -1, DialerRetries: 1, ReadTimeout: deadline})
	defer func() { _ = c.Close() }()
	all, _ := c.Do(context.Background(), words...).Slice()
	for _, row := range all {
		fields := map[string]string{}
		if m, ok := row.(map[any]any); ok {
			for k, v := range m {
				fields[fmt.Sprint(k)] = fmt.Sprint(v)
			}
		}
		rows = append(rows, fields)
	}
	return rows
}

// groupsAre waits until a node says that all groups are at rest with so many replicas, led by nodes that are up, all of which lead as many as others.
// That takes half a minute, since a node must have caught up for as long before it is made to lead.
func groupsAre(t *testing.T, at *raftNode, groups, replicas int, nodes ...*raftNode) {
	t.Helper()
	groupsRest(t, at, groups, replicas, true, nodes...)
}

// eachLeads makes all nodes lead some group soon: it asks node at to have node i lead group i+1.
func eachLeads(t *testing.T, at *raftNode, nodes ...*raftNode) {
	t.Helper()
	for i, n := range nodes {
		group := fmt.Sprint(i + 1)
		eventually(t, n.id+" leads group "+group, func() bool {
			for _, g := range at.tableOf("RAFT", "GROUPS") {
				if g["group"] == group && g["leader"] == n.id {
					return true
				}
			}
			at.askOnce(t, "RAFT", "TRANSFER", group, n.id)
			return false
		})
	}
}

// groupsRest is groupsAre, and the leaders need not be even.
func groupsRest(t *testing.T, at *raftNode, groups, replicas int, even bool, nodes ...*raftNode) {
	t.Helper()
	ids := map[string]int{}
	for _, n := range nodes {
		ids[n.id] = 0
	}
	eventually(t, fmt.Sprintf("%d groups of %d replicas on %d nodes", groups, replicas, len(nodes)), func() bool {
		all := at.tableOf("RAFT", "GROUPS")
		if len(all) != groups {
			return false
		}
		clear(ids)
		for _, n := range nodes {
			ids[n.id] = 0
		}
		for _, g := range all {
			of := strings.Fields(strings.Trim(g["replicas"], "[]"))
			if g["settled"] != "1" || len(of) != replicas || strings.Contains(g["replicas"], "learner") || even && g["leader"] != g["wanted-leader"] || g["lag"] != "0" {
				return false
			}
			if _, up := ids[g["leader"]]; !up {
				return false
			}
			ids[g["leader"]]++
		}
		for _, leads := range ids {
			if even && (leads < groups/len(ids) || leads > groups/len(ids)+1) {
				return false
			}
		}
		return true
	})
}

// startGroups starts size nodes of a cluster of several groups, all with args, and waits until all groups are at rest.
// With LIMITDB_LONG, it also waits until all nodes lead as many.
func startGroups(t *testing.T, groups, size int, args ...string) (nodes []*raftNode) {
	t.Helper()
	for i := range size {
		n := &raftNode{id: fmt.Sprint("n", i+1), raft: "127.0.0.1:" + freePort(t)}
		n.args = slices.Concat([]string{"--raft-addr", n.raft, "--raft-id", n.id}, timeouts(patience), args)
		if i == 0 {
			n.args = append(n.args, "--raft-bootstrap", "yes", "--raft-groups", fmt.Sprint(groups))
		} else {
			n.args = append(n.args, "--raft-join", nodes[0].Addr)
		}
		n.begin(t, t.TempDir())
		nodes = append(nodes, n)
		eventually(t, n.id+" is ready", func() bool { return get("http://"+n.HTTPAddr+"/readyz") != "" })
		if i == 0 {
			groupsRest(t, n, groups, 1, false, n)
		}
	}
	for _, n := range nodes {
		groupsRest(t, n, groups, min(3, size), long(), nodes...)
	}
	eachLeads(t, nodes[0], nodes...)
	return nodes
}

// A cluster of several groups: its nodes learn from one another how many there are, every group is led somewhere, and replicas and leaders spread
// over the nodes. A node that is lost and comes back, one that joins, one that is drained and removed, and a restart of all leave every group whole.
func TestGroups(t *testing.T) {
	t.Parallel()
	const groups = 4
	bin := plainBinary(t)
	begin := func(i int, args ...string) *raftNode {
		n := &raftNode{id: fmt.Sprint("n", i), raft: "127.0.0.1:" + freePort(t), bin: bin}
		n.args = slices.Concat([]string{"--raft-addr", n.raft, "--raft-id", n.id}, timeouts(patience), args)
		n.begin(t, t.TempDir())
		return n
	}
	ready := func(n *raftNode) {
		t.Helper()
		eventually(t, n.id+" is ready", func() bool { return get("http://"+n.HTTPAddr+"/readyz") != "" })
	}
	nodes := []*raftNode{begin(1, "--raft-bootstrap", "yes", "--raft-groups", fmt.Sprint(groups))}
	ready(nodes[0])
	groupsAre(t, nodes[0], groups, 1, nodes...)
	for i := range 2 {
		nodes = append(nodes, begin(i+2, "--raft-join", nodes[0].Addr))
	}
	for _, n := range nodes {
		ready(n)
		groupsRest(t, n, groups, 3, long(), nodes...)
	}
	if !strings.Contains(nodes[1].Log(), "this process begins again") {
		t.Error("the second node has not learned how many groups there are")
	}

	shows := func(want string, words ...string) {
		t.Helper()
		r := run(t, "", bin, append(append([]string{"cluster"}, words...), "-a", nodes[2].Addr)...)
		if r.Code != 0 || !strings.Contains(r.Stdout, want) {
			t.Errorf("limitdb cluster %v: %+v", words, r)
		}
	}
	shows("GROUP  SLOTS", "status")

	// Every node decides, for the keys of the groups that it leads, and counts what it decides.
	const callers = 20
	for i := range callers {
		if got := nodes[i%3].ask(t, "RL.TAKE", fmt.Sprint("caller:", i), "GCRA", "10/d"); !strings.HasPrefix(got, "[0 10 9 ") {
			t.Errorf("caller %d: %s", i, got)
		}
	}
	sum := func(pattern string) (all int) {
		for _, n := range nodes {
			for _, m := range regexp.MustCompile(`(?m)^`+pattern+` (\d+)$`).FindAllStringSubmatch(get("http://"+n.HTTPAddr+"/metrics"), -1) {
				v, err := strconv.Atoi(m[1])
				if err != nil {
					t.Fatal(err)
				}
				all += v
			}
		}
		return all
	}
	for pattern, want := range map[string]int{
		`limitdb_decisions_total\{result="allowed"\}`: callers, `limitdb_group_decisions_total\{group="[1-4]"\}`: callers,
		`limitdb_group_leading\{group="[1-4]"\}`: groups, `limitdb_group_leading\{group="0"\}`: 1,
	} {
		if got := sum(pattern); got != want {
			t.Errorf("%s is %d on all nodes, want %d", pattern, got, want)
		}
	}
	eventually(t, "all replicas have all keys", func() bool {
		return sum(`limitdb_group_keys\{group="[1-4]"\}`) == 3*callers && sum("limitdb_keys") == 3*callers
	})

	// A node is killed. The others lead its groups, and it has all of them when it is back.
	lost := nodes[1]
	lost.Kill()
	eventually(t, "every group is led", func() bool {
		all := nodes[0].tableOf("RAFT", "GROUPS")
		return len(all) == groups && !slices.ContainsFunc(all, func(g map[string]string) bool { return g["leader"] == "" || g["leader"] == lost.id })
	})
	for i := range callers {
		at := nodes[2*(i%2)]
		eventually(t, fmt.Sprintf("what caller %d took counts", i), func() bool {
			return strings.HasPrefix(at.ask(t, "RL.PEEK", fmt.Sprint("caller:", i), "GCRA", "10/d"), "[0 10 8 ")
		})
	}
	if got := nodes[0].ask(t, "RAFT", "SERVER", "REMOVE", nodes[2].id); !strings.Contains(got, "drain it first") {
		t.Errorf("a node that has replicas is removed: %s", got)
	}
	lost.restart(t)
	ready(lost)
	groupsRest(t, lost, groups, 3, long(), nodes...)
	if !long() {
		return
	}

	// Another joins, and takes its part.
	nodes = append(nodes, begin(4, "--raft-join", nodes[2].Addr))
	home := func() *raftNode {
		var at *raftNode
		eventually(t, "group 0 is led", func() bool {
			for _, n := range nodes {
				if n.askOnce(t, "RAFT", "LEADER") == n.Addr {
					at = n
					return true
				}
			}
			return false
		})
		return at
	}
	groupsAre(t, nodes[3], groups, 3, nodes...)
	eventually(t, "all nodes have as much as others", func() bool {
		all := nodes[0].tableOf("RAFT", "NODES")
		return len(all) == len(nodes) && !slices.ContainsFunc(all, func(n map[string]string) bool {
			return n["replicas"] != "3" || n["leads"] != "1" || n["state"] != "online"
		})
	})

	// The first is drained: everything leaves it, then it goes.
	gone := nodes[0]
	shows("node n1 is drained: stop it, then remove it", "drain", gone.id, "--timeout", deadline.String())
	groupsAre(t, nodes[3], groups, 3, nodes[1:]...)
	eventually(t, "the drained node has only group 0", func() bool {
		left, err := filepath.Glob(filepath.Join(gone.Dir, "raft", "*"))
		return err == nil && len(left) == 1 && filepath.Base(left[0]) == "0"
	})
	eventually(t, "the drained node has no vote", func() bool {
		return slices.ContainsFunc(home().tableOf("RAFT", "SERVER", "LIST"), func(m map[string]string) bool { return m["id"] == gone.id && m["vote"] == "nonvoter" })
	})
	shows("nothing moves\n", "plan")
	if got := home().ask(t, "RAFT", "SERVER", "REMOVE", gone.id); got != "OK" {
		t.Error(got)
	}
	gone.Kill()
	nodes = nodes[1:]

	// All start again. Nobody may say now that there are more groups.
	for _, n := range nodes {
		n.Signal(syscall.SIGTERM)
		n.Wait()
	}
	other := run(t, "", bin, slices.Concat([]string{"--dir", nodes[0].Dir, "--port", "0", "--raft-groups", "8"}, nodes[0].args)...)
	if other.Code == 0 || !strings.Contains(other.Stderr, "never changes") {
		t.Errorf("%+v", other)
	}
	if standalone := run(t, "", bin, "--dir", nodes[0].Dir, "--port", "0"); standalone.Code == 0 || !strings.Contains(standalone.Stderr, "state of a node of a cluster") {
		t.Errorf("a standalone server: %+v", standalone)
	}
	if checked := run(t, "", bin, "check", nodes[0].Dir); checked.Code != 0 || !regexp.MustCompile(`(?m)/raft/[1-4]:\nnode `).MatchString(checked.Stdout) {
		t.Errorf("%+v", checked)
	}
	if recovered := run(t, "", bin, "recover", nodes[0].Dir); recovered.Code == 0 {
		t.Errorf("recovered alone: %+v", recovered)
	}
	for _, n := range nodes {
		n.restart(t)
	}
	for _, n := range nodes {
		ready(n)
		groupsAre(t, n, groups, 3, nodes...)
	}
	if entries, err := os.ReadDir(filepath.Join(nodes[0].Dir, "raft")); err != nil || len(entries) != 1+groups {
		t.Errorf("%v, %v", entries, err)
	}
}
