package engine

import "limitdb/limit"

// TakePartial takes what there is, up to cost, and returns how much that was:
// it asks for one at least and for cost at most. The decision is the one on
// what was taken; a denial, of nothing at all, is the one on a cost of 1, so its
// Wait is the time after which there is something again. With a cost of 0 it is
// a peek. The errors are those of Take.
func (e *Engine) TakePartial(now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) (granted int64, err error) {
	h, s := e.place(key)
	granted, err = s.takePartial(h, now, key, l, cost, d)
	if err == errNoRoom && e.reclaim(now) {
		granted, err = s.takePartial(h, now, key, l, cost, d)
	}
	if err == errBehind {
		return e.ask(h, s, now, key, &Request{Limit: *l, Cost: cost, Partial: true}, nil, d)
	}
	return granted, s.refuse(err)
}

func (s *shard) takePartial(h uint64, now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits.find(key) != nil {
		return 0, errBehind
	}
	now = s.clamp(now)
	g, at := s.live(h, now, key)
	state, err := s.stateFor(g, at, l)
	if err != nil {
		return 0, err
	}
	part := cost
	if cost > 1 {
		var there limit.Decision
		if err := limit.Peek(l, state, now, 0, &there); err != nil {
			return 0, err
		}
		part = min(cost, max(1, there.Remaining))
	}
	next, err := limit.Take(l, state, now, part, s.scratch(l.Algorithm, state), d)
	if err != nil {
		return 0, err
	}
	if err := s.commit(now, h, g, at, key, markOf(l, part, d), next, d); err != nil || d.Limited {
		return 0, err
	}
	return part, nil
}
