package rules

import (
	"slices"
	"strings"
	"testing"

	"limitdb/limit"
)

// TestShop looks at each rule of the design's example.
func TestShop(t *testing.T) {
	s := shop(t)
	global := "global: GCRA 20000/s"
	for _, c := range []struct {
		fields string
		want   []string
	}{
		{"", []string{global}},
		{"method=POST path=/checkout", []string{global, "checkout: SLIDING 500/s"}},
		{"method=GET path=/checkout", []string{global}},
		{"user=u1 path=/x", []string{global, "user-api: GCRA 60/m BURST 20", "user-day: FIXED 1000 CALENDAR DAY TZ Europe/Berlin"}},
		{"user=u1 path=/x plan=pro", []string{global, "user-api: GCRA 600/m BURST 20", "user-day: FIXED 50000 CALENDAR DAY TZ Europe/Berlin"}},
		{"user=u1 path=/x plan=gone", []string{global, "user-api: GCRA 60/m BURST 20", "user-day: FIXED 1000 CALENDAR DAY TZ Europe/Berlin"}},
		{"user=acme-batch path=/x", []string{global, "user-api: GCRA 5000/m", "user-day: FIXED 1000 CALENDAR DAY TZ Europe/Berlin"}},
		{"user=healthcheck path=/x", []string{global, "user-day: FIXED 1000 CALENDAR DAY TZ Europe/Berlin"}},
		{"path=/login ip=192.0.2.1", []string{global, "login-ip: shadow LOG 5/m"}},
		{"path=/export/csv tenant=t1", []string{global, "exports: GCRA 3/h", "exports: candidate GCRA 10/h"}},
		{"path=/export tenant=t1", []string{global}},
	} {
		q := match(t, s, "shop", c.fields)
		t.Run(c.fields, func(t *testing.T) { same(t, applied(q), c.want...) })
	}
	if q := match(t, s, "shop", "user=healthcheck path=/x"); len(q.Unlimited) != 1 || q.Unlimited[0].Name != "user-api" {
		t.Errorf("Unlimited is %v", q.Unlimited)
	}
	if s.Namespace([]byte("Shop")) != nil {
		t.Error("names are compared in any case")
	}
}

// TestExclusive checks that only the first match of a group applies, beside the rules outside it.
func TestExclusive(t *testing.T) {
	s := mustParse(t, `
version: 1
namespaces:
  a:
    - {name: all, limit: 100/s}
    - exclusive: true
      rules:
        - {name: partner, match: {tier: partner}, unlimited: true}
        - {name: tested, match: {path: /beta*}, limit: 5/s, mode: off}
        - {name: watched, match: {path: /b*}, limit: 6/s, mode: shadow}
        - {name: rest, limit: 10/s}
    - {name: last, limit: 7/s}
    - exclusive: true
      rules: [{name: second, key: [user], limit: 8/s}, {name: third, limit: 9/s}]
`)
	same(t, applied(match(t, s, "a", "path=/x")), "all: GCRA 100/s", "rest: GCRA 10/s", "last: GCRA 7/s", "third: GCRA 9/s")
	same(t, applied(match(t, s, "a", "path=/beta")), "all: GCRA 100/s", "watched: shadow GCRA 6/s", "last: GCRA 7/s", "third: GCRA 9/s")
	same(t, applied(match(t, s, "a", "path=/x tier=partner user=u")), "all: GCRA 100/s", "last: GCRA 7/s", "second: GCRA 8/s")
}

