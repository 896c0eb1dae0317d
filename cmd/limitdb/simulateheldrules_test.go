package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"limitdb/config"
	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server"
	"limitdb/simulate"
)

// heldRules are rules of every kind that a held check may meet.
const heldRules = `
version: 1
plans:
  free: {tpm: 30/20s}
  pro: {tpm: 60/20s}
namespaces:
  llm:
    - {name: tokens, key: [tenant], limit: fixed 60/m first block 20s upto 40s, cost: tokens, weights: {kind: {k1: 2}}}
    - {name: plan, key: [tenant], plan: {field: plan, limit: tpm, default: free}, limit: sliding, cost: tokens}
    - {name: requests, key: [tenant, kind], limit: gcra 8/20s}
    - {name: flight, key: [tenant], in_flight: 4, lease: 30s}
    - {name: tried, key: [tenant], limit: log 40/20s, cost: tokens, mode: shadow}
    - {name: candidate, key: [kind], limit: gcra 200/m, candidate: fixed 100/m, cost: tokens}
`

// A real server is told the same checks, commits and times.
type checker struct {
	t     *testing.T
	clock *clock.Fake
	s     *server.Server
}

func newChecker(t *testing.T, text string, now int64) *checker {
	registry, settings := config.New()
	if err := registry.Load(config.Sources{}); err != nil {
		t.Fatal(err)
	}
	c := &checker{t: t, clock: clock.NewFake(now)}
	e := engine.New(engine.Options{})
	t.Cleanup(e.Close)
	c.s = server.New(server.Options{Settings: settings, Registry: registry, Engine: e, Clock: c.clock, Version: "test"})
	c.do("RL.RULES", "LOAD", text)
	return c
}

// do runs a command.
func (c *checker) do(words ...string) resp.Value {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	reply, err := c.s.Do(c.t.Context(), args...)
	if err != nil {
		c.t.Fatal(err)
	}
	v, err := resp.ReadReply(bufio.NewReader(bytes.NewReader(reply)), 1<<20)
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

// at goes to a time.
func (c *checker) at(now int64) { c.clock.Advance(time.Duration(now - c.clock.Now())) }

// heldCheck is a check of a random trace.
type heldCheck struct {
	simulate.Request
	id     string
	fields [][2]string
}

// What rules hold and settle in a replay is what a server makes of the same checks and commits: each is granted or denied alike, with as
// much left under each rule.
//
//test:norace
func TestSimulatedRulesHoldAsTheServer(t *testing.T) {
	set, err := rules.Parse([]byte(heldRules), nil)
	if err != nil {
		t.Fatal(err)
	}
	ns := set.Namespace([]byte("llm"))
	denied, granted := 0, 0
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		o := simulate.HoldOptions{TTL: []int64{2e9, 15e9}[seed%2], Returns: seed%4 > 1}
		now := int64(1.7e18)
		server, replay := newChecker(t, heldRules, now), simulate.NewRuleReplay(ns)
		if err := replay.Hold(o); err != nil {
			t.Fatal(err)
		}
		var commits []*heldCheck
		var query rules.Query
		settle := func(now int64) {
			slices.SortStableFunc(commits, func(a, b *heldCheck) int { return cmp.Compare(a.Time+a.Took, b.Time+b.Took) })
			for len(commits) > 0 && commits[0].Time+commits[0].Took <= now {
				q := commits[0]
				commits = commits[1:]
				server.at(q.Time + q.Took)
				v := server.do("RL.CHECK", "llm", "1", "tokens", strconv.FormatInt(q.Actual, 10), "COMMIT", q.id)
				if err := v.Err(); err != nil && !strings.HasPrefix(err.Error(), "NOHOLD") {
					t.Fatal(err)
				}
			}
		}
		for i := range 300 {
			now += 1 + r.Int64N(2e9)*r.Int64N(2)
			settle(now)
			cost := r.Int64N(12)
			q := &heldCheck{id: strconv.Itoa(i), fields: [][2]string{
				{"tenant", fmt.Sprint("t", r.IntN(2))}, {"kind", fmt.Sprint("k", r.IntN(3))}, {"plan", []string{"pro", "free"}[r.IntN(2)]}, {"tokens", strconv.FormatInt(cost, 10)},
			}}
			q.Time, q.Cost, q.Held, q.Actual = now, 1, true, -1
			if r.IntN(4) > 0 {
				q.Actual, q.Took = r.Int64N(20), 1+r.Int64N(5*o.TTL/2)
			}
			query.Begin(ns)
			words := []string{"RL.CHECK", "llm", "4"}
			for _, f := range q.fields {
				words = append(words, f[0], f[1])
				if err := query.Add([]byte(f[0]), []byte(f[1])); err != nil {
					t.Fatal(err)
				}
			}
			if err := query.Match(1); err != nil {
				t.Fatal(err)
			}
			server.at(now)
			words = append(words, "EXPLAIN", "HOLD", strconv.FormatInt(o.TTL/1e6, 10), "ID", q.id, "ONEXPIRE", map[bool]string{false: "keep", true: "return"}[o.Returns])
			v := server.do(words...)
			a, err := replay.Add(&query, &q.Request)
			if err != nil {
				t.Fatal(err)
			}
			at := fmt.Sprintf("seed %d, %+v, check %d", seed, o, i)
			if v.Err() != nil || len(v.Elems) < 7 || len(v.Elems[6].Elems) != len(a.Parts) {
				t.Fatalf("%s: %v, and the replay %+v", at, v, a)
			}
			for j, row := range v.Elems[6].Elems {
				d := row.Elems[4].Elems
				if p := &a.Parts[j]; p.Limited != (d[0].Int == 1) || p.Remaining != d[2].Int {
					t.Fatalf("%s: %s has %v, and the replay %+v", at, row.Elems[0].Text, d, *p)
				}
			}
			if a.Limited {
				denied++
				continue
			}
			if granted++; q.Actual >= 0 {
				commits = append(commits, q)
			}
		}
		settle(math.MaxInt64 / 2)
	}
	if denied < 100 || granted < 100 {
		t.Errorf("%d were denied, %d granted", denied, granted)
	}
}
