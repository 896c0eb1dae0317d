package stats

import (
	"testing"

	"pgregory.net/rapid"
)

// A window agrees with a list of all that was counted.
func TestRuleWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const start = 1_600_000_000 * int64(1e9)
		now, sum := start, Rule{Allowed: 5}
		w := NewRuleWindow(now, sum)
		type event struct {
			minute int64
			r      Rule
		}
		var all []event
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			// Between two looks, all is counted in the minute in which it is: look before each.
			now += rapid.SampledFrom([]int64{0, 1e9, minute, 7 * minute, 61 * minute, 600 * minute}).Draw(t, "later")
			w.Look(now, sum)
			r := Rule{Allowed: rapid.Uint64Range(0, 9).Draw(t, "allowed"), Limited: rapid.Uint64Range(0, 9).Draw(t, "limited")}
			sum = sum.combine(r, func(a, b uint64) uint64 { return a + b })
			all = append(all, event{now / minute, r})
		}
		n := rapid.SampledFrom([]int64{1, 2, 5, 59, 60, 61, 120, 121, 1440, 9999}).Draw(t, "minutes")
		got, since := w.Over(now, sum, n)
		var want Rule
		for _, e := range all {
			if e.minute*minute >= since {
				want = want.combine(e.r, func(a, b uint64) uint64 { return a + b })
			}
		}
		if got != want {
			t.Fatalf("over %d minutes: %+v, want %+v", n, got, want)
		}
		covers := now/minute - since/minute + 1
		if n <= 60 && covers != n || n > 60 && (covers < min(n, 1440)-59 || covers > n+60) {
			t.Fatalf("over %d minutes covers %d", n, covers)
		}
		minutes := w.Minutes(now, sum)
		for _, m := range minutes {
			var want Rule
			for _, e := range all {
				if e.minute*minute == m.Begin {
					want = want.combine(e.r, func(a, b uint64) uint64 { return a + b })
				}
			}
			if m.Rule != want {
				t.Fatalf("minute %d: %+v, want %+v", m.Begin/minute, m.Rule, want)
			}
		}
		if last := minutes[len(minutes)-1]; last.Begin != now/minute*minute {
			t.Fatalf("the last minute is %d", last.Begin)
		}
	})
}

// Counters that begin again, a clock that stands still, and numbers that do not fit.
func TestRuleWindowBounds(t *testing.T) {
	w := NewRuleWindow(0, Rule{Allowed: 100})
	w.Look(minute, Rule{Allowed: 3})
	if got, _ := w.Over(minute, Rule{Allowed: 5}, 60); got.Allowed != 2 {
		t.Errorf("counters that begin again: %+v", got)
	}
	w.Look(0, Rule{Allowed: 1 << 40})
	w.Look(2*minute, Rule{Allowed: 1 << 40})
	if got, _ := w.Over(2*minute, Rule{Allowed: 1<<40 + 1}, 60); got.Allowed != 1<<32 {
		t.Errorf("numbers that do not fit: %+v", got)
	}
}
