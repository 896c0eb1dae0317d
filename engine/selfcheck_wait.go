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
			var kind limit.Kind
			sp := table.Spot{Hash: q.Hash, Key: q.Key()}
			if s.table.Find(&sp); sp.Found() && table.Expires(sp.Kind(), s.table.State(&sp)) > s.last {
				kind, state = sp.Kind(), s.table.State(&sp)
			}
			w := m.Of.(*Waiter)
			var d limit.Decision
			err := peekIn(kind, &w.Request, state, s.last, &d)
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

// peekIn is peek on a state of a kind, which may be BLOCK.
func peekIn(kind limit.Kind, r *Request, state []byte, now int64, d *limit.Decision) error {
	if kind != limit.BLOCK || r.Lease != nil {
		return r.peek(state, now, d)
	}
	var b limit.Block
	_, inner, err := b.Open(state, now)
	if err != nil {
		return err
	}
	part, err := r.part(inner, now)
	if err != nil {
		return err
	}
	var own limit.Limit
	return limit.PeekBlock(uncounted(&r.Limit, &own), kind, state, now, part, d)
}
