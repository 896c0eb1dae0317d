package main

import (
	"strings"
	"testing"
	"time"

	"limitdb/dashboard"
	"limitdb/resp"
)

// number and list make replies.
func number(n int64) resp.Value           { return resp.Value{Kind: ':', Int: n} }
func word(s string) resp.Value            { return resp.Value{Kind: '$', Text: s} }
func list(elems ...resp.Value) resp.Value { return resp.Value{Kind: '*', Elems: elems} }
func numbers(all ...int64) (v resp.Value) {
	v.Kind = '*'
	for _, n := range all {
		v.Elems = append(v.Elems, number(n))
	}
	return v
}

func TestTopView(t *testing.T) {
	at := time.Unix(1_600_000_000, 0)
	sample := func(at time.Time, allowed, limited string, histogram ...resp.Value) *topSample {
		s := &topSample{at: at, times: map[int64]int64{}, info: map[string]string{
			"limitdb_version": "1.2.3", "role": "master", "uptime_in_seconds": "3700", "decisions_allowed": allowed, "decisions_limited": limited,
			"keys": "1508", "table_bytes": "2097152", "maxmemory": "1073741824", "expired_keys": "7", "evicted_keys": "0",
			"connected_clients": "3", "maxclients": "10000", "waiting": "2", "aof_enabled": "1", "aof_current_size": "4096", "aof_unsynced_age_ms": "12",
		}}
		s.addTimes(list(histogram...))
		return s
	}
	v := topView{address: "127.0.0.1:6379"}
	if got := v.text(80, 24); got != "limitdb top  127.0.0.1:6379\n" {
		t.Errorf("before the first sample: %q", got)
	}
	v.add(sample(at, "1000", "0", word("rl.take"), list(word("calls"), number(90), word("histogram_usec"), numbers(2, 90))))
	s := sample(at.Add(2*time.Second), "2500", "500",
		word("rl.take"), list(word("calls"), number(180), word("histogram_usec"), numbers(2, 170, 16, 180)),
		word("gcra"), list(word("calls"), number(10), word("histogram_usec"), numbers(4, 10)))
	s.denied = []topKey{{"user:1", 20}, {"\x1b[2J", 5}}
	v.add(s)
	want := `limitdb 1.2.3  127.0.0.1:6379  ready  up 1h1m40s

Decisions   1000/s   allowed 750   limited 250 (25.0 %)
            █
Time        median ≤ 2µs   99 % ≤ 16µs   99.9 % ≤ 16µs
Keys        1508   2.0 MB of 1.0 GB   7 expired   0 evicted
Clients     3 of 10000   2 waiting
Log         4.0 kB, oldest unsynced byte 12 ms

LIMITED MOST NOW
       20 ██████████ user:1
        5 ██         "\x1b[2J"
`
	if got := v.text(80, 24); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	rule := func(name, mode string, counts ...int64) resp.Value {
		v := list(word("namespace"), word("shop"), word("name"), word(name), word("mode"), word(mode))
		for i, figure := range []string{"allowed", "limited", "shadow_limited", "candidate_limited"} {
			v.Elems = append(v.Elems, word(figure), number(counts[i]))
		}
		return v
	}
	with := func(at time.Time, shadowed string, rules ...resp.Value) *topSample {
		s := sample(at, "2500", "500")
		s.info["raft_id"], s.info["raft_term"], s.info["raft_commit_index"], s.info["raft_applied_index"] = "n1", "3", "40", "38"
		s.denied = []topKey{{"\x00rlaAbc:shop:login:u1", 3}}
		s.info["decisions_shadow_limited"] = shadowed
		s.addRules(list(rules...))
		return s
	}
	v.add(with(at.Add(4*time.Second), "7", rule("global", "enforce", 10, 0, 0, 0), rule("login", "shadow", 10, 5, 0, 2), rule("gone", "enforce", 1, 1, 1, 1)))
	v.add(with(at.Add(6*time.Second), "15", rule("global", "enforce", 30, 0, 0, 0), rule("login", "shadow", 14, 5, 4, 4), rule("new", "off", 90, 90, 90, 90)))
	_, got, _ := strings.Cut(v.text(80, 24), "unsynced byte 12 ms\n")
	want = `Cluster     term 3   2 entries to apply

RULES                            MODE      ALLOWED/s  LIMITED/s   SHADOW/s
shop/login                       shadow            2          0          3
shop/global                      enforce          10          0          0
shop/new                         off               0          0          0

LIMITED MOST NOW
        3 ██████████ shop/login u1
`
	if got != want || !strings.Contains(v.text(80, 24), "limited 0 (0.0 %)   shadow 4\n") {
		t.Errorf("got:\n%s\nwant:\n%s", v.text(80, 24), want)
	}
	v.add(s)
	for line := range strings.Lines(v.text(30, 12)) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 30 {
			t.Errorf("%q has %d columns", line, n)
		}
	}
	if got := v.text(80, 12); strings.Contains(got, "x1b") || !strings.Contains(got, "user:1") {
		t.Errorf("12 lines: %s", got)
	}
}

