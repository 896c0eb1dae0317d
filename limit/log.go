package limit

import "math"

// The sliding window log: every admitted unit is kept with its time, and no window
// of a Period ever holds more than Max of them. Others keep a sorted set of
// timestamps for each caller: P. Hayes, "Better rate limiting with Redis sorted
// sets", ClassDojo Engineering (2015), which counts denied requests too.
//
//	latest    = max(now, the time of the newest unit)
//	live      = units later than latest − Period
//	limited   ⇔ live + cost > Max
//	wait      = (time of live unit number live + cost − Max) + Period − now if cost ≤ Max, else Never
//	reset     = (time of the newest unit) + Period − now
//	remaining = Max − live
//
// Promise: in any time t, at most Max·(⌊t/Period⌋ + 1), so Max in any time shorter
// than a Period. A unit is admitted at latest, so a clock that has gone back makes
// no unit older than it is.
//
// With COUNTDENIED a denied request enters the log as well, with its whole cost. The
// newest Max units keep their times. Those before them, as long as they are live, get
// the time of the oldest of the Max, where they need no room: they decide nothing
// until units are given back. MaxLog units are counted at most. A caller that keeps
// asking too often is never let through again. wait assumes that nobody asks until
// it is over.
//
// A refund takes the newest units out of the log. That undoes the last Take. If
// others have taken since then, their units go, and the unit that was given back
// stays until its time.
//
// With another Period the log is the same, and each limit counts the units of its
// own window. Units are dropped when the log changes. Units that a longer Period
// counts stay as long as a unit that was admitted under it: the log is held for
// that Period, until the end that it had; then for that of the last change. A log
// that is held keeps only the newest
// MaxLog units, which is more than any limit counts. From its end on there is no
// log, so a longer Period finds only what an earlier one has kept.
//
// Promise, if the limit changes: at most the sum of what the limits promise.
//
// logstate.go and logbody.go have the state. A unit has 4 bytes where 8 a second or
// more come, 5 down to one each 17 s, 6 down to one each 36 min; all further units of
// one time have 1 to 3 bytes together. A call costs the same however long the log is, except
// for the units that it drops or gives back, and for O(log n) steps to find where
// the window begins.

// logTake is Take for LOG.
func logTake(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	var g entries
	if err := logOpen(l, &g, state, now, cost); err != nil {
		return nil, err
	}
	var e entry
	if err := logDecide(d, l, &g, &e, state[g.at:], now, cost); err != nil || e.units == 0 {
		return nil, err
	}
	var c change
	g.push(&c, state[g.at:], &e)
	return g.write(&c, state, dst), nil
}

// logPeek is Peek for LOG.
func logPeek(d *Decision, l *Limit, state []byte, now, cost int64) error {
	var g entries
	if err := logOpen(l, &g, state, now, cost); err != nil {
		return err
	}
	var e entry
	return logDecide(d, l, &g, &e, state[g.at:], now, cost)
}

// entry is what a request adds to the log: units at a time, after which the log
// ends at expires. The first skip units are dropped. Those after them and before
// the token keep get its time.
type entry struct {
	keep                       mark
	skip, time, units, expires int64
	hold, held                 int64 // the period for which the log is held, and until when
}

// isHeld reports whether the log is held at latest for a longer Period than l's.
func (g *entries) isHeld(l *Limit, latest int64) bool {
	return g.hold > l.Period && g.held > latest
}

// retain makes e keep all units of the Period that the log is held for.
func (g *entries) retain(e *entry, body []byte) (ok bool) {
	e.hold, e.held = g.hold, g.held
	switch last := g.expires - g.newest; {
	case g.expires > e.expires:
		e.expires, e.held = g.expires, g.expires
	case g.expires > g.held && last > e.expires-e.time:
		e.held = g.expires // units of a Period between the two live on
	}
	first, ok := g.since(body, e.time, g.hold)
	skip := first.before
	if over := g.count - skip + e.units - MaxLog; ok && over > 0 {
		skip += over
		first, ok = g.unit(body, skip+1)
	}
	e.keep, e.skip = first, skip
	return ok
}

// logDecide fills in the decision, and e with what to add, if anything.
func logDecide(d *Decision, l *Limit, g *entries, e *entry, body []byte, now, cost int64) error {
	if l.Max == 0 {
		*d = Decision{Limited: true, Wait: Never, Reset: g.until(g.newest, l.Period, now)}
		return nil
	}
	latest := g.latest(now)
	first, ok := g.since(body, latest, l.Period)
	if !ok {
		return ErrState
	}
	live := g.count - first.before
	left := l.Max - live
	if cost > left && l.CountDenied && cost > 0 {
		return logCount(d, l, g, e, body, now, cost, first.before)
	}
	if cost > left {
		return logDeny(d, l, g, body, now, cost, left)
	}
	if cost == 0 {
		*d = Decision{Limit: l.Max, Remaining: left, Wait: Never, Reset: g.until(g.newest, l.Period, now)}
		return nil
	}
	expires := latest + l.Period
	if expires < latest || expires-now < 0 {
		return ErrOverflow
	}
	*d = Decision{Limit: l.Max, Remaining: left - cost, Wait: Never, Reset: expires - now}
	e.keep, e.skip, e.time, e.units, e.expires = first, first.before, latest, cost, expires
	e.hold, e.held = l.Period, expires
	if g.isHeld(l, latest) && !g.retain(e, body) {
		return ErrState
	}
	return nil
}

