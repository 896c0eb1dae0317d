package engine

import (
	"errors"
	"sync/atomic"

	"limitdb/limit"
)

// Waiting. A request that is denied but may wait is parked in the queue of its
// key: a list, in the order of arrival, that exists only while somebody waits.
//
//  1. Ask decides as Take would. A denial with something to wait for parks the
//     request. Who waits holds nothing: the state is not touched, but that the key
//     moves to the pace of a limit that has been raised, as it does at any denial.
//  2. The head of the queue is the first waiter that can be granted in time. One
//     whose limit would grant it after its Until only, as things are, steps aside: it
//     holds up nobody. So a waiter under 1/h that waits for a minute does not stop
//     callers of 1000/h. A lease never steps aside: it may be released long before it
//     ends, and a request for a large share would never get it if small ones passed.
//  3. The queue has one deadline: the moment at which its head can be granted,
//     which a denial tells exactly, or at which the first of its waiters' times is
//     over, whichever is first. All queues' deadlines are in one heap.
//  4. Wake(now) settles the queues that are due: heads are granted, by an
//     ordinary take, as long as the algorithm grants; those whose time is over are
//     denied; a new deadline is set.
//  5. Whatever gives back (Refund, Reset, Release, a waiter that leaves, Flush,
//     eviction) settles the queue at once, by itself or by making it due. Whatever may
//     shorten a wait (these, a faster pace, a grant under another limit than the
//     last) brings those who have stepped aside back to their places: among those
//     that can be granted in time, the order is always that of asking.
//  6. A later request does not overtake: while there is a head, what takes
//     something is denied or parked behind it. What takes nothing (cost 0, a lease
//     that is renewed, a refund) goes through.
//
// The engine has no clock: its owner calls Wake when the time that the last Wake
// has told is there, and when Sooner says that an earlier one has appeared.
//
// Invariants, checked by builds with the tag selfcheck while nothing runs:
//
//   - A queue has waiters, and is in its shard's map under its key; waits.n
//     counts them. So without waiters a decision pays one comparison.
//   - It is in the heap, at a time by which its head can be granted or one of its
//     waiters gives up, if nothing else happens.
//   - At the time of the last step no head could be granted, and none of those who
//     have stepped aside in time. They are the first ones of the queue.
//
// Rejected: a timer for each waiter that tries again. It wakes waiters that
// cannot be granted, and those that ask last are as likely to win as those that
// ask first. Rejected, too: to take for the waiter at once, into the future, as
// Reserve does. What is taken cannot be handed to the next one exactly when a
// waiter goes, and windows and logs have no future to take from. A QUEUE has:
// its requests get their turn when they arrive, and only the answer waits.

// Waker is told that a request has been decided, from any goroutine, once. It
// must not block.
type Waker interface {
	Wake()
}

// Waiter is one request to Ask. It must not be used for another.
type Waiter struct {
	Request
	// Until is the last moment, in Unix ns, at which the request may be granted.
	Until int64
	// Owner is told if the request had to wait.
	Owner Waker

	done     atomic.Bool
	decision limit.Decision
	granted  int64
	err      error

	shard *shard // where it waits, or has waited

	// Guarded by the shard's lock, as is the queue.
	queue      *queue  // nil: it does not wait
	next, prev *Waiter // in the queue, or of those to be told
	place      int32   // in queue.limits
	number     uint32  // of those of the queue, in the order in which they came
}

// Done reports whether the request has been decided. It may be called at any time.
func (w *Waiter) Done() bool { return w.done.Load() }

// Result is what was decided, once Done: as Take, TakePartial and Lease return.
// A granted request has nothing to wait for any more.
func (w *Waiter) Result() (d limit.Decision, granted int64, err error) {
	return w.decision, w.granted, w.err
}

// before is the order in which waiters of one queue give up.
func (w *Waiter) before(other *Waiter) bool {
	return w.Until < other.Until || w.Until == other.Until && int32(w.number-other.number) < 0
}

func (w *Waiter) setPlace(i int) { w.place = int32(i) }

// isTooLate reports whether w, which could be granted at due if nothing else
// happens, is to step aside at now.
func (w *Waiter) isTooLate(now, due int64) bool {
	return w.Until <= now || w.Lease == nil && due > w.Until
}

// Ask asks for w at now, and lets it wait if it is denied at first, until w.Until
// at the latest; it is false if w has been decided already. What can never be granted
// is denied at once. Requests of one key that wait are granted in the order in which they
// came, each at the very moment at which it can be, if Wake is called then.
//
// A request of QUEUE has its turn from now on, and is granted when that comes;
// it is denied at once if that would be after w.Until.
//
// The errors, in w's Result, are those of Take, TakePartial and Lease, and those that
// arise when a waiting request is decided at last.
func (e *Engine) Ask(now int64, key []byte, w *Waiter) (waiting bool) {
	h, s := e.place(key)
	granted, err := e.ask(now, h, s, key, &w.Request, w, &w.decision)
	if err == errParked {
		return true // and may have been decided since
	}
	w.granted, w.err = granted, err
	w.done.Store(true)
	return false
}

