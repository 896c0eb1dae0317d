package engine

import (
	"bytes"
	"cmp"
	"slices"

	"limitdb/engine/table"
	"limitdb/limit"
)

// item is a key of a transaction, and what the transaction makes of it. Its spot is
// valid as long as the table does not change. Its State is in the table, or in buf
// once it is written. Grow is set if the decision below is to be taken, late, from
// the long state in its box.
type item struct {
	table.Change
	s    *shard
	kind limit.Kind // what the key holds now; 0 if it is absent
	buf  []byte

	expired bool // its record has expired; commit drops it
	written bool
	mark    table.Mark

	// The last decision, and how many there were.
	limit           *limit.Limit
	cost            int64
	allowed, denied uint32
	peeked          uint32
	refunded        uint32
	// other is set if something else than a decision has written the state: waits
	// may be shorter now.
	other bool
}

const (
	// stateBytes is the initial size of an item's buffer.
	stateBytes = 64
	// bigState is the largest buffer that an item keeps for the next
	// transaction.
	bigState = 1 << 10
)

// is makes it, which is empty, the item of a key.
func (it *item) is(e *Engine, h uint64, key []byte) {
	it.Hash, it.Key, it.s = h, key, &e.shards[h>>(64-e.shardBits)]
	it.Table = &it.s.table
}

// look finds the key, and forgets what an earlier run has made of it.
func (it *item) look(now int64) {
	it.Table.Find(&it.Spot)
	it.expired = it.Found() && table.Expires(it.Kind(), it.Table.State(&it.Spot)) <= now
	it.limit, it.allowed, it.denied, it.peeked, it.refunded, it.other = nil, 0, 0, 0, 0, false
	it.revert()
}

// revert forgets what was written to the key.
func (it *item) revert() {
	it.kind, it.State = 0, nil
	it.written, it.Grow, it.Must = false, false, false
	if it.Found() && !it.expired {
		it.kind, it.State = it.Kind(), it.Table.State(&it.Spot)
	}
}

// sameSlice reports whether a and b are the same bytes in memory.
func sameSlice(a, b []byte) bool {
	return len(a) > 0 && len(a) == len(b) && &a[0] == &b[0]
}

// item returns the item of a key.
func (t *Txn) item(key []byte) (*item, error) {
	if t.undeclared {
		return nil, ErrUndeclared
	}
	if len(t.items) > 0 && sameSlice(key, t.items[0].Key) {
		return &t.items[0], nil // most transactions have one key, and use it several times
	}
	h, _ := t.e.place(key)
	at, _ := slices.BinarySearchFunc(t.order, h, func(i uint16, h uint64) int { return cmp.Compare(t.items[i].Hash, h) })
	for ; at < len(t.order) && t.items[t.order[at]].Hash == h; at++ {
		if it := &t.items[t.order[at]]; bytes.Equal(it.Key, key) {
			return it, nil
		}
	}
	if _, locked := slices.BinarySearch(t.shards, uint32(h>>(64-t.e.shardBits))); !locked {
		t.undeclared = true
		return nil, ErrUndeclared
	}
	if len(t.items) == MaxTxn {
		return nil, ErrTooMany
	}
	t.order = slices.Insert(t.order, at, uint16(len(t.items)))
	t.items = append(t.items, item{})
	it := &t.items[len(t.items)-1]
	it.is(t.e, h, key)
	it.look(t.now)
	return it, nil
}

// current is item, with all that was decided before in its state.
func (t *Txn) current(key []byte) (*item, error) {
	it, err := t.item(key)
	if err == nil {
		err = t.takeLate(it)
	}
	return it, err
}

// Get returns the kind of what key holds, and its state. The kind is 0 if the
// key is absent.
func (t *Txn) Get(key []byte) (kind limit.Kind, state []byte, err error) {
	it, err := t.current(key)
	if err != nil {
		return 0, nil, err
	}
	return it.kind, it.State, nil
}

// Put gives key a state, whatever it held before. A state that has expired
// means that the key goes.
func (t *Txn) Put(key []byte, kind limit.Kind, state []byte) error {
	it, err := t.item(key)
	if err != nil {
		return err
	}
	it.other = true
	return t.write(it, table.Unknown(kind), state)
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
	it.other = true
	return true, t.write(it, table.Unknown(it.kind), nil)
}

// Step runs step on the state of key, which has the given kind, as Apply does.
func (t *Txn) Step(key []byte, kind limit.Kind, step Step) error {
	it, err := t.current(key)
	if err != nil {
		return err
	}
	state, err := it.stateOf(kind)
	if err != nil {
		return err
	}
	buf := t.e.buffers.take()
	next, err := step(t.now, state, *buf)
	defer func() { t.e.buffers.put(buf, next) }()
	if err != nil || next == nil {
		return err
	}
	it.other = true
	return t.write(it, table.Unknown(kind), next)
}

// write notes the state to store for an item. It may lie in the item's buffer.
func (t *Txn) write(it *item, m table.Mark, state []byte) error {
	before := cap(it.buf)
	it.buf = append(it.buf[:0], state...)
	if t.bytes += cap(it.buf) - before; t.bytes > MaxTxnBytes {
		return ErrTooMany
	}
	it.written, it.Grow, it.Must, it.mark = true, false, false, m
	if it.kind, it.State = m.Kind(), it.buf; table.Expires(it.kind, state) <= t.now {
		it.kind, it.State = 0, nil
	}
	return nil
}

// stateOf returns the item's state for a step on a kind.
func (it *item) stateOf(kind limit.Kind) ([]byte, error) {
	switch {
	case it.kind == 0 && it.s.closed:
		return nil, ErrClosed
	case it.kind != 0 && it.kind != kind && !limit.SameFamily(it.kind, kind):
		return nil, ErrWrongType
	}
	return it.State, nil
}

// stateFor returns the item's state for l's algorithm.
func (it *item) stateFor(l *limit.Limit) ([]byte, error) {
	if it.kind == 0 && it.s.usedUp != 0 && !it.s.closed {
		return it.s.emptied(l)
	}
	return it.stateOf(l.Algorithm.Kind())
}
