package engine

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"limitdb/limit"
)

// evictLimits returns a limit of each algorithm and of each option that changes the
// meaning of a state. All are 1000 in 1000 s.
func evictLimits() []limit.Limit {
	const period = 1000 * second
	l := func(a limit.Algorithm) limit.Limit {
		return limit.Limit{Algorithm: a, Max: 1000, Period: period, Burst: 1000}
	}
	first, interval, calendar, counting := l(limit.FIXED), l(limit.TOKEN), l(limit.FIXED), l(limit.FIXED)
	first.First, interval.Interval, counting.CountDenied = true, true, true
	calendar.Period, calendar.Calendar = 0, limit.Day
	segmented := l(limit.SEGMENTED)
	segmented.Segments = 10
	warm := l(limit.WARMUP)
	warm.Warm, warm.Cold = 100*second, 3
	return []limit.Limit{
		l(limit.GCRA), l(limit.TOKEN), interval, l(limit.LEAKY), l(limit.QUEUE), warm,
		l(limit.FIXED), first, calendar, counting, l(limit.SLIDING), segmented, l(limit.LOG),
	}
}

func TestEveryAlgorithmIsEvicted(t *testing.T) {
	limits := evictLimits()
	for _, a := range limit.Algorithms() {
		if !slices.ContainsFunc(limits, func(l limit.Limit) bool { return l.Algorithm == a }) {
			t.Errorf("no limit of %v", a)
		}
	}
}

// TestEvictionKeepsTheDenied sprays keys over those of callers that have used up
// their limits: none of them gets a fresh quota.
func TestEvictionKeepsTheDenied(t *testing.T) {
	for _, l := range evictLimits() {
		for _, how := range []string{"granted", "denied"} {
			t.Run(l.String()+" "+how, func(t *testing.T) {
				t.Parallel()
				testEviction(t, &l, how == "denied")
			})
		}
	}
}

func testEviction(t *testing.T, l *limit.Limit, denied bool) {
	const abusers, leases = 200, 50
	// All keys together need twice the budget, or more.
	sprayed, budget := 15_000, int64(256<<10)
	if os.Getenv("LIMITDB_LONG") != "" {
		sprayed, budget = 600_000, 12<<20
	}
	e := New(Options{Shards: 16})
	most := e.Stats().Bytes + budget
	e.SetMaxMemory(most, LeastDebt)
	name := func(i int) []byte { return fmt.Appendf(nil, "caller:%d", i) }
	lease := func(i int) (d limit.Decision) {
		r := limit.Lease{Limit: 1, TTL: 2000 * second, Weight: 1, ID: []byte{byte(i), 1}}
		if err := e.Lease(start, fmt.Appendf(nil, "lease:%d", i), &r, &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	for i := range abusers {
		cost := l.Max
		if l.Algorithm == limit.QUEUE {
			cost++
		}
		mustTake(t, e, start, name(i), l, cost)
		if d := mustTake(t, e, start, name(i), l, 0); d.Remaining != 0 {
			t.Fatalf("%+v", d)
		}
		if denied {
			if d := mustTake(t, e, start, name(i), l, 1); !d.Limited {
				t.Fatalf("%+v", d)
			}
		}
	}
	for i := range leases {
		lease(i)
	}
	step := int64(1)
	if l.Algorithm == limit.WARMUP {
		step = 1500 * second / 1000 / int64(sprayed) // each take has its caller denied for some seconds
	}
	for i := range sprayed {
		_, err := take(e, start+step*int64(i), fmt.Appendf(nil, "spray:%d", i), l, 1+int64(i%5))
		if err != nil && (err != ErrOOM || l.Algorithm != limit.WARMUP) {
			t.Fatal(err)
		}
		if b := e.Stats().Bytes; b > most+spanSize {
			t.Fatalf("%d bytes, %d allowed", b, most)
		}
	}
	now := start + step*int64(sprayed)
	for i := range abusers {
		if d, err := peek(e, now, name(i), l, 1); err != nil || !d.Limited {
			t.Fatalf("caller %d has a fresh quota: %+v, %v", i, d, err)
		}
	}
	for i := range leases {
		if _, there := e.Info(now, fmt.Appendf(nil, "lease:%d", i)); !there {
			t.Fatalf("lease %d was evicted", i)
		}
	}
	st := e.Stats()
	// All keys that WARMUP sprayed are denied, too: there is nobody to evict.
	if gone := max(st.Evicted, st.Refused); gone < uint64(sprayed/4) || st.EvictedDenied != 0 {
		t.Errorf("%+v", st)
	}
	e.check()
}

// When memory is made so small that even denied callers must go, those that are blocked go last, whatever is left of their limits.
func TestEvictionKeepsTheBlockedLongest(t *testing.T) {
	e := New(Options{Shards: 1})
	const denied, blocked = 3000, 300
	used := limit.Limit{Algorithm: limit.FIXED, Max: 1, Burst: 1, Period: 1000 * second}
	blocks := limit.Limit{Algorithm: limit.GCRA, Max: 1, Burst: 1, Period: second, Block: 3600 * second}
	for i := range denied + blocked {
		l := &used
		if i >= denied {
			l = &blocks
		}
		mustTake(t, e, start, key(i), l, 1)
		if d := mustTake(t, e, start, key(i), l, 1); !d.Limited {
			t.Fatalf("%+v", d)
		}
	}
	now := start + 2*second // nothing of the blocked callers' limits is in use any more
	left := func() (n int) {
		for i := range blocked {
			if _, there := e.Info(now, key(denied+i)); there {
				n++
			}
		}
		return n
	}
	for bytes := e.Stats().Bytes; ; bytes -= bytes / 50 {
		e.SetMaxMemory(bytes, LeastDebt)
		for range 20 {
			e.Sweep(now, 4000)
		}
		switch n, keys := left(), e.Stats().Keys; {
		case n < blocked && keys-int64(n) > denied/5: // a part of the table is a sample of all
			t.Fatalf("%d of %d blocked callers are left, beside %d denied ones", n, blocked, keys-int64(n))
		case n < blocked:
			e.check()
			return
		case bytes < 100:
			t.Fatal("the blocked callers stay")
		}
	}
}

// A step that finds no room for a long state leaves its buffer to the next one.
func TestLongStatesWithoutRoomAllocateNothing(t *testing.T) {
	e := New(Options{Shards: 1})
	l := limit.Limit{Algorithm: limit.LOG, Max: 65536, Period: 3600e9, Burst: 65536}
	now, key := start, key(1)
	var d limit.Decision
	for range 10_000 {
		now += 1e6
		if err := e.Take(now, key, &l, 1, &d); err != nil {
			t.Fatal(err)
		}
	}
	e.SetMaxMemory(1, NoEviction)
	refused := 0
	take := func() {
		now += 1e6
		if err := e.Take(now, key, &l, 1, &d); err == ErrOOM {
			refused++
		}
	}
	for range 10_000 { // until the box is full
		take()
	}
	allocs := allocations(100, take)
	if refused < 100 {
		t.Fatalf("%d refused", refused)
	}
	if allocs > 1 { // the slice's header
		t.Errorf("%v allocations", allocs)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		take()
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 100_000 {
		t.Errorf("100 refused steps allocate %d bytes", n)
	}
}
