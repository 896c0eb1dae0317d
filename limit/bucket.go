package limit

import (
	"encoding/binary"
	"math/bits"
)

// The bucket family: GCRA, TOKEN, LEAKY and QUEUE keep one time, and tell it in
// words of their own: the theoretical arrival time, when the bucket is full of
// tokens, when it is empty of water, when the queue is empty. They read each
// other's state, and a key's time stays what it is when its limit changes.
//
//	0        8
//	+--------+----------------------+
//	|  time  | missing, of INTERVAL |   little-endian int64, Unix ns; uvarint
//	+--------+----------------------+
//
// What they share is here, in the words of GCRA: see gcra.go for the formulas.
// The code keeps TAT − now, here "ahead", in place of TAT. It is never negative,
// so that what is left to check are two products, two sums and one difference.
//
// The interval E is rounded up to a whole nanosecond, so the rate kept is never
// above the rate asked for, and is the same where Max divides Period. The loss
// is below Max/Period: 1 in 10⁹ at one a second, 1 in 1000 at a million a second
// if Max does not divide Period, and more above; nothing goes faster than 1 each
// ns.

// bucketTake is Take with room for size at once: it fills in the decision and
// returns the new TAT, which is of use only if the request is not limited. A
// size that has wrapped to the least int64 is found to overflow.
func bucketTake(d *Decision, l *Limit, size int64, state []byte, now, cost int64) (tat int64, err error) {
	if l.Max|l.Burst|cost < 0 || l.Period < 1 {
		return 0, badArgument(l, cost)
	}
	ahead, ok := bucketAhead(state, now)
	if !ok {
		return 0, badState(state)
	}
	if l.Max == 0 {
		*d = Decision{Limited: true, Wait: Never, Reset: ahead}
		return 0, nil
	}
	e := interval(l)
	over, dvt := mul(e, size)
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
	*d = Decision{Limited: limited, Limit: size, Remaining: whole(dvt-reset, e), Wait: wait, Reset: reset}
	return tat, nil
}

// bucketReserve is Reserve, of any cost; what it returns is as of bucketTake.
func bucketReserve(d *Decision, l *Limit, state []byte, now, cost, maxWait int64) (tat int64, err error) {
	if l.Max|l.Burst|cost < 0 || l.Period < 1 {
		return 0, badArgument(l, cost)
	}
	ahead, ok := bucketAhead(state, now)
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
	limited, wait := within(ahead-dvt, maxWait)
	reset := after
	if limited {
		reset = ahead
	}
	*d = Decision{Limited: limited, Limit: l.Burst, Remaining: whole(dvt-reset, e), Wait: wait, Reset: reset}
	return tat, nil
}

// within tells whether a wait is too long, and the decision's Wait: of what is
// granted the wait itself, Never for one of 0 or less, and of what is limited by
// how much it is too long. A negative maxWait is no bound.
func within(wait, maxWait int64) (limited bool, told int64) {
	switch {
	case wait <= 0:
		return false, Never
	case maxWait >= 0 && wait > maxWait:
		return true, wait - maxWait
	}
	return false, wait
}

// bucketRefund is Refund with room for size at once: TAT = max(now, TAT −
// increment), and whether that is another.
func bucketRefund(d *Decision, l *Limit, size int64, state []byte, now, cost int64) (tat int64, changed bool, err error) {
	if l.Max|l.Burst|cost < 0 || l.Period < 1 {
		return 0, false, badArgument(l, cost)
	}
	ahead, ok := bucketAhead(state, now)
	if !ok {
		return 0, false, badState(state)
	}
	if l.Max == 0 {
		// At no rate at all a cost is no time, so there is nothing to give.
		*d = Decision{Wait: Never, Reset: ahead}
		return 0, false, nil
	}
	e := interval(l)
	over, dvt := mul(e, size)
	over2, increment := mul(e, cost)
	if over|over2 != 0 || dvt|increment < 0 {
		return 0, false, ErrOverflow
	}
	after := max(0, ahead-increment)
	*d = Decision{Limit: size, Remaining: whole(dvt-after, e), Wait: Never, Reset: after}
	return now + after, after != ahead, nil
}

// bucketAhead is how far the state's time lies ahead of now, 0 or more. It is
// not ok if that does not fit, or if the state is not the family's.
func bucketAhead(state []byte, now int64) (ahead int64, ok bool) {
	if len(state) != 8 && !hasMissing(state) {
		return 0, len(state) == 0
	}
	tat := int64(binary.LittleEndian.Uint64(state))
	if tat <= now {
		return 0, true
	}
	return tat - now, tat-now > 0
}

// hasMissing tells whether the state is one of INTERVAL.
func hasMissing(state []byte) bool {
	if len(state) < 8 {
		return false
	}
	_, ok := missingTokens(state)
	return ok
}

// putTime writes a state over dst.
func putTime(dst []byte, full int64) []byte {
	return binary.LittleEndian.AppendUint64(dst[:0], uint64(full))
}

// badState is the error of a state that bucketAhead has not taken.
func badState(state []byte) error {
	if len(state) != 8 && !hasMissing(state) {
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
