package simulate

import (
	"errors"
	"fmt"
	"math"

	"limitdb/limit"
)

// Replay decides requests, each against every limit, and counts.
type Replay struct {
	lanes     []*lane
	index     map[string]uint32 // of callers, by key
	callers   pages[caller]
	decisions []limit.Decision
	pending   pending[*estimate]
	holding   HoldOptions // a TTL of 0: nothing is held
	timeline  timeline
	demand    demand

	requests  uint64
	cost      uint64
	plain     bool // every cost was 1
	first     int64
	now       int64
	late      uint64
	lateMost  int64
	lines     int64
	bad       int64
	anonymous int64 // lines without a caller
}

// caller is what is known of one key, whatever the limit.
type caller struct {
	key      string
	requests uint64
}

// MaxLimits is the maximum number of limits that one Replay compares.
const MaxLimits = 1000

// NewReplay makes a replay against one or more limits. Its error names the wrong limit.
func NewReplay(limits []limit.Limit) (*Replay, error) {
	if len(limits) == 0 {
		return nil, errors.New("there is no limit to replay against")
	}
	if len(limits) > MaxLimits {
		return nil, fmt.Errorf("%d limits are too many: %d at most", len(limits), MaxLimits)
	}
	r := &Replay{index: map[string]uint32{}, decisions: make([]limit.Decision, len(limits)), plain: true}
	for _, l := range limits {
		if err := l.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", l, err)
		}
		r.lanes = append(r.lanes, &lane{limit: l, period: periodOf(&l)})
	}
	r.timeline.denied = make([][]uint64, len(limits))
	r.demand.period = r.lanes[0].period
	return r, nil
}

// Add decides one request. If its time is before that of the last request, Add counts it as late and uses the
// time of the last, since a log may be slightly out of order. The decisions, one for each limit, are valid
// until the next Add. If a limit cannot decide the request because its cost or time is out of range, its
// decision is the zero Decision.
func (r *Replay) Add(req *Request) []limit.Decision {
	if r.requests == 0 {
		r.first, r.now = req.Time, req.Time
	}
	if req.Time < r.now {
		r.late++
		r.lateMost = max(r.lateMost, less(r.now, req.Time))
	}
	r.now = max(r.now, req.Time)
	r.settleUntil(r.now)
	r.requests++
	r.cost += uint64(req.Cost)
	r.plain = r.plain && req.Cost == 1

	n, known := r.index[string(req.Key)]
	if !known {
		n = r.callers.add()
		c := r.callers.at(n)
		c.key = string(req.Key)
		r.index[c.key] = n
		r.demand.seats.add()
	}
	r.demand.add(n, r.now, req.Cost)
	r.callers.at(n).requests++
	bucket := r.timeline.at(r.now)
	r.timeline.requests[bucket]++
	for i, l := range r.lanes {
		if !known {
			l.seats.add()
		}
		d := &r.decisions[i]
		l.decide(n, r.now, req.Cost, d)
		if d.Limited {
			r.timeline.denied[i][bucket]++
		}
	}
	if req.Held && r.holding.TTL > 0 {
		r.hold(n, req)
	}
	return r.decisions
}

// less returns a − b for a ≥ b, or the highest int64 if that does not fit.
func less(a, b int64) int64 {
	if d := a - b; d >= 0 {
		return d
	}
	return math.MaxInt64
}

// lane is one limit and the counts of its decisions.
type lane struct {
	limit  limit.Limit
	period int64
	seats  pages[seat]

	held     int // bytes of states and windows
	sweepAt  int // the value of held at which sweep runs
	denied   uint64
	cost     uint64 // of denied requests
	affected uint64 // callers that were denied at least once
	never    uint64 // denials without a time to come back
	waits    durations
	delays   durations // of requests that were admitted after a wait
	holds    *Holds    // nil if nothing is held
	due      dueBack   // what goes back to callers when its time is over
	errors   uint64
	err      error // the first error
	peak     uint64
	peakAt   int64
	peakBy   uint32
}

