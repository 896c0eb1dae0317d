package engine

import (
	"cmp"
	"errors"
	"slices"

	"limitdb/engine/table"
	"limitdb/internal/journal"
	"limitdb/limit"
)

// Several keys in one atomic step.
//
// A transaction locks the shards of its keys, each once and in the order of
// their index. Everything that locks more than one shard does so in this order,
// so there is no deadlock. The time of the step is the latest that any of the
// shards has seen. Until it commits, a transaction only reads the table: it
// writes to buffers of its own. Commit has two phases:
//
//  1. Make room for all new states. That may rewrite segments, drop expired keys
//     and, if the policy allows it, evict, as a single Take would, but never a
//     key that the transaction changes: such records are pinned. If there is no
//     room, nothing of the transaction has happened. The locks are released,
//     room is made elsewhere (see reclaim), and the transaction runs once more.
//  2. Store the new states, which can no longer fail. In the journal they are one
//     group: the step enters the gate before it locks several shards.
//
// Rejected: storing one key after the other, and undoing that if the next one
// finds no room. The old state needs room, too, once the record has moved, and
// an eviction for the last key may hit the first.
//
// What a transaction costs: some 0.3 µs for each key and the copying of the
// states that it writes, and the same again if it runs a second time. Meanwhile
// all decisions in its shards wait. One that comes upon a key in a shard that is
// not locked starts again with all shards locked, which takes some 10 µs, and
// then everybody waits.

const (
	// MaxTxn is the largest number of keys of one transaction. The last one
	// costs as much as the first, so that it bounds the time that others wait to
	// about 10 ms.
	MaxTxn = 1 << 14
	// MaxTxnBytes is the most bytes of states that a transaction writes.
	MaxTxnBytes = 64 << 20
)

// Errors of transactions, besides those of Take.
var (
	// ErrTooMany is returned for more keys or bytes than the call allows.
	ErrTooMany = errors.New("engine: too many keys or bytes at once")
	// ErrUndeclared is returned to a function that Update is about to run again
	// with all shards locked.
	ErrUndeclared = errors.New("engine: the key's shard is not locked")
)

// Txn is a transaction. It is valid, as are the states that it returns, until
// the function returns that Update has called with it. Keys and limits that are
// passed to it must stay unchanged until then.
type Txn struct {
	e        *Engine
	now      int64
	items    []item        // the declared ones, and those that were found later
	order    []uint16      // indexes of items, in the order of their hashes
	shards   []uint32      // the shards to lock, in order
	gate     *journal.Gate // to enter; nil for none
	declared int
	// undeclared is set once the transaction needed a shard that is not locked.
	undeclared bool
	bytes      int             // in the buffers of items
	places     []Place         // scratch of begin
	changes    []*table.Change // scratch of commit
	uncounted  limit.Limit     // a limit without its CountDenied
}

// Update runs fn in a transaction and, if it returns nil, commits what it has
// written. The transaction locks the shards of keys. If fn needs another key,
// it gets ErrUndeclared and runs again with all shards locked. It also runs
// again if there is no room for what it has written. So fn must have no side
// effects. It must not call the engine, and must return soon.
//
// The errors are those of fn, ErrClosed and, for what it has written, ErrKey and
// ErrOOM. ErrTooMany is returned for more than MaxTxn keys. After an error nothing has
// changed.
func (e *Engine) Update(now int64, keys [][]byte, fn func(t *Txn) error) error {
	if len(keys) > MaxTxn {
		return ErrTooMany
	}
	t := e.begin(keys)
	defer e.end(t)
	_, err := t.run(now, func() (int, error) {
		if t.isClosed() {
			return -1, ErrClosed
		}
		return -1, fn(t)
	})
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

// run runs step in t and commits. The index is that of the item at fault.
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
	defer t.unlock()
	if at, err = step(); err != nil || t.undeclared {
		return at, err
	}
	if fault, err := t.commit(); err != nil {
		return fault, err
	}
	return at, nil
}

// begin returns a transaction on keys.
func (e *Engine) begin(keys [][]byte) *Txn {
	t, _ := e.txns.Get().(*Txn)
	if t == nil {
		t = new(Txn)
	}
	n := len(keys)
	if n > cap(t.items) {
		t.items = make([]item, n)
		states := make([]byte, n*stateBytes)
		for i := range t.items {
			t.items[i].buf = states[i*stateBytes : i*stateBytes : (i+1)*stateBytes]
		}
	}
	t.e, t.declared, t.items, t.shards = e, n, t.items[:n], t.shards[:0]
	t.order = slices.Grow(t.order[:0], n)[:n]
	t.places = slices.Grow(t.places[:0], n)[:n]
	if n == 1 {
		h, _ := e.place(keys[0])
		t.places[0] = Place(h)
	} else {
		// The cache misses of the keys overlap here, before the locks are held.
		e.Warm(keys, t.places)
	}
	for i, key := range keys {
		t.items[i].is(e, uint64(t.places[i]), key)
		t.order[i] = uint16(i)
	}
	slices.SortFunc(t.order, func(a, b uint16) int {
		if c := cmp.Compare(t.items[a].Hash, t.items[b].Hash); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	for _, i := range t.order {
		shard := uint32(t.items[i].Hash >> (64 - e.shardBits))
		if k := len(t.shards); k == 0 || t.shards[k-1] != shard {
			t.shards = append(t.shards, shard)
		}
	}
	return t
}

// end gives a transaction back for reuse.
func (e *Engine) end(t *Txn) {
	if len(t.items) > 2*MaxAll || len(t.shards) > 2*MaxAll {
		return
	}
	for i := range t.items {
		buf := t.items[i].buf[:0]
		if cap(buf) > bigState {
			buf = make([]byte, 0, stateBytes)
		}
		t.items[i] = item{buf: buf}
	}
	t.undeclared, t.bytes = false, 0
	e.txns.Put(t)
}

// lockAll makes the next lock lock all shards.
func (t *Txn) lockAll() {
	t.undeclared, t.shards = false, t.shards[:0]
	for i := range t.e.shards {
		t.shards = append(t.shards, uint32(i))
	}
}

// lock locks the shards and looks at the keys. A step in several shards enters
// the journal's gate first.
func (t *Txn) lock(now int64) {
	if len(t.items) > t.declared { // of an earlier run
		t.items = t.items[:t.declared]
		t.order = slices.DeleteFunc(t.order, func(i uint16) bool { return int(i) >= t.declared })
	}
	t.gate = nil
	if j := t.e.journal.Load(); j != nil && len(t.shards) > 1 {
		t.gate = j.gate
		t.gate.Enter()
	}
	for _, i := range t.shards {
		s := &t.e.shards[i]
		s.mu.Lock()
		now = max(now, s.last)
	}
	for _, i := range t.shards {
		t.e.shards[i].last = now
	}
	t.now = now
	for _, i := range t.order {
		t.items[i].look(now)
	}
}

func (t *Txn) unlock() {
	for _, i := range t.shards {
		t.e.shards[i].mu.Unlock()
	}
	if t.gate != nil {
		t.gate.Leave()
	}
}

// Now returns the time of the step.
func (t *Txn) Now() int64 { return t.now }
