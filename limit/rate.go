package limit

import (
	"fmt"
	"math/bits"
)

// slowEnough is the interval from which rounding up, by less than 1 ns, loses no
// more than 1 % of the rate.
const slowEnough = 100

// holds reports whether one each e ns loses no more than 1 % of most in a period:
// whether period/(most·e) is 0.99 or more.
func holds(most, period, e int64) bool {
	if e >= slowEnough {
		return true
	}
	hi, lo := bits.Mul64(uint64(most), uint64(99*e))
	high, low := bits.Mul64(uint64(period), 100)
	return hi < high || hi == high && lo <= low
}

// validateRate refuses a rate that whole nanoseconds do not hold. Max is 1 or more.
func (l *Limit) validateRate() error {
	e := interval(l)
	if holds(l.Max, l.Period, e) {
		return nil
	}
	slower, faster := *l, *l
	slower.nearest(e, 1)
	text := fmt.Sprintf("take %d", slower.Max)
	if e > 1 {
		faster.nearest(e-1, -1)
		text += fmt.Sprintf(" or %d", faster.Max)
	}
	return fmt.Errorf("%w: one each %d ns is %.3g %% less than %d in the period; %s, or count in larger units (kB, not bytes)",
		ErrRate, e, 100-100*float64(l.Period)/float64(e)/float64(l.Max), l.Max, text)
}

// nearest sets Max to the first that holds, with the intervals from e on.
func (l *Limit) nearest(e, step int64) {
	for ; e > 1; e += step {
		for _, most := range [...]int64{(l.Period + e - 1) / e, l.Period / e} {
			if l.Max = most; holds(most, l.Period, interval(l)) {
				return
			}
		}
	}
	l.Max = l.Period
}
