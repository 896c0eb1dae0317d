package limit

import "encoding/binary"

// The bucket family: GCRA, TOKEN, LEAKY and QUEUE keep one time, each under a name
// of its own: the theoretical arrival time, the time when the bucket is full of
// tokens, when it is empty of water, when the queue is empty. They read each
// other's state. carry.go says what becomes of it when the limit changes.
//
//	0        8      10
//	+--------+------+
//	|  time  | pace |                     little-endian int64, Unix ns; see pace.go
//	+--------+------+-------------+
//	|  time  |     other pace     |       8 bytes
//	+--------+--------------------+
//	|  time  | period, missing, … |       of INTERVAL: see token_interval.go
//	+--------+--------------------+
//
// This file has what they share, in the words of GCRA; see gcra.go for the formulas.
// The code uses TAT − now, called "ahead", in place of TAT. It is never negative,
// and is compared with the room that a request needs, DVT − increment. So only two
// products and the new TAT can overflow. The increment then counts as the longest time:
// such a request is denied for ever, and such a refund makes the bucket full.
//
// The interval E is rounded up to a whole nanosecond, so the rate kept is never
// above the rate asked for, and is the same where Max divides Period. The loss
// is below Max/Period: 1 in 10⁹ at one a second, 1 in 1000 at a million a second
// if Max does not divide Period. Validate refuses a limit that loses more than
// 1 %. Rounding once for each request, instead of each token, would be finer but
// would break the promise: under 7/s BURST 7, requests of cost 1 would get 6 at once.

// bucketTake is Take with room for size at once. A size that has wrapped to the
// least int64 is an overflow. With keep it writes the next state over dst.
func bucketTake(d *Decision, l *Limit, size int64, state []byte, now, cost int64, dst []byte, keep bool) (next []byte, err error) {
	if l.Max|l.Burst|cost < 0 || l.Period < 1 {
		return nil, badArgument(l)
	}
	ahead, ok := bucketAhead(state, now)
	if !ok {
		return nil, badState(state)
	}
	if l.Max == 0 {
		*d = Decision{Limited: true, Wait: Never, Reset: ahead}
		return nil, nil
	}
	e := interval(l)
	over, dvt := mul(e, size)
	if over != 0 || dvt < 0 {
		return nil, ErrOverflow
	}
	over, increment := mul(e, cost)
	if over != 0 || increment < 0 {
		increment = maxInt64 // more than there can be
	}
	code, same := hasPace(state, e)
	if !same {
		if ahead > 0 && l.Algorithm != QUEUE {
			return bucketCarry(d, l, state, ahead, now, cost, terms{e, dvt, increment, size}, dst, keep)
		}
		code = noCode
	}
	if room := dvt - increment; ahead > room || cost > size {
		wait := Never
		if cost <= size {
			wait = ahead - room
		}
		*d = Decision{Limited: true, Limit: size, Remaining: whole(dvt-ahead, e), Wait: wait, Reset: ahead}
		return nil, nil
	}
	after := ahead + increment
	tat := now + after
	if tat < now {
		return nil, ErrOverflow
	}
	*d = Decision{Limit: size, Remaining: whole(dvt-after, e), Wait: Never, Reset: after}
	if !keep || cost == 0 {
		return nil, nil
	}
	return putBucket(dst, tat, e, code), nil
}

// terms are those of a limit and a cost.
type terms struct{ e, dvt, increment, size int64 }

// bucketCarry is bucketTake of a state at another pace.
func bucketCarry(d *Decision, l *Limit, state []byte, ahead, now, cost int64, x terms, dst []byte, keep bool) (next []byte, err error) {
	var u use
	if !useAt(&u, state, ahead, x.e) {
		return nil, ErrState
	}
	c := u.carried(x.e)
	if cost <= x.size && u.missing <= x.size-cost {
		after := c + x.increment
		if cost == 0 {
			after = ahead
		}
		if now+after < now {
			return nil, ErrOverflow
		}
		*d = Decision{Limit: x.size, Remaining: x.size - cost - u.missing, Wait: Never, Reset: after}
		if !keep || cost == 0 {
			return nil, nil
		}
		return putBucket(dst, now+after, x.e, noCode), nil
	}
	*d = Decision{Limited: true, Limit: x.size, Remaining: max(0, x.size-u.missing), Wait: Never, Reset: ahead}
	if cost > x.size {
		return nil, nil
	}
	if cost == 0 || !u.outrun(x.e) {
		d.Wait = u.until(x.size - cost)
		return nil, nil
	}
	d.Wait, d.Reset = c-(x.dvt-x.increment), c
	if !keep {
		return nil, nil
	}
	return putBucket(dst, now+c, x.e, noCode), nil
}