// TestTopOfACluster checks that a node that follows shows the leader's figures, and each node the others.
func TestTopOfACluster(t *testing.T) {
	history := func(node string, samples ...resp.Value) resp.Value {
		return list(word("node"), word(node), word("time"), number(1), word("allowed"), number(50), word("limited"), number(9), word("maxmemory"), number(2048),
			word("maxclients"), number(100), word("p50_nsec"), number(1512), word("p99_nsec"), number(9000), word("samples"), list(samples...))
	}
	node := func(id, role, vote, state string, last, contact int64) resp.Value {
		return list(word("id"), word(id), word("role"), word(role), word("vote"), word(vote), word("state"), word(state), word("last-index"), number(last), word("last-contact-ms"), number(contact))
	}
	nodes := list(node("n1", "leader", "voter", "online", 90, 10), node("n2", "follower", "voter", "online", 87, 0),
		node("n3", "follower", "nonvoter", "unreachable", 5, 7000), node("\x1b[2J", "follower", "voter", "unreachable", -1, -1))
	const table = `            n1                   leads                   up to date
            n2 (this node)       follows                 3 entries behind
            n3                   follows, without a vote silent for 7s
            "\x1b[2J"            follows                 does not answer
`
	for _, tt := range []struct {
		name          string
		leader        string
		nodes         resp.Value
		history       resp.Value
		state         string
		figures, rest string
	}{
		{
			"follows", "h:1", nodes, history("n1", numbers(0, 1000, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9), numbers(1, 2000, 30, 10, 0, 0, 0, 0, 7, 1024, 4, 1)), "follows n1, whose figures these are",
			"Decisions   20/s   allowed 15   limited 5 (25.0 %)\n            █\nTime        median about 1.5µs   99 % about 9µs\nKeys        7   1.0 kB of 2.0 kB   0 expired   0 evicted\nClients     4 of 100   1 waiting\n",
			"Cluster     2 of 4 nodes   term 3   2 entries to apply\n" + table,
		},
		{"no second yet", "h:1", nodes, history("n1"), "follows n1, whose figures these are", "Decisions   0/s   allowed 0   limited 0 (0.0 %)\n", table},
		{"has just begun to lead", "h:1", nodes, history("n2"), "follows h:1", "Decisions   0/s   allowed 0   limited 0 (0.0 %)\n            ▁\nTime        no decisions\nKeys        0 ", table},
		{
			"no leader", "", list(node("n1", "follower", "voter", "unreachable", 90, 2000), node("n2", "follower", "voter", "online", 87, 0)),
			resp.Value{},
			"no node leads", "Decisions   0/s",
			"Cluster     1 of 2 nodes   term 3   2 entries to apply\n            n1                   follows                 silent for 2s\n            n2 (this node)       follows                 answers\n",
		},
	} {
		v := topView{address: "a"}
		for i := range int64(2) {
			s := &topSample{at: time.Unix(i, 0), info: map[string]string{
				"limitdb_version": "1", "role": "slave", "raft_id": "n2", "raft_leader": tt.leader, "raft_term": "3", "raft_commit_index": "40", "raft_applied_index": "38",
			}}
			s.nodes = dashboard.Nodes(tt.nodes, "n2")
			s.addHistory(tt.history)
			v.add(s)
		}
		got := v.text(120, 40)
		for _, want := range []string{"limitdb 1  a  " + tt.state + "  up ", tt.figures, tt.rest} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no\n%s\nin:\n%s", tt.name, want, got)
			}
		}
	}
}
