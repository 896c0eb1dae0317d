package engine

import (
	"math"

	"limitdb/engine/table"
	"limitdb/limit"
)

// serveMost is the most waiters that are decided under one hold of a shard's
// lock.
const serveMost = 256

// stateAsked is stateFor for a request.
func (s *shard) stateAsked(sp *table.Spot, r *Request) ([]byte, error) {
	if r.Lease != nil {
		return s.stateOf(sp, limit.LEASE)
	}
	state, err := s.stateFor(sp, &r.Limit)
	if err == ErrWrongType && r.Replace {
		return nil, nil
	}
	return state, err
}

// unlock releases the lock, and then notifies the owners of the waiters that
// have been decided meanwhile.
func (s *shard) unlock() {
	w := s.waits.told
	s.waits.told, s.waits.lastTold = nil, nil
	s.mu.Unlock()
	for w != nil {
		next := w.next
		w.next = nil
		w.Owner.Wake()
		w = next
	}
}

// serveAfter serves q, if it is not nil, after a step on its key. under is the
// limit of a step that took, or nil for a step that may have given back.
func (s *shard) serveAfter(now int64, q *queue, under *limit.Limit) {
	if q != nil {
		q.note(under)
		s.serve(now, q)
	}
}

// stirOne is serveAfter for a step in several shards: the next Wake serves the queue.
func (s *shard) stirOne(key []byte, under *limit.Limit) {
	if q := s.waits.find(key); q != nil {
		q.note(under)
		s.waits.alarms.set(q, math.MinInt64)
	}
}

// liveOf finds the key of q.
func (s *shard) liveOf(now int64, q *queue) table.Spot {
	sp := table.Spot{Hash: q.hash, Key: q.key}
	s.table.Live(now, &sp)
	return sp
}

// park has w, which could be granted at due, wait behind q, or in a new queue if
// that is nil.
func (s *shard) park(now int64, sp *table.Spot, q *queue, w *Waiter, due int64) {
	if q == nil {
		q = s.waits.open(s, sp)
	}
	s.waits.arrive(w)
	q.join(w)
	if q.head == w {
		if q.due = due; w.isTooLate(now, due) {
			q.head, q.due = nil, math.MaxInt64
		}
	}
	s.waits.alarms.set(q, min(q.due, q.limits[0].Until))
}

// decided ends w's waiting.
func (s *shard) decided(w *Waiter, err error) {
	if err == table.ErrNoRoom {
		err = ErrOOM
		s.refused++
	}
	w.err = err
	w.queue = nil
	s.waits.waiting--
	w.done.Store(true)
}

// tell makes unlock notify w's owner.
func (s *shard) tell(w *Waiter) {
	if s.waits.told == nil {
		s.waits.told = w
	} else {
		s.waits.lastTold.next = w
	}
	s.waits.lastTold = w
}

// ring is the alarm of q. It returns a waiter that settle must decide, or nil.
func (s *shard) ring(now int64, q *queue) *Waiter {
	s.mu.Lock()
	defer s.unlock()
	switch {
	case q.n == 0: // the last has gone meanwhile
	case s.closed: // Close did not find q, whose alarm had been taken
		s.end(q)
	case q.turn != nil:
		s.comeTurn(s.clamp(now), q)
	case q.granted != 0:
		return q.first
	case s.serve(s.clamp(now), q):
		return q.ready
	}
	return nil
}

// serve decides the waiters of q that can be decided at now, and reports whether
// any are left. It grants a waiter that can be granted at its Until, and denies
// one that could have been granted only before now.
func (s *shard) serve(now int64, q *queue) bool {
	q.ready = nil
	for left := serveMost; q.n > 0; left-- {
		q.due = math.MinInt64
		if left == 0 {
			q.due = now // the rest at the next Wake
			break
		}
		late := q.limits[0].Until < now // it might have been granted
		if !late && q.head != nil && s.advance(now, q) {
			continue
		}
		w := q.limits[0]
		if q.ready == nil && w.All != nil && w.Until <= now {
			q.ready = w
		}
		if q.ready != nil {
			q.due = now // settle decides it
			break
		}
		if w.Until > now {
			if q.head == nil {
				q.due = math.MaxInt64
			}
			break
		}
		s.deny(now, q, w, nil)
		s.tell(w)
	}
	if q.n == 0 {
		s.waits.remove(q)
		return false
	}
	s.waits.alarms.set(q, min(q.due, q.limits[0].Until))
	return true
}

