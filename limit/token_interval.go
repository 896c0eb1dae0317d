package limit

import "encoding/binary"

// TOKEN with INTERVAL: the token bucket whose tokens arrive together, Max of them
// once a Period, as in Bucket4j's "intervally" refill. The first Period begins
// when a full bucket is taken from. A bucket that holds less than Max gets no
// more than it holds: Max is Burst then, here and below.
//
// The state is the time when the bucket will be full, and how many tokens are
// missing; while they are, Max more arrive at full, full − Period, full −
// 2·Period and so on. With the arrivals that are still to come
//
//	left     = ⌈(full − now)/Period⌉, but no more than ⌈missing/Max⌉
//	missing  = missing − Max·(⌈missing/Max⌉ − left)
//	next     = full − (left − 1)·Period, or now + Period if none is missing
//
// a request needs as many arrivals as make room for it:
//
//	limited  ⇔ missing + cost > Burst
//	wait     = next + (⌈(missing + cost − Burst)/Max⌉ − 1)·Period − now if cost ≤ Burst, else Never
//	full     = next + (⌈(missing + cost)/Max⌉ − 1)·Period, if not limited
//	reset    = full − now
//	remaining = max(0, Burst − missing)
//
// In advance, a request waits until missing ≤ Burst, then goes whatever its
// cost. A refund lessens missing, and leaves next as it is.
//
// The time alone, from another algorithm of the family, is worth as many tokens
// as there, rounded up to whole ones: ⌈(full − now)/E⌉ are missing, and until
// the first is taken with INTERVAL each E brings one. The others read the time
// and leave the missing tokens unread, which gives nothing either. A limit that
// changes leaves full and missing as they are.
//
// What must fit in int64 is full + ⌈cost/Max⌉·Period, with full before the
// request: the bucket is never full later than that, and what fits does so for
// good if nobody else asks.
//
// It promises: in any time t, at most Burst + Max·⌈t/Period⌉.

// together is how many tokens arrive at once.
func together(l *Limit) int64 {
	if l.Burst < l.Max && l.Burst > 0 {
		return l.Burst
	}
	return l.Max
}

// arrivals is what a state says at a time.
type arrivals struct {
	missing int64
	ahead   int64 // how long until full
	next    int64 // how long until the next arrival, if there were one
	e       int64 // the interval if the tokens arrive one by one, else 0
}

// intervalAt reads a state at a time; l has passed the checks, and allows some.
func intervalAt(l *Limit, state []byte, ahead int64) arrivals {
	if ahead == 0 {
		return arrivals{next: l.Period}
	}
	x := arrivals{ahead: ahead}
	most := together(l)
	var left int64
	if len(state) == 8 {
		x.e = groups(l.Period, most)
		x.missing = groups(ahead, x.e)
		left = groups(x.missing, most) // no later than now, for E·Max ≥ Period
	} else {
		x.missing, _ = missingTokens(state)
		all := groups(x.missing, most)
		left = min(all, groups(ahead, l.Period))
		x.missing -= (all - left) * most
	}
	x.next = ahead - (left-1)*l.Period
	return x
}

// until is how long it takes until no more than room are missing, of those that
// are: they are more.
func (x *arrivals) until(l *Limit, room int64) int64 {
	if x.e != 0 {
		return x.ahead - room*x.e
	}
	return x.next + (groups(x.missing-room, together(l))-1)*l.Period
}

// full is how long until the bucket is full if so many are missing.
func (x *arrivals) full(l *Limit, missing int64) int64 {
	if missing == 0 {
		return 0
	}
	return x.next + (groups(missing, together(l))-1)*l.Period
}

// intervalTake is Take: it fills in the decision and returns the next state,
// which is of use only if the request is not limited.
func intervalTake(d *Decision, l *Limit, state []byte, now, cost int64) (full, missing int64, err error) {
	x, reset, err := intervalAfter(l, state, now, cost)
	if err != nil {
		return 0, 0, err
	}
	if l.Max == 0 {
		*d = Decision{Limited: true, Wait: Never, Reset: x.ahead}
		return 0, 0, nil
	}
	if missing = x.missing + cost; missing <= l.Burst {
		*d = Decision{Limit: l.Burst, Remaining: l.Burst - missing, Wait: Never, Reset: reset}
		return now + reset, missing, nil
	}
	wait := Never
	if cost <= l.Burst {
		wait = x.until(l, l.Burst-cost)
	}
	*d = Decision{Limited: true, Limit: l.Burst, Remaining: max(0, l.Burst-x.missing), Wait: wait, Reset: x.ahead}
	return 0, 0, nil
}

