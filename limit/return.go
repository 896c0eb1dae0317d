package limit

import (
	"encoding/binary"
	"math"
)

// Refund gives back to a key, whenever the cost was taken and from what. Return gives
// back what one Take has taken, as far as it still counts. It is for requests whose cost
// is known only afterwards: they take an estimate first.
//
// One time says what the Take has taken: back = now + Reset of its decision, when all that
// was in use then has come back by itself. From back on, Return returns nothing. Before:
//
//	GCRA, TOKEN, LEAKY  n = min(amount, ⌊(back − now)/E⌋, ⌊ahead/E⌋), TAT −= n·E
//	TOKEN INTERVAL      n = min(amount, Max·⌈(back − now)/Period⌉, missing)
//	QUEUE               as GCRA if nobody has come behind, so empty = back; else 0
//	WARMUP              the permits, and the time that is still owed for them, if nobody
//	                    has taken any since, so the state expires at back; else 0
//	FIXED               n = min(amount, count): the window ends at back
//	SLIDING             units of the window that began two Periods before back
//	SEGMENTED           units of the sub-window that leaves at back
//	LOG                 units of the time back − Period
//
// Promise, while the limit stays the same:
//
//   - FIXED, SLIDING, SEGMENTED and LOG are as if the units had never been taken. So in
//     any time t, what is used keeps the algorithm's own promise. QUEUE and WARMUP also
//     keep theirs.
//   - A full bucket gains nothing, so a bucket from which n had not been taken could have
//     lost some of the time since. With one Take out at a time, it has at least what Return
//     leaves: if it was full of tokens at F, then back = F + amount·E at most, and it has lost no
//     more than now − F. So GCRA, TOKEN and LEAKY keep their promise.
//   - With several Takes out, a bucket admits in any time t at most what its limit admits
//     in t + h, where h is the longest time from a Take to its Return. What is taken within
//     t + h and not given back keeps the promise of t + h, because each Return within t is
//     of a Take within t + h. The same holds for INTERVAL, and for all algorithms if the
//     limit changes.
//
// If the limit has changed, a bucket gives back by the slower pace, FIXED what its count
// has carried over, SLIDING, SEGMENTED and LOG what a window, a sub-window or a time has
// that fits, and WARMUP nothing.

// Return gives amount back at time now, of what a Take under l has taken, whose
// decision's Reset was over at back: see the head of this file. amount is at most what
// was taken, and there is one Return for a Take. Return returns how much it has given back.
// next is nil if that is 0. state, dst and the errors are as in Take.
func Return(l *Limit, state []byte, now, back, amount int64, dst []byte) (next []byte, returned int64, err error) {
	if !l.Algorithm.Valid() {
		return nil, 0, ErrAlgorithm
	}
	if len(state) == 0 || back <= now || amount == 0 {
		return nil, 0, nil
	}
	if back-now < 0 {
		return nil, 0, ErrOverflow
	}
	switch l.Algorithm {
	case WARMUP:
		return warmReturn(l, state, now, back, amount, dst)
	case FIXED:
		return fixedReturn(l, state, now, amount, dst)
	case SLIDING:
		return slidingReturn(l, state, now, back, amount, dst)
	case SEGMENTED:
		return segmentedReturn(l, state, now, back, amount, dst)
	case LOG:
		return logReturn(l, state, now, back, amount, dst)
	}
	return bucketReturn(l, state, now, back, amount, dst)
}

// ReturnAndPeek is Return, and fills in d as Peek of a cost of 0 does for the state that Return leaves.
func ReturnAndPeek(l *Limit, state []byte, now, back, amount int64, dst []byte, d *Decision) (next []byte, returned int64, err error) {
	if l.Algorithm == FIXED && len(state) > 0 && back-now > 0 && back > now && amount > 0 {
		var w fixedWindow
		if err := w.find(l, state, now, amount); err != nil {
			return nil, 0, err
		}
		if returned = min(amount, w.count); returned > 0 && w.count-returned <= l.Max && l.Max > 0 {
			w.count -= returned
			w.live = w.count > 0
			w.tell(d, l, now)
			return w.put(dst, l), returned, nil
		}
	}
	next, returned, err = Return(l, state, now, back, amount, dst)
	if err == nil {
		left := state
		if next != nil {
			left = next
		}
		err = Peek(l, left, now, 0, d)
	}
	return next, returned, err
}

