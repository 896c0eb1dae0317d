//go:build selfcheck

package wait

import "fmt"

// Check verifies the queues of all lists, and their alarms, while nothing runs.
func (a *Alarms) Check(lists []*List) {
	a.mu.Lock()
	defer a.mu.Unlock()
	waiting := map[int]int{}
	for i, q := range a.heap {
		if q.index != i || i > 0 && q.before(a.heap[(i-1)/2]) {
			panic(fmt.Sprintf("the alarm of %q is at %d, not at %d", q.key, i, q.index))
		}
		if q.Turn == nil && lists[q.Shard].queues[string(q.key)] != q {
			panic(fmt.Sprintf("there is an alarm for %q, and no queue", q.key))
		}
		waiting[q.Shard] += q.n
	}
	if len(a.heap) > 0 && a.told > a.heap[0].alarm {
		panic(fmt.Sprintf("%d is due, but %d was told", a.heap[0].alarm, a.told))
	}
	for i, l := range lists {
		if l.waiting != waiting[i] {
			panic(fmt.Sprintf("%d wait, counted %d", waiting[i], l.waiting))
		}
		for key, line := range l.lines {
			line.check(key)
		}
		for key, q := range l.queues {
			if string(q.key) != key || q.index < 0 {
				panic(fmt.Sprintf("the queue of %q has no alarm", key))
			}
			q.check()
		}
	}
}

func (q *Queue) check() {
	n := 0
	var before *Member
	for m := q.first; m != nil; before, m = m, m.next {
		n++
		if m.prev != before || m.queue != q || q.limits[m.index] != m || before != nil && before.number > m.number {
			panic(fmt.Sprintf("member %d of %q is not where it should be", n, q.key))
		}
	}
	if n != q.n || n == 0 || q.last != before || len(q.limits) != n {
		panic(fmt.Sprintf("%q has %d members, counted %d", q.key, n, q.n))
	}
	for i, m := range q.limits {
		if int(m.index) != i || i > 0 && m.before(q.limits[(i-1)/2]) {
			panic(fmt.Sprintf("the members of %q are out of order", q.key))
		}
	}
}

// check verifies that somebody waits for a turn of a line, and that its turns are in
// their order.
func (line *Line) check(key string) {
	waiting := 0
	var behind *Turn
	for t := line.last; t != nil; behind, t = t, t.ahead {
		if t.behind != behind || string(t.queue.key) != key || !t.hole && t.queue.n != 1 {
			panic(fmt.Sprintf("a turn of %q is not where it should be", key))
		}
		if !t.hole {
			waiting++
		}
	}
	if waiting == 0 || waiting != line.waiting {
		panic(fmt.Sprintf("%d wait for a turn of %q, counted %d", waiting, key, line.waiting))
	}
}

// Look calls fn with each queue of the list that is not due at now, and each of its members up to the head, or all if
// there is none. due is when the head can be granted, and tooLate says whether a member must step aside if it can be
// granted at that time.
func (l *List) Look(now int64, fn func(q *Queue, m *Member, isHead bool, tooLate func(due int64) bool)) {
	for _, q := range l.queues {
		if q.alarm <= now {
			continue
		}
		if want := q.deadline(); q.alarm != want {
			panic(fmt.Sprintf("%q is due at %d, want %d", q.key, q.alarm, want))
		}
		for m := q.first; m != nil; m = m.next {
			fn(q, m, m == q.head, func(due int64) bool { return m.isTooLate(now, due) })
			if m == q.head {
				break
			}
		}
	}
}
