package rules

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"limitdb/limit"
)

func TestLimitFrom(t *testing.T) {
	set := mustParse(t, `version: 1
namespaces:
  a:
    - {name: own, key: [user], limit: gcra 10/m, limit_from: quota, at_most: gcra 1000/m, candidate: 5/m, overrides: [{match: {user: vip}, limit: 9/s}]}
  b:
    - {name: burst, limit_from: quota, at_most: 1000/m, burst: 50, mode: shadow}
  c:
    - {name: day, limit_from: quota, at_most: fixed 1000 calendar day tz Europe/Berlin}
  d:
    - {name: log, limit_from: quota, at_most: log 65536/h}
    - {name: segments, limit_from: quota, at_most: segmented 100/m segments 6}
  e:
    - {name: nothing, limit: 5/m, limit_from: quota, at_most: 0/m}
`)
	for _, c := range []struct{ ns, fields, want string }{
		{"a", "user=u", "own: GCRA 10/m; own: candidate GCRA 5/m"},
		{"a", "user=u quota=500", "own: GCRA 500/m; own: candidate GCRA 5/m"},
		{"a", "user=u quota=2/h", "own: GCRA 2/h; own: candidate GCRA 5/m"},
		{"a", "user=u quota=2/10s", "own: GCRA 2/10s; own: candidate GCRA 5/m"},
		{"a", "user=u quota=1000", "own: GCRA 1000/m; own: candidate GCRA 5/m"},
		{"a", "user=u quota=1001", "own: GCRA 1000/m; own: candidate GCRA 5/m"},
		{"a", "user=u quota=17/s", "own: GCRA 1000/m; own: candidate GCRA 5/m"},
		{"a", "user=u quota=0", "own: GCRA 0/m; own: candidate GCRA 5/m"},
		{"a", "user=vip quota=500", "own: GCRA 9/s"},
		{"a", "quota=x", ""},
		{"b", "", "burst: shadow GCRA 1000/m BURST 50"},
		{"b", "quota=100", "burst: shadow GCRA 100/m BURST 50"},
		{"c", "", "day: FIXED 1000 CALENDAR DAY TZ Europe/Berlin"},
		{"c", "quota=999", "day: FIXED 999 CALENDAR DAY TZ Europe/Berlin"},
		{"c", "quota=1001", "day: FIXED 1000 CALENDAR DAY TZ Europe/Berlin"},
		{"d", "quota=7", "log: LOG 7/h; segments: SEGMENTED 7/m SEGMENTS 6"},
		{"e", "quota=7", "nothing: GCRA 0/m"},
		{"e", "", "nothing: GCRA 5/m"},
	} {
		if got := strings.Join(applied(match(t, set, c.ns, c.fields)), "; "); got != c.want {
			t.Errorf("%s %s: %s", c.ns, c.fields, got)
		}
	}
	for _, c := range []struct{ ns, value, want string }{
		{"a", "", `field "quota": the limit must be a count or a rate, such as 100 or 100/m, not ""`},
		{"a", "ten", `field "quota": the limit must be a count or a rate, such as 100 or 100/m, not "ten"`},
		{"a", "-1", `field "quota": the limit must be a count or a rate, such as 100 or 100/m, not "-1"`},
		{"a", "sliding 5/m", `field "quota": the limit must be a count or a rate, such as 100 or 100/m, not "sliding 5/m"`},
		{"a", "9223372036854775808/m", `field "quota": the limit must be a count or a rate, such as 100 or 100/m, not "9223372036854775808/m"`},
		{"a", strings.Repeat("1", 100), `field "quota": the limit must be a count or a rate, such as 100 or 100/m, not "1111111111111111111111111111111111111111111111111111111111111111"...`},
		{"a", strings.Repeat("1", 1<<20), `field "quota": the value has more than 8192 bytes`},
		{"a", "1/300y", `field "quota": the limit must be a count or a rate, such as 100 or 100/m, not "1/300y"`},
		{"a", "5/10600w", `field "quota": "5/10600w": out of range: the burst must be full again within 200 years`},
		{"c", "500/d", `field "quota": the limit must be a count, such as 100, for the period that at_most has, not "500/d"`},
		{"d", "5/m", `field "quota": the limit must be a count, such as 100, for the period that at_most has, not "5/m"`},
	} {
		if _, err := set.Query(c.ns, [][2]string{{"user", "u"}, {"quota", c.value}}, 1); err == nil || err.Error() != c.want {
			t.Errorf("%.50q: %v", c.value, err)
		}
	}
	if field, atMost := set.Rules()[1].LimitFrom(); field != "quota" || atMost != "GCRA 1000/m BURST 50" {
		t.Error(field, atMost)
	}
}