// bucketReserve is Reserve, of any cost. It writes the next state over dst.
func bucketReserve(d *Decision, l *Limit, state []byte, now, cost, maxWait int64, dst []byte) (next []byte, err error) {
	if l.Max|l.Burst|cost < 0 || l.Period < 1 {
		return nil, badArgument(l)
	}
	ahead, ok := bucketAhead(state, now)
	if !ok {
		return nil, badState(state)
	}
	if l.Max == 0 {
		*d = Decision{Limited: true, Wait: Never, Reset: ahead}
		return nil, nil
	}
	e := interval(l)
	over, dvt := mul(e, l.Burst)
	over2, increment := mul(e, cost)
	if over|over2 != 0 || dvt|increment < 0 {
		return nil, ErrOverflow
	}
	c := ahead // what is in use, at pace e
	var u use
	code, same := hasPace(state, e)
	if !same {
		code = noCode
		if ahead > 0 {
			if !useAt(&u, state, ahead, e) {
				return nil, ErrState
			}
			c = u.carried(e)
		}
	}
	limited, wait := within(c-dvt, maxWait)
	if c == maxInt64 && !same && maxWait >= 0 { // the debt may be more than that
		limited = u.reserveWait(e, dvt, maxWait) > 0
	}
	if limited {
		*d = Decision{Limited: true, Limit: l.Burst, Remaining: whole(dvt-c, e), Wait: wait, Reset: ahead}
		switch {
		case u.ahead == 0: // no change
		case cost > 0 && u.outrun(e):
			d.Reset = c
			return putBucket(dst, now+c, e, noCode), nil
		default:
			d.Wait = u.reserveWait(e, dvt, maxWait)
		}
		return nil, nil
	}
	after := c + increment
	tat := now + after
	if after < 0 || tat < now && cost > 0 || c == maxInt64 && !same {
		return nil, ErrOverflow
	}
	*d = Decision{Limit: l.Burst, Remaining: whole(dvt-after, e), Wait: wait, Reset: after}
	if cost == 0 {
		d.Reset = ahead
		return nil, nil
	}
	return putBucket(dst, tat, e, code), nil
}

// bucketRefund is Refund with room for size at once: TAT = max(now, TAT −
// E·cost) at the pace of the state. It writes the next state over dst.
func bucketRefund(d *Decision, l *Limit, size int64, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	if l.Max|l.Burst|cost < 0 || l.Period < 1 {
		return nil, badArgument(l)
	}
	ahead, ok := bucketAhead(state, now)
	if !ok {
		return nil, badState(state)
	}
	if l.Max == 0 {
		// A limit of 0 gives nothing back.
		*d = Decision{Wait: Never, Reset: ahead}
		return nil, nil
	}
	e := interval(l)
	over, dvt := mul(e, size)
	if over != 0 || dvt < 0 {
		return nil, ErrOverflow
	}
	over, increment := mul(e, cost)
	if over != 0 || increment < 0 {
		increment = maxInt64 // more than there can be
	}
	code, same := hasPace(state, e)
	if !same && ahead > 0 {
		return carryRefund(d, l, size, state, ahead, now, cost, e, dst)
	}
	after := max(0, ahead-increment)
	*d = Decision{Limit: size, Remaining: whole(dvt-after, e), Wait: Never, Reset: after}
	if after == ahead {
		return nil, nil
	}
	return putBucket(dst, now+after, e, code), nil
}

// carryRefund is bucketRefund of a state in other terms, which it keeps.
func carryRefund(d *Decision, l *Limit, size int64, state []byte, ahead, now, cost, e int64, dst []byte) (next []byte, err error) {
	var u use
	if !useAt(&u, state, ahead, e) {
		return nil, ErrState
	}
	each := u.e
	if l.Algorithm == QUEUE { // a place took as long as the limit said under which it was taken
		each = e
	}
	if cost > 0 {
		next = u.refund(now, cost, each, dst)
	}
	missing := u.missing
	if l.Algorithm == QUEUE { // the time counts, at the pace of the call
		missing = 0
		if u.ahead > 0 {
			missing = groups(u.ahead, e)
		}
	}
	*d = Decision{Limit: size, Remaining: max(0, size-missing), Wait: Never, Reset: u.ahead}
	return next, nil
}

// bucketAhead returns how far the state's time lies ahead of now, 0 or more. ok is
// false if that does not fit, or if the state is not one of the family's.
func bucketAhead(state []byte, now int64) (ahead int64, ok bool) {
	if n := len(state); n != bucketLen && n != timeLen && !ofBucket(state) {
		return 0, n == 0
	}
	tat := int64(binary.LittleEndian.Uint64(state))
	if tat <= now {
		return 0, true
	}
	return tat - now, tat-now > 0
}

// ofBucket reports whether a state can be one of the family's. It looks at the
// length, and at what follows the time if that is not a pace.
func ofBucket(state []byte) bool {
	switch n := len(state); {
	case n < timeLen:
		return false
	case n == timeLen, n == bucketLen && !codeIn(state).isNone(), n == rawLen && rawPace(state) > 0:
		return true
	case n >= minTerms:
		return new(use).readTerms(state)
	}
	return false
}

// putTime writes a state that is a time alone over dst.
func putTime(dst []byte, at int64) []byte {
	return binary.LittleEndian.AppendUint64(dst[:0], uint64(at))
}

// badState returns the error of a state that bucketAhead has refused.
func badState(state []byte) error {
	if !ofBucket(state) {
		return ErrState
	}
	return ErrOverflow
}

// badArgument returns the error of the first argument that is out of range.
func badArgument(l *Limit) error {
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

// whole returns how many times e fits in length, 0 if length is negative.
func whole(length, e int64) int64 {
	if length < e {
		return 0
	}
	return int64(uint64(length) / uint64(e))
}
