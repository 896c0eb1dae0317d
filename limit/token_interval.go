package limit

// TOKEN with INTERVAL: the token bucket whose tokens arrive together, Max of them
// once a Period, as in Bucket4j's "intervally" refill. The first Period begins
// when a full bucket is taken from. A bucket that holds less than Max gets only as
// much as it holds; read Max as Burst then, here and below.
//
// The state is the time when the bucket will be full, the Period, how many tokens
// are missing, and how many arrive at once. While any are missing, Max arrive at
// full, full − Period, full − 2·Period and so on.
//
//	0        8          16
//	+--------+----------+---------+---------+
//	|  full  |  Period  | missing |   Max   |   int64, int64, little-endian; uvarints
//	+--------+----------+---------+---------+
//
// With the arrivals that are still to come
//
//	left     = ⌈(full − now)/Period⌉, but at most ⌈missing/Max⌉
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
// When the limit changes, missing tokens arrive as the state says until a request
// is granted. From then on they arrive as the new limit says: at the same times if
// the Period is the same; else first at next, or at now + Period′ if that is
// sooner. A denial that moves to a faster pace does so as well; see carry.go.
//
// By the time and pace of another algorithm of the family, ⌈(full − now)/E⌉ tokens
// are missing, and one arrives each E until the first is taken with INTERVAL. For
// the other algorithms, the missing tokens are what is in use.
//
// Promise: in any time t, at most Burst + Max·⌈t/Period⌉.

// intervalUse is what is in use according to a state, under an INTERVAL limit.
type intervalUse struct {
	use        // in the terms of the state
	same  bool // the terms of the state are those of the limit
	after use  // in the terms of the limit
}

// read reads a state whose time is ahead of now. l is valid and its Max is not 0.
// read returns false if the state is damaged.
func (x *intervalUse) read(l *Limit, state []byte, ahead int64) bool {
	most := together(l)
	x.after = use{next: l.Period, period: l.Period, most: most}
	x.same = true
	if ahead == 0 {
		return true
	}
	e := groups(l.Period, most)
	if !useAt(&x.use, state, ahead, e) {
		return false
	}
	x.after.ahead, x.after.missing = ahead, x.missing
	switch {
	case x.e != 0:
		x.same = x.e == e
		c := x.carried(e)
		over, before := mul(groups(x.missing, most)-1, l.Period)
		if over != 0 || before < 0 || c == maxInt64 && !x.same {
			x.after.missing = maxInt64 // so that no cost can be added
		}
		x.after.ahead, x.after.next = c, c-before
	case x.period == l.Period:
		x.same = x.most == most
		x.after.next = x.next
	default:
		x.same = false
		x.after.next = min(x.next, l.Period)
	}
	return true
}

// outrun reports whether the terms of the limit bring no token back later, and some
// sooner.
func (x *intervalUse) outrun(l *Limit) bool {
	switch {
	case x.same:
		return false
	case x.e != 0:
		return x.use.outrun(groups(l.Period, together(l)))
	}
	// As many tokens as arrived at once come within the old period, and the first of
	// them no later than before.
	y := &x.after
	over, each := mul(groups(x.most, y.most), y.period)
	over2, more := mul(groups(min(x.most, x.missing), y.most)-1, y.period)
	return over|over2 == 0 && each|more >= 0 && each <= x.period && more <= x.next-y.next
}

// denied fills in a denial that waits until no more than room tokens are missing.
// With keep, the state moves to the terms of the limit if they are faster.
func (x *intervalUse) denied(d *Decision, l *Limit, room, now int64, dst []byte, keep bool) (next []byte) {
	if !x.outrun(l) {
		d.Wait = x.until(room)
		return nil
	}
	if x.e != 0 {
		// Until one is taken, they come one by one.
		e := groups(l.Period, together(l))
		c := x.carried(e)
		d.Wait, d.Reset = c-room*e, c
		if !keep {
			return nil
		}
		return putBucket(dst, now+c, e, noCode)
	}
	d.Wait = x.after.until(room)
	x.after.ahead, _ = x.after.untilFull()
	d.Reset = x.after.ahead
	if !keep {
		return nil
	}
	return x.after.put(dst, now)
}

// take adds cost to what is missing, in the terms of the limit. It returns false if
// that does not fit.
func (x *intervalUse) take(now, cost int64) (ok bool) {
	y := &x.after
	if y.missing += cost; y.missing < 0 {
		return false
	}
	y.ahead, ok = y.untilFull()
	return ok && now+y.ahead >= now
}

// intervalRead checks the arguments and reads the state; of a limit whose Max is 0,
// only the state's time.
func intervalRead(x *intervalUse, l *Limit, state []byte, now, cost int64) (ahead int64, err error) {
	if l.Max|l.Burst|cost < 0 || l.Period < 1 {
		return 0, badArgument(l)
	}
	ahead, ok := bucketAhead(state, now)
	if !ok {
		return 0, badState(state)
	}
	if l.Max > 0 && !x.read(l, state, ahead) {
		return 0, ErrState
	}
	return ahead, nil
}

