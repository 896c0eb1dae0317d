package observe

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

// The plain definition: the first bucket whose upper bound is not below ns.
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