// The limit that a request brings is in the check's own memory; a copy has its own.
func TestLimitFromIsCopied(t *testing.T) {
	set := mustParse(t, "version: 1\nnamespaces: {a: [{name: x, limit_from: q, at_most: 9/s}, {name: y, limit_from: q, at_most: 3/s}, {name: z, limit: 1/s}]}")
	q := match(t, set, "a", "q=5")
	found := q.Found()
	q.Begin(set.Namespaces()[0])
	_ = q.Add([]byte("q"), []byte("2"))
	if err := q.Match(1); err != nil {
		t.Fatal(err)
	}
	same(t, applied(q), "x: GCRA 2/s", "y: GCRA 2/s", "z: GCRA 1/s")
	same(t, applied(&found), "x: GCRA 5/s", "y: GCRA 3/s", "z: GCRA 1/s")
}

func TestLimitFromAllocatesNothing(t *testing.T) {
	set := mustParse(t, "version: 1\nnamespaces: {a: [{name: x, limit_from: q, at_most: 900/s}, {name: y, limit_from: q, at_most: 3/s}]}")
	q := new(Query)
	ask := func() {
		q.Begin(set.Namespaces()[0])
		_ = q.Add(asBytes("q"), asBytes("500/m"))
		if err := q.Match(1); err != nil || len(q.Charges) != 2 {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(20, ask); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLimitFromIsBounded takes as much as it can under limits that requests bring, and never gets more in any time than at_most
// could give: its burst, and its rate.
func TestLimitFromIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		algorithm := rapid.SampledFrom([]string{"gcra", "token", "leaky", "fixed", "sliding", "log", "segmented"}).Draw(t, "algorithm")
		most := rapid.Int64Range(1, 20).Draw(t, "most")
		seconds := rapid.Int64Range(1, 5).Draw(t, "seconds")
		options := ""
		if algorithm == "token" && rapid.Bool().Draw(t, "interval") {
			options = "interval"
		}
		if algorithm == "segmented" {
			options = "segments 5"
		}
		set, err := Parse(fmt.Appendf(nil, "version: 1\nnamespaces: {a: [{name: x, limit_from: q, at_most: %s %d/%ds %s}]}", algorithm, most, seconds, options), nil)
		if err != nil {
			t.Fatal(err)
		}
		start := int64(1_600_000_000e9)
		now, total := start, int64(0)
		var l Ledger
		for range 100 {
			now += rapid.Int64Range(0, 2e9).Draw(t, "later")
			n, p := rapid.Int64Range(0, 40).Draw(t, "n"), rapid.Int64Range(1, 20).Draw(t, "p")
			if algorithm == "fixed" || algorithm == "log" || algorithm == "segmented" || strings.HasPrefix(options, "interval") {
				p = seconds
			}
			q, err := set.Query("a", [][2]string{{"q", fmt.Sprintf("%d/%ds", n, p)}}, 1)
			if err != nil {
				t.Fatal(err)
			}
			got := q.Charges[0].Limit
			if got.Max > most || got.Max*seconds*1e9 > most*got.Period {
				t.Fatalf("%d/%ds is %s", n, p, got)
			}
			for range 3 {
				a, err := l.Decide(now, q)
				if err != nil {
					t.Fatal(err)
				}
				if !a.Limited {
					total++
				}
			}
			// Two windows may meet within a period, and one more may have begun.
			if bound := most * ((now-start)/(seconds*1e9) + 2); total > bound {
				t.Fatalf("%d were admitted in %d ns, %s %d/%ds may admit %d", total, now-start, algorithm, most, seconds, bound)
			}
		}
	})
}

