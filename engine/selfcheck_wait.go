//go:build selfcheck

package engine

import (
	"fmt"
	"math"

	"limitdb/engine/table"
	"limitdb/limit"
)

// checkWaits verifies the queues and their alarms.
func (e *core) checkWaits() {
	e.alarms.mu.Lock()
	defer e.alarms.mu.Unlock()
	waiting := map[*shard]int{}
	for i, q := range e.alarms.heap {
		if q.index != i || i > 0 && q.before(e.alarms.heap[(i-1)/2]) {
			panic(fmt.Sprintf("the alarm of %q is at %d, not at %d", q.key, i, q.index))
		}
		if q.turn == nil && q.granted == 0 && q.shard.waits.queues[string(q.key)] != q {
			panic(fmt.Sprintf("there is an alarm for %q, and no queue", q.key))
		}
		waiting[q.shard] += q.n
	}
	if len(e.alarms.heap) > 0 && e.alarms.told > e.alarms.heap[0].alarm {
		panic(fmt.Sprintf("%d is due, but %d was told", e.alarms.heap[0].alarm, e.alarms.told))
	}
	for i := range e.shards {
		s := &e.shards[i]
		l := &s.waits
		if l.n != len(l.queues) || l.waiting != waiting[s] || l.told != nil {
			panic(fmt.Sprintf("%d queues and %d waiters, counted %d and %d", len(l.queues), waiting[s], l.n, l.waiting))
		}
		for key, line := range l.lines {
			line.check(key)
		}
		for key, q := range l.queues {
			if string(q.key) != key || q.index < 0 {
				panic(fmt.Sprintf("the queue of %q has no alarm", key))
			}
			q.check()
			s.checkDue(q)
		}
	}
}

func (q *queue) check() {
	n := 0
	var before *Waiter
	for w := q.first; w != nil; before, w = w, w.next {
		n++
		if w.prev != before || w.queue != q || w.Done() || q.limits[w.index] != w {
			panic(fmt.Sprintf("waiter %d of %q is not where it should be", n, q.key))
		}
	}
	if n != q.n || n == 0 || q.last != before || len(q.limits) != n {
		panic(fmt.Sprintf("%q has %d waiters, counted %d", q.key, n, q.n))
	}
	for i, w := range q.limits {
		if int(w.index) != i || i > 0 && w.before(q.limits[(i-1)/2]) {
			panic(fmt.Sprintf("the waiters of %q are out of order", q.key))
		}
	}
}

// check verifies that somebody waits for a turn of a line, and that its turns are in
// their order.
func (line *turns) check(key string) {
	waiting := 0
	var behind *turn
	for t := line.last; t != nil; behind, t = t, t.ahead {
		if t.behind != behind || string(t.queue.key) != key || t.hole == nil && t.queue.n != 1 {
			panic(fmt.Sprintf("a turn of %q is not where it should be", key))
		}
		if t.hole == nil {
			waiting++
		}
	}
	if waiting == 0 || waiting != line.waiting {
		panic(fmt.Sprintf("%d wait for a turn of %q, counted %d", waiting, key, line.waiting))
	}
}

// checkDue verifies a queue that is not due yet: its head cannot be granted now
// but can be when the queue is due, and waiters that have stepped aside cannot
// be granted in time.
func (s *shard) checkDue(q *queue) {
	if q.alarm <= s.last {
		return
	}
	if want := min(q.due, q.limits[0].Until); q.alarm != want {
		panic(fmt.Sprintf("%q is due at %d, want %d", q.key, q.alarm, want))
	}
	var state []byte
	sp := table.Spot{Hash: q.hash, Key: q.key}
	if s.table.Find(&sp); sp.Found() && table.Expires(sp.Kind(), s.table.State(&sp)) > s.last {
		state = s.table.State(&sp)
	}
	if q.head == nil && q.due != math.MaxInt64 {
		panic(fmt.Sprintf("%q has no head, and is due at %d", q.key, q.due))
	}
	for w := q.first; w != nil; w = w.next {
		var d limit.Decision
		err := w.peek(state, s.last, &d)
		due := later(s.last, d.Wait)
		if err != nil || !d.Limited || w.isTooLate(s.last, due) != (w != q.head) {
			panic(fmt.Sprintf("at %d a waiter of %q gets %+v, %v", s.last, q.key, d, err))
		}
		if w == q.head {
			if due != q.due {
				panic(fmt.Sprintf("the head of %q is due at %d, not at %d", q.key, due, q.due))
			}
			return
		}
	}
}
