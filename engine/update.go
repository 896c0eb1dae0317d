package engine

import (
	"errors"

	"limitdb/engine/table"
	"limitdb/engine/wait"
)

// UpdateAt runs fn in a transaction and, if it returns nil, commits what fn has
// written. The transaction locks the shards of keys. place is that of a single key, which Warm has
// returned, or zero. If fn needs another key,
// it gets ErrUndeclared and runs again with all shards locked. It also runs
// again if there is no room for what it has written, and if others who wait for a key are to be decided first. So fn must
// have no side
// effects. It must not call the engine, and must return soon.
//
// The errors are those of fn, ErrClosed and, for what it has written, ErrKey and
// ErrOOM. ErrTooMany is returned for more than MaxTxn keys. After an error nothing has
// changed.
func (e *Engine) UpdateAt(place Place, now int64, keys [][]byte, fn func(t *Txn) error) error {
	return e.update(place, now, keys, fn)
}

func (e *core) update(place Place, now int64, keys [][]byte, fn func(t *Txn) error) error {
	if len(keys) > MaxTxn {
		return ErrTooMany
	}
	if len(keys) == 1 {
		if err := e.updateOne(place, now, keys[0], fn); err != errBeyond {
			return err
		}
	}
	t := e.begin(keys)
	if len(keys) == 1 {
		t.lockAll()
	}
	err := t.run(now, fn)
	e.end(t)
	return err
}

var (
	// errBeyond is returned by updateOne if fn needs a key in another shard.
	errBeyond = errors.New("engine: the step is not in one shard")
	// errStopped is returned by a step that has stopped, and begins again: see stopsAt.
	errStopped = errors.New("engine: the step has stopped")
)

// updateOne is UpdateAt for one key. The transaction is the shard's own.
func (e *core) updateOne(place Place, now int64, key []byte, fn func(t *Txn) error) error {
	h := uint64(place)
	if h == 0 {
		h, _ = e.place(key)
	}
	s := e.shardOf(h)
	reclaimed := false
	for stops := 0; ; {
		stirred, err := e.updateIn(s, now, h, key, stops, fn)
		for _, q := range stirred {
			e.serve(now, q)
		}
		switch {
		case err == nil:
			return nil
		case err == errStopped:
			stops++
		case err == table.ErrNoRoom && !reclaimed && e.reclaim(now):
			reclaimed = true
		default:
			return s.refuse(err)
		}
	}
}

func (e *core) updateIn(s *shard, now int64, h uint64, key []byte, stops int, fn func(t *Txn) error) (stirred []*wait.Queue, err error) {
	s.mu.Lock()
	t := s.solo
	if t == nil {
		t = new(Txn)
		t.prepare(e, [][]byte{key})
		s.solo = t
	}
	only(t, h, key)
	it := &t.items[0]
	if t.now, t.stops = s.clamp(now), stops; s.table.Besides() > 0 {
		giveBackDue(s, e, t.now, h, key)
	}
	if it.look(t.now); s.closed {
		err = ErrClosed
	} else {
		err = fn(t)
	}
	switch {
	case t.stop != nil:
		err = t.stopped()
	case t.undeclared:
		err = errBeyond
	case err == nil:
		_, err = t.commit()
	}
	stirred = t.stirred
	if !t.rest() {
		s.solo = nil
	}
	s.mu.Unlock()
	return stirred, err
}

// stopped stores what is left of a transaction that stops, and returns errStopped.
func (t *Txn) stopped() error {
	q, err := t.stop, error(errStopped)
	if t.stirred = append(t.stirred, q); t.moved != nil {
		if moved := t.move(); moved != nil {
			err = moved
		}
	}
	t.stop, t.moved, t.undeclared = nil, nil, false
	t.stops++
	return err
}

// run runs fn in t and commits.
func (t *Txn) run(now int64, fn func(t *Txn) error) error {
	for reclaimed := false; ; {
		at, err := t.try(now, fn)
		for _, q := range t.stirred {
			t.e.serve(now, q)
		}
		t.stirred = nil
		switch {
		case err == errStopped:
		case t.undeclared:
			t.lockAll()
		case err == table.ErrNoRoom && !reclaimed && t.e.reclaim(now):
			reclaimed = true
		case err == table.ErrNoRoom:
			return t.items[at].s.refuse(err)
		default:
			return err
		}
	}
}

// try is one run. After an error of the commit, at is the item at fault.
func (t *Txn) try(now int64, fn func(t *Txn) error) (at int, err error) {
	t.lock(now)
	if err = ErrClosed; !t.e.closed.Load() {
		err = fn(t)
	}
	switch {
	case t.stop != nil:
		err = t.stopped()
	case err == nil && !t.undeclared:
		at, err = t.commit()
	}
	t.unlock()
	return at, err
}
