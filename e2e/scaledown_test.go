package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// chartJobs returns the command lines of the jobs that the chart runs before and after an upgrade with fewer nodes. The nodes of a release limitdb that
// stay are the first so many, and clients reach them at an address.
func chartJobs(t *testing.T, stay int, addr string) (drain, remove []string) {
	t.Helper()
	text, err := os.ReadFile("../deploy/chart/templates/scaledown.yaml")
	if err != nil {
		t.Fatal(err)
	}
	args := regexp.MustCompile(`(?m)^ +args: \[(.*)\]$`).FindSubmatch(text)
	password := filepath.Join(t.TempDir(), "password")
	if args == nil || os.WriteFile(password, []byte(clusterPassword+"\n"), 0o600) != nil {
		t.Fatalf("%q, %v", args, password)
	}
	for job, line := range map[string]*[]string{"drain": &drain, "remove": &remove} {
		*line = strings.Split(strings.NewReplacer(`"{{ $name }}:6379"`, addr, "{{ $do }}", job, "{{ $name }}", "limitdb", "{{ $nodes }}", fmt.Sprint(stay),
			"{{ int $.Values.drainTimeout }}", fmt.Sprint(int(deadline.Seconds())), "/password/password", password).Replace(string(args[1])), ", ")
		if strings.Contains(strings.Join(*line, " "), "{{") {
			t.Fatalf("%q", *line)
		}
	}
	return drain, remove
}

// pods starts nodes as the chart does, named by their numbers, with certificates and a password.
func pods(t *testing.T, size int, args ...string) (nodes []*raftNode) {
	t.Helper()
	certs := t.TempDir()
	var names []string
	for i := range size {
		names = append(names, fmt.Sprint("limitdb-", i))
	}
	nodeCerts(t, certs, names...)
	for i, name := range names {
		n := member(t, certs, name)
		if n.password = clusterPassword; i == 0 {
			n.args = slices.Concat(n.args, []string{"--raft-bootstrap", "yes"}, args)
		} else {
			n.args = append(n.args, "--raft-join", nodes[0].Addr)
		}
		n.begin(t, t.TempDir())
		nodes = append(nodes, n)
		eventually(t, name+" is ready", func() bool { return get("http://"+n.HTTPAddr+"/readyz") != "" })
	}
	return nodes
}

// takers take from a key each through the nodes, until stop returns how often each was granted.
type takers struct {
	keys []string
	stop func() []int
}

const takersLimit = 1_000_000

func take(t *testing.T, keys []string, nodes ...*raftNode) takers {
	var ended atomic.Bool
	counts, done := make([]int, len(keys)), make(chan error, len(keys))
	for i, key := range keys {
		c := goredis.NewClient(&goredis.Options{Addr: nodes[i%len(nodes)].Addr, Password: clusterPassword, MaxRetries: -1, ReadTimeout: deadline})
		t.Cleanup(func() { _ = c.Close() })
		go func() {
			var err error
			for !ended.Load() && err == nil {
				if err = c.Do(context.Background(), "RL.TAKE", key, "FIXED", fmt.Sprint(takersLimit, "/365d"), "FIRST").Err(); err == nil {
					counts[i]++
				}
			}
			done <- err
		}()
	}
	return takers{keys, func() []int {
		ended.Store(true)
		for range keys {
			if err := <-done; err != nil {
				t.Errorf("a request was not answered: %v", err)
			}
		}
		return counts
	}}
}

// end stops the takers, and checks that what was granted is what a node counts.
func (l takers) end(t *testing.T, at *raftNode) {
	t.Helper()
	all := 0
	for i, n := range l.stop() {
		c := goredis.NewClient(&goredis.Options{Addr: at.Addr, Password: clusterPassword, ReadTimeout: deadline})
		v, err := c.Do(context.Background(), "RL.PEEK", l.keys[i], "FIXED", fmt.Sprint(takersLimit, "/365d"), "FIRST", "COST", 0).Slice()
		if _ = c.Close(); err != nil || v[2] != int64(takersLimit-n) {
			t.Errorf("%s was granted %d times, and has left: %v, %v", l.keys[i], n, v, err)
		}
		all += n
	}
	if t.Logf("%d granted", all); all == 0 {
		t.Error("nothing was granted")
	}
}

