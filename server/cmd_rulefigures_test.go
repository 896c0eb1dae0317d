package server

import (
	"fmt"
	"strings"
	"testing"

	"limitdb/resp"
)

// figuresOf renders a rule's figures as name=allowed/near/limited/shadow/candidate@since.
func figuresOf(v resp.Value) string {
	var out []string
	for _, e := range v.Elems {
		f := map[string]string{}
		for i := 0; i+1 < len(e.Elems); i += 2 {
			f[e.Elems[i].Text] = strings.Trim(line(e.Elems[i+1]), `"`)
		}
		out = append(out, fmt.Sprintf("%s=%s/%s/%s/%s/%s@%s", f["name"], f["allowed"], f["near_limit"], f["limited"], f["shadow_limited"], f["candidate_limited"], f["since"]))
	}
	return strings.Join(out, " ")
}

// Figures over a time are those of its minutes or hours, with the present one.
func TestRuleFiguresOverATime(t *testing.T) {
	ts := withRules(t, `
version: 1
plans: {free: {api: 2/m}}
namespaces:
  n:
    - {name: r, match: {path: /a*}, key: [user], plan: {field: plan, limit: api, default: free}, cost: units, candidate: 1/m, overrides: [{match: {user: z}, limit: 9/m}]}
    - {name: s, limit: 1/d, mode: shadow}
`)
	c := ts.client()
	later := func(d string) {
		c.steps(ts, [2]string{"+" + d, ""})
		ts.rules.Look(ts.clock.Now())
	}
	ask := func(n int) {
		for range n {
			c.do("RL.CHECK", "n", "2", "user", "u", "path", "/a")
		}
	}
	ask(3) // at 12:26:40
	later("1m")
	ask(1)
	later("10m")
	ask(3) // at 12:37:40
	for _, test := range []struct{ in, want string }{
		{"RL.RULES STATS", "r=5/2/2/0/4@1600000000 s=1/1/0/6/0@1600000000"},
		{"RL.RULES STATS OVER 1m", "r=2/1/1/0/2@1600000620 s=0/0/0/3/0@1600000620"},
		{"RL.RULES STATS n OVER 90s", "r=2/1/1/0/2@1600000560 s=0/0/0/3/0@1600000560"},
		{"RL.RULES STATS OVER 11m", "r=3/1/1/0/2@1600000020 s=0/0/0/4/0@1600000020"},
		{"RL.RULES STATS OVER 1h", "r=5/2/2/0/4@1599997080 s=1/1/0/6/0@1599997080"},
		{"RL.RULES STATS OVER 24h", "r=5/2/2/0/4@1599915600 s=1/1/0/6/0@1599915600"},
	} {
		if got := figuresOf(c.do(strings.Fields(test.in)...)); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.in, got, test.want)
		}
	}
	history := c.do("RL.RULES", "HISTORY", "n", "r").Elems
	if len(history) != 60 {
		t.Fatalf("%d minutes", len(history))
	}
	for i, want := range map[int]string{59: "[1600000620000 2 1 1 0 2 0 0]", 49: "[1600000020000 1 0 0 0 0 0 0]", 48: "[1599999960000 2 1 1 0 2 0 0]", 47: "[1599999900000 0 0 0 0 0 0 0]"} {
		if got := line(history[i]); got != want {
			t.Errorf("minute %d is %s, want %s", i, got, want)
		}
	}
	c.steps(ts,
		[2]string{"RL.RULES LIST n", `[["name" "r" "mode" "enforce" "limit" "api of the plan in plan" "key" ["user"] "candidate" "GCRA 1/m" "match" ["path" "/a*"] "except" [] "plans" ["free" "GCRA 2/m"] "overrides" 1 "cost" "units" "weights" [] "limit_from" "" "at_most" "" "in_flight" "" "shard_by" ""]` +
			` ["name" "s" "mode" "shadow" "limit" "GCRA 1/d" "key" [] "candidate" "" "match" [] "except" [] "plans" [] "overrides" 0 "cost" "" "weights" [] "limit_from" "" "at_most" "" "in_flight" "" "shard_by" ""]]`},
		[2]string{"RL.RULES STATS OVER 0", `-ERR OVER must be a time from 1m to 24h: "0"`},
		[2]string{"RL.RULES STATS OVER 59s", `-ERR OVER must be a time from 1m to 24h: "59s"`},
		[2]string{"RL.RULES STATS OVER 25h", `-ERR OVER must be a time from 1m to 24h: "25h"`},
		[2]string{"RL.RULES STATS OVER x", `-ERR OVER must be a time from 1m to 24h: "x"`},
		[2]string{"RL.RULES STATS OVER", `-NORULE no rules are in that namespace: "OVER"`},
		[2]string{"RL.RULES HISTORY n none", "-NORULE there is no such rule"},
		[2]string{"RL.RULES HISTORY none r", `-NORULE no rules are in that namespace: "none"`},
	)
}

