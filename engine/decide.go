package engine

import (
	"limitdb/engine/table"
	"limitdb/limit"
)

// Info describes one live key.
type Info = table.Info

// Take decides whether cost may be taken from key at now, takes it if so, and
// writes the answer to *d, which is valid only if the error is nil. Errors:
// ErrWrongType, those of limit.Take, and for a new key ErrKey and ErrOOM. After
// an error nothing has changed.
func (e *Engine) Take(now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	return e.TakeAt(0, now, key, l, cost, d)
}

// TakeAt is Take for a key whose place Warm has returned. If place is zero, it
// is Take.
func (e *Engine) TakeAt(place Place, now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	h := uint64(place)
	if h == 0 {
		h, _ = e.place(key)
	}
	s := e.shardOf(h)
	s.mu.Lock()
	err := s.take(now, h, key, l, cost, d)
	s.mu.Unlock()
	if err == nil {
		return nil
	}
	if err == table.ErrNoRoom && e.reclaim(now) {
		s.mu.Lock()
		err = s.take(now, h, key, l, cost, d)
		s.mu.Unlock()
	}
	if err == errBehind {
		_, err = e.ask(now, key, &Request{Limit: *l, Cost: cost}, nil, d)
	}
	return s.refuse(err)
}

// take is Take in the key's shard, which is locked. The error errBehind leaves the
// decision to ask.
func (s *shard) take(now int64, h uint64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	if s.waits.n != 0 && s.waits.find(key) != nil {
		return errBehind
	}
	sp := table.Spot{Hash: h, Key: key}
	now = s.open(now, &sp)
	state, err := s.stateFor(&sp, l)
	if err != nil {
		return err
	}
	next, err := limit.Take(l, state, now, cost, s.scratch(l.Algorithm.Kind(), state), d)
	if err != nil {
		return err
	}
	if len(next) > len(s.next) {
		return s.commitLong(now, &sp, sp.Mark(l, cost, d), next, state, d)
	}
	return s.commit(now, &sp, sp.Mark(l, cost, d), next, d)
}

// commitLong is commit of a long state, whose buffer the next step may use.
func (s *shard) commitLong(now int64, sp *table.Spot, m table.Mark, next, state []byte, d *limit.Decision) error {
	defer s.buffers.putLong(next, state)
	return s.commit(now, sp, m, next, d)
}

// Peek answers as Take would and changes nothing. Its errors are ErrWrongType
// and those of limit.Peek.
func (e OneKey) Peek(now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	h, s := e.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := table.Spot{Hash: h, Key: key}
	now = s.open(now, &sp)
	state, err := s.stateFor(&sp, l)
	if err != nil {
		return err
	}
	if err := limit.Peek(l, state, now, cost, d); err != nil {
		return err
	}
	if q := s.waits.find(key); q.holds() && cost > 0 {
		if err := s.behind(now, q, state, &Request{Limit: *l, Cost: cost}, d); err != nil {
			return err
		}
	}
	s.peeked++
	return nil
}

// Refund gives cost back, but never beyond full. It forgets a key that is full
// again. Its errors are ErrWrongType and those of limit.Refund. For an absent
// key that counts as used up (see AssumeUsedUp), they are also ErrKey and
// ErrOOM.
func (e OneKey) Refund(now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	h, s := e.place(key)
	return e.withRoom(now, s, func() error { return s.refund(now, h, key, l, cost, d) })
}

func (s *shard) refund(now int64, h uint64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	s.mu.Lock()
	defer s.unlock()
	sp := table.Spot{Hash: h, Key: key}
	now = s.open(now, &sp)
	state, err := s.stateFor(&sp, l)
	if err != nil {
		return err
	}
	before := table.Expires(l.Algorithm.Kind(), state)
	next, err := limit.Refund(l, state, now, cost, s.scratch(l.Algorithm.Kind(), state), d)
	if err != nil {
		return err
	}
	if next != nil {
		if err := s.holdTurns(now, before, key, l, next, d); err != nil {
			return err
		}
		if err := s.store(now, &sp, sp.Mark(l, 1, d), next, sp.Found()); err != nil {
			return err
		}
		s.serveAfter(now, s.waits.find(key), nil)
	}
	s.refunded++
	return nil
}

// Reserve takes cost from key at now in advance and writes the answer to *d, as
// limit.Reserve does. If granted, the caller goes ahead after d.Wait, which is
// at most maxWait nanoseconds unless maxWait is negative. The errors are those
// of Take, and limit.ErrReserve for an algorithm that cannot reserve. After an
// error nothing has changed.
func (e OneKey) Reserve(now int64, key []byte, l *limit.Limit, cost, maxWait int64, d *limit.Decision) error {
	return e.updateOne(0, now, key, func(t *Txn) error { return t.Reserve(key, l, cost, maxWait, d) })
}

// Reset forgets key and reports whether it was live at now.
func (e OneKey) Reset(now int64, key []byte) bool {
	h, s := e.place(key)
	s.mu.Lock()
	defer s.unlock()
	sp := table.Spot{Hash: h, Key: key}
	now = s.open(now, &sp)
	if !sp.Found() {
		return false
	}
	if c := s.changes; c != nil {
		c.forget(sp.Kind(), key)
	}
	s.table.Remove(&sp)
	if line := s.waits.lines[string(key)]; line != nil {
		s.keepTurns(now, line)
	}
	s.serveAfter(now, s.waits.find(key), nil)
	return true
}

// Info describes key. It returns false if key is not live at now.
func (e OneKey) Info(now int64, key []byte) (Info, bool) {
	h, s := e.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := table.Spot{Hash: h, Key: key}
	now = s.open(now, &sp)
	if !sp.Found() {
		return Info{}, false
	}
	return s.table.Info(&sp, now), true
}
