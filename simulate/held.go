package simulate

import (
	"errors"
	"math"
	"slices"

	"limitdb/limit"
)

// A request whose cost is known only afterwards takes its estimate when it comes, and is settled when its cost is known, as RL.HOLD and
// RL.COMMIT do it. When its time is over, an estimate stays taken or goes back, before anything else is decided on its caller. A commit
// that comes after that is still charged, up to twice the time.

// Holds is what a limit has held. Amounts are in units of the cost.
type Holds struct {
	// Requests is how many requests were held, and Estimated what they took.
	Requests  uint64 `json:"requests"`
	Estimated uint64 `json:"estimated"`
	// Returned is what went back, and Over what a commit has charged beyond the limit.
	Returned uint64 `json:"returned"`
	Over     uint64 `json:"over"`
	// Expired is how many holds were not settled within their time.
	Expired uint64 `json:"expired"`
}

// MaxHoldTTL is the longest time of a hold, in ns.
const MaxHoldTTL = 3600 * second

// HoldOptions says how estimates are held.
type HoldOptions struct {
	// TTL is for how long, in ns: above 0, and at most MaxHoldTTL.
	TTL int64
	// Returns has an estimate go back when that is over. Otherwise it stays taken.
	Returns bool
}

// validate returns what is wrong with the options.
func (o *HoldOptions) validate() error {
	if o.TTL < 1 || o.TTL > MaxHoldTTL {
		return errors.New("the time of a hold is above 0 and at most 1 hour")
	}
	return nil
}

// Hold has Add hold what a trace with TraceOptions.Actual estimates. Call it before the first Add.
func (r *Replay) Hold(o HoldOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	for _, l := range r.lanes {
		l.holds = new(Holds)
	}
	r.holding = o
	return nil
}

// Settle settles what is still held, at the times that the trace says. Call it after the last Add.
func (r *Replay) Settle() {
	r.settleUntil(math.MaxInt64)
	for _, l := range r.lanes {
		for n, all := range l.due {
			for ; len(all) > 0; all = l.due[n] {
				l.giveBack(n, all[0].Until)
			}
		}
	}
}

// dueBack has, for callers, what goes back when its time is over, in the order in which it was taken.
type dueBack map[uint32][]*limit.Estimate

// drop drops what a function says of a caller's.
func (d dueBack) drop(n uint32, fn func(*limit.Estimate) bool) {
	if kept := slices.DeleteFunc(d[n], fn); len(kept) > 0 {
		d[n] = kept
	} else {
		delete(d, n)
	}
}

// settleUntil settles what is due at now.
func (r *Replay) settleUntil(now int64) {
	for {
		e, ok := r.pending.next(now)
		if !ok {
			return
		}
		for i, l := range r.lanes {
			switch t := e.taken[i]; {
			case t == nil:
			case e.forgotten:
				l.giveBack(e.caller, e.at)
			default:
				l.settle(e.caller, t, e.at, e.actual)
			}
		}
	}
}

// hold holds what has been granted of a request by the limits that have not denied it.
func (r *Replay) hold(n uint32, req *Request) {
	e := &estimate{at: later(r.now, req.Took), caller: n, actual: req.Actual, taken: make([]*limit.Estimate, len(r.lanes))}
	late := req.Actual < 0 || req.Took >= r.holding.TTL
	for i, l := range r.lanes {
		d := &r.decisions[i]
		if req.Cost == 0 || d.Limited || *d == (limit.Decision{}) {
			continue
		}
		s, t := l.seats.at(n), new(limit.Estimate)
		if err := t.Hold(&l.limit, s.kind, s.state, r.now, req.Cost, r.holding.TTL, d); err != nil {
			l.fail(err)
			continue
		}
		e.taken[i] = t
		l.holds.held(req.Cost, late)
		if r.holding.Returns {
			if l.due == nil {
				l.due = dueBack{}
			}
			l.due[n] = append(l.due[n], t)
		}
	}
	if req.Actual >= 0 {
		e.forgotten = req.Took >= 2*r.holding.TTL
		r.pending.add(e.at, r.requests, e)
	}
}

// held counts a request that is held, late if it is not settled in time.
func (h *Holds) held(amount int64, late bool) {
	h.Requests++
	if h.Estimated += uint64(amount); late {
		h.Expired++
	}
}

// changed counts what a change of an estimate has come to.
func (h *Holds) changed(changed, over int64) {
	h.Over += uint64(over)
	h.Returned += uint64(max(0, -changed))
}

// giveBack gives a caller back what is due at now.
func (l *lane) giveBack(n uint32, now int64) {
	s := l.seats.at(n)
	l.due.drop(n, func(t *limit.Estimate) bool {
		if t.Until > now {
			return false
		}
		next, as, returned, err := t.GiveBack(s.live(now), s.state, now)
		l.change(s, next, as, -returned, 0, err)
		return true
	})
}

// settle brings what a caller has taken to what it has cost.
func (l *lane) settle(n uint32, t *limit.Estimate, now, actual int64) {
	s := l.seats.at(n)
	l.giveBack(n, now)
	next, as, changed, over, err := t.Change(s.live(now), s.state, now, actual)
	l.change(s, next, as, changed, over, err)
	l.due.drop(n, func(other *limit.Estimate) bool { return other == t })
}

// change keeps what a change of an estimate has made of a caller's state, and counts it.
func (l *lane) change(s *seat, next []byte, as limit.Kind, changed, over int64, err error) {
	if err != nil {
		l.fail(err)
		return
	}
	if l.holds.changed(changed, over); next != nil {
		l.held += cap(next) - cap(s.state)
		s.state, s.kind = next, as
	}
}

// live returns the kind of a caller's state. A state that has expired goes.
func (s *seat) live(now int64) limit.Kind {
	if s.kind != 0 && limit.Expires(s.kind, s.state) <= now {
		s.kind, s.state = 0, nil
	}
	return s.kind
}

// estimate is what the limits hold of a request.
type estimate struct {
	at        int64 // when it is settled
	caller    uint32
	actual    int64
	forgotten bool              // nothing is known of it by then
	taken     []*limit.Estimate // for each limit; nil: it holds nothing
}

// later returns t + d, or the highest int64 if that does not fit.
func later(t, d int64) int64 {
	if d > math.MaxInt64-t && t > 0 {
		return math.MaxInt64
	}
	return t + d
}

var (
	errActual = errors.New("the actual cost is not an integer of 0 or more")
	errTook   = errors.New("the time until the cost was known is not in milliseconds, and has no unit (ms s m h d w)")
	errNoTook = errors.New("the field with the actual cost needs that with the time until it was known")
)

// estimated notes what a request has cost, and how long it took until that was known, as a line has them. Without a cost, it was never known.
func (req *Request) estimated(actual, took []byte) (err error) {
	req.Held, req.Actual, req.Took = true, -1, 0
	if len(actual) == 0 || string(actual) == "-" {
		return nil
	}
	if req.Actual, err = parseCost(actual); err != nil {
		return errActual
	}
	if req.Took, err = limit.ParseTime(took); err != nil {
		return errTook
	}
	return nil
}
