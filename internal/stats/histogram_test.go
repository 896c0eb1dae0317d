package stats

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBucketBounds(t *testing.T) {
	for _, c := range []struct {
		ns   int64
		want int
	}{
		{math.MinInt64, 0},
		{-1, 0},
		{0, 0},
		{1000, 0},
		{1001, 1},
		{2000, 1},
		{2001, 2},
		{4000, 2},
		{int64(time.Millisecond), 10},
		{1 << 20 * 1000, 20},
		{1<<20*1000 + 1, 21},
		{math.MaxInt64, 21},
	} {
		if got := Bucket(c.ns); got != c.want {
			t.Errorf("Bucket(%d) = %d, want %d", c.ns, got, c.want)
		}
	}
}

// The plain definition: the first bucket whose upper bound is at least ns.
func TestBucketIsTheFirstThatFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Int64Range(0, 4<<30).Draw(t, "ns")
		want := Buckets - 1
		for i := Buckets - 2; i >= 0; i-- {
			if ns <= 1000<<i {
				want = i
			}
		}
		if got := Bucket(ns); got != want {
			t.Fatalf("Bucket(%d) = %d, want %d", ns, got, want)
		}
	})
}

// The commands of a pipeline count with the mean of their batch, and the counts add up over the stripes.
func TestTally(t *testing.T) {
	c, also := NewCounters(3, 20), NewLatency(2)
	for stripe := range 4 { // the last one is the first again
		var tally Tally
		for id := range 8 {
			for range id + 1 {
				if !tally.Add(id, also, id == 7) {
					t.Fatal("a tally has 8 rows")
				}
			}
		}
		if tally.Add(8, nil, false) || tally.Add(7, nil, false) || tally.Empty() {
			t.Fatal("there was room for a ninth")
		}
		tally.Flush(c.Stripe(stripe), 36_000) // 36 calls
		if !tally.Empty() {
			t.Fatal("Flush left something")
		}
	}
	c.Stripe(5).Record(19, also, 5_000, true)
	c.Stripe(0).Reject(19)
	got, want := c.Command(7), Command{Failed: 32, Latency: Histogram{Buckets: [Buckets]uint64{32}, Sum: 32_000}}
	if got != want {
		t.Errorf("the tally: %+v", got)
	}
	if got = c.Command(19); got.Calls() != 1 || got.Errors() != 2 || got.Latency.Quantile(1) != 8_000 {
		t.Errorf("one call: %+v", got)
	}
	if got = c.Command(7).Since(want); got != (Command{}) {
		t.Errorf("since then: %+v", got)
	}
	if h := also.Sum(); h != (Histogram{Buckets: [Buckets]uint64{4 * 36, 0, 0, 1}, Sum: 4*36_000 + 5_000}) {
		t.Errorf("what else counted them: %+v", h)
	}
	if n := c.Traffic().Calls; n != 4*36+1 {
		t.Errorf("%d calls", n)
	}
}
