package limit

import (
	"math/big"
	"slices"
)

// logModel is the sliding window log as a plain list of admissions.
type logModel struct {
	log []admitted
	end *big.Int // the state's own; nil: never seen
	// The longest period that it is held for, and until when; nil: the time from
	// the newest unit to the end, until the end.
	hold, held *big.Int
}

// admitted are units of one time.
type admitted struct {
	at *big.Int
	n  int64
}

func (m *logModel) expires() *big.Int { return m.end }

// logView is the model's log as a call finds it.
type logView struct {
	l      Limit
	now    *big.Int
	latest *big.Int
	end    *big.Int // nil if there is no log
	all    []admitted
	live   []admitted
	kept   []admitted // also for the longer period that it is held for,
	hold   *big.Int   // which this is; nil: there is none
	held   *big.Int
	// The longest period that it is held for, also if the limit's is longer; and the
	// period of the last change.
	mostHeld, untilHeld, last *big.Int
}

func (m *logModel) view(l Limit, now64 int64) (v logView, err error) {
	v = logView{l: l, now: big.NewInt(now64), latest: big.NewInt(now64)}
	if m.end == nil || m.end.Cmp(v.now) <= 0 {
		return v, nil
	}
	if !sub(m.end, v.now).IsInt64() {
		return v, ErrOverflow
	}
	v.end, v.all = m.end, m.log
	if n := len(v.all); n > 0 && v.all[n-1].at.Cmp(v.latest) > 0 {
		v.latest = v.all[n-1].at
	}
	for _, x := range v.all {
		if v.leaves(x.at).Cmp(v.latest) > 0 {
			v.live = append(v.live, x)
		}
	}
	v.kept = v.live
	if len(v.all) == 0 {
		return v, nil
	}
	hold, held := m.hold, m.held
	v.last = sub(v.end, v.all[len(v.all)-1].at)
	if hold == nil || held.Cmp(v.latest) <= 0 {
		hold, held = v.last, v.end
	}
	v.mostHeld, v.untilHeld = hold, held
	if hold.Cmp(big.NewInt(l.Period)) > 0 {
		v.hold, v.held, v.kept = hold, held, nil
		for _, x := range v.all {
			if sub(v.latest, x.at).Cmp(hold) < 0 {
				v.kept = append(v.kept, x)
			}
		}
	}
	return v, nil
}

// leaves returns when a unit leaves the window.
func (v *logView) leaves(at *big.Int) *big.Int {
	return new(big.Int).Add(at, big.NewInt(v.l.Period))
}

// wait returns the time from now until a unit is gone, one way or the other.
func (v *logView) wait(at *big.Int) int64 {
	gone := v.leaves(at)
	if v.end != nil && v.end.Cmp(gone) < 0 {
		gone = v.end
	}
	return max(0, sub(gone, v.now).Int64())
}

// canEnter reports whether the end of a log that is entered after a wait fits.
func (v *logView) canEnter(wait int64) bool {
	return v.leaves(new(big.Int).Add(v.now, big.NewInt(wait))).IsInt64()
}

// reset returns the wait until the newest of a log is gone.
func (v *logView) reset(log []admitted) int64 {
	if len(log) > 0 {
		return v.wait(log[len(log)-1].at)
	}
	if v.end != nil {
		return max(0, sub(v.end, v.now).Int64())
	}
	return 0
}

func countOf(log []admitted) (n int64) {
	for _, x := range log {
		n += x.n
	}
	return n
}

// dropOldest returns a log without its oldest units.
func dropOldest(log []admitted, n int64) []admitted {
	log = slices.Clone(log)
	for n > 0 {
		part := min(n, log[0].n)
		log[0].n -= part
		n -= part
		if log[0].n == 0 {
			log = log[1:]
		}
	}
	return log
}

// dropNewest returns a log without its newest units.
func dropNewest(log []admitted, n int64) []admitted {
	log = slices.Clone(log)
	slices.Reverse(log)
	log = dropOldest(log, n)
	slices.Reverse(log)
	return log
}

// beforeNewest returns a log in which the units before the newest have the time of the
// oldest of those; or of the newest unit, if n is 0.
func beforeNewest(log []admitted, n int64) []admitted {
	beyond := countOf(log) - n
	if beyond <= 0 {
		return slices.Clone(log)
	}
	stay := dropOldest(log, beyond)
	if len(stay) == 0 {
		stay = []admitted{{at: log[len(log)-1].at}}
	}
	stay[0].n += beyond
	return stay
}

