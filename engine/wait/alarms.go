package wait

import (
	"math"
	"sync"
	"sync/atomic"
)

// Alarms holds the next deadline of every queue of every shard. A shard takes
// its lock while holding its own, never the other way round.
type Alarms struct {
	mu   sync.Mutex // guards the fields below up to told
	heap heap[*Queue]
	made uint64 // queues so far; orders those that are due at the same time
	told int64  // what Pop returned last

	// sooner receives when a deadline earlier than told appears; it buffers
	// one.
	sooner chan struct{}

	asked atomic.Uint64 // requests that had to wait; orders them
}

// NewAlarms returns alarms without a deadline.
func NewAlarms() *Alarms {
	return &Alarms{told: math.MaxInt64, sooner: make(chan struct{}, 1)}
}

// Sooner returns a channel that receives when there is an earlier deadline than Pop has told.
func (a *Alarms) Sooner() <-chan struct{} { return a.sooner }

// set changes when q is due.
func (a *Alarms) set(q *Queue, due int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case q.index < 0:
		if q.number == 0 {
			a.made++
			q.number = a.made
		}
		q.alarm = due
		a.heap.push(q)
	case q.alarm == due:
		return
	default:
		q.alarm = due
		a.heap.fix(q.index)
	}
	if due < a.told {
		a.told = due
		select {
		case a.sooner <- struct{}{}:
		default:
		}
	}
}

// drop forgets q.
func (a *Alarms) drop(q *Queue) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q.index >= 0 {
		a.heap.remove(q.index)
	}
}

// Pop removes and returns the first queue that is due at now. If none is due,
// it returns nil and the time when the first will be, math.MaxInt64 if there is
// none. The caller looks at the queue, which sets its alarm again: see List.Next.
func (a *Alarms) Pop(now int64) (*Queue, int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = math.MaxInt64
	if len(a.heap) > 0 {
		a.told = a.heap[0].alarm
	}
	if len(a.heap) == 0 || a.told > now {
		return nil, a.told
	}
	q := a.heap[0]
	a.heap.remove(0)
	return q, 0
}

// before orders the alarms.
func (q *Queue) before(other *Queue) bool {
	return q.alarm < other.alarm || q.alarm == other.alarm && q.number < other.number
}

func (q *Queue) setIndex(i int) { q.index = i }
