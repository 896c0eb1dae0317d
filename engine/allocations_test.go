package engine

import (
	"testing"

	"limitdb/limit"
)

// allocations returns how many allocations a call of fn makes on average, rounded down. AllocsPerRun counts
// those of all goroutines, and on a busy machine the collector, which empties pools and cleans up after the
// engines of earlier tests, may run in one count. What fn itself allocates is in every count, so the least of
// some counts is taken.
func allocations(runs int, fn func()) float64 {
	least := testing.AllocsPerRun(runs, fn)
	for n := 1; n < 5 && least > 0; n++ {
		least = min(least, testing.AllocsPerRun(runs, fn))
	}
	return least
}

// A LOG that is full of requests that come and go is changed in its place.
func TestLongLogsAllocateNothing(t *testing.T) {
	l := logLimit(500)
	each := l.Period/500 + 1
	e, now, k := New(Options{}), start, key(1)
	var d limit.Decision
	take := func() {
		now += each
		if err := e.Take(now, k, l, 1, &d); err != nil || d.Limited {
			t.Fatal(d, err)
		}
	}
	for range 1000 {
		take()
	}
	if n := allocations(100, take); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
