package limit

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawLongest draws a limit of a bucket up to the longest that is valid.
func drawLongest(t *rapid.T, a Algorithm) Limit {
	l := plain(a, rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, 1_000_000_000)).Draw(t, "max"),
		rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, MaxSpan)).Draw(t, "period"),
		rapid.Int64Range(1, MaxSpan).Draw(t, "burst"))
	if optionsOf[a]&optInterval != 0 {
		l.Interval = rapid.Bool().Draw(t, "interval")
	}
	for !l.Interval && !holds(l.Max, l.Period, interval(&l)) {
		l.Max /= 2
	}
	for l.Validate() != nil {
		l.Burst /= 2
	}
	// And the very last that is valid.
	for step := l.Burst / 2; step > 0; step /= 2 {
		if l.Burst += step; l.Burst > MaxSpan || l.Validate() != nil {
			l.Burst -= step
		}
	}
	return l
}

// TestValidBucketsNeverOverflow calls at any times up to the year 2062, in any
// order, with limits that change: every valid request gets an answer.
func TestValidBucketsNeverOverflow(t *testing.T) {
	const year2062 = 2_903_299_200 * second
	buckets := slices.DeleteFunc(Algorithms(), func(a Algorithm) bool { return !SameFamily(a.Kind(), GCRA.Kind()) })
	rapid.Check(t, func(t *rapid.T) {
		limits := make([]Limit, 3)
		for i := range limits {
			limits[i] = drawLongest(t, rapid.SampledFrom(buckets).Draw(t, "algorithm"))
		}
		var state []byte
		times := rapid.OneOf(rapid.Int64Range(0, year2062), rapid.Int64Range(year2062-1000, year2062))
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			l := &limits[rapid.IntRange(0, len(limits)-1).Draw(t, "limit")]
			now := times.Draw(t, "now")
			cost := rapid.OneOf(rapid.Int64Range(0, l.Burst), rapid.Just(l.Burst)).Draw(t, "cost")
			if _, err := peek(l, state, now, cost); err != nil {
				t.Fatalf("peek of %d at %d with %v: %v", cost, now, l, err)
			}
			ask := take
			if rapid.IntRange(0, 3).Draw(t, "refund") == 0 {
				ask = refund
			}
			next, _, err := ask(l, state, now, cost, nil)
			if err != nil {
				t.Fatalf("%d at %d with %v: %v", cost, now, l, err)
			}
			if next != nil {
				state = next
			}
		}
	})
}
