package engine

import (
	"bytes"
	"errors"
	"math"
	"slices"

	"limitdb/limit"
)

// Waiting for several limits at once.
//
//  1. Ask decides as Together would. If the slowest limit, which denies for the
//     longest time, has something to wait for, the request waits in that key's
//     queue, in the order of asking, like a request of that limit alone. It holds
//     up nobody at its other keys: a caller that waits an hour for its own limit
//     must not stop those with whom it shares another.
//  2. When it is the head there and that limit grants, Wake decides on all of its
//     limits in one step. If all grant, it has its answer. Otherwise it moves to
//     the queue of the limit that is the slowest now, to its place by the order of
//     asking. So those that wait for the same limits are granted in that order.
//  3. A QUEUE that denies is not waited for, as with Ask. If it grants, the turn is
//     taken with the rest, and the answer waits until the turn comes. A request
//     that leaves by then has taken, and its turn passes unused.
//
// The locks of all its keys' shards guard which queue the request is in. One shard
// alone cannot decide it: serve only notes that it is ready, and sets an alarm.
//
// Rejected: waiting in the queues of all keys. The first in line at a limit that
// all share would stop everybody while it waits for a limit of its own. Also
// rejected: taking from each limit as soon as it grants. Others could not use what
// was taken, and if the request gives up, nobody does.

// askAll is Ask for all of w.All.
func (e *core) askAll(now int64, w *Waiter) (waiting bool) {
	w.All.engine = e
	s := settlement{w: w, why: asks}
	if len(w.All.Keys) > MaxAll {
		s.decide(-1, ErrTooMany)
	} else {
		e.settle(now, &s)
	}
	return s.waits
}

// Withdraw is Cancel for a request for several limits that will ask again, perhaps for
// other limits. It leaves one alone that has been granted and waits for its turn.
// The decisions are not valid afterwards.
func (e Waits) Withdraw(now int64, w *Waiter) bool {
	return w.All.engine.settle(now, &settlement{w: w, why: withdraws, cause: errWithdrawn})
}

// InPlaceOf gives w, which has not asked yet, the place of old in the order of
// asking. It does nothing if old never had to wait.
func (w *Waiter) InPlaceOf(old *Waiter) { w.number = old.number }

// A settlement decides a request for several limits, or lets it wait.
type settlement struct {
	w     *Waiter
	t     *Txn
	why   settling
	cause error // that w ends with

	at     int  // the limit that denies; −1: all grant
	leaves bool // it does not wait any longer
	waits  bool // it waits, or waits on
}

// settling is the purpose of a settlement.
type settling uint8

const (
	asks    settling = iota
	isReady          // it is the head and can be granted, its turn has come, or its time is over
	cancels
	withdraws
)

var (
	// errGone ends a settlement that has nothing to decide.
	errGone = errors.New("engine: the request is not ready")
	// errWithdrawn ends a request that will ask again.
	errWithdrawn = errors.New("engine: the request is withdrawn")
)

// settle carries out s in one step of all shards. It returns false if there was
// nothing to decide.
func (e *core) settle(now int64, s *settlement) bool {
	w := s.w
	t := e.begin(w.All.Keys)
	defer e.end(t)
	s.t, t.asker, t.then = t, w, s.finish
	_, err := t.run(now, s.step)
	if err == errGone {
		return false
	}
	if err != nil {
		s.waits = false
		t.then = func() {
			if s.depart(); !w.Done() {
				s.decide(-1, err)
			}
		}
		_, _ = t.run(now, func() (int, error) { return -1, nil }) // it writes nothing, so it cannot fail
	}
	if s.why == isReady && w.Done() {
		w.Owner.Wake()
	}
	return true
}

// step decides on all limits, and sets s.at and s.waits.
func (s *settlement) step() (at int, err error) {
	w, t, r := s.w, s.t, s.w.All
	if w.Done() {
		return -1, errGone
	}
	switch granted := w.queue != nil && w.queue.granted != 0; {
	case granted && s.why == withdraws:
		return -1, errGone
	case granted:
		return s.turn()
	case s.why == withdraws:
		return -1, nil
	}
	s.leaves = s.why == cancels
	if s.why == isReady {
		switch {
		case w.Until < t.now:
			s.leaves = true
		case w.queue == nil || w.queue.head != w: // the former: of an earlier run
			if s.leaves = w.Until == t.now; !s.leaves {
				return -1, errGone
			}
		}
	}
	if s.leaves {
		s.depart() // those that stay go before it
		t.asker = nil
	}
	s.at, err = t.together(r, s)
	return s.at, err
}

// judge denies what the limits would grant, but the request cannot have: a turn that
// comes too late, or anything once the request leaves. It returns the limit that
// denies, or -1.
func (s *settlement) judge() (at int, err error) {
	r := s.w.All
	for i := range r.Keys {
		if err := s.denyLate(i); err != nil {
			return i, err
		}
	}
	if at = r.Worst(); at >= 0 || !s.leaves {
		return at, nil
	}
	at = r.index(s.w.key)
	return at, s.deny(at, 1)
}