// TestLimitsOfPlans has every way in which a rule and a plan make a limit.
func TestLimitsOfPlans(t *testing.T) {
	for _, c := range []struct{ limit, rate, want string }{
		{"", "60/m", "GCRA 60/m BURST 7"},
		{"", "60/m burst 3", "GCRA 60/m BURST 3"},
		{"", "token 60/m", "TOKEN 60/m BURST 7"},
		{"", "60 60000", "GCRA 60/m BURST 7"},
		{"leaky", "60/m", "LEAKY 60/m BURST 7"},
		{"token interval", "60/m", "TOKEN 60/m BURST 7 INTERVAL"},
		{"", "unlimited", "unlimited"},
		{"leaky", "Unlimited", "unlimited"},
		{"gcra 5/s", "60/m", `the rule's limit "gcra 5/s" has a rate: with a plan, the plan has it`},
		{"leaky", "gcra 60/m", `both the rule's limit "leaky" and the plan's "gcra 60/m" name an algorithm`},
	} {
		got := ofPlan(c.limit, c.rate, "7")
		if got != c.want {
			t.Errorf("limit %q, plan %q: %s, want %s", c.limit, c.rate, got, c.want)
		}
	}
	for _, c := range []struct{ limit, rate, want string }{
		{"fixed calendar day", "1000/d", "FIXED 1000 CALENDAR DAY"},
		{"fixed calendar day", "1000/1D", "FIXED 1000 CALENDAR DAY"},
		{"fixed calendar day", "1000", "FIXED 1000 CALENDAR DAY"},
		{"fixed calendar month tz Asia/Tokyo", "1000", "FIXED 1000 CALENDAR MONTH TZ Asia/Tokyo"},
		{"fixed calendar day", "1000/h", `"1000/h" does not fit calendar day: write 1000`},
		{"fixed calendar day", "1000/2d", `"1000/2d" does not fit calendar day: write 1000`},
		{"fixed calendar month", "1000/d", `"1000/d" does not fit calendar month: write 1000`},
		{"fixed calendar day tz Mars/Olympus", "1000/d", `unknown time zone: "Mars/Olympus"`},
		{"sliding", "1000", `syntax error: period is missing after "1000"`},
		{"fixed first", "10/m countdenied", "FIXED 10/m FIRST COUNTDENIED"},
	} {
		if got := ofPlan(c.limit, c.rate, ""); got != c.want {
			t.Errorf("limit %q, plan %q: %s, want %s", c.limit, c.rate, got, c.want)
		}
	}
}

func ofPlan(template, rate, burst string) string {
	l, err := parsePlan(rate, template, "GCRA", beside{burst: burst}, nil)
	if err != nil {
		return err.Error()
	}
	return l.String()
}

// TestCost says what a field with the cost means.
func TestCost(t *testing.T) {
	s := mustParse(t, `{version: 1, namespaces: {a: [{name: n, limit: 10/s}, {name: t, cost: tokens, limit: 100/s}]}}`)
	for _, c := range []struct {
		value      string
		cost       int64
		none, want int64
	}{
		{"-", 3, 3, 3}, {"50", 3, 3, 50}, {"0", 3, 3, 0}, {"9223372036854775807", 3, 3, 9223372036854775807}, {"50", 0, 0, 0},
	} {
		var q Query
		q.Begin(s.Namespace([]byte("a")))
		if c.value != "-" {
			_ = q.Add([]byte("tokens"), []byte(c.value))
		}
		if err := q.Match(c.cost); err != nil || q.Charges[0].Cost != c.none || q.Charges[1].Cost != c.want {
			t.Errorf("tokens %s, COST %d: %v, %v", c.value, c.cost, q.Charges, err)
		}
	}
	for _, bad := range []string{"", "-1", "+1", "1.5", "x", "9223372036854775808", "99999999999999999999", strings.Repeat("0", 20)} {
		var q Query
		q.Begin(s.Namespace([]byte("a")))
		_ = q.Add([]byte("tokens"), []byte(bad))
		if err := q.Match(1); err == nil || err.Error() != `field "tokens": `+ErrFieldCost.Error() {
			t.Errorf("tokens %q: %v", bad, err)
		}
	}
}

