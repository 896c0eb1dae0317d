//go:build selfcheck

package engine

import (
	"fmt"

	"limitdb/engine/table"
	"limitdb/engine/wait"
	"limitdb/limit"
)

// checkWaits verifies the queues and their alarms: a head cannot be granted now but can be when its queue is due, and
// members that have stepped aside cannot be granted in time.
func (e *core) checkWaits() {
	lists := make([]*wait.List, len(e.shards))
	for i := range e.shards {
		lists[i] = &e.shards[i].waits
	}
	e.alarms.Check(lists)
	for i := range e.shards {
		s := &e.shards[i]
		s.waits.Look(s.last, func(q *wait.Queue, m *wait.Member, isHead bool, tooLate func(int64) bool) {
			var state []byte
			sp := table.Spot{Hash: q.Hash, Key: q.Key()}
			if s.table.Find(&sp); sp.Found() && table.Expires(sp.Kind(), s.table.State(&sp)) > s.last {
				state = s.table.State(&sp)
			}
			w := m.Of.(*Waiter)
			var d limit.Decision
			err := w.peek(state, s.last, &d)
			due := later(s.last, d.Wait)
			switch {
			case w.Done() || err != nil || !d.Limited || tooLate(due) == isHead:
				panic(fmt.Sprintf("at %d a waiter of %q gets %+v, %v", s.last, q.Key(), d, err))
			case isHead && due != q.Due():
				panic(fmt.Sprintf("the head of %q is due at %d, not at %d", q.Key(), due, q.Due()))
			}
		})
	}
}