// stays reports whether the request waits, or waits on, after the limit at an index
// has denied it. It has not been denied then, so nothing is counted.
func (s *settlement) stays(at int) bool {
	w, t, r := s.w, s.t, s.w.All
	s.waits = at >= 0 && !s.leaves && w.Until > t.now && r.Decisions[at].Wait != limit.Never && r.Limits[at].Algorithm != limit.QUEUE
	for i := range r.Keys {
		switch it := t.part(i); {
		case s.waits:
			it.other = it.other || it.denied > 0
			it.allowed, it.denied = 0, 0
		case s.leaves && it.denied > 0 && !r.Limits[i].CountDenied: // it has moved the key, if at all, while it waited
			it.revert()
		}
	}
	return s.waits
}

// denyLate denies a turn of a QUEUE that would come too late.
func (s *settlement) denyLate(i int) error {
	r := s.w.All
	most := max(0, s.w.Until-s.t.now)
	if d := &r.Decisions[i]; !d.Limited && d.Wait > most && !r.soft(i) {
		return s.deny(i, d.Wait-most)
	}
	return nil
}

// deny makes the decision on a limit that would grant a denial.
func (s *settlement) deny(i int, wait int64) error {
	it, d := s.t.part(i), &s.w.All.Decisions[i]
	it.revert()
	it.allowed, it.denied = 0, 1
	err := s.t.peek(it, &s.w.All.Limits[i], 0, d)
	d.Limited, d.Wait = true, wait
	return err
}

// turn decides a request that has been granted and waits for its turn: the turn has
// come, or the request leaves. The decisions then say how long it is until the turn.
func (s *settlement) turn() (int, error) {
	w, t, r := s.w, s.t, s.w.All
	elapsed := t.now - w.queue.granted
	for i := range r.Decisions {
		d, wait := &r.Decisions[i], limit.Never
		if d.Wait > elapsed {
			wait = d.Wait - elapsed
		}
		if err := t.peek(&t.items[i], &r.Limits[i], 0, d); err != nil {
			return i, err
		}
		d.Wait = wait
	}
	s.at = -1
	return -1, nil
}

// finish carries out what step has decided, once that is stored.
func (s *settlement) finish() {
	w, t, r := s.w, s.t, s.w.All
	turned := w.queue != nil && w.queue.granted != 0
	s.depart()
	if s.waits {
		s.wait(t.part(s.at), later(t.now, r.Decisions[s.at].Wait))
		return
	}
	last := -1
	for i := range r.Decisions {
		if d := &r.Decisions[i]; s.at < 0 && !turned && d.Wait > 0 && !r.soft(i) && (last < 0 || d.Wait > r.Decisions[last].Wait) {
			last = i
		}
	}
	if last < 0 {
		s.decide(s.at, s.cause)
		return
	}
	it := t.part(last)
	q := newQueue(it.s, &it.Spot)
	q.granted, q.due = t.now, later(t.now, r.Decisions[last].Wait)
	s.join(q)
	s.waits = true
	it.s.waits.alarms.set(q, q.due)
}

// wait has the request wait for the key of it, which can grant it at due.
func (s *settlement) wait(it *item, due int64) {
	w := s.w
	i := w.All.index(it.Key)
	w.Request = Request{Limit: w.All.Limits[i], Cost: w.All.Costs[i]}
	q, alarm := it.s.waits.find(it.Key), int64(math.MinInt64) // Wake looks at the queue
	if q == nil {
		q = it.s.waits.open(it.s, &it.Spot)
		q.due = due
		alarm = min(due, w.Until)
	}
	if s.join(q); q.head == w {
		q.due = due
	}
	if alarm > math.MinInt64 && w.isTooLate(s.t.now, due) {
		q.head, q.due = nil, math.MaxInt64
		alarm = w.Until
	}
	it.s.waits.alarms.set(q, alarm)
}

// join puts the request into q.
func (s *settlement) join(q *queue) {
	if s.w.number == 0 {
		q.shard.waits.arrive(s.w)
	}
	q.join(s.w)
}

// depart takes the request out of its queue.
func (s *settlement) depart() {
	q := s.w.queue
	if q == nil {
		return
	}
	l := &q.shard.waits
	q.leave(s.w)
	s.w.queue = nil
	l.waiting--
	switch {
	case q.granted != 0:
		l.alarms.drop(q)
	case q.n == 0:
		l.remove(q)
	default:
		l.alarms.set(q, math.MinInt64)
	}
}

// decide ends the request.
func (s *settlement) decide(at int, err error) {
	s.w.All.At, s.w.err = at, err
	s.w.done.Store(true)
}

// index returns the index of a key.
func (r *Together) index(key []byte) int {
	return slices.IndexFunc(r.Keys, func(k []byte) bool { return bytes.Equal(k, key) })
}
