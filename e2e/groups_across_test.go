package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	gr "limitdb/groups"
	"limitdb/resp"
)

// keyIn returns a key that begins with a prefix and is of a group, the first of which is 1.
func keyIn(prefix string, group, groups int) string {
	for i := 0; ; i++ {
		key := prefix + strconv.Itoa(i)
		if gr.Of(resp.Slot([]byte(key)), groups) == group {
			return key
		}
	}
}

// timeless returns the text of a reply. Times, which are longer than 1000 ms or s, are all the same.
func timeless(v any) string {
	switch v := v.(type) {
	case []any:
		var texts []string
		for _, e := range v {
			texts = append(texts, timeless(e))
		}
		return "[" + strings.Join(texts, " ") + "]"
	case int64:
		if v > 1000 {
			return "+"
		}
	}
	return fmt.Sprint(v)
}

// acrossRules are rules for a caller, for all, and for what Envoy asks.
const acrossRules = `version: 1
namespaces:
  shop:
    - {name: user, key: [user], limit: gcra 10/365d}
    - {name: network, key: [net], limit: fixed 40/365d first}
    - {name: all, limit: gcra 150/365d}
  each: {descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 9}}, {key: route, rate_limit: {unit: year, requests_per_unit: 15}}]}
  whole: {all_or_none: true, descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 3}}, {key: route, rate_limit: {unit: year, requests_per_unit: 5}}]}
`

// Requests for limits of several groups are answered at every node as one server answers them.
func TestGroupsAcross(t *testing.T) {
	t.Parallel()
	const groups = 4
	nodes := startGroups(t, groups, 3)
	one := start(t, "--appendonly", "no")
	all := []string{one.Addr}
	for _, n := range nodes {
		all = append(all, n.Addr)
	}
	ctx := context.Background()
	var clients []*goredis.Client
	for _, addr := range all {
		c := goredis.NewClient(&goredis.Options{Addr: addr, ReadTimeout: deadline, MaxRetries: -1})
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	ask := func(at int, words []any) (got string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%q is answered", words), func() bool {
			v, err := clients[at].Do(ctx, words...).Result()
			if got = timeless(v); err != nil {
				got = err.Error()
			}
			return !strings.HasPrefix(got, "CLUSTERDOWN") && !strings.HasPrefix(got, "TRYAGAIN")
		})
		return got
	}
	same := func(at int, words ...any) {
		t.Helper()
		if got, want := ask(at, words), ask(0, words); got != want {
			t.Errorf("node %d: %q: %s, one server %s", at, words, got, want)
		}
	}
	for _, at := range []int{0, 2} {
		ask(at, []any{"RL.RULES", "LOAD", acrossRules})
	}
	for i, n := range nodes {
		eventually(t, n.id+" has the rules", func() bool {
			return ask(i+1, []any{"RL.RULES", "LIST", "shop"}) == ask(0, []any{"RL.RULES", "LIST", "shop"})
		})
	}
	key := func(prefix string, g int) string { return keyIn(prefix, 1+g%groups, groups) }
	for i := range 60 {
		at := 1 + i%len(nodes)
		same(at, "RL.TAKEALL", 4, key("a", 0), key("a", 1), key("a", 2), key("a", 3), "GCRA", "60/365d", "GCRA", "50/365d", "COST", 2, "FIXED", "40/365d", "FIRST", "FIXED", "90/365d", "FIRST", "COST", 3)
		same(at, "RL.TAKEALL", 2, key("b", i), key("c", i+1), "GCRA", "9/365d", "GCRA", "8/365d", "COST", 1+i%3)
		check := []any{"RL.CHECK", "shop", 2, "user", fmt.Sprint("u", i%7), "net", fmt.Sprint("n", i%3)}
		same(at, append(check, "EXPLAIN")...)
		same(at, check...)
		same(at, append(check, "COST", 3)...)
		same(at, append(check, "PEEK", "EXPLAIN")...)
		if i%4 == 0 {
			same(at, append(check, "REFUND")...)
		}
		same(at, "RL.ENVOY", "each", 2, 1, "user", fmt.Sprint("u", i%3), 1, "route", fmt.Sprint("r", i%5))
		same(at, "RL.ENVOY", "whole", 2, 1, "user", fmt.Sprint("u", i%3), 1, "route", fmt.Sprint("r", i%5))
	}
	attacked(t, nodes[0], attacksOnGroups(nodes[0].field(t, "raft_cluster")))
	for g := range groups { // nothing stays taken
		for _, prefix := range []string{"b", "c"} {
			same(1+g%len(nodes), "RL.PEEK", key(prefix, g), "GCRA", "9/365d", "COST", 0)
		}
	}
	cli := need(t, "redis-cli")
	for i, n := range nodes {
		r := run(t, "", cli, "-p", n.Port(), "RL.TAKEALL", "2", key(n.id, 0), key(n.id, 3), "GCRA", "9/365d", "GCRA", "7/365d", "COST", "3")
		if lines := strings.Fields(r.Stdout); r.Code != 0 || len(lines) != 12 || lines[0] != "0" || lines[4] != "8" || lines[9] != "4" {
			t.Errorf("redis-cli at node %d: %d, %q, %q", i+1, r.Code, r.Stdout, r.Stderr)
		}
	}
	for _, n := range nodes {
		if left := n.infoOf(t, "across_groups_left_taken"); left != 0 {
			t.Errorf("%s: %d parts were left taken", n.id, left)
		}
	}
}