// bucketReturn is Return for the bucket family.
func bucketReturn(l *Limit, state []byte, now, back, amount int64, dst []byte) (next []byte, returned int64, err error) {
	if l.Max|l.Burst|amount < 0 || l.Period < 1 {
		return nil, 0, badArgument(l)
	}
	ahead, ok := bucketAhead(state, now)
	if !ok {
		return nil, 0, badState(state)
	}
	if l.Max == 0 || ahead == 0 || l.Algorithm == QUEUE && now+ahead != back {
		return nil, 0, nil
	}
	var u use
	e := interval(l)
	if !useAt(&u, state, ahead, e) {
		return nil, 0, ErrState
	}
	left := whole(back-now, max(e, u.e)) // of what was taken, by the slower pace
	if l.Interval {
		if over, all := mul(groups(back-now, l.Period), together(l)); over == 0 && all >= 0 {
			left = all
		} else {
			left = maxInt64
		}
	}
	used := u.missing
	if u.e != 0 {
		used = whole(ahead, u.e)
	}
	if returned = min(amount, left, used); returned == 0 {
		return nil, 0, nil
	}
	return u.refund(now, returned, u.e, dst), returned, nil
}

// warmReturn is Return for WARMUP.
func warmReturn(l *Limit, state []byte, now, back, amount int64, dst []byte) (next []byte, returned int64, err error) {
	var w warmth
	var k kept
	if err := w.open(&k, l, state, now, amount); err != nil {
		return nil, 0, err
	}
	if l.Max == 0 || w.owed == 0 || k.ends != back-now {
		return nil, 0, nil
	}
	w.giveBack(l, k.s, amount)
	return w.put(dst, now), amount, nil
}

// fixedReturn is Return for FIXED.
func fixedReturn(l *Limit, state []byte, now, amount int64, dst []byte) (next []byte, returned int64, err error) {
	var w fixedWindow
	if err := w.find(l, state, now, amount); err != nil {
		return nil, 0, err
	}
	if returned = min(amount, w.count); returned == 0 {
		return nil, 0, nil
	}
	w.count -= returned
	w.live = w.count > 0
	return w.put(dst, l), returned, nil
}

// slidingReturn is Return for SLIDING.
func slidingReturn(l *Limit, state []byte, now, back, amount int64, dst []byte) (next []byte, returned int64, err error) {
	var w slidingWindow
	if err := w.find(l, state, now, amount); err != nil {
		return nil, 0, err
	}
	if !w.live || w.line {
		return nil, 0, nil
	}
	count := &w.cur
	switch {
	case back == w.end && w.rolled, back == w.end-w.period && !w.rolled:
		count = &w.prev
	case back != w.end:
		return nil, 0, nil
	}
	if returned = min(amount, *count); returned == 0 {
		return nil, 0, nil
	}
	*count -= returned
	w.settle()
	return w.put(dst), returned, nil
}

// segmentedReturn is Return for SEGMENTED.
func segmentedReturn(l *Limit, state []byte, now, back, amount int64, dst []byte) (next []byte, returned int64, err error) {
	var s segments
	counts, err := s.find(l, state, now, amount)
	if err != nil {
		return nil, 0, err
	}
	n := int64(len(counts) / s.width)
	newer := s.end - back // than the sub-window, in ns
	if !s.live || newer < 0 || newer%s.length != 0 || newer/s.length >= n {
		return nil, 0, nil
	}
	i := int(n - 1 - newer/s.length)
	count := getCount(counts, i, s.width)
	if returned = min(amount, count); returned == 0 {
		return nil, 0, nil
	}
	return s.with(counts, i, count-returned, dst), returned, nil
}

// with writes a state over dst in which the i-th of counts is another, or 0: as long
// expired if nothing is left.
func (s *segments) with(counts []byte, i int, count int64, dst []byte) []byte {
	n := len(counts) / s.width
	next, body := s.start(counts, s.end, s.width, n, dst)
	if putCount(body, i, s.width, count); count > 0 {
		return next
	}
	for ; n > 0 && getCount(body, n-1, s.width) == 0; n-- {
		s.end -= s.length
	}
	if body = trimOldest(body[:n*s.width], s.width); n == 0 {
		next, _ = s.start(nil, math.MinInt64, 1, 0, next)
	} else {
		next, _ = s.start(body, s.end, s.width, len(body)/s.width, next)
	}
	return next
}

