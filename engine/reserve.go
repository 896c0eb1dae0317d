package engine

import (
	"limitdb/engine/table"
	"limitdb/limit"
)

// Reserve takes cost from key at now in advance and writes the answer to *d, as
// limit.Reserve does. If granted, the caller goes ahead after d.Wait, which is
// at most maxWait nanoseconds unless maxWait is negative. The errors are those
// of Take, and limit.ErrReserve for an algorithm that cannot reserve. After an
// error nothing has changed.
func (e OneKey) Reserve(now int64, key []byte, l *limit.Limit, cost, maxWait int64, d *limit.Decision) error {
	h, s := e.place(key)
	return e.withRoom(now, s, func() error { return s.reserve(now, h, key, l, cost, maxWait, d) })
}

func (s *shard) reserve(now int64, h uint64, key []byte, l *limit.Limit, cost, maxWait int64, d *limit.Decision) error {
	s.mu.Lock()
	defer s.unlock()
	sp := table.Spot{Hash: h, Key: key}
	now = s.open(now, &sp)
	state, err := s.stateFor(&sp, l)
	if err != nil {
		return err
	}
	q := s.waits.find(key)
	if q.holds() && cost > 0 {
		// A reservation would take from those that wait.
		if _, err := limit.Reserve(l, state, now, cost, maxWait, s.next[:0], d); err != nil {
			return err
		}
		s.countDenied(now, &sp)
		return s.behind(now, q, state, &Request{Limit: *l, Cost: cost}, d)
	}
	next, err := limit.Reserve(l, state, now, cost, maxWait, s.scratch(l.Algorithm.Kind(), state), d)
	if err != nil {
		return err
	}
	if err := s.commit(now, &sp, sp.Mark(l, cost, d), next, d); err != nil {
		return err
	}
	if next != nil {
		s.serveAfter(now, q, l)
	}
	return nil
}
