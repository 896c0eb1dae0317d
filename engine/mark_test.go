package engine

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"limitdb/limit"
)

// TestBoundInAByte holds a bound that was kept to the one that was given: never
// more, and by a fifth less at most.
func TestBoundInAByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64Range(0, math.MaxInt64).Draw(t, "bound") >> rapid.IntRange(0, 62).Draw(t, "shift")
		got := (mark(boundCode(want)) << boundShift).bound()
		if got > want || want-got > want/5 {
			t.Fatalf("%d is kept as %d", want, got)
		}
	})
}

// TestRankTellsTheDenied compares ranks with what a decision says at any later
// time: whoever is denied, and was then, ranks as such; whoever was not, does not.
func TestRankTellsTheDenied(t *testing.T) {
	limits := evictLimits()
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom(limits).Draw(t, "limit")
		l.Max = rapid.Int64Range(1, 30).Draw(t, "max")
		l.Burst = l.Max
		if l.Algorithm == limit.GCRA || l.Algorithm == limit.TOKEN {
			l.Burst = rapid.Int64Range(1, 60).Draw(t, "burst")
		}
		e := New(Options{Shards: 1})
		now, was := start, false
		for range rapid.IntRange(1, 5).Draw(t, "takes") {
			now += rapid.Int64Range(0, 1500*second).Draw(t, "pause")
			cost := rapid.Int64Range(1, l.Burst).Draw(t, "cost")
			var d limit.Decision
			if err := e.Take(now, key(1), &l, cost, &d); err != nil {
				t.Fatal(err)
			}
			was = d.Limited || d.Remaining == 0
		}
		now += rapid.Int64Range(0, 1500*second).Draw(t, "wait")
		d, err := peek(e, now, key(1), &l, 1)
		if err != nil {
			t.Fatal(err)
		}
		tb := &e.shards[0].table
		sp := tb.spotOf(key(1))
		if sp.at == nil || tb.expires(sp.r) <= now {
			return
		}
		rank, ok := tb.rank(now, sp.r)
		if is := rank >= rankDenied; !ok || d.Limited && !is || !was && is {
			t.Fatalf("denied before: %v, now: %v; rank %x, mark %x", was, d.Limited, rank, sp.r.mark())
		}
	})
}

// TestRestoredKeysCountAsUsedUp has keys restored, whose limits nobody knows,
// outlive those that are known to be little used.
func TestRestoredKeysCountAsUsedUp(t *testing.T) {
	tb := newTableModel(1).t
	k := key(1)
	if err := tb.insert(start, &spot{h: tb.hash(k), key: k}, unknown(limit.FIXED.Kind()), fixedState10(t), true); err != nil {
		t.Fatal(err)
	}
	sp := tb.spotOf(k)
	if rank, ok := tb.rank(start, sp.r); !ok || rank < rankDenied {
		t.Errorf("rank %x, %v", rank, ok)
	}
}

// fixedState10 is a state of FIXED with 10 counted.
func fixedState10(t *testing.T) []byte {
	t.Helper()
	var d limit.Decision
	l := limit.Limit{Algorithm: limit.FIXED, Max: 1000, Burst: 1000, Period: 1000 * second}
	next, err := limit.Take(&l, nil, start, 10, nil, &d)
	if err != nil {
		t.Fatal(err)
	}
	return next
}
