package wait

import (
	"math"

	"limitdb/limit"
)

// Queue holds the members that wait for one key, or one that waits for its turn. Its shard's lock guards all
// fields except the last group.
type Queue struct {
	// Shard and Hash say where its key is.
	Shard int
	Hash  uint64
	// Turn is the turn of its one member; nil for a queue of those who have not been granted.
	Turn *Turn

	key         []byte
	first, last *Member
	head        *Member // the first that can be granted in time; nil for none
	n           int
	limits      heap[*Member] // the members again, the first to give up first
	due         int64         // when the head can be granted, if nothing else happens; or unknown
	under       limit.Limit   // which the key was last changed under, if that is known

	// Guarded by the lock of the alarms.
	alarm  int64 // when somebody must look at it
	index  int   // in the heap; −1: nowhere
	number uint64
}

// unknown is the time of what must be looked at.
const unknown = math.MinInt64

// Key returns the key. It must not be changed.
func (q *Queue) Key() []byte { return q.key }

// Holds reports whether a request must not take before somebody in q: one that has not waited or, for a member of any
// queue, one that asked later. A nil q holds nobody.
func (q *Queue) Holds(m *Member) bool {
	return q != nil && q.head != nil && (m == nil || m.number == 0 || q.head.number < m.number)
}

// Due returns when the head can be granted if nothing else happens. That is not after now if it must be looked at.
func (q *Queue) Due() int64 { return q.due }

// IsDue reports whether somebody in q must be looked at by now.
func (q *Queue) IsDue(now int64) bool { return q.deadline() <= now }

// IsHead reports whether m is the head of its queue.
func (m *Member) IsHead() bool { return m.queue != nil && m.queue.head == m }

// Note notes that the key has changed: under a limit or, if that is nil, by a
// step that may have given back. The members that have stepped aside are looked
// at again, unless the limit is the same as before: that makes no wait shorter.
func (q *Queue) Note(under *limit.Limit) {
	switch {
	case under == nil:
		q.head, q.under = q.first, limit.Limit{}
	case q.under != *under:
		q.head, q.under = q.first, *under
	}
	q.due = unknown
	q.settle()
}

// settle keeps due in order once the head has changed.
func (q *Queue) settle() {
	if q.head == nil {
		q.due = math.MaxInt64
	}
}

// stepAside has the head step aside. The next one is looked at.
func (q *Queue) stepAside() {
	q.head, q.due = q.head.next, unknown
	q.settle()
}

// deadline returns when somebody must be looked at.
func (q *Queue) deadline() int64 {
	if q.Turn != nil {
		return q.due
	}
	return min(q.due, q.limits[0].Until)
}

// next returns the member to decide at now, or nil. One that can be granted at its Until is granted then, and one that
// could have been only before now is not.
func (q *Queue) next(now int64) *Member {
	if q.Turn != nil {
		if q.due <= now {
			return q.first
		}
		return nil
	}
	switch first := q.limits[0]; {
	case first.Until < now:
		return first
	case q.due <= now:
		return q.head
	case first.Until <= now:
		return first
	}
	return nil
}

// First returns any member, or nil.
func (q *Queue) First() *Member { return q.first }

// join puts m into q, at its place in the order of asking.
func (q *Queue) join(m *Member) {
	m.queue = q
	before := q.last
	for before != nil && before.number > m.number {
		before = before.prev
	}
	next := q.first
	if before != nil {
		next, before.next = before.next, m
	} else {
		q.first = m
	}
	if next != nil {
		next.prev = m
	} else {
		q.last = m
	}
	m.prev, m.next = before, next
	if q.head == nil || m.number < q.head.number {
		q.head = m
	}
	q.n++
	q.limits.push(m)
}

// leave takes m out of q.
func (q *Queue) leave(m *Member) {
	if q.head == m {
		q.stepAside()
	}
	if m.prev == nil {
		q.first = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		q.last = m.prev
	} else {
		m.next.prev = m.prev
	}
	m.queue, m.next, m.prev = nil, nil, nil
	q.n--
	q.limits.remove(int(m.index))
}
