package simulate

import (
	"container/heap"
	"errors"
	"fmt"
	"math"

	"limitdb/limit"
)

// A request whose cost is known only afterwards takes its estimate when it comes, and is settled when its cost is known, as RL.HOLD and
// RL.COMMIT do it. An estimate whose time is over stays taken. A commit that comes after that is still charged, up to twice the time.

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

// Hold has Add hold what a trace with TraceOptions.Actual estimates, each for a time of ttl ns. Call it before the first Add.
func (r *Replay) Hold(ttl int64) error {
	if ttl < 1 || ttl > MaxHoldTTL {
		return errors.New("the time of a hold is above 0 and at most 1 hour")
	}
	for _, l := range r.lanes {
		if l.limit.Block > 0 {
			return fmt.Errorf("%s: estimates are not held under a limit with BLOCK", &l.limit)
		}
		l.holds = new(Holds)
	}
	r.holdTTL = ttl
	return nil
}

// Settle settles what is still held, at the times that the trace says. Call it after the last Add.
func (r *Replay) Settle() { r.settleUntil(math.MaxInt64) }

// settleUntil settles what is due at now.
func (r *Replay) settleUntil(now int64) {
	for len(r.held.list) > 0 && r.held.list[0].at <= now {
		e := heap.Pop(&r.held).(*estimate)
		for i, l := range r.lanes {
			if e.taken[i].held {
				l.settle(e, e.taken[i].back)
			}
		}
	}
}

// hold holds what has been granted of a request by the limits that have not denied it.
func (r *Replay) hold(n uint32, req *Request) {
	e := &estimate{at: later(r.now, req.Took), seq: r.requests, caller: n, amount: req.Cost, actual: req.Actual}
	late := req.Actual < 0 || req.Took >= r.holdTTL
	for i, l := range r.lanes {
		d := &r.decisions[i]
		taken := taken{held: req.Cost > 0 && !d.Limited && *d != limit.Decision{}, back: later(r.now, d.Reset)}
		e.taken = append(e.taken, taken)
		if !taken.held {
			continue
		}
		l.holds.Requests++
		if l.holds.Estimated += uint64(req.Cost); late {
			l.holds.Expired++
		}
	}
	if req.Actual >= 0 && req.Took < 2*r.holdTTL { // later, nothing is known of it
		heap.Push(&r.held, e)
	}
}

// settle brings what a caller has taken to what it has cost.
func (l *lane) settle(e *estimate, back int64) {
	s := l.seats.at(e.caller)
	var d limit.Decision
	var next []byte
	var returned int64
	more := e.actual - e.amount
	err := limit.Peek(&l.limit, s.state, e.at, 0, &d)
	switch {
	case err != nil:
	case more > 0:
		l.holds.Over += uint64(max(0, more-d.Remaining))
		next, err = limit.Charge(&l.limit, s.state, e.at, more, nil, &d)
	case more < 0:
		next, returned, err = limit.Return(&l.limit, s.state, e.at, back, -more, nil)
		l.holds.Returned += uint64(returned)
	}
	if err != nil {
		l.fail(err)
	} else if next != nil {
		l.held += cap(next) - cap(s.state)
		s.state, s.kind = next, l.limit.Algorithm.Kind()
	}
}

// estimate is what the limits hold of a request.
type estimate struct {
	at             int64  // when it is settled
	seq            uint64 // of the request: the order among those of one time
	caller         uint32
	amount, actual int64
	taken          []taken // for each limit
}

// taken says whether a limit holds an estimate, and when all that was in use then has come back by itself.
type taken struct {
	held bool
	back int64
}

// estimates is a heap, the next to be settled first.
type estimates struct{ list []*estimate }

// Len implements heap.Interface.
func (h *estimates) Len() int { return len(h.list) }

// Less implements heap.Interface.
func (h *estimates) Less(i, j int) bool {
	a, b := h.list[i], h.list[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

// Swap implements heap.Interface.
func (h *estimates) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }

// Push implements heap.Interface.
func (h *estimates) Push(x any) { h.list = append(h.list, x.(*estimate)) }

// Pop implements heap.Interface.
func (h *estimates) Pop() any {
	last := len(h.list) - 1
	e := h.list[last]
	h.list[last], h.list = nil, h.list[:last]
	return e
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
