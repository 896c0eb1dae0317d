package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/simulate"
)

// heldRequest is a request of a random trace, and what a replay has made of it.
type heldRequest struct {
	simulate.Request
	id       []byte
	decision limit.Decision
}

// heldTrace returns a random trace of requests whose cost is known later, or never. Times differ.
func heldTrace(r *rand.Rand, n int, ttl int64) []heldRequest {
	now, all := int64(1.7e18), make([]heldRequest, n)
	for i := range all {
		now += 1 + r.Int64N(2e9)*r.Int64N(2)
		q := &all[i]
		q.Time, q.Key, q.Cost, q.Held, q.Actual = now, fmt.Append(nil, "caller", r.IntN(3)), 1+r.Int64N(5), true, -1
		q.id = fmt.Append(nil, i)
		if r.IntN(4) > 0 {
			q.Actual, q.Took = r.Int64N(9), 1+r.Int64N(5*ttl/2)
		}
	}
	return all
}

// What a replay holds and settles under a limit is what the engine makes of the same requests: each decision is the same, and so are the sums
// of what was held, went back and was charged beyond the limit.
//
//test:norace
func TestSimulatedHoldsAreThoseOfTheEngine(t *testing.T) {
	for _, text := range []string{
		"GCRA 10/10s", "GCRA 10/10s BURST 4", "LEAKY 100/m", "TOKEN 10/10s INTERVAL", "QUEUE 10/10s", "WARMUP 10/10s WARM 5s",
		"FIXED 10/10s", "FIXED 10/10s FIRST", "SLIDING 10/10s", "SEGMENTED 10/10s SEGMENTS 5", "LOG 10/10s",
		"GCRA 10/10s BLOCK 7s UPTO 9s", "FIXED 10/10s FIRST BLOCK 12s UPTO 14s", "SLIDING 10/10s BLOCK 3s",
		"SEGMENTED 10/10s SEGMENTS 5 BLOCK 12s UPTO 14s", "LOG 10/10s BLOCK 12s UPTO 14s", "QUEUE 10/10s BLOCK 1s UPTO 9s", "WARMUP 10/10s WARM 5s BLOCK 7s UPTO 9s",
	} {
		l, err := limit.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(12) {
			o := simulate.HoldOptions{TTL: []int64{1e9, 8e9}[seed%2], Returns: seed%4 > 1}
			all := heldTrace(rand.New(rand.NewPCG(seed, 0)), 400, o.TTL)
			r, err := simulate.NewReplay([]limit.Limit{l})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Hold(o); err != nil {
				t.Fatal(err)
			}
			for i := range all {
				all[i].decision = r.Add(&all[i].Request)[0]
			}
			r.Settle()
			got, want := *r.Result().Limits[0].Holds, heldByEngine(t, fmt.Sprintf("%s, seed %d, %+v", text, seed, o), &l, o, all)
			if got.Expired = 0; o.Returns { // the decisions tell what has gone back at the end of a time
				got.Returned, want.Returned = 0, 0
			}
			if got != want {
				t.Errorf("%s, seed %d, %+v: %+v, and the engine %+v", text, seed, o, got, want)
			}
		}
	}
}

// heldByEngine has the engine decide, hold and settle a trace, compares its decisions, and returns its sums.
func heldByEngine(t *testing.T, at string, l *limit.Limit, o simulate.HoldOptions, all []heldRequest) (sum simulate.Holds) {
	e := engine.New(engine.Options{Shards: 1})
	defer e.Close()
	var commits []*heldRequest
	settle := func(now int64) {
		slices.SortStableFunc(commits, func(a, b *heldRequest) int { return cmp.Compare(a.Time+a.Took, b.Time+b.Took) })
		for len(commits) > 0 && commits[0].Time+commits[0].Took <= now {
			q := commits[0]
			commits = commits[1:]
			var s engine.Settlement
			switch err := e.SettleAt(0, q.Time+q.Took, q.Key, q.id, q.Actual, &s); {
			case errors.Is(err, engine.ErrNoHold):
			case err != nil:
				t.Fatalf("%s: %v", at, err)
			default:
				sum.Over += uint64(s.Over)
				sum.Returned += uint64(max(0, -s.Charged))
			}
		}
	}
	for i := range all {
		q := &all[i]
		settle(q.Time)
		var d limit.Decision
		h := &engine.Hold{ID: q.id, TTL: o.TTL, Returns: o.Returns}
		if err := e.HoldAt(0, q.Time, q.Key, l, q.Cost, h, &d); err != nil || d != q.decision {
			t.Fatalf("%s: request %d: %+v, %v; the replay %+v", at, i, d, err, q.decision)
		}
		if d.Limited {
			continue
		}
		sum.Requests++
		if sum.Estimated += uint64(q.Cost); q.Actual >= 0 {
			commits = append(commits, q)
		}
	}
	settle(math.MaxInt64)
	return sum
}
