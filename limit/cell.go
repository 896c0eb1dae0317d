package limit

import (
	"math"
	"math/bits"
)

// Cell is the Limit of redis-cell's CL.THROTTLE key max_burst
// count_per_period period, the period in seconds: one each
// E = ⌊period·10⁹/count⌋ ns, at most maxBurst+1 at once. A negative quantity of
// the command is a Refund.
//
// The errors are ErrNegativeBurst, ErrNegativeCount, ErrNegativePeriod;
// ErrZeroRate if E is 0 or count is; ErrOverflow.
func Cell(maxBurst, count, periodSeconds int64) (Limit, error) {
	switch {
	case maxBurst < 0:
		return Limit{}, ErrNegativeBurst
	case count < 0:
		return Limit{}, ErrNegativeCount
	case periodSeconds < 0:
		return Limit{}, ErrNegativePeriod
	case count == 0:
		return Limit{}, ErrZeroRate
	}
	hi, lo := bits.Mul64(uint64(periodSeconds), uint64(second))
	if hi >= uint64(count) {
		return Limit{}, ErrOverflow
	}
	e, _ := bits.Div64(hi, lo, uint64(count))
	return cell(maxBurst, e)
}

// CellDecimal is the Limit of the command GCRA key max_burst tokens_per_period
// period, the period in seconds as a decimal number like 60, 0.5 or 1.5e-3: one
// each E = ⌈period/count⌉ ns, exact to the last digit, at most maxBurst+1 at
// once.
//
// The errors are ErrNegativeBurst; ErrZeroRate for a count below 1; ErrSeconds
// for a period that is no such number above 0 and below 1e12; ErrOverflow;
// ErrRate.
func CellDecimal(maxBurst, count int64, period []byte) (Limit, error) {
	switch {
	case maxBurst < 0:
		return Limit{}, ErrNegativeBurst
	case count < 1:
		return Limit{}, ErrZeroRate
	}
	hi, lo, ok := parseSeconds(period)
	if !ok {
		return Limit{}, at(ErrSeconds, period)
	}
	if rate := (Limit{Max: count, Period: int64(lo)}); hi == 0 && rate.Period > 0 {
		if err := rate.validateRate(); err != nil {
			return Limit{}, err
		}
	}
	// Rounding up the period to whole ns first changes nothing:
	// ⌈⌈x⌉/n⌉ = ⌈x/n⌉ for a whole n.
	lo, carry := bits.Add64(lo, uint64(count)-1, 0)
	hi += carry
	if hi >= uint64(count) {
		return Limit{}, ErrOverflow
	}
	e, _ := bits.Div64(hi, lo, uint64(count))
	return cell(maxBurst, e)
}

// cell is the Limit of one each e ns, at most maxBurst+1 at once.
func cell(maxBurst int64, e uint64) (Limit, error) {
	if e == 0 {
		return Limit{}, ErrZeroRate
	}
	if e > math.MaxInt64 || maxBurst == math.MaxInt64 {
		return Limit{}, ErrOverflow
	}
	l := Limit{Algorithm: GCRA, Max: 1, Period: int64(e), Burst: maxBurst + 1}
	if err := l.Validate(); err != nil {
		return Limit{}, err
	}
	return l, nil
}

// Seconds converts a Decision's time to whole seconds. It rounds up, so that
// nobody comes back too early. Never stays Never.
func Seconds(ns int64) int64 {
	return roundUp(ns, second)
}

// Milliseconds is a Decision's time in whole milliseconds, rounded up. Never
// stays Never.
func Milliseconds(ns int64) int64 {
	return roundUp(ns, 1e6)
}

func roundUp(ns, unit int64) int64 {
	if ns < 0 {
		return Never
	}
	n := ns / unit
	if n*unit != ns {
		n++
	}
	return n
}