// intervalReserve is Reserve, of any cost; what it returns is as of intervalTake.
func intervalReserve(d *Decision, l *Limit, state []byte, now, cost, maxWait int64) (full, missing int64, err error) {
	x, reset, err := intervalAfter(l, state, now, cost)
	if err != nil {
		return 0, 0, err
	}
	if l.Max == 0 {
		*d = Decision{Limited: true, Wait: Never, Reset: x.ahead}
		return 0, 0, nil
	}
	debt := int64(0)
	if x.missing > l.Burst {
		debt = x.until(l, l.Burst)
	}
	limited, wait := within(debt, maxWait)
	missing = x.missing + cost
	if limited {
		missing, reset = x.missing, x.ahead
	}
	*d = Decision{Limited: limited, Limit: l.Burst, Remaining: max(0, l.Burst-missing), Wait: wait, Reset: reset}
	return now + reset, missing, nil
}

// intervalAfter reads the state, and how long it would be until full if the cost
// were taken; at limit 0, x.ahead is all that it knows.
func intervalAfter(l *Limit, state []byte, now, cost int64) (x arrivals, reset int64, err error) {
	if l.Max|l.Burst|cost < 0 || l.Period < 1 {
		return x, 0, badArgument(l, cost)
	}
	ahead, ok := bucketAhead(state, now)
	if !ok {
		return x, 0, badState(state)
	}
	if l.Max == 0 {
		return arrivals{ahead: ahead}, 0, nil
	}
	x = intervalAt(l, state, ahead)
	if cost == 0 {
		return x, ahead, nil
	}
	// full is never later than this.
	over, later := mul(groups(cost, together(l)), l.Period)
	last := ahead + later
	missing := x.missing + cost
	if over != 0 || later|last|missing < 0 || now+last < now {
		return x, 0, ErrOverflow
	}
	return x, x.full(l, missing), nil
}

// intervalRefund is Refund: it fills in the decision and returns the next state
// and whether it is another.
func intervalRefund(d *Decision, l *Limit, state []byte, now, cost int64) (full, missing int64, changed bool, err error) {
	if l.Max|l.Burst|cost < 0 || l.Period < 1 {
		return 0, 0, false, badArgument(l, cost)
	}
	ahead, ok := bucketAhead(state, now)
	if !ok {
		return 0, 0, false, badState(state)
	}
	if l.Max == 0 {
		*d = Decision{Wait: Never, Reset: ahead}
		return 0, 0, false, nil
	}
	x := intervalAt(l, state, ahead)
	missing = max(0, x.missing-cost)
	reset := x.full(l, missing)
	*d = Decision{Limit: l.Burst, Remaining: max(0, l.Burst-missing), Wait: Never, Reset: reset}
	return now + reset, missing, missing != x.missing, nil
}

// putInterval writes a state over dst.
func putInterval(dst []byte, full, missing int64) []byte {
	if missing == 0 {
		return putTime(dst, full)
	}
	// All or nothing goes into dst, which may be the state.
	var buf [8 + binary.MaxVarintLen64]byte
	binary.LittleEndian.PutUint64(buf[:], uint64(full))
	n := binary.PutUvarint(buf[8:], uint64(missing))
	return append(dst[:0], buf[:8+n]...)
}

// missingTokens reads what follows the time in an INTERVAL state, 1 or more.
func missingTokens(state []byte) (missing int64, ok bool) {
	n, size := binary.Uvarint(state[8:])
	return int64(n), size == len(state)-8 && int64(n) > 0
}

// groups is ⌈n/size⌉, of an n of 1 or more.
func groups(n, size int64) int64 {
	if n <= size {
		return 1
	}
	return int64((uint64(n) + uint64(size) - 1) / uint64(size))
}
