package simulate

import "math"

// timeline counts requests in buckets of time, from the first request on. If there are too many buckets, it
// makes them wider.
type timeline struct {
	width    int64 // of a bucket, in ns
	step     int   // widths[step]
	start    int64 // of the first bucket, a multiple of width from the epoch
	requests []uint64
	denied   [][]uint64 // by limit
}

// maxBuckets is the number of buckets above which they are made wider.
const maxBuckets = 720

// widths are the possible widths of buckets, in ms; each divides the next.
var widths = [...]int64{
	1, 5, 10, 50, 100, 500, 1000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000,
	3 * 3_600_000, 6 * 3_600_000, 12 * 3_600_000, 24 * 3_600_000, 7 * 24 * 3_600_000, 28 * 24 * 3_600_000,
	364 * 24 * 3_600_000,
}

// at returns the index of the bucket for time t, which must not be before any earlier one.
func (l *timeline) at(t int64) int {
	if l.width == 0 {
		l.width = widths[0] * 1e6
		l.start = align(t, l.width)
	}
	for l.bucket(t) >= maxBuckets && l.step < len(widths)-1 {
		l.widen()
	}
	n := int(l.bucket(t))
	for len(l.requests) <= n {
		l.requests = append(l.requests, 0)
		for i := range l.denied {
			l.denied[i] = append(l.denied[i], 0)
		}
	}
	return n
}

func (l *timeline) bucket(t int64) uint64 {
	return (uint64(t) - uint64(l.start)) / uint64(l.width)
}

// widen merges buckets.
func (l *timeline) widen() {
	l.step++
	width := widths[l.step] * 1e6
	start := align(l.start, width)
	shift := (uint64(l.start) - uint64(start)) / uint64(l.width)
	many := uint64(width / l.width)
	merge := func(row []uint64) []uint64 {
		wide := row[:0]
		for i, n := range row {
			if to := (uint64(i) + shift) / many; to < uint64(len(wide)) {
				wide[to] += n
			} else {
				wide = append(wide, n)
			}
		}
		return wide
	}
	l.requests = merge(l.requests)
	for i := range l.denied {
		l.denied[i] = merge(l.denied[i])
	}
	l.start, l.width = start, width
}

// align returns the last multiple of width that is not after t, if it fits.
func align(t, width int64) int64 {
	m := t % width
	if m < 0 {
		m += width
	}
	if t < math.MinInt64+m {
		return t
	}
	return t - m
}
