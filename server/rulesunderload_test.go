package server

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/rules"
)

// Rules and trees change while checks run, wait, and are counted. A check follows one version of them, so no caller ever gets more than the largest
// limit that there was, and what was used stays used.
func TestRulesChangeUnderLoad(t *testing.T) {
	const most, callers = 50, 8
	ts := newTestServer(t, "envoy-metrics yes", "recent-denials 100")
	var version atomic.Int64
	text := func(n int64) string { // the limits of the callers' rule and of the tree, and another rule before them
		limit := []int{most, most/2 + 1, most - 1}[n%3]
		more := strings.Repeat(fmt.Sprintf("{name: m%d, match: {m: x%d}, limit: 1/m}, ", n%5, n%2), int(n%2))
		return fmt.Sprintf(`{version: 1, namespaces: {
			n: [%[2]s{name: caller, key: [u], limit: fixed %[1]d/d}, {name: all, limit: 1000000/s, in_flight: 4, lease: 60s, mode: shadow}],
			t: {descriptors: [{key: u, rate_limit: {unit: day, requests_per_unit: %[1]d}}]}}}`, limit, more)
	}
	ts.rules.Source.Read = func() ([]byte, error) { return []byte(text(version.Load())), nil }
	ts.rules.Source.ReadDomains = func() ([]rules.File, error) {
		return []rules.File{{Name: "d.yaml", Text: fmt.Appendf(nil, "domain: d%d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]", version.Load()%2)}}, nil
	}
	if _, err := ts.rules.Reload(); err != nil {
		t.Fatal(err)
	}
	var granted, byTree [callers]atomic.Int64
	var over atomic.Bool
	var all sync.WaitGroup
	for range 2 {
		c := ts.client()
		all.Go(func() {
			for i := 0; !over.Load() || i < 1000; i++ {
				u := i % callers
				if v := c.do("RL.CHECK", "n", "1", "u", fmt.Sprint("u", u)); len(v.Elems) < 6 {
					t.Errorf("RL.CHECK: %s", line(v))
				} else if v.Elems[0].Int == 0 {
					granted[u].Add(1)
				}
				if v := c.do("RL.ENVOY", "t", "1", "1", "u", fmt.Sprint("u", u)); len(v.Elems) != 2 {
					t.Errorf("RL.ENVOY: %s", line(v))
				} else if v.Elems[0].Int == 0 {
					byTree[u].Add(1)
				}
				c.do("RL.ENVOY", "d1", "1", "1", "k", "v")
				if i%16 == 0 {
					c.raw("MULTI\r\nRL.CHECK n 1 m x1\r\nRL.ENVOY n 1 1 m x0\r\nEXEC\r\n")
				}
			}
		})
	}
	waits := ts.client()
	all.Go(func() { // what waits is asked again under other rules
		for i := 0; !over.Load() || i < 2; i++ {
			waits.raw(fmt.Sprintf("RL.CHECK n 1 u w%[1]d COST 20\r\nRL.CHECK n 1 u w%[1]d COST 20 WAIT 1h\r\n", i))
			for waits.s.pending != nil && !over.Load() {
				select {
				case <-waits.conn.woken:
					waits.s.Resume()
				case <-time.After(time.Millisecond):
				}
			}
		}
	})
	looks := ts.client()
	all.Go(func() {
		for now := ts.clock.Now(); !over.Load(); now += int64(time.Minute) {
			ts.rules.Look(now)
			ts.rules.Continue(ts.rules.Totals())
			_, _, _ = ts.rules.Figures(), ts.rules.Checks(), ts.rules.EnvoyLimits()
			for _, words := range []string{"RL.RULES STATS n", "RL.RULES HISTORY n caller", "RL.RULES EXPLAIN n 1 u u1", "RL.RULES GET n caller", "RL.TOP NS 3 RULE n/caller", "RL.DENIALS"} {
				if got := looks.later(strings.Fields(words)...); strings.HasPrefix(got, "-ERR internal") {
					t.Errorf("%s: %s", words, got)
				}
			}
		}
	})
	for n := range int64(100) {
		version.Store(n)
		if _, err := ts.rules.Reload(); err != nil {
			t.Error(err)
		}
	}
	over.Store(true)
	all.Wait()
	for u := range callers {
		if g, b := granted[u].Load(), byTree[u].Load(); g > most || g <= most/2 || b > most || b <= most/2 {
			t.Errorf("caller %d: %d checks and %d requests of Envoy were granted", u, g, b)
		}
	}
}