// A rule that comes into force again begins anew; one that stays keeps its figures. Rules after the 1000th have none.
func TestRuleFiguresOfManyRules(t *testing.T) {
	text := func(first string) string {
		var b strings.Builder
		b.WriteString("version: 1\nnamespaces:\n  n:\n")
		fmt.Fprintf(&b, "    - {name: %s, limit: 5/m}\n", first)
		for i := range 1001 {
			fmt.Fprintf(&b, "    - {name: r%d, key: [f%d], limit: 5/m}\n", i, i)
		}
		return b.String()
	}
	ts := withRules(t, text("first"))
	c := ts.client()
	c.do("RL.CHECK", "n", "2", "f0", "a", "f1000", "a")
	if _, err := ts.rules.Load([]byte(text("other"))); err != nil {
		t.Fatal(err)
	}
	c.do("RL.CHECK", "n", "2", "f0", "a", "f1000", "a")
	ts.rules.Look(ts.clock.Now())
	got := strings.Fields(figuresOf(c.do("RL.RULES", "STATS", "n", "OVER", "1m")))
	if got[0] != "other=1/0/0/0/0@1599999960" || got[1] != "r0=2/0/0/0/0@1599999960" || got[1001] != "r1000=0/0/0/0/0@0" {
		t.Errorf("%s, %s, %s", got[0], got[1], got[1001])
	}
	if got := line(c.do("RL.RULES", "HISTORY", "n", "r1000")); got != "[]" {
		t.Errorf("%s", got)
	}
}

