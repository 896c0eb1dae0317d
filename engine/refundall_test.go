package engine

import (
	"testing"

	"pgregory.net/rapid"

	"limitdb/limit"
)

// A RefundAll that fails gives nothing back, also not to the keys before the one at fault.
func TestRefundAllIsAllOrNothing(t *testing.T) {
	e := New(Options{Shards: 8, Seed: 1})
	var d limit.Decision
	gcra, err := limit.Parse("GCRA 10/s")
	log, err2 := limit.Parse("LOG 10/s")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	for i, l := range []limit.Limit{gcra, gcra, log} {
		if err := e.Take(start, key(i), &l, 5, &d); err != nil {
			t.Fatal(err)
		}
	}
	keys, ds := [][]byte{key(0), key(1), key(2)}, make([]limit.Decision, 3)
	err = e.RefundAll(start, keys, []limit.Limit{gcra, gcra, gcra}, []int64{1, 2, 3}, ds)
	if err != ErrWrongType {
		t.Fatal(err)
	}
	for i, l := range []limit.Limit{gcra, gcra, log} {
		if err := e.Peek(start, key(i), &l, 1, &d); err != nil || d.Remaining != 4 {
			t.Errorf("key %d has %d left, %v", i, d.Remaining, err)
		}
	}
	if st := e.Stats(); st.Refunded != 0 {
		t.Errorf("%+v", st)
	}
}

// A RefundAll does to each key what Refund does, whatever the key holds and whoever waits for it.
func TestRefundAllIsAsManyRefunds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		one, all := New(Options{Shards: 8, Seed: 1}), New(Options{Shards: 8, Seed: 1})
		now := start
		if rapid.Bool().Draw(rt, "used up") {
			one.AssumeUsedUp(now)
			all.AssumeUsedUp(now)
		}
		refunds := uint64(0)
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			now += rapid.Int64Range(0, 2000).Draw(rt, "pass")
			n := rapid.IntRange(1, 4).Draw(rt, "keys")
			first := rapid.IntRange(0, len(stepLimits)-1).Draw(rt, "limit")
			keys, limits, costs := make([][]byte, n), make([]limit.Limit, n), make([]int64, n)
			for i := range n {
				at := (first + i) % len(stepLimits)
				keys[i], limits[i], costs[i] = key(at), stepLimits[at], rapid.Int64Range(0, 4).Draw(rt, "cost")
			}
			for _, e := range []*Engine{one, all} {
				for i := range n {
					w := &Waiter{Request: Request{Limit: limits[i], Cost: costs[i]}, Until: now + 1000, Owner: nobody{}}
					e.Ask(now, keys[i], w)
				}
			}
			want, got := make([]limit.Decision, n), make([]limit.Decision, n)
			for i := range n {
				if err := one.Refund(now, keys[i], &limits[i], costs[i], &want[i]); err != nil {
					rt.Fatal(err)
				}
			}
			if err := all.RefundAll(now, keys, limits, costs, got); err != nil || !equal(got, want) {
				rt.Fatalf("%+v, %v, want %+v", got, err, want)
			}
			one.Wake(now)
			all.Wake(now)
			a, b := one.Stats(), all.Stats()
			if refunds++; b.Refunded != refunds {
				rt.Fatalf("%d refunds counted, of %d", b.Refunded, refunds)
			}
			if b.Refunded = a.Refunded; a != b {
				rt.Fatalf("%+v, want %+v", b, a)
			}
		}
	})
}
