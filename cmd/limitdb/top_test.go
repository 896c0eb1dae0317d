package main

import (
	"strings"
	"testing"
	"time"

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