func TestVerdictOfLimitFrom(t *testing.T) {
	set := mustParse(t, "version: 1\nnamespaces: {a: [{name: x, limit: 10/m, limit_from: q, at_most: 100/m, weights: {p: {a: 2}}}]}")
	for _, c := range []struct{ fields, want string }{
		{"", "x: 0:GCRA 10/m"},
		{"q=50", "x: from limit_from q 0:GCRA 50/m"},
		{"q=500 p=a", `x: from at_most, as q is above it, weight 2 of p "a" 0:GCRA 100/m`},
	} {
		q := match(t, set, "a", c.fields)
		if v := q.Explain().Of(set.Rules()[0]); verdictText(q, &v) != c.want {
			t.Errorf("got  %s\nwant %s", verdictText(q, &v), c.want)
		}
	}
}

func TestBadLimitFrom(t *testing.T) {
	for _, c := range []struct{ rest, want string }{
		{"limit: 1/s, limit_from: ‸q", "limit_from needs at_most, the largest limit that a request may bring"},
		{"limit: 1/s, at_most: ‸2/s", "at_most is for the limit that a request brings: it needs limit_from"},
		{"limit_from: q, at_most: ‸2", `syntax error: period is missing after "2"`},
		{"limit: 1/s, limit_from: ‸q@, at_most: 2/s", `limit_from must be a letter, digit or _, then any of these or of . / -, at most 64 in all, not "q@"`},
		{"limit: sliding 1/s, limit_from: q, at_most: ‸2/s", "GCRA cannot read the state of SLIDING: at_most must have the algorithm of limit"},
		{"plan: {field: p, limit: api, default: free}, limit_from: ‸q, at_most: 2/s", "limit_from does not go with plan"},
		{"unlimited: ‸true, limit_from: q, at_most: 2/s", "unlimited does not go with limit, limit_from, in_flight, plan, burst, weights, overrides or candidate"},
		{"limit_from: q, at_most: ‸2/s burst 3, burst: 4", `"GCRA 2/s burst 3" has a BURST of its own`},
		{"limit_from: q, at_most: 2/s", ""},
		{"limit: fixed 1/s, limit_from: q, at_most: ‸fixed 2/m", "with FIXED, limit and at_most may differ only in their counts"},
		{"limit: fixed 1/s, limit_from: q, at_most: fixed 2/s", ""},
		{"limit: 1/s, limit_from: q, at_most: 2/m", ""},
		{"limit: fixed 1 calendar day tz Europe/Berlin, limit_from: q, at_most: fixed 2 calendar day tz Europe/Berlin", ""},
		{"limit: fixed 1 calendar day tz Europe/Berlin, limit_from: q, at_most: ‸fixed 2 calendar day", "with FIXED, limit and at_most may differ only in their counts"},
		{"overrides: [{match: {u: a}, ‸limit_from: q, limit: 1/s}], limit: 1/s", `an override has no field "limit_from"`},
	} {
		text, want := placed("version: 1\nplans: {free: {api: 1/s}}\nnamespaces:\n  a:\n    - {name: x, "+c.rest+"}", c.want)
		switch _, err := Parse([]byte(text), nil); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || err.Error() != want):
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestAbove(t *testing.T) {
	for _, c := range []struct {
		a, b, c, d int64
		want       bool
	}{{1, 1, 1, 1, false}, {2, 1, 1, 1, true}, {math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64 - 1, true}, {math.MaxInt64, 2, 2, math.MaxInt64, false}} {
		if above(c.a, c.b, c.c, c.d) != c.want {
			t.Errorf("%+v", c)
		}
	}
	if f := (limitFrom{atMost: terms{limit: limit.Limit{Max: math.MaxInt64, Period: math.MaxInt64}}}); f.bounds(math.MaxInt64, math.MaxInt64) || !f.bounds(math.MaxInt64, 1) {
		t.Error("the largest limit")
	}
}