// logReturn is Return for LOG.
func logReturn(l *Limit, state []byte, now, back, amount int64, dst []byte) (next []byte, returned int64, err error) {
	var g entries
	if err := logOpen(l, &g, state, now, amount); err != nil {
		return nil, 0, err
	}
	if back < math.MinInt64+l.Period {
		return nil, 0, ErrOverflow
	}
	time, body := back-l.Period, state[g.at:]
	if g.count == 0 || time < g.oldest || time > g.newest || g.newest-time < 0 || g.newest-time == maxInt64 {
		return nil, 0, nil
	}
	at, ok := g.since(body, g.newest, g.newest-time+1)
	if !ok {
		return nil, 0, ErrState
	}
	later := mark{end: len(body), before: g.count} // the first token after that time
	if time < g.newest {
		if later, ok = g.since(body, g.newest, g.newest-time); !ok || later.units == 0 {
			return nil, 0, ErrState
		}
	}
	if returned = min(amount, later.before-at.before); returned == 0 {
		return nil, 0, nil
	}
	next, ok = g.without(state, later, returned, now, dst)
	if !ok {
		return nil, 0, ErrState
	}
	return next, returned, nil
}

// without writes the log over dst without the last units before the token later. It is
// not ok if the state is damaged.
//
// A log changes at its end, so what follows is dropped as well, and then added again.
func (g *entries) without(state []byte, later mark, units, now int64, dst []byte) (next []byte, ok bool) {
	body := state[g.at:]
	if later.units > 0 && cap(dst) > 0 && &dst[:1][0] == &state[0] {
		dst = nil
	}
	if drop := g.count - later.before + units; drop < g.count {
		var c change
		if !g.pop(&c, body, mark{end: g.start, time: g.oldest, units: g.first}, drop) {
			return nil, false
		}
		if c.expires, c.hold, c.held = g.expires, g.hold, g.held; later.units == 0 {
			window := g.expires - g.newest
			if g.held > now {
				window = max(window, g.hold)
			}
			g.end(&c, window, now)
		}
		next = g.write(&c, state, dst)
	} else if later.units == 0 {
		return putTime(dst, now), true
	}
	if later.units == 0 {
		return next, true
	}
	next, ok = g.again(next, later.time, later.units, now)
	for at := later.end; ok && at < len(body); {
		v, n := binary.Uvarint(body[at:])
		switch {
		case (g.phase+at)%chunk == 0:
			at += chunkHead
			continue
		case body[at] == 0: // filling
			at++
			continue
		case n <= 0 || v < 2:
			return nil, false
		case v&1 == 0:
			later.time += int64(v >> 1)
			v = 1<<1 | 1
		}
		at += n
		next, ok = g.again(next, later.time, int64(v>>1), now)
	}
	if ok && LOG.Kind().Recorded(next) == longLog {
		// Bytes before the end have changed: in the count of Since, all are new.
		fresh := (g.base-logBase(next)+uint32(len(body))+chunk)&^(chunk-1) + logBase(next)
		binary.LittleEndian.PutUint32(next[logStart:], fresh)
	}
	return next, ok
}

// again adds units of g to a log that is without them. It is not ok if the state is damaged.
func (g *entries) again(state []byte, time, units, now int64) (next []byte, ok bool) {
	var to entries
	if err := to.open(state, now); err != nil || to.count > 0 && to.newest > time {
		return nil, false
	}
	e := entry{time: time, units: units, expires: g.expires, hold: g.hold, held: g.held}
	e.keep = mark{end: to.start, time: to.oldest, units: to.first}
	var c change
	to.push(&c, state[to.at:], &e)
	return to.write(&c, state, state[:0]), true
}

// Charge takes cost at time now, whatever is left: it has been used. Time pays what is
// beyond the limit, as for a key that was used under a larger limit. The decision says
// what is left afterwards: it is not Limited, and its Wait is Never. state, next, dst, d and the errors
// are as in Take. A limit of 0 takes nothing.
func Charge(l *Limit, state []byte, now, cost int64, dst []byte, d *Decision) (next []byte, err error) {
	counted := *l
	switch l.Algorithm {
	case GCRA, LEAKY:
		next, err = bucketReserve(d, l, state, now, cost, -1, dst)
	case TOKEN:
		if l.Interval {
			next, err = intervalReserve(d, l, state, now, cost, -1, dst)
		} else {
			next, err = bucketReserve(d, l, state, now, cost, -1, dst)
		}
	case QUEUE:
		next, err = queueCharge(d, l, state, now, cost, dst)
	case WARMUP:
		next, err = warmReserve(d, l, state, now, cost, -1, dst)
	default: // as a denial that counts
		counted.CountDenied = true
		next, err = Take(&counted, state, now, cost, dst, d)
	}
	if err == nil {
		d.Limited, d.Wait = false, Never
	}
	return next, err
}

