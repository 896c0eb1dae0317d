// Package stats counts what commands do and how long they take. It has the figures that both INFO and the
// HTTP port show.
package stats

import "math/bits"

// Buckets is the number of buckets of a Histogram.
const Buckets = 22

// Bucket returns the index of the bucket for a duration in ns. A negative duration counts as 0.
func Bucket(ns int64) int {
	if ns <= 1000 {
		return 0
	}
	return min(bits.Len64(uint64(ns-1)/1000), Buckets-1)
}

// Bound returns the upper bound of bucket i, inclusive, in ns. The last bucket has none: it counts all longer
// durations.
func Bound(i int) int64 { return 1000 << i }

// A Histogram counts durations in buckets that double in width. Bucket i counts those above 2^(i-1) µs and up
// to 2^i µs: bucket 0 up to 1 µs, bucket 20 up to 1.05 s. The last counts all that are longer.
type Histogram struct {
	Buckets [Buckets]uint64
	// Sum is the sum of all durations, in ns.
	Sum uint64
}

// Count returns how many durations were counted.
func (h *Histogram) Count() uint64 {
	var n uint64
	for _, b := range h.Buckets {
		n += b
	}
	return n
}

// Quantile returns the upper bound, in ns, of the bucket with the quantile q, from 0 to 1; 0 if nothing was counted.
func (h *Histogram) Quantile(q float64) int64 {
	all := h.Count()
	if all == 0 {
		return 0
	}
	var n uint64
	least := q * float64(all)
	for i, b := range h.Buckets {
		n += b
		if float64(n) >= least {
			return Bound(i)
		}
	}
	return Bound(Buckets - 1)
}

// Spread returns the quantile q in ns, from 0 to 1, as if the durations of a bucket were spread evenly over it; 0 if nothing was counted.
func (h *Histogram) Spread(q float64) int64 {
	least, below := q*float64(h.Count()), uint64(0)
	for i, n := range h.Buckets {
		if n > 0 && float64(below+n) >= least {
			low := int64(0)
			if i > 0 {
				low = Bound(i - 1)
			}
			return low + int64(float64(Bound(i)-low)*(least-float64(below))/float64(n))
		}
		below += n
	}
	return 0
}

// Add adds the counts of other.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other.Buckets {
		h.Buckets[i] += n
	}
	h.Sum += other.Sum
}

// Sub subtracts earlier counts.
func (h *Histogram) Sub(before *Histogram) {
	for i, n := range before.Buckets {
		h.Buckets[i] -= n
	}
	h.Sum -= before.Sum
}
