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
// A TAT further ahead than DVT (the limit has shrunk, or the clock was wrong)
// follows the same formulas.

// gcraTake is Take for GCRA.
func gcraTake(l *Limit, state []byte, now, cost int64, dst []byte) ([]byte, Decision, error) {
	d, tat, err := gcraDecide(l, state, now, cost)
	if err != nil || d.Limited || cost == 0 {
		return nil, d, err
	}
	return binary.LittleEndian.AppendUint64(dst[:0], uint64(tat)), d, nil
}

// gcraPeek is Peek for GCRA.
func gcraPeek(l *Limit, state []byte, now, cost int64) (Decision, error) {
	d, _, err := gcraDecide(l, state, now, cost)
	return d, err
}

// gcraDecide is the decision and the new TAT, which is of use only if the
// request is not limited.
func gcraDecide(l *Limit, state []byte, now, cost int64) (d Decision, tat int64, err error) {
	ahead, err := gcraAhead(l, state, now, cost)
	if err != nil {
		return d, 0, err
	}
	if l.Max == 0 {
		return Decision{Limited: true, Wait: Never, Reset: ahead}, 0, nil
	}
	e := interval(l)
	dvt, ok1 := mul(e, l.Burst)
	increment, ok2 := mul(e, cost)
	if !ok1 || !ok2 {
		return d, 0, ErrOverflow
	}
	after := ahead + increment
	tat = now + after
	if after < 0 || tat < now {
		return d, 0, ErrOverflow
	}
	d.Limit, d.Wait, d.Reset = l.Burst, Never, after
	if after > dvt {
		d.Limited, d.Reset = true, ahead
		if increment <= dvt {
			d.Wait = after - dvt
		}
	}
	d.Remaining = whole(dvt-d.Reset, e)
	return d, tat, nil
}

// gcraRefund is Refund for GCRA: TAT = max(now, TAT − increment).
func gcraRefund(l *Limit, state []byte, now, cost int64, dst []byte) ([]byte, Decision, error) {
	ahead, err := gcraAhead(l, state, now, cost)
	if err != nil {
		return nil, Decision{}, err
	}
	if l.Max == 0 {
		// At no rate at all a cost is no time, so there is nothing to give.
		return nil, Decision{Wait: Never, Reset: ahead}, nil
	}
	e := interval(l)
	dvt, ok1 := mul(e, l.Burst)
	increment, ok2 := mul(e, cost)
	if !ok1 || !ok2 {
		return nil, Decision{}, ErrOverflow
	}
	after := max(0, ahead-increment)
	d := Decision{Limit: l.Burst, Remaining: whole(dvt-after, e), Wait: Never, Reset: after}
	if after == ahead {
		return nil, d, nil
	}
	return binary.LittleEndian.AppendUint64(dst[:0], uint64(now+after)), d, nil
}

// gcraAhead checks the arguments and is how far the state's TAT lies ahead of
// now, 0 or more.
func gcraAhead(l *Limit, state []byte, now, cost int64) (int64, error) {
	if l.Max|l.Burst|cost < 0 || l.Period < 1 {
		return 0, badArgument(l, cost)
	}
	if len(state) == 0 {
		return 0, nil
	}
	if len(state) != 8 {
		return 0, ErrState
	}
	tat := int64(binary.LittleEndian.Uint64(state))
	if tat <= now {
		return 0, nil
	}
	ahead := tat - now
	if ahead < 0 {
		return 0, ErrOverflow
	}
	return ahead, nil
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

// mul is a·b of two integers that are not negative, and whether it fits.
func mul(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(lo), hi == 0 && int64(lo) >= 0
}