// intervalTake is Take. With keep it writes the next state over dst.
func intervalTake(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte, keep bool) (next []byte, err error) {
	var x intervalUse
	ahead, err := intervalRead(&x, l, state, now, cost)
	if err != nil {
		return nil, err
	}
	if l.Max == 0 {
		*d = Decision{Limited: true, Wait: Never, Reset: ahead}
		return nil, nil
	}
	if cost <= l.Burst && x.missing <= l.Burst-cost {
		if cost == 0 {
			*d = Decision{Limit: l.Burst, Remaining: l.Burst - x.missing, Wait: Never, Reset: ahead}
			return nil, nil
		}
		if !x.take(now, cost) {
			return nil, ErrOverflow
		}
		*d = Decision{Limit: l.Burst, Remaining: l.Burst - x.after.missing, Wait: Never, Reset: x.after.ahead}
		if !keep {
			return nil, nil
		}
		return x.after.put(dst, now), nil
	}
	*d = Decision{Limited: true, Limit: l.Burst, Remaining: max(0, l.Burst-x.missing), Wait: Never, Reset: ahead}
	switch {
	case cost > l.Burst:
	case cost == 0:
		d.Wait = x.until(l.Burst)
	default:
		next = x.denied(d, l, l.Burst-cost, now, dst, keep)
	}
	return next, nil
}

// intervalReserve is Reserve, of any cost. It writes the next state over dst.
func intervalReserve(d *Decision, l *Limit, state []byte, now, cost, maxWait int64, dst []byte) (next []byte, err error) {
	var x intervalUse
	ahead, err := intervalRead(&x, l, state, now, cost)
	if err != nil {
		return nil, err
	}
	if l.Max == 0 {
		*d = Decision{Limited: true, Wait: Never, Reset: ahead}
		return nil, nil
	}
	if over, dvt := mul(l.Burst, groups(l.Period, together(l))); x.e != 0 && !x.same && (over != 0 || dvt < 0) {
		return nil, ErrOverflow
	}
	debt := x.debt(l)
	limited, wait := within(debt, maxWait)
	if debt == maxInt64 && !x.same { // it may be more
		if limited = maxWait >= 0 && x.reserveWait(l, maxWait) > 0; !limited {
			return nil, ErrOverflow
		}
	}
	if !limited && cost > 0 {
		if !x.take(now, cost) {
			return nil, ErrOverflow
		}
		*d = Decision{Limit: l.Burst, Remaining: max(0, l.Burst-x.after.missing), Wait: wait, Reset: x.after.ahead}
		return x.after.put(dst, now), nil
	}
	*d = Decision{Limited: limited, Limit: l.Burst, Remaining: max(0, l.Burst-x.missing), Wait: wait, Reset: ahead}
	switch {
	case !limited || x.same:
	case cost > 0 && x.outrun(l):
		next = x.denied(d, l, l.Burst, now, dst, true)
		d.Wait = wait
	default:
		d.Wait = x.reserveWait(l, maxWait)
	}
	return next, nil
}

// debt returns the time, in the terms of the limit, until no more than the burst are
// missing; the largest int64 if it does not fit.
func (x *intervalUse) debt(l *Limit) int64 {
	switch {
	case x.missing <= l.Burst:
		return 0
	case x.same:
		return x.until(l.Burst)
	case x.e != 0:
		e := groups(l.Period, together(l))
		if c := x.carried(e); c < maxInt64 {
			return c - l.Burst*e
		}
		return maxInt64
	}
	y := x.after
	y.missing -= l.Burst
	if wait, ok := y.untilFull(); ok {
		return wait
	}
	return maxInt64
}

// reserveWait returns the time until the debt is at most maxWait. The debt is more
// than that now, and the terms of the state are not those of the limit.
//
// Between two arrivals the debt is the time to the next one, or Period′ if that is
// less, and as many more Period′ as it takes. reserveWait finds the arrival after
// which these are few enough.
func (x *intervalUse) reserveWait(l *Limit, maxWait int64) int64 {
	y := &x.after
	if x.e != 0 {
		e := groups(l.Period, together(l))
		return x.use.reserveWait(e, l.Burst*e, maxWait)
	}
	if x.period == y.period && x.next > y.period { // the clock has gone back
		over, before := mul(groups(x.missing-l.Burst, y.most)-1, y.period)
		if over == 0 && before >= 0 && before < maxWait {
			return x.next - (maxWait - before) // before anything arrives
		}
	}
	// at returns the time until no more than the burst and n·Max′ are missing.
	at := func(n int64) (wait, arrivals int64) {
		over, room := mul(n, y.most)
		room += l.Burst
		if over != 0 || room < 0 || x.missing <= room {
			return 0, 0
		}
		return x.until(room), groups(x.missing-room, x.most)
	}
	n, rest := maxWait/y.period, maxWait%y.period
	wait, arrivals := at(n)
	if rest > 0 && arrivals > 0 {
		if first, before := at(n + 1); before < arrivals {
			next := x.next + before*x.period
			wait = max(first, next-rest)
		}
	}
	return wait
}

// intervalRefund is Refund, in the terms of the state. It writes the next state
// over dst.
func intervalRefund(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	var x intervalUse
	ahead, err := intervalRead(&x, l, state, now, cost)
	if err != nil {
		return nil, err
	}
	if l.Max == 0 {
		*d = Decision{Wait: Never, Reset: ahead}
		return nil, nil
	}
	u := &x.use
	if x.same && x.e == 0 { // tokens that come one by one go on to do so
		u = &x.after
	}
	if cost > 0 && u.missing > 0 {
		next = u.refund(now, cost, u.e, dst)
	} else if u == &x.after {
		u.ahead, _ = u.untilFull()
	}
	*d = Decision{Limit: l.Burst, Remaining: max(0, l.Burst-u.missing), Wait: Never, Reset: u.ahead}
	return next, nil
}
