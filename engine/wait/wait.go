// Package wait has the requests that wait: who is in the queue of which key, in which order, and
// when somebody must look at it. It decides nothing and knows no state of a key.
//
// A key has a queue only while somebody waits for it. Its members are in the order of asking,
// whatever queues they have been in before. The head is the first that can be granted in time.
// Those before it have stepped aside: they could be granted only after their time, and hold up
// nobody. So a member under 1/h that waits for a minute does not stop callers of 1000/h. Whatever
// may shorten a wait returns them to their places: see Queue.Note.
//
// A queue has one deadline: when its head can be granted, which its denial has told, or when the
// first of its members gives up, whichever comes first. All deadlines are in one heap: see Alarms.
//
// A request that has been granted for later, by a QUEUE, waits for its turn in a queue of its own,
// which has that one member and a Turn.
//
// Invariants, which builds with the tag selfcheck check while nothing runs:
//
//   - A queue has members, and is in its list under its key, unless it has a turn.
//   - A queue is in the heap, at a time by which its head can be granted or a member gives up, if
//     nothing else happens.
//
// Rejected: a timer for each member that tries again. It wakes members that cannot be granted, and
// the last to ask are as likely to win as the first. Also rejected: planning the whole queue to tell
// a request when all of it will have gone. It took 180 lines, was wrong as soon as somebody left, and
// copied the decisions on every member.
package wait

import (
	"bytes"
	"math"
)

// Member is a request that waits, or may have to. The zero value has not had to.
type Member struct {
	// Of is the request.
	Of any
	// Until is the last moment, in Unix nanoseconds, at which it may be granted.
	Until int64
	// Patient has it never step aside: it may be granted sooner than its denial says.
	Patient bool

	index      int32   // in queue.limits
	queue      *Queue  // nil if it does not wait
	next, prev *Member // in the queue
	number     uint64  // order of asking; 0: it has not had to wait
}

// Queue returns the queue in which m waits, or nil.
func (m *Member) Queue() *Queue { return m.queue }

// Waited reports whether m has had to wait.
func (m *Member) Waited() bool { return m.number != 0 }

// InPlaceOf gives m, which has not waited yet, the place of another in the order of asking.
func (m *Member) InPlaceOf(other *Member) { m.number = other.number }

// before orders the members of a queue by when they give up.
func (m *Member) before(other *Member) bool {
	return m.Until < other.Until || m.Until == other.Until && m.number < other.number
}

func (m *Member) setIndex(i int) { m.index = int32(i) }

// isTooLate reports whether m must step aside at now. due is when it could be granted if nothing
// else happens.
func (m *Member) isTooLate(now, due int64) bool {
	return m.Until <= now || !m.Patient && due > m.Until
}

// List is the queues of the keys of one shard. The shard's lock guards it.
type List struct {
	queues map[string]*Queue
	lines  map[string]*Line
	alarms *Alarms
	shard  int

	waiting int    // members
	waited  uint64 // that had to wait, ever
}

// Init makes l the list of a shard.
func (l *List) Init(a *Alarms, shard int) { l.alarms, l.shard = a, shard }

// Figures returns how many requests wait, for how many keys, and how many had to wait, ever.
func (l *List) Figures() (waiting, keys int, waited uint64) {
	return l.waiting, len(l.queues) + len(l.lines), l.waited
}

// Find returns the queue of key, or nil.
func (l *List) Find(key []byte) *Queue {
	if l.queues == nil {
		return nil
	}
	return l.queues[string(key)]
}

// Any reports whether any key has a queue.
func (l *List) Any() bool { return l.queues != nil }

// Stir has all queues be looked at soon, because all keys may have changed.
func (l *List) Stir() {
	for _, q := range l.queues {
		q.Note(nil)
		l.alarms.set(q, math.MinInt64)
	}
}

// LookSoon has q be looked at soon.
func (l *List) LookSoon(q *Queue) {
	if q.n > 0 {
		l.alarms.set(q, math.MinInt64)
	}
}

// Wait has m wait for a key, or wait on, because it was denied at now. due is when it could be granted.
func (l *List) Wait(now int64, m *Member, hash uint64, key []byte, due int64) {
	q := l.Find(key)
	if m.queue == nil {
		if q == nil {
			q = l.open(hash, key)
		}
		l.join(q, m)
	}
	if q.head == m {
		if q.due = due; m.isTooLate(now, due) {
			q.stepAside()
		}
	}
	l.alarms.set(q, q.deadline())
}

// Leave takes m out of its queue, if it is in one. The caller must have the rest of the queue looked at.
func (l *List) Leave(m *Member) {
	q := m.queue
	if q == nil {
		return
	}
	q.leave(m)
	l.waiting--
	switch {
	case q.Turn != nil:
		l.alarms.drop(q)
		l.leaveLine(q)
	case q.n == 0:
		l.remove(q)
	}
}

// Next returns the member of q to decide at now: one whose time is over, or the head if it may be granted. If there is
// none, it returns nil, and sets the queue's alarm.
func (l *List) Next(now int64, q *Queue) *Member {
	if q.n == 0 {
		return nil
	}
	if m := q.next(now); m != nil {
		return m
	}
	l.alarms.set(q, q.deadline())
	return nil
}

// join puts m into q, in the order of asking: at the end, unless m comes from
// another queue.
func (l *List) join(q *Queue, m *Member) {
	if m.number == 0 {
		m.number = l.alarms.asked.Add(1)
		l.waited++
	}
	l.waiting++
	q.join(m)
}

// open makes a queue for a key that has none.
func (l *List) open(hash uint64, key []byte) *Queue {
	q := l.newQueue(hash, key)
	if l.queues == nil {
		l.queues = map[string]*Queue{}
	}
	l.queues[string(q.key)] = q
	return q
}

func (l *List) newQueue(hash uint64, key []byte) *Queue {
	return &Queue{Shard: l.shard, Hash: hash, key: bytes.Clone(key), due: math.MaxInt64, index: -1}
}

// remove forgets an empty queue.
func (l *List) remove(q *Queue) {
	delete(l.queues, string(q.key))
	l.alarms.drop(q)
	if len(l.queues) == 0 {
		l.queues = nil // a map keeps the room of the most there ever were
	}
}
