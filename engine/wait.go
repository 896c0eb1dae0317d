package engine

import (
	"errors"

	"limitdb/engine/table"
	"limitdb/limit"
)

// Waiting. A request that is denied but may wait is parked in the queue of its
// key: a list in the order of arrival that exists only while somebody waits.
//
//  1. Ask decides as Take would. If the denial has something to wait for, Ask
//     parks the request. A waiter holds nothing: the state stays as it is, except
//     that the key moves to the pace of a raised limit, as at any denial.
//  2. The head of the queue is the first waiter that can be granted in time. A
//     waiter that could be granted only after its Until steps aside and blocks
//     nobody. So a waiter under 1/h that waits for a minute does not stop callers
//     of 1000/h. A lease never steps aside: another lease may be released long
//     before it ends, and a request for a large share would never get it if small
//     ones passed it.
//  3. The queue has one deadline: the moment when its head can be granted, which
//     a denial states exactly, or the first Until of its waiters, whichever comes
//     first. All queues' deadlines are in one heap.
//  4. Wake(now) serves the queues that are due. It grants heads by an ordinary
//     take, as long as the algorithm grants, denies waiters whose time is over,
//     and sets a new deadline.
//  5. Everything that gives back (Refund, Reset, Release, a waiter that leaves,
//     Flush, eviction) serves the queue at once or makes it due. Everything that
//     may shorten a wait (these, a faster pace, a grant under another limit than
//     the last) returns the waiters that have stepped aside to their places. So
//     waiters that can be granted in time are always in the order of asking.
//  6. A later request does not overtake. While there is a head, a request that
//     takes something is denied or parked behind it. It is told when the head
//     goes (see behind), or its own wait. A request that takes nothing
//     (cost 0, the renewal of a lease, a refund) goes through.
//
// The engine has no clock. Its owner calls Wake at the time that the last Wake
// returned, and when Sooner says that there is an earlier one.
//
// Invariants, checked by builds with the tag selfcheck while nothing runs:
//
//   - A queue has waiters, and is in its shard's map under its key; waits.n counts
//     the queues. So without waiters a decision pays one comparison.
//   - A queue is in the heap, at a time by which its head can be granted or one of
//     its waiters gives up, if nothing else happens.
//   - At the time of the last step the head could not be granted, and no waiter
//     that has stepped aside could be granted in time. Those waiters come first.
//
// Rejected: a timer for each waiter that tries again. It wakes waiters that
// cannot be granted, and the last to ask are as likely to win as the first.
// Also rejected: planning the whole queue to tell a request when all of it will
// have gone. It took 180 lines, was wrong as soon as somebody left, and copied the
// decisions on every waiter.
// Also rejected: taking for the waiter at once, in the future, as Reserve does.
// When a waiter leaves, what it took cannot be handed on exactly, and windows
// and logs have no future to take from. A QUEUE has one: its requests get their
// turn when they arrive, and only the answer waits.

// Ask asks for w at now. If w is denied at first, Ask lets it wait, until
// w.Until at the latest. It returns false if w has been decided already. A
// request that can never be granted is denied at once. Waiting requests of one
// key are granted in the order of arrival, each at the first moment at which that
// is possible, if Wake is called then.
//
// A request of QUEUE gets its turn now and is granted when the turn comes. It
// is denied at once if that would be after w.Until.
//
// If w.All is not nil, Ask asks for all of that, as Together does, and key is not
// used. The decisions are then in w.All.
//
// The errors, in w's Result, are those of TakeFor, Lease and Together. They may
// also arise when a waiting request is finally decided.
func (e Waits) Ask(now int64, key []byte, w *Waiter) (waiting bool) {
	if w.All != nil {
		return e.askAll(now, w)
	}
	granted, err := e.ask(now, key, &w.Request, w, &w.decision)
	if err == errParked {
		return true // it may have been decided since
	}
	w.granted, w.err = granted, err
	w.done.Store(true)
	return false
}

// Cancel gives up w's place at now. It decides w with err or, if err is nil,
// with a denial. It returns false if w had been decided before. Owner is not
// notified.
//
// A QUEUE's turn is given back as soon as no turn is behind it: at once, or
// when those behind it have been cancelled as well. Until then it may pass
// unused.
func (e Waits) Cancel(now int64, w *Waiter, err error) bool {
	if w.All != nil {
		return w.All.engine.settle(now, &settlement{w: w, why: cancels, cause: err})
	}
	return !w.Done() && w.shard != nil && w.shard.cancel(now, w, err)
}

