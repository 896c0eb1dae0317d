package simulate

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A window's sum is that of a list of everything, whenever memory is released.
func TestWindowAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := rapid.Int64Range(1, 1000).Draw(t, "period")
		now := rapid.SampledFrom([]int64{0, math.MinInt64, math.MaxInt64 - 1<<20, 1.7e18}).Draw(t, "start")
		var w window
		var times, amounts []int64
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += rapid.Int64Range(0, period/4+1).Draw(t, "step") * rapid.SampledFrom([]int64{0, 1, 1, 1, 9}).Draw(t, "times")
			n := rapid.Int64Range(1, 5).Draw(t, "n")
			times, amounts = append(times, now), append(amounts, n)
			want := int64(0)
			for i, at := range times {
				if uint64(now-at) < uint64(period) {
					want += amounts[i]
				}
			}
			if got := w.add(now, uint64(n), period); got != uint64(want) {
				t.Fatalf("at %d: %d, want %d", now, got, want)
			}
			if rapid.Bool().Draw(t, "shrink") {
				w.shrink(now, period)
			}
		}
	})
}

// The size of a window is bounded by what is within a period, however long the window lives.
func TestWindowStaysSmall(t *testing.T) {
	var w window
	most := 0
	for i := range int64(1_000_000) {
		w.add(i*1e9, 1, 60e9)
		most = max(most, cap(w.buf))
	}
	if most > 60*6*4 {
		t.Errorf("%d bytes for 60 entries of 6", most)
	}
	w.shrink(math.MaxInt64, 60e9)
	if cap(w.buf) > 64 {
		t.Errorf("%d bytes for nothing", cap(w.buf))
	}
}

// Quantiles are those of the sorted list, rounded up to three digits.
func TestDurationsAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.OneOf(
			rapid.Int64Range(0, math.MaxInt64), rapid.Int64Range(0, 2000), rapid.Int64Range(1e9, 2e9),
			rapid.SampledFrom([]int64{999, 1000, 1001, 99, 100, 999e9, 9995e5, math.MaxInt64}),
		), 1, 50).Draw(t, "list")
		var d durations
		for _, ns := range list {
			d.add(ns)
		}
		slices.Sort(list)
		worst := list[len(list)-1]
		for _, q := range []uint64{1, 50, 90, 100} {
			exact := list[(uint64(len(list))*q+99)/100-1]
			want := roundUp3(exact, worst)
			if got := d.quantile(q); got != want {
				t.Fatalf("quantile %d of %v: %d, want %d", q, list, got, want)
			}
		}
		if d.worst != worst || d.count != uint64(len(list)) {
			t.Fatalf("worst %d, count %d", d.worst, d.count)
		}
		seen := uint64(0)
		last := int64(-1)
		d.each(func(ns int64, n uint64) bool {
			if ns <= last && ns != worst {
				t.Fatalf("%d after %d", ns, last)
			}
			last, seen = ns, seen+n
			return true
		})
		if seen != d.count {
			t.Fatalf("%d of %d", seen, d.count)
		}
	})
}

// roundUp3 rounds up to three digits, but not above the worst.
func roundUp3(ns, worst int64) int64 {
	scale := int64(1)
	for ns/scale > 999 {
		scale *= 10
	}
	m := ns / scale
	if m*scale < ns {
		m++
	}
	if m > worst/scale {
		return worst
	}
	return m * scale
}

// A timeline loses no request, and counts each in the bucket of its time.
func TestTimelineAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.OneOf(rapid.Int64(), rapid.Just(int64(1.7e18)), rapid.Just(int64(math.MinInt64))).Draw(t, "start")
		line := timeline{denied: make([][]uint64, 1)}
		var times []int64
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			step := rapid.Int64Range(0, 1e6).Draw(t, "step") * rapid.SampledFrom([]int64{1, 1e3, 1e6, 1e9, 1e12}).Draw(t, "unit")
			if now <= math.MaxInt64-step {
				now += step
			}
			n := line.at(now)
			line.requests[n]++
			line.denied[0][n]++
			times = append(times, now)
		}
		if len(line.requests) > maxBuckets {
			t.Fatalf("%d buckets", len(line.requests))
		}
		want := make([]uint64, len(line.requests))
		for _, at := range times {
			want[(uint64(at)-uint64(line.start))/uint64(line.width)]++
		}
		if !slices.Equal(want, line.requests) || !slices.Equal(want, line.denied[0]) {
			t.Fatalf("got %v\nwant %v", line.requests, want)
		}
		if line.start%line.width != 0 && line.start > math.MinInt64+line.width {
			t.Fatalf("%d is no multiple of %d", line.start, line.width)
		}
	})
}