// A release with fewer nodes: the jobs of the chart drain those that go, while clients take, and remove them when they are gone. No decision is lost or
// counted twice. With LIMITDB_LONG, more leave, and when they come back with their directories they get their part.
func TestScaleDown(t *testing.T) {
	t.Parallel()
	groups, size := 2, 4
	if long() {
		groups, size = 4, 6
	}
	const stay = 3
	nodes := pods(t, size, "--raft-groups", fmt.Sprint(groups))
	for _, n := range nodes {
		groupsRest(t, n, groups, 3, false, nodes...)
	}
	drain, remove := chartJobs(t, stay, nodes[0].Addr)
	job := func(args []string, want ...string) {
		t.Helper()
		r := run(t, "", plainBinary(t), args...)
		for _, text := range want {
			if r.Code != 0 || !strings.Contains(r.Stdout, text) {
				t.Errorf("%q: want %q of %+v", args, text, r)
			}
		}
	}

	var keys []string
	for g := range groups {
		keys = append(keys, keyIn("a", g+1, groups))
	}
	load := take(t, keys, nodes[:stay]...)
	var drained, removed []string
	for _, n := range nodes[stay:] {
		drained = append(drained, "node "+n.id+" is drained")
		removed = append(removed, "node "+n.id+" is removed")
	}
	job(drain, drained...)
	for _, n := range nodes[stay:] {
		n.Stop()
	}
	job(remove, removed...)
	load.end(t, nodes[1])
	eventually(t, "all nodes that stay know it", func() bool {
		return !slices.ContainsFunc(nodes[:stay], func(n *raftNode) bool { return len(n.tableOf("RAFT", "NODES")) != stay })
	})
	job(drain, "there is nothing to drain")
	job(remove, "there is nothing to remove")

	if !long() {
		return
	}
	for _, n := range nodes[stay:] {
		n.restart(t)
	}
	for _, n := range nodes {
		eventually(t, n.id+" has replicas", func() bool {
			return slices.ContainsFunc(n.tableOf("RAFT", "NODES"), func(row map[string]string) bool {
				return row["id"] == nodes[size-1].id && row["draining"] == "0" && row["replicas"] != "0"
			})
		})
	}
}

// The same with one group: the nodes that go lose their votes first, and one that leads hands over.
func TestScaleDownOfOneGroup(t *testing.T) {
	t.Parallel()
	nodes := pods(t, 4)
	nodes[0].has(t, "voters", "4")
	const stay = 3
	drain, remove := chartJobs(t, stay, nodes[0].Addr)
	if r := run(t, "", "redis-cli", "-p", nodes[0].Port(), "--no-auth-warning", "-a", clusterPassword, "RAFT", "TRANSFER", nodes[3].id); r.Stdout != "OK\n" {
		t.Fatalf("%+v", r)
	}
	load := take(t, []string{"a"}, nodes[1])
	if r := run(t, "", plainBinary(t), drain...); r.Code != 0 || !strings.Contains(r.Stdout, "node limitdb-3 is drained") {
		t.Errorf("%+v", r)
	}
	nodes[0].has(t, "voters", "3", "members", "4")
	nodes[3].Stop()
	if r := run(t, "", plainBinary(t), remove...); r.Code != 0 || !strings.Contains(r.Stdout, "node limitdb-3 is removed") {
		t.Errorf("%+v", r)
	}
	load.end(t, nodes[2])
	nodes[0].has(t, "voters", "3", "members", "3")
	nodes[3].restart(t)
	nodes[0].has(t, "voters", "4", "members", "4")
}