// seat is what a lane keeps for a caller.
type seat struct {
	kind   limit.Kind // of state
	state  []byte
	window window
	denied uint64
}

// decide asks the limit, and counts the decision.
func (l *lane) decide(n uint32, now, cost int64, d *limit.Decision) {
	s := l.seats.at(n)
	if len(l.due) > 0 {
		l.giveBack(n, now)
	}
	before := cap(s.state) + cap(s.window.buf)
	var next []byte
	var err error
	as := l.limit.Algorithm.Kind()
	if l.limit.Block == 0 {
		next, err = limit.Take(&l.limit, s.state, now, cost, s.state[:0], d)
	} else {
		next, as, err = limit.TakeBlock(&l.limit, s.kind, s.state, now, cost, nil, d)
	}
	if err != nil {
		*d = limit.Decision{}
		l.fail(err)
		return
	}
	if next != nil {
		s.state, s.kind = next, as
	}
	if d.Limited {
		l.deny(s, cost, d)
	} else {
		l.admit(s, n, now, cost, d)
	}
	if l.held += cap(s.state) + cap(s.window.buf) - before; l.held > l.sweepAt {
		l.sweep(now)
	}
}

// fail counts what the limit could not decide.
func (l *lane) fail(err error) {
	if l.errors++; l.err == nil {
		l.err = err
	}
}

func (l *lane) deny(s *seat, cost int64, d *limit.Decision) {
	l.denied++
	l.cost += uint64(cost)
	if s.denied++; s.denied == 1 {
		l.affected++
	}
	if d.Wait == limit.Never {
		l.never++
	} else {
		l.waits.add(d.Wait)
	}
}

// admit counts what a caller is admitted, at the time when it may go ahead.
func (l *lane) admit(s *seat, n uint32, now, cost int64, d *limit.Decision) {
	if d.Wait > 0 {
		l.delays.add(d.Wait)
		if now += d.Wait; now < d.Wait {
			now = math.MaxInt64
		}
	}
	if cost == 0 {
		return
	}
	if sum := s.window.add(now, uint64(cost), l.period); sum > l.peak {
		l.peak, l.peakAt, l.peakBy = sum, now, n
	}
}

// sweep drops expired states and shrinks windows. It runs when their size has doubled, so its cost for each
// request is constant on average.
func (l *lane) sweep(now int64) {
	l.held = 0
	for n := range l.seats.n {
		s := l.seats.at(n)
		if s.state != nil && limit.Expires(s.kind, s.state) <= now {
			s.kind, s.state = limit.Kind(0), nil
		}
		s.window.shrink(now, l.period)
		l.held += cap(s.state) + cap(s.window.buf)
	}
	const least = 1 << 20
	l.sweepAt = 2*l.held + least
}

// periodOf returns the length of the windows for a limit's peak, in ns: its period, or the length of a
// calendar unit without daylight saving time and leap days.
func periodOf(l *limit.Limit) int64 {
	const day = 24 * 3600 * second
	switch l.Calendar {
	case limit.NoUnit:
		return l.Period
	case limit.Second:
		return second
	case limit.Minute:
		return 60 * second
	case limit.Hour:
		return 3600 * second
	case limit.Day:
		return day
	case limit.Week:
		return 7 * day
	case limit.Month:
		return 30 * day
	case limit.Quarter:
		return 91 * day
	}
	return 365 * day
}

// pages is a list that grows without being copied.
type pages[T any] struct {
	list []*[pageLen]T
	n    uint32
}

const pageLen = 1024

// add appends a zero value and returns its index.
func (p *pages[T]) add() uint32 {
	if p.n%pageLen == 0 {
		p.list = append(p.list, new([pageLen]T))
	}
	p.n++
	return p.n - 1
}

func (p *pages[T]) at(n uint32) *T {
	return &p.list[n/pageLen][n%pageLen]
}
