package limit

import (
	"encoding/binary"
	"math/bits"
)

// The generic cell rate algorithm, in its virtual scheduling form: ITU-T
// Recommendation I.371 and ATM Forum Traffic Management Specification 4.0,
// with a cost for each request as in redis-cell.
//
// The state is one time, the theoretical arrival time (TAT): when the bucket is
// full again. With the emission interval E = ⌈Period/Max⌉, the tolerance
// DVT = E·Burst and the increment E·cost:
//
//	TAT      = max(TAT, now)
//	new TAT  = TAT + increment
//	limited  ⇔ now < new TAT − DVT
//	wait     = new TAT − DVT − now if increment ≤ DVT, else Never
//	reset    = (limited ? TAT : new TAT) − now
//	remaining = max(0, ⌊(DVT − reset)/E⌋)
//
// The code keeps TAT − now, here "ahead", in place of TAT. It is never
// negative, so that what is left to check are two products, two sums and one
// difference.
//
// E is rounded up to a whole nanosecond, so the rate kept is never above the
// rate asked for, and is the same where Max divides Period. The loss is below
// Max/Period: 1 in 10⁹ at one a second, 1 in 1000 at a million a second if Max
// does not divide Period, and more above; nothing goes faster than 1 each ns.
//
// In advance, whatever the cost:
//
//	wait     = max(0, TAT − DVT − now)
//	limited  ⇔ wait > the longest wait allowed
//
// A TAT further ahead than DVT (taken in advance, the limit has shrunk, or
// the clock was wrong) follows the same formulas.

// gcraTake is Take for GCRA: it fills in the decision and returns the new TAT,
// which is of use only if the request is not limited.
func gcraTake(d *Decision, l *Limit, state []byte, now, cost int64) (tat int64, err error) {
	if l.Max|l.Burst|cost < 0 || l.Period < 1 {
		return 0, badArgument(l, cost)
	}
	ahead, ok := gcraAhead(state, now)
	if !ok {
		return 0, badState(state)
	}
	if l.Max == 0 {
		*d = Decision{Limited: true, Wait: Never, Reset: ahead}
		return 0, nil
	}
	e := interval(l)
	over, dvt := mul(e, l.Burst)
	over2, increment := mul(e, cost)
	after := ahead + increment
	tat = now + after
	if over|over2 != 0 || dvt|increment|after < 0 || tat < now {
		return 0, ErrOverflow
	}
	limited, reset, wait := false, after, Never
	if after > dvt {
		limited, reset = true, ahead
		if increment <= dvt {
			wait = after - dvt
		}
	}
	*d = Decision{Limited: limited, Limit: l.Burst, Remaining: whole(dvt-reset, e), Wait: wait, Reset: reset}
	return tat, nil
}

// gcraReserve is Reserve for GCRA: it fills in the decision and returns the new
// TAT, which is of use only if the request is not limited.
func gcraReserve(d *Decision, l *Limit, state []byte, now, cost, maxWait int64) (tat int64, err error) {
	if l.Max|l.Burst|cost < 0 || l.Period < 1 {
		return 0, badArgument(l, cost)
	}
	ahead, ok := gcraAhead(state, now)
	if !ok {
		return 0, badState(state)
	}
	if l.Max == 0 {
		*d = Decision{Limited: true, Wait: Never, Reset: ahead}
		return 0, nil
	}
	e := interval(l)
	over, dvt := mul(e, l.Burst)
	over2, increment := mul(e, cost)
	after := ahead + increment
	tat = now + after
	if over|over2 != 0 || dvt|increment|after < 0 || tat < now {
		return 0, ErrOverflow
	}
	limited, reset, wait := false, after, Never
	if debt := ahead - dvt; debt > 0 {
		wait = debt
		if maxWait >= 0 && debt > maxWait {
			limited, reset, wait = true, ahead, debt-maxWait
		}
	}
	*d = Decision{Limited: limited, Limit: l.Burst, Remaining: whole(dvt-reset, e), Wait: wait, Reset: reset}
	return tat, nil
}

// gcraRefund is Refund for GCRA: TAT = max(now, TAT − increment), and whether
// that is another.
func gcraRefund(d *Decision, l *Limit, state []byte, now, cost int64) (tat int64, changed bool, err error) {
	if l.Max|l.Burst|cost < 0 || l.Period < 1 {
		return 0, false, badArgument(l, cost)
	}
	ahead, ok := gcraAhead(state, now)
	if !ok {
		return 0, false, badState(state)
	}
	if l.Max == 0 {
		// At no rate at all a cost is no time, so there is nothing to give.
		*d = Decision{Wait: Never, Reset: ahead}
		return 0, false, nil
	}
	e := interval(l)
	over, dvt := mul(e, l.Burst)
	over2, increment := mul(e, cost)
	if over|over2 != 0 || dvt|increment < 0 {
		return 0, false, ErrOverflow
	}
	after := max(0, ahead-increment)
	*d = Decision{Limit: l.Burst, Remaining: whole(dvt-after, e), Wait: Never, Reset: after}
	return now + after, after != ahead, nil
}

// gcraAhead is how far the state's TAT lies ahead of now, 0 or more. It is not
// ok if that does not fit, or if the state is not GCRA's.
func gcraAhead(state []byte, now int64) (ahead int64, ok bool) {
	if len(state) != 8 {
		return 0, len(state) == 0
	}
	tat := int64(binary.LittleEndian.Uint64(state))
	if tat <= now {
		return 0, true
	}
	return tat - now, tat-now > 0
}

// badState is the error of a state that gcraAhead has not taken.
func badState(state []byte) error {
	if len(state) != 8 {
		return ErrState
	}
	return ErrOverflow
}

// badArgument is the error of the first argument that is out of range.
func badArgument(l *Limit, cost int64) error {
	switch {
	case l.Max < 0:
		return ErrMax
	case l.Period < 1:
		return ErrPeriod
	case l.Burst < 0:
		return ErrBurst
	}
	return ErrCost
}

// interval is the emission interval ⌈Period/Max⌉ in ns, 1 or more. Period and
// Max are positive, so their sum fits in uint64.
func interval(l *Limit) int64 {
	if l.Max == 1 {
		return l.Period
	}
	m := uint64(l.Max)
	return int64((uint64(l.Period) + m - 1) / m)
}

// whole is how many e there are in a length, 0 if it is negative.
func whole(length, e int64) int64 {
	if length < e {
		return 0
	}
	return int64(uint64(length) / uint64(e))
}

// mul is a·b of two integers that are not negative. It fits in int64 if neither
// over is set nor the product negative.
func mul(a, b int64) (over uint64, product int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return hi, int64(lo)
}
