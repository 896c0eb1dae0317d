package server

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"limitdb/rules"
)

// TestRulesCountDenials checks that a rule with COUNTDENIED decides as RL.TAKE does, whichever way the check comes, and
// that a rule in shadow mode and a candidate say what it would decide.
//
//test:norace
func TestRulesCountDenials(t *testing.T) {
	for _, limit := range []string{"FIXED 3/m COUNTDENIED", "SLIDING 3/m COUNTDENIED", "SEGMENTED 3/m SEGMENTS 4 COUNTDENIED", "LOG 3/m COUNTDENIED", "LOG 100/m COUNTDENIED"} {
		for _, way := range []string{"alone", "MULTI", "EVAL", "WAIT"} {
			for _, rule := range []string{"limit: %s", "limit: %s, mode: shadow", "limit: 10000/s, candidate: %s"} {
				ts := withRules(t, "{version: 1, namespaces: {a: [{name: x, key: [u], "+fmt.Sprintf(rule, limit)+"}]}}")
				c := ts.client()
				r := rand.New(rand.NewPCG(1, 2))
				for range 60 {
					ts.clock.Advance(time.Duration(r.IntN(12)) * time.Second)
					cost := strconv.Itoa(r.IntN(5))
					if strings.HasPrefix(limit, "LOG 100") {
						cost = strconv.Itoa(r.IntN(80))
					}
					words := []string{"RL.CHECK", "a", "1", "u", "v", "COST", cost, "EXPLAIN"}
					if r.IntN(6) == 0 {
						words = append(words, "PEEK")
					} else if way == "WAIT" {
						words = append(words, "WAIT", "0")
					}
					take := append(append([]string{map[bool]string{true: "RL.PEEK", false: "RL.TAKE"}[words[len(words)-1] == "PEEK"], "k"}, strings.Fields(limit)...), "COST", cost)
					got, want := "", line(c.do(take...))
					switch way {
					case "EVAL":
						got = line(c.do(append([]string{"EVAL", "return redis.call(unpack(ARGV))", "0"}, words...)...))
					case "MULTI":
						c.do("MULTI")
						c.do(words...)
						got = line(c.do("EXEC"))
					default:
						got = line(c.do(words...))
					}
					if !strings.Contains(got, cost+" "+want+"]") {
						t.Fatalf("%s, %s, %q: %s, want %s", way, rule, words, got, want)
					}
				}
			}
		}
	}
}

// TestLedgerDecidesAsTheServer makes the same checks of a server and of the ledger that simulations and tests of rules use,
// also after the rules have changed.
func TestLedgerDecidesAsTheServer(t *testing.T) {
	texts := []string{`version: 1
namespaces:
  a:
    - {name: hard, key: [u], limit: log 3/m countdenied, candidate: fixed 2/m countdenied}
    - {name: soft, key: [u], limit: sliding 4/m countdenied, mode: shadow}
    - {name: each, key: [u], limit: 4/h, candidate: 3/h}
    - {name: all, limit: fixed 9/m countdenied}
`, `version: 1
namespaces:
  a:
    - {name: hard, key: [u], limit: log 4/m countdenied, candidate: fixed 3/m countdenied}
    - {name: soft, key: [u], limit: sliding 5/s countdenied, mode: shadow}
    - {name: each, key: [u], limit: 400/h burst 4, candidate: 300/h burst 3}
    - {name: all, limit: 9/s}
`}
	ts := newTestServer(t)
	c := ts.client()
	var ledger rules.Ledger
	var set *rules.Set
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		if i%100 == 0 {
			text := []byte(texts[i/100%2])
			var err error
			if set, err = rules.Parse(text, nil); err != nil {
				t.Fatal(err)
			}
			if _, err = ts.rules.Load(text); err != nil {
				t.Fatal(err)
			}
		}
		ts.clock.Advance(time.Duration(r.IntN(20_000)) * time.Millisecond)
		user, cost := []string{"x", "y"}[r.IntN(2)], int64(r.IntN(4))
		var q rules.Query
		q.Begin(set.Namespace([]byte("a")))
		if err := q.Add([]byte("u"), []byte(user)); err != nil {
			t.Fatal(err)
		}
		if err := q.Match(cost); err != nil {
			t.Fatal(err)
		}
		a, err := ledger.Decide(ts.clock.Now(), &q)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{fmt.Sprintf("%t %d %d %q", a.Limited, a.Limit, a.Remaining, a.Rule)}
		for i := range q.Charges {
			want = append(want, fmt.Sprintf("%q %t %d %d", q.Charges[i].Rule.Name, a.Parts[i].Limited, a.Parts[i].Remaining, millis(a.Parts[i].Wait)))
		}
		reply := c.do("RL.CHECK", "a", "1", "u", user, "COST", strconv.FormatInt(cost, 10), "EXPLAIN").Elems
		got := []string{fmt.Sprintf("%t %d %d %q", reply[0].Int == 1, reply[1].Int, reply[2].Int, reply[5].Text)}
		for _, part := range reply[6].Elems {
			d := part.Elems[4].Elems
			got = append(got, fmt.Sprintf("%q %t %d %d", part.Elems[0].Text, d[0].Int == 1, d[2].Int, d[3].Int))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("check %d of %s, cost %d:\n got %s\nwant %s", i, user, cost, got, want)
		}
	}
}

// millis is a wait as replies have it.
func millis(ns int64) int64 {
	if ns < 0 {
		return ns
	}
	return (ns + 999_999) / 1_000_000
}