// Wake grants the waiters that can be granted at now, denies those whose time
// is over, and returns when to call it again: math.MaxInt64 if nobody waits.
// Sooner signals when an earlier time appears meanwhile.
func (e Waits) Wake(now int64) (next int64) {
	for {
		q, next := e.alarms.pop(now)
		if q == nil {
			return next
		}
		if w := q.shard.ring(now, q); w != nil {
			e.settle(now, &settlement{w: w, why: isReady})
		}
	}
}

// Sooner returns a channel that receives when Wake should be called, because
// there is an earlier deadline than the last Wake returned.
func (e Waits) Sooner() <-chan struct{} { return e.alarms.sooner }

// errBehind says that the key has a queue. Take leaves such a decision to ask.
var errBehind = errors.New("engine: others wait for the key")

// TakeFor decides r at now as Take does, and returns how much was granted.
func (e OneKey) TakeFor(now int64, key []byte, r *Request, d *limit.Decision) (granted int64, err error) {
	return e.ask(now, key, r, nil, d)
}

// ask decides r. If there is no room for it, ask reclaims memory and tries
// again.
func (e *core) ask(now int64, key []byte, r *Request, w *Waiter, d *limit.Decision) (granted int64, err error) {
	h, s := e.place(key)
	err = e.withRoom(now, s, func() (err error) {
		granted, err = s.ask(now, h, key, r, w, d)
		return err
	})
	return granted, err
}

// ask decides r at now. If w is not nil and the denial has something to wait
// for, it parks w instead and returns errParked.
func (s *shard) ask(now int64, h uint64, key []byte, r *Request, w *Waiter, d *limit.Decision) (granted int64, err error) {
	s.mu.Lock()
	defer s.unlock()
	now = s.clamp(now)
	q := s.waits.find(key)
	if q != nil && !s.serve(now, q) {
		q = nil
	}
	sp := table.Spot{Hash: h, Key: key}
	s.table.Live(now, &sp)
	state, err := s.stateAsked(&sp, r)
	if err != nil {
		return 0, err
	}
	if q == nil && w == nil {
		return s.takeFor(now, &sp, state, r, d)
	}
	moved, err := s.weigh(now, &sp, state, r, d)
	if err != nil {
		return 0, err
	}
	if moved { // waits may be shorter now
		s.serveAfter(now, q, nil)
		q = s.waits.find(key)
		s.table.Live(now, &sp)
		if state, err = s.stateAsked(&sp, r); err != nil {
			return 0, err
		}
		if err := r.peek(state, now, d); err != nil {
			return 0, err
		}
	}
	anew := sp.Found() && state == nil // the key starts afresh; its waiters wait for its former state
	behind := q.holds() && !d.Limited && !anew && r.takes(state, now)
	switch {
	case w != nil && r.hasTurns() && !q.holds():
		granted, err = s.askTurn(now, &sp, state, w)
		if err == nil || err == errParked {
			s.serveAfter(now, q, &r.Limit)
		}
		return granted, err
	case w != nil && w.Until > now && !r.hasTurns() && (behind || d.Limited && d.Wait != limit.Never):
		s.park(now, &sp, q, w, later(now, d.Wait))
		return 0, errParked
	case behind:
		s.countDenied(now, &sp)
		return 0, s.behind(now, q, state, r, d)
	}
	granted, err = s.takeFor(now, &sp, state, r, d)
	if err != nil || q == nil {
		return granted, err
	}
	if granted > 0 || r.Lease != nil && !d.Limited || r.Limit.CountDenied && r.Cost > 0 {
		s.serveAfter(now, q, &r.Limit)
	}
	if d.Limited {
		err = s.behind(now, q, nil, r, d)
	}
	return granted, err
}

// cancel does Cancel under the shard's lock.
func (s *shard) cancel(now int64, w *Waiter, err error) bool {
	s.mu.Lock()
	defer s.unlock()
	q := w.queue
	switch {
	case q == nil:
		return false
	case q.turn != nil:
		s.giveTurnBack(s.clamp(now), q, err)
	default:
		now = s.clamp(now)
		s.deny(now, q, w, err)
		s.serve(now, q)
	}
	return true
}