// logDeny fills in the decision of a denied request.
func logDeny(d *Decision, l *Limit, g *entries, body []byte, now, cost, left int64) error {
	wait := Never
	if cost <= l.Max {
		// The last unit that must go, counted from the first that has gone.
		last, ok := g.unit(body, g.count+cost-l.Max)
		if !ok {
			return ErrState
		}
		wait = g.until(last.time, l.Period, now)
		if cost > 0 && now+wait > math.MaxInt64-l.Period {
			return ErrOverflow // it could never be added
		}
	}
	*d = Decision{
		Limited: true, Limit: l.Max, Remaining: max(0, left),
		Wait: wait, Reset: g.until(g.newest, l.Period, now),
	}
	return nil
}

// logCount adds a denied request, and drops the first gone units, which are not live. The
// log is then full: as many units as the request has must go before it can be granted.
func logCount(d *Decision, l *Limit, g *entries, e *entry, body []byte, now, cost, gone int64) error {
	latest := g.latest(now)
	expires := latest + l.Period
	if expires < latest || expires-now < 0 {
		return ErrOverflow
	}
	enter := min(cost, MaxLog)
	late := g.count - max(0, l.Max-enter) // the units before the newest Max
	first, ok := g.unit(body, late+1)
	if !ok {
		return ErrState
	}
	wait := Never
	if cost <= l.Max {
		wait = expires - now
		// The last to go is one of those that stay, or of this request.
		if late+cost <= g.count {
			last, ok := g.unit(body, late+cost)
			if !ok {
				return ErrState
			}
			wait = last.time + l.Period - now
		}
		if now+wait > math.MaxInt64-l.Period {
			return ErrOverflow
		}
	}
	e.keep, e.skip = first, max(gone, g.count+enter-MaxLog)
	e.time, e.units, e.expires = latest, enter, expires
	e.hold, e.held = l.Period, expires
	if g.isHeld(l, latest) && !g.retain(e, body) {
		return ErrState
	}
	*d = Decision{Limited: true, Limit: l.Max, Wait: wait, Reset: expires - now}
	return nil
}

// logRefund is Refund for LOG.
func logRefund(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	var g entries
	if err := logOpen(l, &g, state, now, cost); err != nil {
		return nil, err
	}
	body := state[g.at:]
	if l.Max == 0 {
		// As with the other algorithms, a limit of 0 gives nothing back.
		*d = Decision{Wait: Never, Reset: g.until(g.newest, l.Period, now)}
		return nil, nil
	}
	first, ok := g.since(body, g.latest(now), l.Period)
	if !ok {
		return nil, ErrState
	}
	live := g.count - first.before
	if cost == 0 || live == 0 {
		*d = Decision{Limit: l.Max, Remaining: max(0, l.Max-live), Wait: Never, Reset: g.until(g.newest, l.Period, now)}
		return nil, nil
	}
	window := l.Period
	if cost = min(cost, live); g.isHeld(l, now) {
		window = g.hold
		if first, ok = g.since(body, g.latest(now), window); !ok {
			return nil, ErrState
		}
	}
	if first.before+cost == g.count {
		*d = Decision{Limit: l.Max, Remaining: l.Max, Wait: Never}
		return putTime(dst, now), nil
	}
	var c change
	if !g.pop(&c, body, first, cost) {
		return nil, ErrState
	}
	reset := g.until(c.newest, l.Period, now)
	g.end(&c, window, now)
	*d = Decision{Limit: l.Max, Remaining: max(0, l.Max-live+cost), Wait: Never, Reset: reset}
	return g.write(&c, state, dst), nil
}

// end makes a change of g end with its newest unit, which is in a window.
func (g *entries) end(c *change, window, now int64) {
	c.expires = now + g.until(c.newest, window, now)
	c.hold, c.held = c.expires-c.newest, c.expires
	if g.held > now && g.hold >= c.hold { // the newest unit may be of a shorter Period
		c.hold, c.held = g.hold, min(g.held, c.expires)
	}
}

// logLevel is Level for LOG: the units in the window that the log is held for.
func logLevel(state []byte, now int64) int64 {
	var g entries
	if err := g.open(state, now); err != nil || g.count == 0 {
		return 0
	}
	first, ok := g.since(state[g.at:], g.latest(now), g.hold)
	if !ok {
		return 0
	}
	return g.count - first.before
}

// logOpen checks the arguments and opens the state.
func logOpen(l *Limit, g *entries, state []byte, now, cost int64) error {
	switch {
	case l.Max > MaxLog:
		return errLogMax
	case l.Max|cost < 0 || l.Period < 1:
		return badArgument(l)
	}
	if err := g.open(state, now); err != nil {
		return err
	}
	if g.held <= g.latest(now) && g.count > 0 {
		g.hold, g.held = g.expires-g.newest, g.expires
	}
	return nil
}

// latest returns the time at which the log sees a call at now.
func (g *entries) latest(now int64) int64 {
	if g.count == 0 {
		return now
	}
	return max(now, g.newest)
}

// until returns the time from now until a unit has left the window, or the log has
// ended; 0 if it has.
func (g *entries) until(unit, period, now int64) int64 {
	gone := g.expires
	if g.count > 0 && unit <= math.MaxInt64-period {
		gone = min(gone, unit+period)
	}
	if gone <= now {
		return 0
	}
	return gone - now
}
