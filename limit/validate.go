package limit

import (
	"fmt"
	"math/bits"
)

// Validate returns an error if Take cannot work with l: ErrAlgorithm, ErrMax,
// ErrPeriod, ErrBurst, ErrSegments, ErrWarm, ErrCold, ErrCalendar or ErrOption
// for a field that is out of range or belongs to another algorithm; ErrOverflow
// if the whole burst takes longer than MaxSpan to come back, or if Period is
// above MaxPeriod; ErrRate for a rate that loses more than 1 % in whole
// nanoseconds. A parsed Limit is valid.
func (l *Limit) Validate() error {
	switch {
	case !l.Algorithm.Valid():
		return ErrAlgorithm
	case l.Max < 0:
		return ErrMax
	case l.Algorithm == LOG && l.Max > MaxLog:
		return errLogMax
	case l.Calendar == NoUnit && l.Period < 1, l.Calendar != NoUnit && l.Period != 0:
		return ErrPeriod
	case l.Calendar > Year, l.Calendar == NoUnit && l.Zone != nil:
		return ErrCalendar
	case l.Burst < 0, l.Burst == 0 && l.Max > 0 && l.Algorithm != QUEUE:
		return ErrBurst
	}
	if err := l.validateOptions(); err != nil {
		return err
	}
	switch l.Algorithm {
	case GCRA, TOKEN, LEAKY, QUEUE:
		if l.Max > 0 {
			return l.validateTime()
		}
	case WARMUP:
		return l.validateWarmUp()
	default:
		if l.Period > MaxPeriod {
			return errPeriod
		}
	}
	return nil
}

// validateWarmUp is validateTime for WARMUP.
func (l *Limit) validateWarmUp() error {
	switch {
	case l.Period > MaxPeriod && (l.Max > 0 || l.Warm > MaxPeriod): // WARM is the period if it is not given
		return errPeriod
	case l.Warm > MaxPeriod:
		return errWarmMost
	case l.Max == 0:
		return nil
	}
	var after warmth
	if !after.take(l, interval(l), l.Max) || !after.fits(0) || after.reset() > MaxPeriod {
		return errWarmSpan
	}
	return l.validateRate()
}

// validateTime checks how long it takes until all that was taken is back.
func (l *Limit) validateTime() error {
	each, times := interval(l), l.Burst
	switch {
	case l.Interval:
		most := together(l)
		if !inSpan(groups(l.Period, most), l.Burst) { // what another limit has left comes back one by one
			return errSpan
		}
		each, times = l.Period, groups(l.Burst, most)
	case l.Algorithm == QUEUE:
		times++ // and the one that goes; what wraps overflows below
	}
	if !inSpan(each, times) {
		return errSpan
	}
	if l.Interval {
		return nil
	}
	return l.validateRate()
}

// inSpan reports whether that many times a time are no longer than MaxSpan.
func inSpan(each, times int64) bool {
	over, all := mul(each, times)
	return over == 0 && all >= 0 && all <= MaxSpan
}

// validateOptions checks that the options of the algorithm are in range, and that
// there are no others.
func (l *Limit) validateOptions() error {
	allowed, given := optionsOf[l.Algorithm], l.given()
	if others := given &^ allowed; others != 0 {
		return others.row().bad
	}
	for check := allowed & (given | optNeeded); check != 0; {
		if r := check.next(); r.valid != nil && !r.valid(*l) {
			return r.bad
		}
	}
	return nil
}

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
