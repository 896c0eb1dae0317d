package engine

import (
	"bytes"
	"errors"
	"math"
	"sync/atomic"

	"limitdb/engine/table"
	"limitdb/limit"
)

// queue holds the waiters of one key, or one request of a QUEUE that waits for
// its turn. Its shard's lock guards all fields except the last group.
type queue struct {
	shard *shard
	hash  uint64
	key   []byte

	first, last *Waiter
	head        *Waiter // the first that can be granted in time; nil for none
	n           int
	limits      heap[*Waiter] // the waiters again, the first to give up first
	due         int64         // when the head can be granted, if nothing else happens; math.MinInt64 if that is not known
	under       limit.Limit   // which the key was last changed under, if that is known
	turn        *turn         // of a QUEUE's request; nil for a queue of waiters
	granted     int64         // when its request for several limits was granted, which waits here for its turn; 0: it has none
	ready       *Waiter       // to be decided by settle, or nil

	// Guarded by the lock of the alarms.
	alarm  int64 // when Wake is to serve it
	index  int   // in the heap; −1: nowhere
	number uint64
}

// waitlist is a shard's queues. The shard's lock guards it.
type waitlist struct {
	n      int // queues; all that a decision looks at while it is 0
	queues map[string]*queue
	alarms *alarms
	lines  map[string]*turns // of the requests that wait for a turn of a QUEUE

	waiting int    // requests that wait now
	waited  uint64 // that had to wait, ever

	// Waiters that have been decided, to be notified when the lock is free.
	told, lastTold *Waiter
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

// holds reports whether a later request must not take before somebody in q. A nil
// q holds nobody.
func (q *queue) holds() bool { return q != nil && q.head != nil }

// note notes that the key has changed: under a limit or, if that is nil, by a
// step that may have given back. The waiters that have stepped aside are looked
// at again, unless the limit is the same as before: that makes no wait shorter.
func (q *queue) note(under *limit.Limit) {
	switch {
	case under == nil:
		q.head, q.under = q.first, limit.Limit{}
	case q.under != *under:
		q.head, q.under = q.first, *under
	}
	q.due = math.MinInt64
}

func newQueue(s *shard, sp *table.Spot) *queue {
	return &queue{shard: s, hash: sp.Hash, key: bytes.Clone(sp.Key), due: math.MaxInt64, index: -1}
}

// open makes a queue for a key that has none.
func (l *waitlist) open(s *shard, sp *table.Spot) *queue {
	q := newQueue(s, sp)
	if l.queues == nil {
		l.queues = map[string]*queue{}
	}
	l.queues[string(q.key)] = q
	l.n++
	return q
}

// arrive gives w its place in the order of asking.
func (l *waitlist) arrive(w *Waiter) {
	w.number = l.alarms.asked.Add(1)
	l.waited++
}

// join puts w into q, in the order of asking: at the end, unless w comes from
// another queue.
func (q *queue) join(w *Waiter) {
	w.key = q.key
	w.shard, w.queue = q.shard, q
	before := q.last
	for before != nil && before.number > w.number {
		before = before.prev
	}
	next := q.first
	if before != nil {
		next, before.next = before.next, w
	} else {
		q.first = w
	}
	if next != nil {
		next.prev = w
	} else {
		q.last = w
	}
	w.prev, w.next = before, next
	if q.head == nil || w.number < q.head.number {
		q.head = w
	}
	q.n++
	q.limits.push(w)
	q.shard.waits.waiting++
}

// leave takes w out of q.
func (q *queue) leave(w *Waiter) {
	if q.head == w {
		q.head, q.due = w.next, math.MinInt64
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
	q.limits.remove(int(w.index))
}

// remove forgets an empty queue.
func (l *waitlist) remove(q *queue) {
	delete(l.queues, string(q.key))
	l.n--
	l.alarms.drop(q)
	if l.n == 0 {
		l.queues = nil // a map keeps the room of the most there ever were
	}
}

// later returns t + d, or math.MaxInt64 if that overflows.
func later(t, d int64) int64 {
	if d > math.MaxInt64-t && t > 0 {
		return math.MaxInt64
	}
	return t + d
}

// Waker is notified once, from any goroutine, that a request has been decided.
// Wake must not block.
type Waker interface {
	Wake()
}

// Waiter is one request to Ask. It must not be reused.
type Waiter struct {
	Request
	// All is what Ask asks for, unless it is nil. Request is then the engine's.
	All *Together
	// Until is the last moment, in Unix nanoseconds, at which the request may
	// be granted.
	Until int64
	// Owner is notified if the request had to wait.
	Owner Waker

	done     atomic.Bool
	decision limit.Decision
	granted  int64
	err      error

	shard *shard // where it waits or has waited

	// Guarded by the shard's lock, as is the queue.
	queue      *queue  // nil if it does not wait
	key        []byte  // of the queue, also when it no longer waits
	next, prev *Waiter // in the queue, or among those to notify
	index      int32   // in queue.limits
	number     uint64  // order of asking; 0: it has not had to wait
}

// Done reports whether the request has been decided. It may be called at any time.
func (w *Waiter) Done() bool { return w.done.Load() }

// Result returns the decision, once Done reports true, as TakeFor and Lease
// do. A granted request has nothing left to wait for.
func (w *Waiter) Result() (d limit.Decision, granted int64, err error) {
	return w.decision, w.granted, w.err
}

// Key returns the key of a request that has had to wait, once Done reports true. It
// must not be changed.
func (w *Waiter) Key() []byte { return w.key }

// before orders the waiters of a queue by when they give up.
func (w *Waiter) before(other *Waiter) bool {
	return w.Until < other.Until || w.Until == other.Until && w.number < other.number
}

func (w *Waiter) setIndex(i int) { w.index = int32(i) }

// isTooLate reports whether w must step aside at now. due is when it could be
// granted if nothing else happens.
func (w *Waiter) isTooLate(now, due int64) bool {
	return w.Until <= now || w.Lease == nil && due > w.Until
}

// errParked is not a failure: the request now waits.
var errParked = errors.New("engine: the request waits")