func TestTopOfARule(t *testing.T) {
	ts := withRules(t, `{version: 1, namespaces: {n: [{name: r, key: [u], limit: 1/m, candidate: 5/m}, {name: r2, key: [u], limit: 1/m}], m: [{name: r, key: [u], limit: 1/m}]}}`)
	c := ts.client()
	for range 3 {
		c.do("RL.CHECK", "n", "1", "u", "a")
		c.do("RL.CHECK", "m", "1", "u", "b")
	}
	c.do("RL.TAKE", "n:r:c", "GCRA", "0/m")
	for words, want := range map[string]string{
		"NS n RULE r": "n:r:a", "RULE r2 NS n": "n:r2:a", "NS m RULE r": "m:r:b", "NS n RULE none": "", "NS  RULE r": "",
	} {
		var keys []string
		for _, e := range c.do(append([]string{"RL.TOP"}, strings.Split(words, " ")...)...).Elems {
			_, key, _ := strings.Cut(e.Elems[0].Text, ":")
			keys = append(keys, key)
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
	c.steps(ts,
		[2]string{"RL.TOP RULE r", "-ERR RULE needs NS, the namespace of the rule"},
		[2]string{"RL.TOP NS n RULE", "-ERR syntax error: a value is missing after \"RULE\""})
	if got := line(c.do("RL.TOP", "NS", "n", "RULE", "")); got != "-ERR RULE must be the name of a rule" {
		t.Error(got)
	}
}

// The blocks of a rule are counted beside its denials: those that began, and what they denied.
func TestBlocksOfRulesAreCounted(t *testing.T) {
	ts := withRules(t, `{version: 1, namespaces: {n: [{name: r, key: [u], limit: fixed 2/h, block: 10m, candidate: fixed 1/h}, {name: s, limit: fixed 3/h block 5m, mode: shadow}, {name: w, key: [other], limit: fixed 1/h}]}}`)
	c := ts.client()
	blocks := func(words ...string) (out []string) {
		for _, e := range c.do(append([]string{"RL.RULES", "STATS"}, words...)...).Elems {
			f := map[string]int64{}
			for i := 0; i+1 < len(e.Elems); i += 2 {
				f[e.Elems[i].Text] = e.Elems[i+1].Int
			}
			out = append(out, fmt.Sprintf("%d/%d/%d", f["limited"]+f["shadow_limited"], f["blocks"], f["blocked"]))
		}
		return out
	}
	ask := func(n int, words string) {
		for range n {
			c.do(strings.Fields("RL.CHECK n " + words)...)
		}
	}
	ask(5, "1 u a")            // the third begins a block
	ask(2, "1 u a PEEK")       // which counts nothing
	ask(1, "1 u a COST 0")     // nor does this
	ask(3, "2 u b other x")    // w denies two of them, and has no block
	ask(1, "2 u c other none") // s has begun its block at its fourth request, which w denied
	if got, want := strings.Join(blocks(), " "), "3/1/2 3/1/2 2/0/0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	c.steps(ts, [2]string{"+10m", ""})
	ts.rules.Look(ts.clock.Now())
	c.steps(ts, [2]string{"MULTI", "OK"}, [2]string{"RL.CHECK n 1 u a", "QUEUED"}, [2]string{"RL.CHECK n 1 u a", "QUEUED"})
	c.do("EXEC")
	if got, want := strings.Join(blocks("OVER", "1m"), " "), "2/1/1 2/1/1 0/0/0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := strings.Join(blocks(), " "), "5/2/3 5/2/3 2/0/0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	minutes := c.do("RL.RULES", "HISTORY", "n", "r").Elems
	if got, want := line(minutes[len(minutes)-1])[14:], "0 0 2 0 2 1 1]"; !strings.HasSuffix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// The blocks of a tree's limits are counted as those of rules are, whether its limits take by themselves or together.
func TestBlocksOfTreesAreCounted(t *testing.T) {
	const descriptors = `[{key: u, rate_limit: {unit: hour, requests_per_unit: 2, algorithm: fixed block 10m}},
		{key: s, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 3, algorithm: gcra block 5m}}, {key: w, rate_limit: {unit: hour, requests_per_unit: 1}}, {key: f, rate_limit: {unlimited: true}}]`
	ts := withRules(t, `{version: 1, namespaces: {each: {descriptors: `+descriptors+`}, all: {all_or_none: true, descriptors: `+descriptors+`}}}`)
	c := ts.client()
	for domain, want := range map[string]string{
		"each": "5/1/4 4/1/3 0/0/0 0/0/0",
		"all":  "5/1/4 1/1/0 0/0/0 0/0/0", // a denied request takes nothing from the other limits, and does not look at those in shadow mode
	} {
		ask := func(n int, words string) {
			for range n {
				if v := c.do(strings.Fields("RL.ENVOY " + domain + " " + words)...); v.Err() != nil {
					t.Fatal(v.Err())
				}
			}
		}
		ask(5, "2 1 u a 1 s a") // the third begins a block of the one and the fourth of the other, if it takes
		ask(2, "1 1 u a HITS 0")
		ask(2, "1 1 u a REFUND")
		ask(1, "3 1 u a 1 u a 1 f x")
		ask(2, "1 1 s a")
		var got []string
		for _, e := range c.do("RL.RULES", "STATS", domain).Elems {
			f := fieldsOf(e)
			got = append(got, fmt.Sprintf("%d/%d/%d", f["limited"].Int+f["shadow_limited"].Int, f["blocks"].Int, f["blocked"].Int))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s, want %s", domain, text, want)
		}
	}
}