// abandon ends the waiting of all of q, because the engine is closed.
func (s *shard) abandon(q *queue) {
	s.mu.Lock()
	defer s.unlock()
	if q.n > 0 {
		s.end(q)
	}
}

// end is abandon under the shard's lock. Others of q's line may still wait, and come
// or leave before Close comes to them.
func (s *shard) end(q *queue) {
	for q.n > 0 {
		w := q.first
		q.leave(w)
		s.decided(w, ErrClosed)
		s.tell(w)
	}
	switch {
	case q.turn != nil:
		s.waits.lines[string(q.key)].stepOut(q.turn)
		s.waits.leaveLine(q)
	case q.granted == 0:
		s.waits.remove(q)
	}
}

// advance decides the head of q, or has it step aside, and reports whether there is
// another head to look at. If not, the head waits until q.due, or is ready for
// settle.
func (s *shard) advance(now int64, q *queue) bool {
	w := q.head
	d := &w.decision
	sp := s.liveOf(now, q)
	state, err := s.stateAsked(&sp, &w.Request)
	moved := false
	if err == nil {
		moved, err = s.weigh(now, &sp, state, &w.Request, d)
	}
	if err == nil && d.Limited && d.Wait != limit.Never {
		due := later(now, d.Wait)
		switch {
		case moved:
			q.note(nil)
		case w.isTooLate(now, due):
			q.head = w.next
		default:
			q.due = due
			return false
		}
		return true
	}
	if w.All != nil {
		q.ready = w
		return false
	}
	if err == nil {
		w.granted, err = s.takeFor(now, &sp, state, &w.Request, d)
	}
	q.leave(w)
	switch {
	case w.Lease != nil:
		q.note(nil) // waiters that have stepped aside give up now: they are few
	case w.granted > 0:
		q.note(&w.Limit)
	}
	s.decided(w, err)
	s.tell(w)
	return true
}

// weigh answers as r.peek does. A denial that has something to wait for moves the
// key to the pace of a limit that was raised, so that its wait is true. weigh
// reports whether it did; the spot and the state are not valid then.
func (s *shard) weigh(now int64, sp *table.Spot, state []byte, r *Request, d *limit.Decision) (moved bool, err error) {
	if err := r.peek(state, now, d); err != nil || !d.Limited || d.Wait == limit.Never || r.Lease != nil || !sp.Found() {
		return false, err
	}
	part, err := r.part(state, now)
	if err != nil {
		return false, err
	}
	var own limit.Limit // a request that waits has not been denied
	var denial limit.Decision
	next, err := limit.Take(uncounted(&r.Limit, &own), state, now, part, s.scratch(r.kind(), state), &denial)
	if err != nil || next == nil || !denial.Limited {
		return false, err
	}
	return true, s.store(now, sp, r.mark(sp, &denial), next, false)
}

// takeFor takes for a request and counts the decision. The spot and the
// state are not valid afterwards.
func (s *shard) takeFor(now int64, sp *table.Spot, state []byte, r *Request, d *limit.Decision) (granted int64, err error) {
	dst := s.scratch(r.kind(), state)
	if state == nil && sp.Found() && r.Limit.CountDenied {
		own := *r // a denied Replace leaves the key as it is
		own.Limit.CountDenied = false
		r = &own
	}
	if r.Lease != nil {
		buf := s.buffers.get()
		dst = *buf
		defer func() { s.buffers.put(buf, dst) }()
	}
	next, granted, err := r.take(state, now, dst, d)
	if err != nil {
		return 0, err
	}
	if r.Lease != nil && next != nil {
		dst = next
	}
	if next == nil && state == nil {
		sp.Forget()
	}
	if err := s.commit(now, sp, r.mark(sp, d), next, d); err != nil {
		return 0, err
	}
	return granted, nil
}

// deny ends w's waiting without a grant: with the error cause or, if that is nil,
// with a denial.
func (s *shard) deny(now int64, q *queue, w *Waiter, cause error) {
	d := &w.decision
	sp := s.liveOf(now, q)
	state, err := s.stateAsked(&sp, &w.Request)
	if err == nil {
		err = w.peek(state, now, d)
	}
	q.leave(w)
	switch {
	case err != nil:
	case d.Limited && w.Lease == nil && w.Limit.CountDenied:
		_, err = s.takeFor(now, &sp, state, &w.Request, d)
		q.note(&w.Limit)
	default: // it has moved the key, if at all, when it asked and when it was the head
		s.countDenied(now, &sp)
	}
	if err == nil {
		err = s.behind(now, q, state, &w.Request, d)
	}
	if cause != nil {
		err = cause
	}
	s.decided(w, err)
}
