package engine

import (
	"errors"

	"limitdb/engine/table"
)

// Update runs fn in a transaction and, if it returns nil, commits what fn has
// written. The transaction locks the shards of keys. If fn needs another key,
// it gets ErrUndeclared and runs again with all shards locked. It also runs
// again if there is no room for what it has written. So fn must have no side
// effects. It must not call the engine, and must return soon.
//
// The errors are those of fn, ErrClosed and, for what it has written, ErrKey and
// ErrOOM. ErrTooMany is returned for more than MaxTxn keys. After an error nothing has
// changed.
func (e *Engine) Update(now int64, keys [][]byte, fn func(t *Txn) error) error {
	return e.UpdateAt(0, now, keys, fn)
}

// UpdateAt is Update on a single key whose place Warm has returned. If place is zero, it
// is Update.
func (e *Engine) UpdateAt(place Place, now int64, keys [][]byte, fn func(t *Txn) error) error {
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
	_, err := t.run(now, func() (int, error) {
		if t.isClosed() {
			return -1, ErrClosed
		}
		return -1, fn(t)
	})
	e.end(t)
	return err
}

// errBeyond is returned by updateOne if fn needs a key in another shard.
var errBeyond = errors.New("engine: the step is not in one shard")

// updateOne is UpdateAt for one key. The transaction is the shard's own.
func (e *core) updateOne(place Place, now int64, key []byte, fn func(t *Txn) error) error {
	h := uint64(place)
	if h == 0 {
		h, _ = e.place(key)
	}
	s := e.shardOf(h)
	err := e.updateIn(s, now, h, key, fn)
	if err == table.ErrNoRoom && e.reclaim(now) {
		err = e.updateIn(s, now, h, key, fn)
	}
	if err != nil {
		err = s.refuse(err)
	}
	return err
}

func (e *core) updateIn(s *shard, now int64, h uint64, key []byte, fn func(t *Txn) error) (err error) {
	s.mu.Lock()
	t := s.solo
	if t == nil {
		t = new(Txn)
		t.prepare(e, [][]byte{key})
		s.solo = t
	}
	it := &t.items[0]
	it.Hash, it.Key = h, key
	t.now = s.clamp(now)
	if it.look(t.now); s.closed {
		err = ErrClosed
	} else {
		err = fn(t)
	}
	if err == nil && !t.undeclared {
		_, err = t.commit()
	}
	if t.undeclared {
		err = errBeyond
	}
	if t.rest(); len(t.items) > 1 {
		s.solo = nil
	}
	s.mu.Unlock()
	return err
}

// isClosed reports whether one of the shards is closed.
func (t *Txn) isClosed() bool {
	for _, i := range t.shards {
		if t.e.shards[i].closed {
			return true
		}
	}
	return false
}

// run runs step in t and commits. After an error, the index is that of the item at
// fault.
func (t *Txn) run(now int64, step func() (int, error)) (at int, err error) {
	for reclaimed := false; ; {
		at, err = t.try(now, step)
		switch {
		case t.undeclared:
			t.lockAll()
		case err == table.ErrNoRoom && !reclaimed && t.e.reclaim(now):
			reclaimed = true
		case err == table.ErrNoRoom:
			return at, t.items[at].s.refuse(err)
		default:
			return at, err
		}
	}
}

func (t *Txn) try(now int64, step func() (int, error)) (at int, err error) {
	t.lock(now)
	if at, err = step(); err == nil && !t.undeclared {
		var fault int
		if fault, err = t.commit(); err != nil {
			at = fault
		} else if t.then != nil {
			t.then()
		}
	}
	t.unlock()
	return at, err
}