// TestFields checks the fields of a check.
func TestFields(t *testing.T) {
	s := mustParse(t, `{version: 1, namespaces: {a: [{name: n, key: [user], limit: 10/s}]}}`)
	same(t, applied(match(t, s, "a", "User=x")))
	same(t, applied(match(t, s, "a", "user=")), "n: GCRA 10/s")
	var q Query
	q.Begin(s.Namespace([]byte("a")))
	if err := q.Add([]byte("user"), make([]byte, MaxValue+1)); err == nil || err.Error() != `field "user": the value has more than 8192 bytes` {
		t.Error(err)
	}
	_ = q.Add([]byte("user"), nil)
	if err := q.Add([]byte("user"), nil); err == nil || err.Error() != `field "user": given twice` {
		t.Error(err)
	}
}

// TestTooManyCharges checks the bound on what applies to one check.
func TestTooManyCharges(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\nnamespaces:\n  a:\n")
	for i := range MaxCharges + 1 {
		b.WriteString("    - {name: r" + strings.Repeat("x", i%60) + string(rune('a'+i/60)) + ", limit: 1/s}\n")
	}
	var q Query
	q.Begin(mustParse(t, b.String()).Namespace([]byte("a")))
	if err := q.Match(1); err != ErrTooMany {
		t.Error(err)
	}
}

// TestDiff checks what a reload reports.
func TestDiff(t *testing.T) {
	before := mustParse(t, `{version: 1, namespaces: {a: [{name: x, limit: 1/s}, {name: y, limit: 1/s}, {name: z, cost: c, limit: 1/s}]}}`)
	after := mustParse(t, `{version: 1, namespaces: {b: [{name: x, limit: 1/s}], a: [{name: w, key: [k], limit: 1/s}, {name: z, cost: c, limit: gcra 1 1000}, {name: y, limit: 2/s}]}}`)
	c := Diff(before, after)
	same(t, c.Added, "b/x", "a/w")
	same(t, c.Removed, "a/x")
	same(t, c.Changed, "a/y")
	same(t, c.Restarted)
	if c.Same != 1 || before.Sum() == after.Sum() || Diff(nil, after).Same != 0 {
		t.Error(c)
	}
	if again := mustParse(t, "# other layout\n"+string(before.Text())); again.Sum() != before.Sum() {
		t.Error("the sum depends on the layout")
	}
}

// TestRestarted says which changes of a rule give its callers a full limit: those that give them another key.
func TestRestarted(t *testing.T) {
	file := func(ns string) *Set {
		return mustParse(t, `{version: 1, plans: {p: {l: 4/s, m: log 4/s}, q: {l: 5/s, m: fixed 5/s}}, namespaces: {a: `+ns+`}}`)
	}
	const x = "{name: x, key: [u, v], limit: 1/s}, {name: y, limit: 1/s}"
	before := file("[" + x + "]")
	for ns, want := range map[string]string{
		"[{name: x, key: [u, v], limit: token 9/m}, {name: y, limit: 1/s, mode: shadow}]": "",
		"{rules: [" + x + "]}":                                                                                      "",
		"{shard_by: w, rules: [" + x + "]}":                                                                         "",
		"{shard_by: u, rules: [" + x + "]}":                                                                         "a/x",
		"{shard_by: v, rules: [" + x + "]}":                                                                         "a/x",
		"[{name: x, key: [v, u], limit: 1/s}, {name: y, key: [u], limit: 1/s}]":                                     "a/x a/y",
		"[{name: x, key: [u, v], ip_field: u, ipv4_prefix: 24, limit: 1/s}, {name: y, limit: 1/s}]":                 "a/x",
		"[{name: x, key: [u, v], limit: sliding 1/s}, {name: y, limit: 2/s}]":                                       "a/x",
		"[{name: x, key: [u, v], limit: 1/s, candidate: sliding 1/s}, {name: y, unlimited: true}]":                  "",
		"[{name: x, key: [u, v], plan: {field: p, limit: l, default: p}}, {name: y, limit: 1/s}]":                   "",
		"[{name: x, key: [u, v], plan: {field: p, limit: m, default: p}}, {name: y, limit: 1/s}]":                   "a/x",
		"[{name: x, key: [u, v], overrides: [{match: {u: a}, limit: log 1/s}], limit: 1/s}, {name: y, limit: 1/s}]": "",
		"[{name: x, key: [u, v], limit_from: q, at_most: 5/s}, {name: y, plan: {field: p, limit: l, default: q}}]":  "",
	} {
		after := file(ns)
		c := Diff(before, after)
		if got := strings.Join(c.Restarted, " "); got != want {
			t.Errorf("%s: %q, want %q", ns, got, want)
		}
		if strings.Contains(ns, "shard_by") && len(c.Changed) != len(c.Restarted) {
			t.Errorf("%s: %q has changed", ns, c.Changed)
		}
		if back := Diff(after, before); strings.Contains(ns, "shard_by") && !slices.Equal(back.Restarted, c.Restarted) {
			t.Errorf("%s: back, %q", ns, back.Restarted)
		}
	}
}

