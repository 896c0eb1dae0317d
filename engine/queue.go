package engine

import (
	"math"
	"unsafe"

	"limitdb/engine/table"
	"limitdb/limit"
)

// queue holds the waiters of one key, or one request of a QUEUE that waits for
// its turn. Its shard's lock guards all fields except the last group.
type queue struct {
	shard *shard
	hash  uint64
	key   string

	first, last *Waiter
	head        *Waiter // the first that can be granted in time; nil for none
	n           int
	joined      uint32        // waiters, ever
	limits      heap[*Waiter] // the waiters again, the first to give up first
	due         int64         // when the head can be granted, if nothing else happens
	under       limit.Limit   // which the key was last changed under, if that is known
	forecast    forecast
	turn        *turn // of a QUEUE's request; nil for a queue of waiters

	// Guarded by the lock of the alarms.
	at     int64 // when Wake is to serve it
	place  int   // in the heap; −1: nowhere
	number uint64
}

// waitlist is a shard's queues. The shard's lock guards it.
type waitlist struct {
	n      int // queues; all that a decision looks at while it is 0
	queues map[string]*queue
	alarms *alarms
	lines  map[string]*turns // of those who wait for a turn of a QUEUE

	waiting int    // requests that wait now
	waited  uint64 // that had to wait, ever

	// Those that have been decided and are to be told when the lock is free.
	told, lastTold *Waiter
}

// serveMost is the most waiters that are decided under one hold of a shard's
// lock.
const serveMost = 256

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

// find returns the queue of key, or nil.
func (l *waitlist) find(key []byte) *queue {
	if l.n == 0 {
		return nil
	}
	return l.queues[string(key)]
}

// stir makes the next Wake serve all queues.
func (l *waitlist) stir() {
	if l.n == 0 {
		return
	}
	for _, q := range l.queues {
		q.note(nil)
		l.alarms.set(q, math.MinInt64)
	}
}

// stirOne is changed for a step in several shards: the next Wake serves the queue.
func (s *shard) stirOne(key []byte, under *limit.Limit) {
	if q := s.waits.find(key); q != nil {
		q.note(under)
		s.waits.alarms.set(q, math.MinInt64)
	}
}

// holds reports whether a later request must not take before somebody in q. A nil
// q holds nobody.
func (q *queue) holds() bool { return q != nil && q.head != nil }

// note notes that the key has changed: under a limit or, if that is nil, by a
// step that may have given back. The waiters that have stepped aside are looked
// at again, unless the limit is the same as before: that makes no wait shorter.
func (q *queue) note(under *limit.Limit) {
	q.forecast.stale++
	q.look(under)
}

// look is note for a change that was planned.
func (q *queue) look(under *limit.Limit) {
	switch {
	case under == nil:
		q.head, q.under = q.first, limit.Limit{}
	case q.under != *under:
		q.head, q.under = q.first, *under
	}
}

// bytes returns the key, which must not be written to.
func (q *queue) bytes() []byte { return unsafe.Slice(unsafe.StringData(q.key), len(q.key)) }

// liveOf finds the key of q.
func (s *shard) liveOf(now int64, q *queue) table.Spot {
	sp := table.Spot{Hash: q.hash, Key: q.bytes()}
	s.table.Live(now, &sp)
	return sp
}

func newQueue(s *shard, sp *table.Spot) *queue {
	return &queue{shard: s, hash: sp.Hash, key: string(sp.Key), due: math.MaxInt64, place: -1}
}

// park has w, which could be granted at due, wait behind q, or in a new queue if
// that is nil.
func (s *shard) park(now int64, sp *table.Spot, q *queue, w *Waiter, due int64) {
	if q == nil {
		q = newQueue(s, sp)
		if s.waits.queues == nil {
			s.waits.queues = map[string]*queue{}
		}
		s.waits.queues[q.key] = q
		s.waits.n++
	}
	q.join(w)
	if q.head == w {
		if q.due = due; w.isTooLate(now, due) {
			q.head, q.due = nil, math.MaxInt64
		}
	}
	q.forecast.extend(w)
	s.waits.alarms.set(q, min(q.due, q.limits[0].Until))
}

