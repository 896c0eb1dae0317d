package engine

import "testing"

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