// TestSlashes checks that rules whose paths look the same are not taken for one another.
func TestSlashes(t *testing.T) {
	before := mustParse(t, `{version: 1, namespaces: {a: [{name: b/c, limit: 1/s}], a/b: [{name: c, limit: 2/s}]}}`)
	after := mustParse(t, `{version: 1, namespaces: {a: [{name: b/c, limit: 1/s}]}}`)
	if c := Diff(before, before); c.Same != 2 {
		t.Errorf("no change: %+v", c)
	}
	if c := Diff(before, after); c.Same != 1 || len(c.Removed) != 1 || len(c.Changed) != 0 {
		t.Errorf("a rule less: %+v", c)
	}
	if before.Rules()[0].ID() == before.Rules()[1].ID() {
		t.Error("two rules have one ID")
	}
}

// TestChangedGroups checks that a rule has changed if other rules of its group come first now.
func TestChangedGroups(t *testing.T) {
	rule := func(name string) string { return "{name: " + name + ", match: {f: " + name + "}, limit: 1/s}" }
	group := func(names ...string) string {
		text := "{exclusive: true, rules: ["
		for _, n := range names {
			text += rule(n) + ", "
		}
		return text + "]}"
	}
	before := mustParse(t, "version: 1\nnamespaces: {a: ["+group("p", "q")+", "+group("r", "s")+"]}")
	for entries, want := range map[string]string{
		group("p", "q") + ", " + group("r", "s"):              "",
		group("p", "q", "r", "s"):                             "a/r",
		group("q", "p") + ", " + group("r", "s"):              "a/q a/p",
		group("p", "q") + ", " + rule("r") + ", " + rule("s"): "a/s",
	} {
		after := mustParse(t, "version: 1\nnamespaces: {a: ["+entries+"]}")
		c := Diff(before, after)
		if got := strings.Join(c.Changed, " "); got != want || (before.Sum() == after.Sum()) != (want == "") || len(c.Added)+len(c.Removed) > 0 {
			t.Errorf("%s: %s, want %s", entries, got, want)
		}
	}
	if empty := mustParse(t, string(before.Text())[:len(before.Text())-1]+", b: []}"); empty.Sum() == before.Sum() {
		t.Error("a namespace without rules has the checksum of none")
	}
}