// infoOf returns a figure of INFO.
func (n *raftNode) infoOf(t *testing.T, name string) int64 {
	t.Helper()
	for line := range strings.SplitSeq(n.ask(t, "INFO", "stats"), "\r\n") {
		if text, ok := strings.CutPrefix(line, name+":"); ok {
			v, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("INFO has no %s", name)
	return 0
}

// requester is a client that asks for limits of several groups until one of them is used up.
type requester struct {
	name                      string
	granted, unknown, denials atomic.Int64

	mu     sync.Mutex
	errors map[string]int // guarded by mu
}

// A node that leads parts of requests is killed while they run. No limit is exceeded, whoever has asked gets a clear error, and the nodes that are
// left go on.
func TestGroupsAcrossLoseANode(t *testing.T) {
	t.Parallel()
	const groups, most = 4, 900
	nodes := startGroups(t, groups, 3)
	nodes[0].ask(t, "RL.RULES", "LOAD", fmt.Sprintf("version: 1\nnamespaces: {n: [{name: own, key: [user], limit: gcra 100000/365d}, {name: all, limit: gcra %d/365d}]}\n", most))
	if got := nodes[0].ask(t, "ACL", "SETUSER", "operator", "on", ">secret"); got != "OK" {
		t.Error(got)
	}
	for _, n := range nodes {
		eventually(t, n.id+" has the rules", func() bool { return strings.Contains(n.ask(t, "RL.RULES", "LIST", "n"), "own") })
	}
	shared := keyIn("shared", 2, groups)
	limits := []any{"GCRA", "100000/365d", "GCRA", fmt.Sprint(most, "/365d"), "GCRA", "100000/365d"}
	var all sync.WaitGroup
	var takes, checks []*requester
	begin := func(to *[]*requester, n *raftNode, name string, words ...any) {
		a := &requester{name: name, errors: map[string]int{}}
		*to = append(*to, a)
		client := goredis.NewClient(&goredis.Options{Addr: n.Addr, ReadTimeout: deadline, MaxRetries: -1, DialerRetries: 1})
		t.Cleanup(func() { _ = client.Close() })
		dead := n.proc
		all.Go(func() { a.run(client, dead, words) })
	}
	own := func(name string) (string, string) { return keyIn(name, 1, groups), keyIn(name, 4, groups) }
	for _, n := range nodes {
		a, b := own("take-" + n.id + "-")
		begin(&takes, n, "take-"+n.id, append([]any{"RL.TAKEALL", 3, a, shared, b}, limits...)...)
		begin(&checks, n, "check-"+n.id, "RL.CHECK", "n", 1, "user", n.id)
	}
	granted := func(of []*requester) (sum int64) {
		for _, a := range of {
			sum += a.granted.Load()
		}
		return sum
	}
	t.Cleanup(func() {
		for _, a := range slices.Concat(takes, checks) {
			a.mu.Lock()
			t.Logf("%s: %d granted, %d denied, %d unknown, errors %v", a.name, a.granted.Load(), a.denials.Load(), a.unknown.Load(), a.errors)
			a.mu.Unlock()
		}
	})
	eventually(t, "requests run", func() bool { return granted(takes) >= most/6 && granted(checks) >= most/6 })
	lost := nodes[2]
	lost.Kill()
	t.Logf("killed: %d and %d of %d were granted", granted(takes), granted(checks), most)
	all.Wait()
	for _, of := range [][]*requester{takes, checks} {
		unknown := int64(0)
		for _, a := range of {
			unknown += a.unknown.Load()
			if a.denials.Load() == 0 && !strings.HasSuffix(a.name, lost.id) {
				t.Errorf("%s has not gone on to the end", a.name)
			}
			for text := range maps.Keys(a.errors) {
				if !strings.HasPrefix(text, "CLUSTERDOWN ") && !strings.HasPrefix(text, "UNKNOWNOUTCOME ") {
					t.Errorf("%s: %s", a.name, text)
				}
			}
		}
		left := int64(0)
		for _, n := range nodes[:2] {
			left += n.infoOf(t, "across_groups_left_taken")
		}
		if sum := granted(of); sum > most || sum+unknown+left < most {
			t.Errorf("%s and others: %d granted, %d unknown, %d left, of %d", of[0].name, sum, unknown, left, most)
		}
	}
	for _, a := range takes {
		for _, key := range []string{keyIn(a.name+"-", 1, groups), keyIn(a.name+"-", 4, groups)} {
			var allowed, limit, remaining int64
			if _, err := fmt.Sscanf(nodes[0].ask(t, "RL.PEEK", key, "GCRA", "100000/365d", "COST", "0"), "[%d %d %d", &allowed, &limit, &remaining); err != nil {
				t.Fatal(err)
			}
			left := nodes[0].infoOf(t, "across_groups_left_taken") + nodes[1].infoOf(t, "across_groups_left_taken")
			if used, sum := limit-remaining, a.granted.Load(); used < sum || used > sum+a.unknown.Load()+left {
				t.Errorf("%s: %d are used of %s, and %d were granted, %d unknown, %d left", a.name, used, key, sum, a.unknown.Load(), left)
			}
		}
	}

	// A node that starts again knows the users, which are with the rules, before any node leads group 0.
	for _, n := range nodes[:2] {
		n.Kill()
	}
	nodes[0].restart(t)
	if got := nodes[0].askOnce(t, "AUTH", "operator", "secret"); got != "OK" {
		t.Errorf("a user signs in after a restart without a leader: %s", got)
	}
}

// run asks until the request is denied, or the node is dead.
func (a *requester) run(client *goredis.Client, at *proc, words []any) {
	for a.denials.Load() == 0 {
		v, err := client.Do(context.Background(), words...).Slice()
		switch {
		case err == nil && v[0] == int64(0):
			a.granted.Add(1)
		case err == nil:
			a.denials.Add(1)
		case !answers(at.Addr): // the node was killed, with the request under way
			a.unknown.Add(1)
			return
		default:
			if strings.HasPrefix(err.Error(), "UNKNOWNOUTCOME ") {
				a.unknown.Add(1)
			}
			a.mu.Lock()
			a.errors[err.Error()]++
			a.mu.Unlock()
		}
	}
}
