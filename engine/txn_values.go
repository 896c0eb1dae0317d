package engine

import (
	"math"

	"limitdb/engine/table"
	"limitdb/limit"
)

// Get returns the kind of what key holds, and its state. The kind is 0 if the
// key is absent.
func (t *Txn) Get(key []byte) (kind limit.Kind, state []byte, err error) {
	it, err := t.current(key)
	if err != nil {
		return 0, nil, err
	}
	return it.kind, it.State, nil
}

// Info describes key. It returns false if the key is absent.
func (t *Txn) Info(key []byte) (info Info, ok bool, err error) {
	it, err := t.current(key)
	switch {
	case err != nil || it.kind == 0:
		return Info{}, false, err
	case !it.written:
		return it.Table.Info(&it.Spot, t.now), true, nil
	}
	b, err := blockOf(it)
	return Info{
		Block: b, Kind: it.kind, Expires: limit.Expires(it.kind, it.State), Level: limit.Level(it.kind, it.State, t.now),
		Bytes: int64(len(key) + len(it.State)),
	}, true, err
}

// HeldOn returns how many holds of a key are live, and how much they hold.
func HeldOn(t *Txn, key []byte) (n, amount int64, err error) {
	it, err := t.current(key)
	if err != nil || !mayKnowIDs(it) {
		return 0, 0, err
	}
	err = Holds(t, key, func(h *Held) bool {
		if h.Live(t.Now()) {
			n++
			if amount += h.Amount; amount < 0 { // of several windows
				amount = math.MaxInt64
			}
		}
		return true
	})
	return n, amount, err
}

// Put gives key a state, whatever it held before. A state that has expired
// means that the key goes.
func (t *Txn) Put(key []byte, kind limit.Kind, state []byte) error {
	it, err := t.item(key)
	if err == nil {
		it, err = it.reset()
	}
	if err != nil {
		return err
	}
	it.other = true
	return it.write(table.Unknown(kind), state)
}

// Touch shows a change to those who watch key, and leaves its state as it is.
func (t *Txn) Touch(key []byte) error {
	it, err := t.item(key)
	if err == nil {
		it.touched = true
	}
	return err
}

// Delete removes key and reports whether it was there.
func (t *Txn) Delete(key []byte) (was bool, err error) {
	it, err := t.item(key)
	if err != nil {
		return false, err
	}
	if was = it.kind != 0; !was {
		return false, nil
	}
	if it, err = it.reset(); err != nil {
		return false, err
	}
	it.other = true
	return true, it.write(table.Unknown(it.kind), nil)
}

// Forget removes key, and all that is known of ids beside it.
func Forget(t *Txn, key []byte) error {
	if _, err := t.Delete(key); err != nil {
		return err
	}
	it, err := t.item(key)
	if err != nil {
		return err
	}
	at, err := besideOf(t, t.index(&it.Change))
	if err == nil && t.items[at].kind != 0 {
		err = t.items[at].write(table.Unknown(limit.HOLDS), nil)
	}
	return err
}

// Step computes a key's next state from its state at now. It returns nil if
// nothing changes, or an expired state if nothing is left. state is nil for an
// absent key. next is written over dst or is a larger buffer; it must not share
// memory with state.
type Step func(now int64, state, dst []byte) (next []byte, err error)

// Step runs step on the state of key, which has the given kind, for states that are not of limits. Its errors are
// ErrWrongType and those of step.
func (t *Txn) Step(key []byte, kind limit.Kind, step Step) error {
	it, err := t.current(key)
	if err != nil {
		return err
	}
	state, err := it.stateOf(kind)
	if err != nil {
		return err
	}
	buf := t.e.buffers.get()
	next, err := step(t.now, state, *buf)
	it.other = it.other || next != nil
	return it.writeLent(table.Unknown(kind), buf, next, err)
}

// maxWalk is the most records of a table that a transaction walks over, also of ids: it bounds the
// time for which all shards are locked to some 100 ms.
const maxWalk = 1 << 20

// Each calls fn for every key, as the transaction has made it, until fn returns
// false; with the kind HOLDS for keys beside which ids are known, whether they have a state or not.
// It needs all shards, as a key that was not declared does. key is valid
// only during the call; fn must not use the transaction. The errors are
// ErrUndeclared, and ErrTooMany for a table of more than a million keys, and keys beside which ids are known.
func (t *Txn) Each(fn func(key []byte, kind limit.Kind) bool) error {
	if t.undeclared || len(t.shards) < len(t.e.shards) {
		t.undeclared = true
		return ErrUndeclared
	}
	records := 0
	for i := range t.e.shards {
		s := &t.e.shards[i].table
		if records += s.Stats().Keys + s.Besides(); records > maxWalk {
			return ErrTooMany
		}
	}
	type record struct {
		key    string
		beside bool
	}
	written := map[record]bool{}
	for i := range t.items {
		it := &t.items[i]
		if !it.written || it.Grow {
			continue
		}
		written[record{string(it.Key), it.Beside}] = true
		if it.kind != 0 && !fn(it.Key, it.kind) {
			return nil
		}
	}
	more, cursor := true, uint64(0)
	for more {
		_, cursor = t.e.shardAt(cursor).table.Walk(t.now, cursor, walkChunk, func(key []byte, info Info) {
			if more && !written[record{string(key), info.Kind == limit.HOLDS}] {
				more = fn(key, info.Kind)
			}
		})
		more = more && cursor != 0
	}
	return nil
}