// TestSums says what changes the sum of a file, which the nodes of a cluster compare. Its parts are all that a rule can have.
func TestSums(t *testing.T) {
	plans := "p: {l: 4/s}, o: {l: 5/s}"
	seen := map[[32]byte]string{}
	for _, entries := range []string{
		"",
		"{name: n, limit: 1/s}",
		"{name: n, limit: token 1/s}",
		"{name: n, limit: 1/s, burst: 2}",
		"{name: n, limit: 1/s, block: 2s}",
		"{name: n, limit: 1/s, mode: shadow}",
		"{name: n, limit: 1/s, candidate: 2/s}",
		"{name: n, limit: 1/s, cost: c}",
		"{name: n, limit: 1/s, match: {k: v}}",
		"{name: n, limit: 1/s, match: {k: w}}",
		"{name: n, limit: 1/s, match: {l: v}}",
		"{name: n, limit: 1/s, key: [k]}",
		"{name: n, limit: 1/s, key: [k, l]}",
		"{name: n, limit: 1/s, key: [l, k]}",
		"{name: n, limit: 1/s, key: [k, l], ip_field: k, ipv4_prefix: 24}",
		"{name: n, limit: 1/s, key: [k, l], ip_field: l, ipv4_prefix: 24}",
		"{name: n, limit: 1/s, key: [k, l], ip_field: l, ipv4_prefix: 25}",
		"{name: n, limit: 1/s, key: [k, l], ip_field: l, ipv6_prefix: 24}",
		"{name: n, unlimited: true}",
		"{name: n, plan: {field: k, limit: l, default: p}}",
		"{name: n, plan: {field: k, limit: l, default: o}}",
		"{name: n, plan: {field: l, limit: l, default: p}}",
		"{name: n, limit: 1/s, match: {k: v*}, overrides: [{match: {k: vw, l: a}, limit: 2/s}]}",
		"{name: n, limit: 1/s, overrides: [{match: {k: v}, unlimited: true}]}",
		"{name: n, limit: 1/s, overrides: [{match: {k: v}, limit: 2/s}]}",
		"{name: n, limit: 1/s, overrides: [{match: {k: w}, limit: 2/s}]}",
		"{name: n, key: [k], limit: 1/s}, {name: o, key: [l], limit: 1/s}, {name: p, limit: 1/s}",
		"{exclusive: true, rules: [{name: n, key: [k], limit: 1/s}, {name: o, key: [l], limit: 1/s}]}, {exclusive: true, rules: [{name: p, limit: 1/s}]}",
		"{exclusive: true, rules: [{name: n, key: [k], limit: 1/s}]}, {exclusive: true, rules: [{name: o, key: [l], limit: 1/s}, {name: p, limit: 1/s}]}",
		"{exclusive: true, rules: [{name: o, key: [l], limit: 1/s}, {name: n, key: [k], limit: 1/s}]}, {exclusive: true, rules: [{name: p, limit: 1/s}]}",
		"p: {l: 6/s}, o: {l: 5/s}; {name: n, plan: {field: k, limit: l, default: p}}",
		"p: {l: 4/s}, o: {l: 6/s}; {name: n, plan: {field: k, limit: l, default: p}}",
		"p: {l: 4/s}, o: {l: 5/s}, q: {l: 5/s}; {name: n, plan: {field: k, limit: l, default: p}}",
	} {
		own, rule, found := strings.Cut(entries, "; ")
		if !found {
			own, rule = plans, entries
		}
		if s := mustParse(t, "{version: 1, plans: {"+own+"}, namespaces: {a: ["+rule+"]}}").Sum(); seen[s] != "" {
			t.Errorf("%s\nhas the sum of\n%s", entries, seen[s])
		} else {
			seen[s] = entries
		}
	}
}

// TestDecidingRule says which of two decisions answers a check.
func TestDecidingRule(t *testing.T) {
	d := func(limited bool, remaining, wait int64) limit.Decision {
		return limit.Decision{Limited: limited, Remaining: remaining, Wait: wait}
	}
	ranks := []limit.Decision{ // each decides rather than those behind it
		d(true, 5, limit.Never), d(true, 0, 2), d(true, 0, 1), d(false, 0, 0), d(false, 1, 7), d(false, 2, 0),
	}
	for i := range ranks {
		for j := range ranks {
			if got := outranks(&ranks[i], &ranks[j]); got != (i < j) {
				t.Errorf("%+v outranks %+v: %v", ranks[i], ranks[j], got)
			}
		}
	}
}
