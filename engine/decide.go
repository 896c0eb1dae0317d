package engine

import (
	"errors"

	"limitdb/engine/table"
	"limitdb/limit"
)

// Info describes one live key.
type Info = table.Info

// errBehind says that the key has a queue. Take leaves such a decision to a step.
var errBehind = errors.New("engine: others wait for the key")

// TakeAt decides whether cost may be taken from key at now, takes it if so, and
// writes the answer to *d, which is valid only if the error is nil. place is that of the key,
// which Warm has returned, or zero. Errors:
// ErrWrongType, those of limit.Take, and for a new key ErrKey and ErrOOM. After
// an error nothing has changed.
//
// It is Txn.Take in a step of its own, by a way that takes two thirds of the time.
func (e *Engine) TakeAt(place Place, now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	h := uint64(place)
	if h == 0 {
		h, _ = e.place(key)
	}
	s := e.shardOf(h)
	s.mu.Lock()
	if s.table.Besides() > 0 {
		giveBackDue(s, &e.core, s.clamp(now), h, key)
	}
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
		r := Request{Limit: *l, Cost: cost}
		return e.update(Place(h), now, [][]byte{key}, func(t *Txn) error {
			_, err := t.Take(key, &r, d)
			return err
		})
	}
	return s.refuse(err)
}

// take is TakeAt in the key's shard, which is locked. The error errBehind leaves the
// decision to a step.
func (s *shard) take(now int64, h uint64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	if s.waits.Any() && s.waits.Find(key) != nil {
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