// join puts w at the end of q.
func (q *queue) join(w *Waiter) {
	w.key = q.key
	w.shard, w.queue, w.prev = q.shard, q, q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	if q.head == nil {
		q.head = w
	}
	q.joined++
	w.number = q.joined
	q.n++
	q.limits.push(w)
	q.shard.waits.waiting++
	q.shard.waits.waited++
}

// leave takes w out of q.
func (q *queue) leave(w *Waiter) {
	if q.head == w {
		q.head = w.next
	}
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev = nil, nil
	q.n--
	q.limits.remove(int(w.place))
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

// ring is the alarm of q.
func (s *shard) ring(now int64, q *queue) {
	s.mu.Lock()
	defer s.unlock()
	switch {
	case q.n == 0: // the last has gone meanwhile
	case q.turn != nil:
		s.comeTurn(s.clamp(now), q)
	default:
		s.serve(s.clamp(now), q)
	}
}

// serve decides the waiters of q that can be decided at now, and reports whether
// any are left. It grants a waiter that can be granted at its Until, and denies
// one that could have been granted only before now.
func (s *shard) serve(now int64, q *queue) bool {
	expected := q.due
	for left := serveMost; q.n > 0; left-- {
		q.due = math.MaxInt64
		if left == 0 {
			q.due = now // the rest at the next Wake
			break
		}
		late := q.limits[0].Until < now // it might have been granted
		if !late && q.head != nil && s.advance(now, q) {
			if now != expected {
				q.forecast.stale++
			}
			continue
		}
		w := q.limits[0]
		if w.Until > now {
			break
		}
		if late {
			q.forecast.stale++
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
	if q.n == 0 {
		return
	}
	for q.n > 0 {
		w := q.first
		q.leave(w)
		s.decided(w, ErrClosed)
		s.tell(w)
	}
	if q.turn != nil {
		delete(s.waits.lines, q.key)
	} else {
		s.waits.remove(q)
	}
}

// remove forgets an empty queue.
func (l *waitlist) remove(q *queue) {
	delete(l.queues, q.key)
	l.n--
	l.alarms.drop(q)
	if l.n == 0 {
		l.queues = nil // a map keeps the room of the most there ever were
	}
}

// advance decides the head of q, or has it step aside, and reports whether there is
// another head to look at. If not, the head waits until q.due.
func (s *shard) advance(now int64, q *queue) bool {
	w := q.head
	d := &w.decision
	sp := s.liveOf(now, q)
	state, err := s.stateAsked(&sp, &w.Request)
	if err == nil {
		err = w.peek(state, now, d)
	}
	if err == nil && d.Limited && d.Wait != limit.Never {
		moved, err := s.move(now, &sp, state, &w.Request)
		if err == nil {
			switch q.due = later(now, d.Wait); {
			case moved:
				q.look(nil)
			case w.isTooLate(now, q.due):
				q.head = w.next
			default:
				return false
			}
			return true
		}
	}
	if err == nil {
		w.granted, err = s.takeFor(now, &sp, state, &w.Request, d)
	}
	q.leave(w)
	switch {
	case w.Lease != nil:
		q.look(nil) // those who stand aside give up now: they are few
	case w.granted > 0:
		q.look(&w.Limit)
	}
	s.decided(w, err)
	s.tell(w)
	return true
}

// move keeps the faster pace that a denial of r moves the key to, so that its wait
// is true, and reports whether there is one. The spot and the state are not valid
// then.
func (s *shard) move(now int64, sp *table.Spot, state []byte, r *Request) (moved bool, err error) {
	if !sp.Found() {
		return false, nil
	}
	var d limit.Decision
	next, err := r.move(state, now, s.scratch(r.kind(), state), &d)
	if err != nil || next == nil || !d.Limited {
		return false, err
	}
	return true, s.store(now, sp, r.mark(sp, &d), next, false)
}

// takeFor takes for a request and counts the decision. The spot and the
// state are not valid afterwards.
func (s *shard) takeFor(now int64, sp *table.Spot, state []byte, r *Request, d *limit.Decision) (granted int64, err error) {
	dst := s.scratch(r.kind(), state)
	if r.Lease != nil {
		buf := s.buffers.take()
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
		sp.Forget() // what a denied Replace leaves as it is
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
		q.look(&w.Limit)
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

// later returns t + d, or math.MaxInt64 if that overflows.
func later(t, d int64) int64 {
	if d > math.MaxInt64-t && t > 0 {
		return math.MaxInt64
	}
	return t + d
}