// queueCharge is Charge for QUEUE: cost places behind the last one.
func queueCharge(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	ahead, _ := bucketAhead(state, now) // dst may be the state
	if _, err = queueTake(d, l, state, now, 0, nil, false); err != nil || cost == 0 || l.Max == 0 {
		return nil, err
	}
	if cost < 0 {
		return nil, ErrCost
	}
	e := interval(l)
	over, more := mul(e, cost)
	after := ahead + more
	if over != 0 || more < 0 || after < 0 || now+after < now {
		return nil, ErrOverflow
	}
	d.Remaining, d.Reset = whole((l.Burst+1)*e-after, e), after
	return putBucket(dst, now+after, e, noCode), nil
}

// Estimate is an amount that was taken from a key, and whose cost is known later. It is for replays: they hold and settle with the
// functions of this package, without the records that a server keeps of its holds.
type Estimate struct {
	// Limit is the limit under which it was taken.
	Limit Limit
	// Amount is how much is taken and has not gone back.
	Amount int64
	// Back is what Return needs to know: see Hold.
	Back int64
	// Until is when its time is over, in Unix ns.
	Until int64
	// Returned reports whether it has gone back because its time was over.
	Returned bool
}

// Hold notes what a Take under l, or a TakeBlock, has granted of a key at now, whose decision was d. k and state are the key's
// afterwards. The error is that of Peek.
func (e *Estimate) Hold(l *Limit, k Kind, state []byte, now, amount, ttl int64, d *Decision) error {
	reset := d.Reset
	if k == BLOCK { // its decision includes for how long the block is remembered
		var b Block
		var own Decision
		_, inner, err := b.Open(state, now)
		if err == nil {
			err = Peek(l, inner, now, 0, &own)
		}
		if err != nil {
			return err
		}
		reset = own.Reset
	}
	*e = Estimate{Limit: *l, Amount: amount, Back: later(now, reset), Until: later(now, ttl)}
	return nil
}

// Change brings what the estimate has taken at now to an amount: it returns what is too much, or charges what is too little. k and
// state are the key's; as is the kind of next, which is nil if the state stays. changed is how much more was taken, or less than 0 for
// what went back, and over how much of that was beyond the limit. The errors are those of Peek, Charge and Return.
func (e *Estimate) Change(k Kind, state []byte, now, to int64) (next []byte, as Kind, changed, over int64, err error) {
	var b Block
	if k == BLOCK {
		if k, state, err = b.Open(state, now); err != nil {
			return nil, 0, 0, 0, err
		}
	}
	l, more := &e.Limit, to-e.Amount
	switch {
	case k != 0 && !SameFamily(k, l.Algorithm.Kind()): // nothing holds it any longer
		changed = max(0, more)
		return nil, 0, changed, changed, nil
	case more > 0:
		var d Decision
		if err = Peek(l, state, now, 0, &d); err != nil {
			return nil, 0, 0, 0, err
		}
		changed, over = more, max(0, more-d.Remaining)
		next, err = Charge(l, state, now, more, nil, &d)
	case more < 0 && !e.Returned && k != 0:
		next, changed, err = Return(l, state, now, e.Back, -more, nil)
		changed = -changed
	}
	if err != nil || next == nil {
		return nil, 0, changed, over, err
	}
	e.Amount += changed
	if as = l.Algorithm.Kind(); b.Remembered(now) {
		if Expires(as, next) <= now {
			next = nil
		}
		return b.Put(nil, as, next), BLOCK, changed, over, nil
	}
	return next, as, changed, over, nil
}

// GiveBack is Change to 0, because the time of the estimate is over.
func (e *Estimate) GiveBack(k Kind, state []byte, now int64) (next []byte, as Kind, returned int64, err error) {
	next, as, returned, _, err = e.Change(k, state, now, 0)
	e.Returned = true
	return next, as, -returned, err
}

// later returns t + d, or the highest int64 if that does not fit. d is 0 or more.
func later(t, d int64) int64 {
	if t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}
