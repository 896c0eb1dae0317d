package limit

import (
	"cmp"
	"math"
	"math/bits"
)

// What the algorithms compute with: int64 and 128 bits, exact.

// mul returns a·b of two integers that are not negative. The product fits in int64
// if over is 0 and the product is not negative.
func mul(a, b int64) (over uint64, product int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return hi, int64(lo)
}

const maxInt64 = math.MaxInt64

// until returns the time from now to then: 0 if then is past, the largest int64 if
// it does not fit.
func until(then, now int64) int64 {
	switch left := then - now; {
	case then <= now:
		return 0
	case left < 0:
		return math.MaxInt64
	default:
		return left
	}
}

// modulo is a mod b, from 0 to b−1, for a positive b.
func modulo(a, b int64) int64 {
	m := a % b
	if m < 0 {
		m += b
	}
	return m
}

// groups returns ⌈n/size⌉. n is 1 or more.
func groups(n, size int64) int64 {
	if n <= size {
		return 1
	}
	return int64((uint64(n) + uint64(size) - 1) / uint64(size))
}

// remaining returns how much of most is left.
func remaining(most int64, used uint64) int64 {
	if used >= uint64(most) {
		return 0
	}
	return most - int64(used)
}

// share returns ⌈n·part/whole⌉, for a part from 0 to the whole.
func share(n, part, whole int64) int64 {
	if n == 0 || part == whole {
		return n
	}
	q, exact := mulDiv(n, part, whole)
	if !exact {
		q++
	}
	return q
}

// mulDiv returns ⌊a·b/c⌋, which must be less than 2⁶³, and whether it is exact.
// a and b are 0 or more, c is 1 or more.
func mulDiv(a, b, c int64) (q int64, exact bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	quo, rem := divide(hi, lo, c)
	return int64(quo), rem == 0
}

// divide is bits.Div64, and faster where hi is 0.
func divide(hi, lo uint64, by int64) (quo, rem uint64) {
	if hi == 0 {
		quo = lo / uint64(by)
		return quo, lo - quo*uint64(by)
	}
	return bits.Div64(hi, lo, uint64(by))
}

// compareProducts returns −1, 0 or 1 as a·b is less than, equal to or more than c·d, all
// of which are 0 or more.
func compareProducts(a, b, c, d int64) int {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	high, low := bits.Mul64(uint64(c), uint64(d))
	return cmp.Or(cmp.Compare(hi, high), cmp.Compare(lo, low))
}

// addUpTo returns a + b, or the largest int64 if it does not fit. Neither may be
// negative. Only denied requests that count make a sum that large, and what was
// admitted is never above it.
func addUpTo(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// scaleUp returns ⌈a·b/c⌉, or the largest int64 if it does not fit. a and b are 0 or
// more, c is 1 or more.
func scaleUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c)-1, 0)
	if hi += carry; hi >= uint64(c) {
		return maxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, maxInt64))
}

// scale returns ⌊ns·to/from⌋ or the largest int64, and whether that is exact.
func scale(ns, to, from int64) (scaled int64, exact bool) {
	hi, lo := bits.Mul64(uint64(ns), uint64(to))
	if hi >= uint64(from) {
		return math.MaxInt64, false
	}
	quo, rem := bits.Div64(hi, lo, uint64(from))
	if quo > math.MaxInt64 {
		return math.MaxInt64, false
	}
	return int64(quo), rem == 0
}

// within reports whether a wait is longer than maxWait, and returns the decision's
// Wait: for a grant the wait itself, or Never if it is 0 or less; for a denial, how
// much too long it is. A negative maxWait is no bound.
func within(wait, maxWait int64) (limited bool, told int64) {
	switch {
	case wait <= 0:
		return false, Never
	case maxWait >= 0 && wait > maxWait:
		return true, wait - maxWait
	}
	return false, wait
}
