package engine

import (
	"limitdb/engine/table"
	"limitdb/limit"
)

// Step computes a key's next state from its state at now. It returns nil if
// nothing changes, or an expired state if nothing is left. state is nil for an
// absent key. next is written over dst or is a larger buffer; it must not share
// memory with state. A step may run twice, so it must have no side effects.
type Step func(now int64, state, dst []byte) (next []byte, err error)

// Apply runs step on the state of key, which has the given kind, under its
// shard's lock. The time given to step is the shard's time. Apply is for states
// that are not of limits. Its errors are ErrWrongType, those of step, and for a
// new key ErrKey and ErrOOM. After an error nothing has changed.
func (e OneKey) Apply(now int64, key []byte, kind limit.Kind, step Step) error {
	h, s := e.place(key)
	return e.withRoom(now, s, func() error { return s.apply(now, h, key, kind, step) })
}

func (s *shard) apply(now int64, h uint64, key []byte, kind limit.Kind, step Step) error {
	s.mu.Lock()
	defer s.unlock()
	sp := table.Spot{Hash: h, Key: key}
	now = s.open(now, &sp)
	state, err := s.stateOf(&sp, kind)
	if err != nil {
		return err
	}
	buf := s.buffers.get()
	next, err := step(now, state, *buf)
	defer func() { s.buffers.put(buf, next) }()
	if err != nil || next == nil {
		return err
	}
	if err := s.store(now, &sp, table.Unknown(kind), next, false); err != nil {
		return err
	}
	s.serveAfter(now, s.waits.find(key), nil)
	return nil
}