// Cancel gives up w's place at now: w is decided, with err or, if that is nil,
// with a denial. It is false if w had been decided before. Owner is not told.
//
// A QUEUE's turn is given back as soon as nobody is behind it any more: at once, or
// when those behind it have left as well. Until then it may pass unused.
func (e *Engine) Cancel(now int64, w *Waiter, err error) bool {
	return !w.Done() && w.shard != nil && w.shard.cancel(now, w, err)
}

// Wake grants what can be granted at now, denies those whose time is over, and
// returns when to come again: math.MaxInt64 if nobody waits. Sooner tells when
// an earlier time has appeared meanwhile.
func (e *Engine) Wake(now int64) (next int64) {
	for {
		q, next := e.alarms.take(now)
		if q == nil {
			return next
		}
		q.shard.ring(now, q)
	}
}

// Sooner tells that Wake wants to be called: there is an earlier deadline than it
// has returned last.
func (e *Engine) Sooner() <-chan struct{} { return e.alarms.sooner }

// errParked is no error: the request waits now.
var errParked = errors.New("engine: the request waits")

// errBehind says that there is a queue for the key, which the path of a decision
// leaves to ask.
var errBehind = errors.New("engine: others wait for the key")

// TakeFor decides r at now as Take and TakePartial do, and returns how much was
// granted. It is for what r can say besides: Replace.
func (e *Engine) TakeFor(now int64, key []byte, r *Request, d *limit.Decision) (granted int64, err error) {
	h, s := e.place(key)
	return e.ask(now, h, s, key, r, nil, d)
}

// ask decides r, and makes room for it if there is none.
func (e *Engine) ask(now int64, h uint64, s *shard, key []byte, r *Request, w *Waiter, d *limit.Decision) (granted int64, err error) {
	granted, err = s.ask(now, h, key, r, w, d)
	if err == errNoRoom && e.reclaim(now) {
		granted, err = s.ask(now, h, key, r, w, d)
	}
	return granted, s.refuse(err)
}

// ask decides r at now. It parks w, if that is not nil, in the place of a denial
// with something to wait for, and returns errParked.
func (s *shard) ask(now int64, h uint64, key []byte, r *Request, w *Waiter, d *limit.Decision) (granted int64, err error) {
	s.mu.Lock()
	defer s.unlock()
	now = s.clamp(now)
	q := s.waits.find(key)
	if q != nil && !s.settle(now, q) {
		q = nil
	}
	g, at := s.live(now, h, key)
	state, err := s.stateAsked(g, at, r)
	if err != nil {
		return 0, err
	}
	if q == nil && w == nil {
		return s.takeFor(now, h, g, at, key, state, r, d)
	}
	if err := r.peek(state, now, d); err != nil {
		return 0, err
	}
	if d.Limited && d.Wait != limit.Never {
		moved, err := s.move(now, h, g, at, key, state, r)
		if err != nil {
			return 0, err
		}
		if moved { // those who wait may wait for less now
			s.changed(now, q, nil)
			q = s.waits.find(key)
			g, at = s.live(now, h, key)
			if state, err = s.stateAsked(g, at, r); err != nil {
				return 0, err
			}
			if err := r.peek(state, now, d); err != nil {
				return 0, err
			}
		}
	}
	anew := at != nil && state == nil // and those who wait for what it was go with that
	behind := q.holds() && !d.Limited && !anew && r.takes(state, now)
	switch {
	case w != nil && r.hasTurns() && !q.holds():
		granted, err = s.askTurn(now, h, g, at, key, state, w)
		if err == nil || err == errParked {
			s.changed(now, q, &r.Limit)
		}
		return granted, err
	case w != nil && w.Until > now && !r.hasTurns() && (behind || d.Limited && d.Wait != limit.Never):
		s.park(now, h, key, q, w, later(now, d.Wait))
		return 0, errParked
	case behind:
		s.countDenied(now, h, key)
		return 0, s.behind(now, q, state, r, d)
	}
	granted, err = s.takeFor(now, h, g, at, key, state, r, d)
	if err != nil || q == nil {
		return granted, err
	}
	if granted > 0 || r.Lease != nil && !d.Limited || r.Limit.CountDenied && r.Cost > 0 {
		s.changed(now, q, &r.Limit)
	}
	if d.Limited {
		err = s.behind(now, q, nil, r, d)
	}
	return granted, err
}

// behind makes *d, the decision on r if there were no queue, the denial of what
// must let q go first. The state is needed if r is not denied yet.
func (s *shard) behind(now int64, q *queue, state []byte, r *Request, d *limit.Decision) error {
	if !d.Limited {
		if err := r.stand(state, now, d); err != nil {
			return err
		}
	}
	if d.Wait != limit.Never && q.holds() {
		d.Wait = s.foresee(now, q, r)
	}
	return nil
}

// changed settles q, if that is not nil, after a step on its key: one that took under
// a limit or, if that is nil, one that may have given back.
func (s *shard) changed(now int64, q *queue, under *limit.Limit) {
	if q != nil {
		q.note(under)
		s.settle(now, q)
	}
}

// cancel is Cancel.
func (s *shard) cancel(now int64, w *Waiter, err error) bool {
	s.mu.Lock()
	defer s.unlock()
	q := w.queue
	switch {
	case q == nil:
		return false
	case q.turn:
		s.giveTurnBack(s.clamp(now), q, err)
	default:
		now = s.clamp(now)
		s.deny(now, q, w, err)
		q.forecast.stale++
		s.settle(now, q)
	}
	return true
}