// decide returns the answer and, if the log changes, the new log.
func (m *logModel) decide(l Limit, now, cost int64, refund, keep bool) (Decision, error) {
	switch {
	case l.Max > MaxLog:
		return Decision{}, errLogMax
	case badFields(l, cost) != nil:
		return Decision{}, badFields(l, cost)
	}
	v, err := m.view(l, now)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{Wait: Never, Reset: v.reset(v.all)}
	if l.Max == 0 {
		d.Limited = !refund
		return d, nil
	}
	var next logModel
	if refund {
		next = m.refund(&v, &d, cost)
	} else {
		next, err = m.take(&v, &d, cost)
	}
	if err != nil {
		return Decision{}, err
	}
	if keep && next.end != nil {
		*m = next
	}
	return d, nil
}

// take returns what the log becomes, without an end if it stays as it is.
func (m *logModel) take(v *logView, d *Decision, cost int64) (next logModel, err error) {
	most, live := v.l.Max, countOf(v.live)
	d.Limit, d.Limited, d.Remaining = most, cost > most-live, max(0, most-live)
	enter := min(cost, MaxLog)
	if d.Limited && !v.l.CountDenied {
		enter = 0
	}
	if d.Limited && cost <= most && enter == 0 {
		// The unit that has to go before there is room.
		d.Wait = v.wait(dropOldest(v.live, live+cost-most-1)[0].at)
		if cost > 0 && !v.canEnter(d.Wait) {
			return next, ErrOverflow
		}
	}
	if enter == 0 {
		return next, nil
	}
	end := v.leaves(v.latest)
	if !end.IsInt64() || !sub(end, v.now).IsInt64() {
		return next, ErrOverflow
	}
	mine := append(slices.Clone(v.live), admitted{v.latest, enter})
	beyond := max(0, countOf(mine)-most)
	all := beforeNewest(v.live, max(0, most-enter))
	all = dropOldest(append(all, admitted{v.latest, enter}), max(0, countOf(mine)-MaxLog))
	mine = dropOldest(mine, beyond)
	d.Remaining = most - countOf(mine)
	d.Reset = sub(end, v.now).Int64()
	if d.Limited && cost <= most {
		d.Wait = sub(v.leaves(dropOldest(mine, cost-1)[0].at), v.now).Int64()
		if !v.canEnter(d.Wait) {
			return next, ErrOverflow
		}
	}
	next = logModel{log: all, end: end}
	if v.hold != nil && v.held.Cmp(v.latest) > 0 {
		next.log = append(slices.Clone(v.kept), admitted{v.latest, enter})
		next.log = dropOldest(next.log, max(0, countOf(next.log)-MaxLog))
		next.hold, next.held = v.hold, v.held
		switch {
		case v.end.Cmp(end) > 0:
			next.end, next.held = v.end, v.end
		case v.end.Cmp(v.held) > 0 && v.last.Cmp(big.NewInt(v.l.Period)) > 0:
			next.held = v.end
		}
	}
	return next, nil
}

// refund is as take.
func (m *logModel) refund(v *logView, d *Decision, cost int64) (next logModel) {
	most, live := v.l.Max, countOf(v.live)
	d.Limit, d.Remaining = most, max(0, most-live)
	if cost == 0 || live == 0 {
		return next
	}
	kept, window := v.live, big.NewInt(v.l.Period)
	held := v.hold != nil && v.held.Cmp(v.now) > 0
	if held {
		kept, window = v.kept, v.hold
	}
	cost = min(cost, live)
	d.Remaining, d.Reset = max(0, most-live+cost), 0
	if cost == countOf(kept) {
		return logModel{end: v.now}
	}
	next.log = dropNewest(kept, cost)
	newest := next.log[len(next.log)-1].at
	d.Reset = v.wait(newest)
	if next.end = new(big.Int).Add(newest, window); v.end.Cmp(next.end) < 0 {
		next.end = v.end
	}
	if next.end.Cmp(v.now) < 0 {
		next.end = v.now
	}
	hold, end := v.mostHeld, v.untilHeld
	if end.Cmp(v.now) > 0 && hold.Cmp(sub(next.end, newest)) >= 0 {
		next.hold, next.held = hold, least(end, next.end)
	}
	return next
}
