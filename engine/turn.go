package engine

import (
	"limitdb/engine/table"
	"limitdb/limit"
)

// askTurn reserves a turn for w, which is a request of a QUEUE, and parks w
// until then.
func (s *shard) askTurn(now int64, sp *table.Spot, state []byte, w *Waiter) (granted int64, err error) {
	d := &w.decision
	part, err := w.part(state, now)
	if err != nil {
		return 0, err
	}
	from := limit.Expires(w.kind(), state)
	next, err := limit.Reserve(&w.Limit, state, now, part, max(0, w.Until-now), s.scratch(w.kind(), state), d)
	if err != nil {
		return 0, err
	}
	if next == nil && state == nil {
		sp.Forget() // a denied Replace leaves the key as it is
	}
	full := limit.Expires(w.kind(), next)
	if err := s.commit(now, sp, w.mark(sp, d), next, d); err != nil || d.Limited {
		return 0, err
	}
	if d.Wait == limit.Never || part == 0 { // a request that takes nothing has no turn
		return part, nil
	}
	q := newQueue(s, sp)
	q.due = later(now, d.Wait)
	q.turn = &turn{queue: q, granted: part, from: from, full: full}
	s.waits.arrive(w)
	q.join(w)
	s.waits.lineUp(q.turn)
	s.waits.alarms.set(q, q.due)
	return 0, errParked
}

// comeTurn ends the wait of a QUEUE's request.
func (s *shard) comeTurn(now int64, q *queue) {
	w, t := q.first, q.turn
	d := &w.decision
	d.Wait = limit.Never
	sp := s.liveOf(now, q)
	if state, err := s.stateAsked(&sp, &w.Request); err == nil {
		var there limit.Decision
		if limit.Peek(&w.Limit, state, now, 0, &there) == nil {
			d.Remaining, d.Reset = there.Remaining, there.Reset
		}
	}
	w.granted = t.granted
	line := s.waits.lines[string(q.key)]
	for t.ahead != nil && t.ahead.hole != nil {
		line.stepOut(t.ahead) // it has passed unused
	}
	line.stepOut(t)
	s.waits.leaveLine(q)
	q.leave(w)
	s.decided(w, nil)
	s.tell(w)
}

// giveTurnBack gives up the turn of a QUEUE's request, together with the holes
// before it that are then at the end of the line.
func (s *shard) giveTurnBack(now int64, q *queue, cause error) {
	w := q.first
	l := w.Limit
	q.turn.hole = &l
	line := s.waits.lines[string(q.key)]
	line.merge(q.turn)
	err := s.closeHoles(now, q, line, &w.decision)
	s.waits.leaveLine(q)
	if err == nil {
		sp := s.liveOf(now, q)
		var state []byte
		if state, err = s.stateAsked(&sp, &w.Request); err == nil {
			err = w.stand(state, now, &w.decision)
		}
	}
	if cause != nil {
		err = cause
	}
	q.leave(w)
	s.waits.alarms.drop(q)
	s.decided(w, err)
}

// closeHoles gives back the holes at the end of a line. A request that did not
// wait may be behind a turn, so a turn is at the end only if the state is the
// one that the turn left. If the state has been forgotten, there is nothing to
// give back.
func (s *shard) closeHoles(now int64, q *queue, line *turns, d *limit.Decision) error {
	for last := line.last; last != nil && last.hole != nil; last = line.last {
		r := Request{Limit: *last.hole}
		sp := s.liveOf(now, q)
		state, err := s.stateOf(&sp, r.kind())
		if err != nil {
			return err
		}
		switch full := limit.Expires(r.kind(), state); {
		case full > last.full: // another request is behind it
			line.stepOut(last)
			return nil
		case full == last.full:
			next, err := limit.Refund(&r.Limit, state, now, last.granted, s.scratch(r.kind(), state), d)
			if err == nil && next != nil {
				err = s.store(now, &sp, r.mark(&sp, d), next, true)
			}
			if err != nil {
				return err
			}
		}
		line.stepOut(last)
		s.serveAfter(now, s.waits.find(q.key), nil)
	}
	return nil
}

// keepTurns gives a forgotten key a state that keeps the next request behind
// the turns of its line.
func (s *shard) keepTurns(now int64, line *turns) {
	t := line.last
	q, l := t.queue, t.hole
	if l == nil {
		l = &q.first.Limit
	}
	var d limit.Decision
	next, err := limit.Take(l, nil, now, 1, s.next[:0], &d)
	if err != nil {
		return // impossible, since it was granted before
	}
	limit.Prolong(next, t.full)
	sp := s.liveOf(now, q)
	// The error is one of the system. The turns are then forgotten.
	_ = s.store(now, &sp, table.Unknown(limit.QUEUE.Kind()), next, true)
}

// holdTurns limits a refund, whose new state is next, to what lies behind the
// turns of those that wait. Otherwise the next request would go at the same
// time as one of them. before is when the state expired before the refund.
func (s *shard) holdTurns(now, before int64, key []byte, l *limit.Limit, next []byte, d *limit.Decision) error {
	line := s.waits.lines[string(key)]
	if line == nil || line.last == nil || limit.Expires(l.Algorithm.Kind(), next) >= min(before, line.last.full) {
		return nil
	}
	limit.Prolong(next, min(before, line.last.full))
	err := limit.Peek(l, next, now, 0, d)
	d.Wait = limit.Never
	return err
}
