package observe

import "math/bits"

// Bucket is the index of the Histogram bucket that counts a duration of ns
// nanoseconds. Durations below 0 count as 0.
func Bucket(ns int64) int {
	if ns <= 1000 {
		return 0
	}
	// Up to 2^i µs belongs to bucket i, the bound included.
	us := uint64(ns-1) / 1000
	return min(bits.Len64(us), Buckets-1)
}
