package server

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"limitdb/limit"
	"limitdb/resp"
	"limitdb/rules"
)

// withRules starts a server with rules in force.
func withRules(t testing.TB, text string) *testServer {
	t.Helper()
	ts := newTestServer(t)
	if _, err := ts.rules.Load([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return ts
}

// shopRules is the file of docs/rules.md.
func shopRules(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../rules/testdata/shop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCheck(t *testing.T) {
	ts := withRules(t, shopRules(t))
	c := ts.client()
	c.steps(ts,
		// The rule with the least left answers, and all rules have taken.
		[2]string{"RL.CHECK shop 0", `[0 20000 19999 -1 1 "global"]`},
		[2]string{"RL.CHECK shop 2 user u1 path /cart", `[0 20 19 -1 1000 "user-api"]`},
		[2]string{"RL.CHECK shop 2 user u1 path /cart COST 19", `[0 20 0 -1 20000 "user-api"]`},
		[2]string{"RL.CHECK shop 2 path /cart user u1", `[1 20 0 1000 20000 "user-api"]`},
		[2]string{"RL.CHECK shop 2 user u1 path /other", `[0 20 19 -1 1000 "user-api"]`},
		// The day has counted 1 + 19 + 1; the denial took nothing.
		[2]string{"RL.CHECK shop 1 user u1 COST 0", `[0 1000 979 -1 34400000 "user-day"]`},
		[2]string{"RL.CHECK shop 1 user u1 COST 979 PEEK", `[0 1000 0 -1 34400000 "user-day"]`},
		[2]string{"RL.CHECK shop 1 user u1 COST 980", `[1 1000 979 34400000 34400000 "user-day"]`},
		[2]string{"RL.CHECK shop 1 user u1 COST 1001", `[1 1000 979 -1 34400000 "user-day"]`},
		[2]string{"RL.CHECK shop 2 user u1 path /cart REFUND COST 20", `[0 20 20 -1 0 "user-api"]`},
		[2]string{"RL.CHECK shop 1 user u1 COST 0", `[0 1000 999 -1 34400000 "user-day"]`},
		// Plans and overrides.
		[2]string{"RL.CHECK shop 3 user u2 path /cart plan pro", `[0 20 19 -1 100 "user-api"]`},
		[2]string{"RL.CHECK shop 2 user acme-batch path /cart", `[0 1000 999 -1 34400000 "user-day"]`},
		[2]string{"RL.CHECK shop 2 user healthcheck path /cart", `[0 1000 999 -1 34400000 "user-day"]`},
		// Candidates and shadow mode never deny.
		[2]string{"RL.CHECK shop 2 path /export/csv tenant t EXPLAIN", `[0 3 2 -1 1200000 "exports" [["global" "enforce" "GCRA 20000/s" 1 [0 20000 19994 -1 1]] ["exports" "enforce" "GCRA 3/h" 1 [0 3 2 -1 1200000]] ["exports" "candidate" "GCRA 10/h" 1 [0 10 9 -1 360000]]]]`},
		[2]string{"RL.CHECK shop 2 path /export/csv tenant t COST 3", `[1 3 2 1200000 1200000 "exports"]`},
		[2]string{"+1s", ""},
		[2]string{"RL.CHECK shop 2 path /login ip 2001:db8::1 COST 5", `[0 20000 19995 -1 1 "global"]`},
		[2]string{"RL.CHECK shop 2 path /login ip 2001:db8::2 EXPLAIN", `[0 20000 19994 -1 1 "global" [["global" "enforce" "GCRA 20000/s" 1 [0 20000 19994 -1 1]] ["login-ip" "shadow" "LOG 5/m" 1 [1 5 0 60000 60000]]]]`},
	)
}

func TestCheckWithoutLimits(t *testing.T) {
	ts := withRules(t, `{version: 1, namespaces: {a: [{name: x, match: {u: v}, limit: 1/s}, {name: y, key: [k], unlimited: true}, {name: s, key: [s], limit: 0/s, mode: shadow}], b: []}}`)
	ts.client().steps(ts,
		[2]string{"RL.CHECK a 0", `[0 -1 -1 -1 0 ""]`},
		[2]string{"RL.CHECK b 0 EXPLAIN", `[0 -1 -1 -1 0 "" []]`},
		[2]string{"RL.CHECK a 1 k 1", `[0 -1 -1 -1 0 "y"]`},
		[2]string{"RL.CHECK a 1 s 1", `[0 -1 -1 -1 0 ""]`},
		[2]string{"RL.CHECK c 0", `-NORULE no rules are in that namespace: "c"`},
		[2]string{"RL.CHECK A 0", `-NORULE no rules are in that namespace: "A"`},
	)
}

// TestCheckErrors checks that an error names the argument, and that nothing is taken.
func TestCheckErrors(t *testing.T) {
	ts := withRules(t, `{version: 1, namespaces: {a: [{name: all, limit: 10/s}, {name: x, key: [u], cost: c, limit: 5/s}]}}`)
	c := ts.client()
	for _, test := range []struct{ in, want string }{
		{"RL.CHECK a", "-ERR wrong number of arguments for 'rl.check' command"},
		{"RL.CHECK a x", `-ERR numfields must be an integer from 0 to 64: "x"`},
		{"RL.CHECK a -1", `-ERR numfields must be an integer from 0 to 64: "-1"`},
		{"RL.CHECK a 65" + strings.Repeat(" f v", 65), `-ERR numfields must be an integer from 0 to 64: "65"`},
		{"RL.CHECK a 1000" + strings.Repeat(" f v", 1000), `-ERR numfields must be an integer from 0 to 64: "1000"`},
		{"RL.CHECK a 2 u v", "-ERR numfields is 2: 4 words must follow, a name and a value for each field, not 2"},
		{"RL.CHECK a 1 u", "-ERR numfields is 1: 2 words must follow, a name and a value for each field, not 1"},
		{"RL.CHECK a 1 u v w", `-ERR unknown option "w" for RL.CHECK: is numfields right?`},
		{"RL.CHECK a 2 u v u v", `-ERR field "u": given twice`},
		{"RL.CHECK a 1 u " + strings.Repeat("x", rules.MaxValue+1), `-ERR field "u": the value has more than 8192 bytes`},
		{"RL.CHECK a 2 u v c -1", `-ERR field "c": the cost must be an integer from 0 to 9223372036854775807`},
		{"RL.CHECK a 0 COST", "-ERR syntax error: a value is missing after \"COST\""},
		{"RL.CHECK a 0 COST -1", "-ERR COST is negative"},
		{"RL.CHECK a 0 COST x", `-ERR COST must be an integer: "x"`},
		{"RL.CHECK a 0 COST 1 COST 1", `-ERR syntax error: COST is given twice`},
		{"RL.CHECK a 0 PEEK REFUND", `-ERR syntax error: "REFUND" is given twice, or with what excludes it`},
	} {
		got := line(c.do(strings.Fields(test.in)...))
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%.60s: got %s, want %s", test.in, got, test.want)
		}
	}
	c.steps(ts,
		[2]string{"RL.CHECK a 1 u v COST 0", `[0 5 5 -1 0 "x"]`},
		[2]string{"RL.CHECK a 2 u v c 9223372036854775807", `[1 5 5 -1 0 "x"]`}, // a denial, whatever the caller writes
		[2]string{"RL.CHECK a 0 COST 9223372036854775807", `[1 10 10 -1 0 "all"]`},
		[2]string{"DBSIZE", "0"})
}

// TestKeysOfRules checks that a client can read the keys of rules' callers, and can change them only by RL.RULES.
func TestKeysOfRules(t *testing.T) {
	ts := withRules(t, `{version: 1, namespaces: {a: [{name: x, key: [u], limit: 5/m, candidate: 9/m, overrides: [{match: {vip: 1}, limit: sliding 5/m}]}]}}`)
	c := ts.client()
	c.do("RL.CHECK", "a", "1", "u", "v")
	c.do("RL.CHECK", "a", "2", "u", "v", "vip", "1")
	keys := c.do("KEYS", "*").Elems
	if len(keys) != 3 {
		t.Fatalf("%d keys", len(keys))
	}
	for _, key := range keys {
		k := key.Text
		who, ok := rules.ParseKey([]byte(k))
		if !ok || who.Rule != "x" || who.Values[0] != "v" {
			t.Errorf("%q is %+v", k, who)
		}
		for _, words := range [][]string{
			{"RL.TAKE", k, "GCRA", "5/m"},
			{"RL.TAKE", k, "GCRA", "5/m", "REPLACE"},
			{"RL.REFUND", k, "GCRA", "5/m"},
			{"CL.THROTTLE", k, "1", "1", "1"},
			{"DEL", "other", k},
			{"RL.RESET", k},
			{"RL.LEASE", k, "1", "1s", "ID", "i"},
			{"RL.TAKEALL", "2", "other", k, "GCRA", "5/m", "GCRA", "5/m"},
		} {
			if got := line(c.do(words...)); got != "-"+errKeyOfRule {
				t.Errorf("%q: %s", words, got)
			}
		}
		if got := line(c.do("TYPE", k)); got != "gcra" && got != "sliding" {
			t.Errorf("TYPE is %s", got)
		}
		before := line(c.do("RL.INFO", k))
		c.do("SET", "s", "1")
		for _, words := range splitCommands(mutators, k) {
			for way, got := range map[string]string{"alone": line(c.do(words...)), "in a script": c.eval("return redis.call(unpack(ARGV))", append([]string{"1", "s"}, words...)...)} {
				if !strings.HasPrefix(got, "-"+errKeyOfRule) {
					t.Errorf("%q, %s: %s", words, way, got)
				}
			}
		}
		c.do("DEL", "s")
		if got := line(c.do("RL.INFO", k)); got != before {
			t.Errorf("%s has become %s", before, got)
		}
	}
	// In a pipeline, commands are recognized without being split.
	var pipeline []byte
	for range 5 {
		for _, k := range []string{"k", keys[0].Text} {
			pipeline = append(pipeline, encode("RL.TAKE", k, "GCRA", "5/m")...)
		}
	}
	if got := strings.Count(c.raw(string(pipeline)), errKeyOfRule); got != 5 {
		t.Errorf("%d of 5 are refused", got)
	}
	c.do("RL.RESET", "k")
	c.steps(ts,
		[2]string{"DBSIZE", "3"},
		[2]string{"RL.CHECK a 1 u v COST 0", `[0 5 4 -1 12000 "x"]`},
		[2]string{"RL.RULES INFO a x u v", `["algorithm" "gcra" "state" 1600000012000000000 "level" 12000000000 "resets_in" 12000 "memory" ` + memoryOf(c) + `]`},
		[2]string{"RL.RULES INFO a x u w", "nil"},
		[2]string{"RL.RULES INFO a y u w", "-NORULE there is no such rule"},
		[2]string{"RL.RULES RESET a x", "-ERR the rule's callers are identified by u: give all of these fields"},
		[2]string{"RL.RULES RESET a x u 1 u 2", `-ERR field "u": given twice`},
		[2]string{"RL.RULES RESET a x u", "-ERR give the fields of the rule's key, each with its value"},
		[2]string{"RL.RULES RESET b x u v", "-NORULE no rules are in that namespace"},
		[2]string{"RL.RULES RESET a x u w", "0"},
		[2]string{"RL.RULES RESET a x u v", "3"},
		[2]string{"DBSIZE", "0"},
	)
}

// memoryOf returns the last field of RL.RULES INFO, which depends on the table.
func memoryOf(c *testClient) string {
	e := c.do("RL.RULES", "INFO", "a", "x", "u", "v").Elems
	return strconv.FormatInt(e[len(e)-1].Int, 10)
}

// TestRuleCounters checks what each rule counts.
func TestRuleCounters(t *testing.T) {
	ts := withRules(t, `
version: 1
namespaces:
  a:
    - {name: both, limit: 10/h}
    - {name: hard, key: [u], limit: 5/h, candidate: 2/h}
    - {name: soft, key: [u], limit: 3/h, mode: shadow}
`)
	c := ts.client()
	for range 7 {
		c.do("RL.CHECK", "a", "1", "u", "v")
	}
	c.do("RL.CHECK", "a", "1", "u", "v", "PEEK")
	c.do("RL.CHECK", "a", "1", "u", "v", "COST", "0")
	c.do("RL.CHECK", "a", "1", "u", "v", "REFUND")
	if got, want := figures(ts), "both 5 0 0 0 0, hard 5 2 2 0 5, soft 3 1 0 4 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	got := line(c.do("RL.RULES", "STATS", "a"))
	if want := `["namespace" "a" "name" "hard" "mode" "enforce" "allowed" 5 "near_limit" 2 "limited" 2 "shadow_limited" 0 "candidate_limited" 5 "blocks" 0 "blocked" 0 "since" 1600000000 "namespace_allowed" 5 "namespace_limited" 2 "namespace_checks" 10 "namespace_p50_usec" 1 "namespace_p99_usec" 1]`; !strings.Contains(got, want) {
		t.Error(got)
	}
}

// TestRuleTotalsGoOn checks that the totals of rules go on after a restart, whatever has been counted before they are read,
// and that what the process itself has counted stays apart.
func TestRuleTotalsGoOn(t *testing.T) {
	const text = `{version: 1, namespaces: {a: [{name: x, limit: 5/h}, {name: y, limit: 9/h, mode: shadow}, {name: z, match: {f: g}, limit: 1/h}]}}`
	before, after := withRules(t, text), withRules(t, text)
	for range 7 {
		before.client().do("RL.CHECK", "a", "0")
	}
	totals := before.rules.Totals()
	if len(totals) != 2 {
		t.Error(totals) // z has counted nothing
	}
	after.clock.Advance(time.Hour)
	c := after.client()
	c.do("RL.CHECK", "a", "0")
	totals["a:gone"] = totals["a:x"]
	after.rules.Continue(totals)
	c.do("RL.CHECK", "a", "0")
	stats := line(c.do("RL.RULES", "STATS"))
	for _, want := range []string{
		`"name" "x" "mode" "enforce" "allowed" 6 "near_limit" 2 "limited" 2 "shadow_limited" 0 "candidate_limited" 0 "blocks" 0 "blocked" 0 "since" 1600000000 `,
		`"name" "y" "mode" "shadow" "allowed" 6 "near_limit" 0 "limited" 0 "shadow_limited" 0 "candidate_limited" 0 "blocks" 0 "blocked" 0 "since" 1600000000 `,
		`"name" "z" "mode" "enforce" "allowed" 0 "near_limit" 0 `,
	} {
		if !strings.Contains(stats, want) {
			t.Errorf("%s\nhas no %s", stats, want)
		}
	}
	if got := figures(after); !strings.HasPrefix(got, "x 2 0 0 0 0, y 2 ") {
		t.Error(got)
	}
	if _, err := after.rules.Load([]byte(strings.Replace(text, "name: x", "name: x2", 1))); err != nil {
		t.Fatal(err)
	}
	if got, want := line(c.do("RL.RULES", "STATS")), `"name" "x2" "mode" "enforce" "allowed" 0 "near_limit" 0 "limited" 0 "shadow_limited" 0 "candidate_limited" 0 "blocks" 0 "blocked" 0 "since" 1600003600 "namespace_allowed" 2 "namespace_limited" 0 "namespace_checks" 2 "namespace_p50_usec" 1 "namespace_p99_usec" 1]`; !strings.Contains(got, want) {
		t.Errorf("%s\nhas no %s", got, want)
	}
}

// The checks in a namespace are timed, however they come, but for those in a transaction. A namespace that stays keeps its
// times; there is a bound on how many have some.
func TestChecksAreTimed(t *testing.T) {
	text := "{version: 1, namespaces: {a: [{name: x, limit: 50/h}], b: [{name: x, limit: 1/h}]"
	ts := withRules(t, text+"}}")
	c := ts.client()
	var pipeline []byte
	for _, words := range []string{"a 0", "b 0", "a 0 PEEK", "b 0", "b 0 NOSUCH", "c 0", "a 0 WAIT 1s"} {
		pipeline = append(pipeline, encode(append([]string{"RL.CHECK"}, strings.Fields(words)...)...)...)
		pipeline = append(pipeline, encode("RL.TAKE", "k", "GCRA", "1/s")...)
	}
	c.raw(string(pipeline))
	c.steps(ts, [2]string{"MULTI", "OK"}, [2]string{"RL.CHECK a 0", "QUEUED"})
	c.do("EXEC")
	c.do("CONFIG", "SET", "slowlog-log-slower-than", "1")
	c.do("RL.CHECK", "b", "0") // is timed by itself
	if _, err := ts.Do(t.Context(), []byte("RL.CHECK"), []byte("a"), []byte("0")); err != nil {
		t.Fatal(err)
	}
	counts := func() (all []string) {
		for _, ns := range ts.rules.Checks() {
			all = append(all, fmt.Sprint(ns.Namespace, ns.Took.Count()))
		}
		return all
	}
	if got := fmt.Sprint(counts()); got != "[a5 b3]" {
		t.Error(got)
	}
	for i := range 120 {
		text += fmt.Sprintf(", n%d: [{name: x, limit: 1/h}]", i)
	}
	if _, err := ts.rules.Load([]byte(strings.Replace(text, "b:", "z:", 1) + "}}")); err != nil {
		t.Fatal(err)
	}
	if all := counts(); len(all) != 100 || all[0] != "a5" || all[1] != "z0" {
		t.Error(all)
	}
	c.do("RL.CHECK", "n119", "0")
	if got := line(c.do("RL.RULES", "STATS", "n119")); !strings.Contains(got, `"allowed" 1 `) || !strings.Contains(got, `"namespace_checks" 0 "namespace_p50_usec" 0 `) {
		t.Error(got)
	}
}

// figures are the counters of all rules: allowed, near, limited, shadow and candidate.
func figures(ts *testServer) string {
	var all []string
	for _, r := range ts.rules.Figures() {
		n := r.Counts
		all = append(all, fmt.Sprintf("%s %d %d %d %d %d", r.Rule.Name, n.Allowed, n.Near, n.Limited, n.ShadowLimited, n.CandidateLimited))
	}
	return strings.Join(all, ", ")
}

// TestReloadUnderLoad replaces the rules repeatedly while many goroutines check. No check may see half a
// set, no count may be lost, and a caller of rules that stay must be admitted exactly as often as the limit says.
func TestReloadUnderLoad(t *testing.T) {
	file := func(i int) string {
		return fmt.Sprintf(`
version: 1
namespaces:
  a:
    - {name: stays, key: [u], limit: 1000/d}
    - {name: changes, key: [u], limit: gcra %d/d burst 1000}
    - {name: gone%d, limit: 1000000/s}
`, 2000+i%2, i)
	}
	ts := withRules(t, file(0))
	var wg sync.WaitGroup
	var mu sync.Mutex
	allowed, limited := 0, 0
	words := bytes.Fields([]byte("RL.CHECK a 1 u v EXPLAIN"))
	for range 8 {
		wg.Go(func() {
			for range 500 {
				out, err := ts.Do(t.Context(), words...)
				a, bad := resp.ReadReply(bufio.NewReader(bytes.NewReader(out)), 1<<20)
				if err != nil || bad != nil || len(a.Elems) != 7 || len(a.Elems[6].Elems) != 3 {
					t.Errorf("%q, %v", out, err)
					return
				}
				mu.Lock()
				if a.Elems[0].Int == 1 {
					limited++
				} else {
					allowed++
				}
				mu.Unlock()
			}
		})
	}
	for i := range 200 {
		if _, err := ts.rules.Load([]byte(file(i + 1))); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if allowed != 1000 || limited != 3000 {
		t.Errorf("%d allowed, %d limited", allowed, limited)
	}
	if all := ts.rules.Checks()[0]; all.Allowed != 1000 || all.Limited != 3000 {
		t.Errorf("%d checks allowed, %d limited", all.Allowed, all.Limited)
	}
	for _, r := range ts.rules.Figures()[:2] {
		if r.Counts.Allowed != 1000 || r.Rule.Name == "stays" && r.Counts.Limited != 3000 {
			t.Errorf("%s counts %+v", r.Rule.Name, r.Counts)
		}
	}
}

// thousandRules is a file of 1000 rules, 5 of which apply to thousandCheck.
func thousandRules() string {
	var b strings.Builder
	b.WriteString("version: 1\nnamespaces:\n  n:\n    - {name: all, limit: 1000000/s}\n    - {name: user, key: [user], limit: 1000000/s}\n")
	for i := range 499 {
		fmt.Fprintf(&b, "    - {name: path%d, match: {method: POST, path: /v1/things/%d}, key: [user], limit: 1000000/s}\n", i, i)
		fmt.Fprintf(&b, "    - {name: glob%d, match: {path: /v1/things/%d*}, limit: 1000000/s}\n", i, i)
	}
	return b.String()
}

var thousandCheck = [...]string{"RL.CHECK", "n", "4", "method", "POST", "path", "/v1/things/17", "user", "u123456", "tenant", "t5"}

// TestCheckAllocatesNothing checks that a check under 5 of 1000 rules allocates nothing.
func TestCheckAllocatesNothing(t *testing.T) {
	ts := withRules(t, thousandRules())
	c := ts.client()
	words := encode(thousandCheck[:]...)
	c.s.Data(words)
	if n := testing.AllocsPerRun(100, func() { c.s.Data(words); c.conn.out = c.conn.out[:0] }); n > 0 && !raceDetector {
		t.Errorf("%v allocations", n)
	}
	if got := fmt.Sprint(c.do(append(thousandCheck[:], "EXPLAIN")...)); strings.Count(got, "enforce") != 5 {
		t.Error(got)
	}
}

// BenchmarkCheck checks under 5 of 1000 rules, and takes from one limit.
func BenchmarkCheck(b *testing.B) {
	ts := withRules(b, thousandRules())
	var words [][]byte
	for _, w := range thousandCheck {
		words = append(words, []byte(w))
	}
	c := ts.newCall(ts.group, testStart, resp.RESP2, words)
	c.cmd = ts.table.find(words[0])
	b.Run("5 of 1000 rules", func(b *testing.B) {
		b.ReportAllocs()
		for ; b.Loop(); c.Now += 900 { // all are granted, and no state expires
			c.Out = c.Out[:0]
			c.alone()
		}
	})
	l, _ := limit.Parse("gcra 60/m")
	var d limit.Decision
	b.Run("one take", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = ts.engine.TakeAt(0, testStart, words[1], &l, 1, &d)
		}
	})
}

// TestRaisesHelpAllRules checks that a raise helps a rule in shadow mode and a candidate as it helps a rule that enforces, by
// itself, in a transaction and in a script, and that the wait that EXPLAIN names is true.
func TestRaisesHelpAllRules(t *testing.T) {
	for _, way := range []string{"alone", "MULTI", "EVAL", "WAIT"} {
		for _, rule := range []string{"limit: %s", "limit: %s, mode: shadow", "limit: 10000/s, candidate: %s"} {
			ts := withRules(t, "{version: 1, namespaces: {a: [{name: x, key: [u], "+fmt.Sprintf(rule, "10/h")+"}]}}")
			c := ts.client()
			check := func() string {
				words := []string{"RL.CHECK", "a", "1", "u", "v", "EXPLAIN"}
				switch way {
				case "WAIT":
					words = append(words, "WAIT", "0")
				case "EVAL":
					words = append([]string{"EVAL", "return redis.call(unpack(ARGV))", "0"}, words...)
				case "MULTI":
					c.do("MULTI")
					c.do(words...)
					return line(c.do("EXEC"))
				}
				return line(c.do(words...))
			}
			for range 10 {
				check()
			}
			if _, err := ts.rules.Load([]byte("{version: 1, namespaces: {a: [{name: x, key: [u], " + fmt.Sprintf(rule, "1000/h burst 10") + "}]}}")); err != nil {
				t.Fatal(err)
			}
			const denied = "1 [1 10 0 3600 36000]"
			if got := check(); !strings.Contains(got, denied) {
				t.Errorf("%s, %s: %s", way, rule, got)
			}
			ts.clock.Advance(3600*time.Millisecond - 1)
			if got := check(); !strings.Contains(got, "1 [1 10 0 1 ") {
				t.Errorf("%s, %s, 1 ns early: %s", way, rule, got)
			}
			ts.clock.Advance(1)
			if got := check(); !strings.Contains(got, "1 [0 10 0 -1 36000]") {
				t.Errorf("%s, %s, after its wait: %s", way, rule, got)
			}
		}
	}
}

// A check that several rules in shadow mode and candidates would have limited is one, and one that was denied is none.
func TestShadowIsOfChecks(t *testing.T) {
	ts := withRules(t, `{version: 1, namespaces: {a: [{name: x, limit: 1/h, mode: shadow}, {name: y, limit: 2/h, mode: shadow}, {name: z, limit: 3/h, candidate: 1/h}]}}`)
	c := ts.client()
	for i, want := range []int{0, 1, 2, 2, 2} {
		if i == 4 { // as do a peek and a check in a transaction
			c.do("RL.CHECK", "a", "0", "PEEK")
			c.do("MULTI")
		}
		c.do("RL.CHECK", "a", "0")
		c.do("EXEC")
		if info := c.do("INFO", "limiter").Text; !strings.Contains(info, fmt.Sprintf("\r\ndecisions_shadow_limited:%d\r\n", want)) {
			_, got, _ := strings.Cut(info, "decisions_shadow_limited:")
			t.Errorf("check %d: %.3q, want %d", i, got, want)
		}
	}
}
