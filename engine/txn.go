package engine

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"limitdb/engine/table"
	"limitdb/engine/wait"
	"limitdb/hold"
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
// all decisions in its shards wait. One that needs a key in a shard that is not
// locked starts again with all shards locked, which takes some 10 µs, and then
// everybody waits.

const (
	// MaxTxn is the largest number of keys of one transaction. The last one
	// costs as much as the first, so that it bounds the time that others wait to
	// about 10 ms.
	MaxTxn = 1 << 14
	// keptItems is the most keys, and shards, of a transaction that is kept for
	// reuse.
	keptItems = 256
	// MaxTxnBytes is the most bytes of states that a transaction writes.
	MaxTxnBytes = 64 << 20
)

// Errors of transactions, besides those of Take.
var (
	// ErrTooMany is returned for more keys or bytes than the call allows.
	ErrTooMany = errors.New("engine: too many keys or bytes at once")
	// ErrUndeclared is returned to a function that UpdateAt is about to run again
	// with all shards locked.
	ErrUndeclared = errors.New("engine: the key's shard is not locked")
	// errSplices is returned for splices that do not fit the state.
	errSplices = errors.New("engine: splices of another state")
)

// Txn is a transaction. It is valid, as are the states that it returns, until
// the function returns that UpdateAt has called with it. Keys that are
// passed to it must stay unchanged until then.
type Txn struct {
	e        *core
	now      int64
	items    []item        // the declared ones, and those that were found later
	order    []uint16      // indexes of items, in the order of their hashes
	shards   []uint32      // the shards to lock, in order
	gate     *journal.Gate // to enter; nil for none
	declared int
	twins    bool // two keys may be the same
	// undeclared is set once the transaction needed a shard that is not locked.
	undeclared bool
	bytes      int             // in the buffers of items
	places     []Place         // scratch of begin
	batch      table.Batch     // scratch of prepare
	changes    []*table.Change // scratch of commit
	uncounted  limit.Limit     // a limit without its CountDenied
	asking     *asking         // for a request that may wait; nil: for none
	own        asking          // of Ask
	parts      []uint16        // of the last Together, the indexes of items: in found or in natural
	found      []uint16
	natural    []uint16      // 0, 1, 2 …
	round      uint32        // how many Together there were
	stirred    []*wait.Queue // of keys that it has changed, to be served when the locks are free
	stop       *wait.Queue   // why it stops, or nil: see stopsAt
	stops      int           // how often it has stopped
	moved      *item         // all that is stored of it when it stops; nil: nothing is
	movedAs    table.Mark
	holds      hold.Edit // scratch of steps on holds
	packed     []byte    // a limit of one
	splices    []byte    // of such an edit
	tallies    tallies
	watches    bool // it has asked whether a key has changed
}

// begin returns a transaction on keys.
func (e *core) begin(keys [][]byte) *Txn {
	t, _ := e.txns.Get().(*Txn)
	if t == nil {
		t = new(Txn)
	}
	t.prepare(e, keys)
	return t
}

// prepare makes t a transaction on keys.
func (t *Txn) prepare(e *core, keys [][]byte) {
	n := len(keys)
	if n > cap(t.items) {
		t.items = make([]item, n)
		states := make([]byte, n*stateBytes)
		for i := range t.items {
			t.items[i].buf = states[i*stateBytes : i*stateBytes : (i+1)*stateBytes]
		}
	}
	t.twins = false
	t.e, t.declared, t.items, t.order, t.shards = e, n, t.items[:n], t.order[:0], t.shards[:0]
	if n == 1 {
		h, _ := e.place(keys[0])
		t.items[0].is(t, h, keys[0])
		t.order, t.shards = append(t.order, 0), append(t.shards, uint32(h>>(64-e.shardBits)))
		return
	}
	t.order = slices.Grow(t.order, n)[:n]
	t.places = slices.Grow(t.places[:0], n)[:n]
	// The cache misses of the keys overlap here, before the locks are held.
	e.warm(keys, t.places, &t.batch)
	for i, key := range keys {
		t.items[i].is(t, uint64(t.places[i]), key)
		t.order[i] = uint16(i)
	}
	sortOrder(t)
	for k, i := range t.order {
		t.twins = t.twins || k > 0 && t.items[t.order[k-1]].Hash == t.items[i].Hash
		shard := uint32(t.items[i].Hash >> (64 - e.shardBits))
		if k := len(t.shards); k == 0 || t.shards[k-1] != shard {
			t.shards = append(t.shards, shard)
		}
	}
}

// fewItems is the most items that are sorted one by one, which is faster for a few.
const fewItems = 12

// sortOrder sorts the order by the hashes, and items of one hash by their indexes, in which order it is before.
func sortOrder(t *Txn) {
	if len(t.order) > fewItems {
		slices.SortFunc(t.order, func(a, b uint16) int {
			return cmp.Or(cmp.Compare(t.items[a].Hash, t.items[b].Hash), cmp.Compare(a, b))
		})
		return
	}
	for n := 1; n < len(t.order); n++ {
		i, at := t.order[n], n
		for h := t.items[i].Hash; at > 0 && t.items[t.order[at-1]].Hash > h; at-- {
			t.order[at] = t.order[at-1]
		}
		t.order[at] = i
	}
}

// end gives a transaction back for reuse.
func (e *core) end(t *Txn) {
	if t.rest() {
		e.txns.Put(t)
	}
}

// rest readies a transaction for reuse. It returns false for a large one.
func (t *Txn) rest() bool {
	if len(t.items) > keptItems || len(t.shards) > keptItems {
		return false
	}
	for i := range t.items {
		it := &t.items[i]
		if it.lent != nil {
			t.e.buffers.put(it.lent, it.buf)
			it.buf, it.lent, it.own = it.own, nil, nil
		}
		if cap(it.buf) > bigState {
			it.buf = make([]byte, 0, stateBytes)
		}
		if cap(it.splices) > bigState {
			it.splices = nil
		}
		if i > 0 { // the first is in use again soon
			it.Key, it.State, it.head = nil, nil, nil // look forgets the rest
		}
	}
	t.undeclared, t.watches, t.bytes, t.round, t.asking, t.stirred, t.stops = false, false, 0, 0, nil, nil, 0
	if t.own.w != nil { // who asked may be gone long before the next step
		t.own = asking{}
	}
	t.tallies.forget()
	return true
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
	t.gate, t.asking = nil, nil
	t.tallies.forget()
	if len(t.shards) > 1 {
		if j := t.e.journal.Load(); j != nil {
			t.gate = j.gate
			t.gate.Enter()
		}
	}
	for _, i := range t.shards {
		s := &t.e.shards[i]
		s.mu.Lock()
		now = max(now, s.last)
	}
	besides := 0
	for _, i := range t.shards {
		s := &t.e.shards[i]
		s.last = now
		besides += s.table.Besides()
	}
	t.now = now
	if besides > 0 { // seldom
		for _, i := range t.order {
			if it := &t.items[i]; it.s.table.Besides() > 0 {
				giveBackDue(it.s, t.e, now, it.Hash, it.Key)
			}
		}
	}
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

// sameSlice reports whether a and b are the same bytes in memory.
func sameSlice(a, b []byte) bool {
	return len(a) > 0 && len(a) == len(b) && &a[0] == &b[0]
}

// item returns the item of a key.
func (t *Txn) item(key []byte) (*item, error) {
	if !t.undeclared && len(t.items) > 0 && sameSlice(key, t.items[0].Key) {
		return &t.items[0], nil // most transactions have one key, and use it several times
	}
	at, err := t.search(key)
	if err != nil {
		return nil, err
	}
	return &t.items[at], nil
}

// find returns the index of the item of a key, which is likely to be i.
func (t *Txn) find(i int, key []byte) (at int, err error) {
	if !t.twins && !t.undeclared && i < len(t.items) && sameSlice(key, t.items[i].Key) {
		return i, nil
	}
	return t.search(key)
}

// search is find for any key.
func (t *Txn) search(key []byte) (int, error) {
	if t.undeclared {
		return -1, ErrUndeclared
	}
	h, _ := t.e.place(key)
	at, _ := slices.BinarySearchFunc(t.order, h, func(i uint16, h uint64) int { return cmp.Compare(t.items[i].Hash, h) })
	for ; at < len(t.order) && t.items[t.order[at]].Hash == h; at++ {
		if it := &t.items[t.order[at]]; bytes.Equal(it.Key, key) {
			return int(t.order[at]), nil
		}
	}
	if _, locked := slices.BinarySearch(t.shards, uint32(h>>(64-t.e.shardBits))); !locked {
		t.undeclared = true
		return -1, ErrUndeclared
	}
	if len(t.items) == MaxTxn {
		return -1, ErrTooMany
	}
	t.order = slices.Insert(t.order, at, uint16(len(t.items)))
	t.items = append(t.items, item{})
	it := &t.items[len(t.items)-1]
	it.is(t, h, key)
	if it.s.table.Besides() > 0 && giveBackDue(it.s, t.e, t.now, h, key) {
		lookAgain(t, it.s)
	}
	it.look(t.now)
	return len(t.items) - 1, nil
}

// lookAgain finds the items of a shard again, whose table has changed.
func lookAgain(t *Txn, s *shard) {
	for i := range t.items[:len(t.items)-1] {
		it := &t.items[i]
		if it.s != s {
			continue
		}
		if it.Table.Find(&it.Spot); it.Found() && it.kind != 0 && (!it.written || it.Grow) {
			it.State = it.Table.State(&it.Spot)
		}
	}
}

// current is item, with all that was decided before in its state.
func (t *Txn) current(key []byte) (*item, error) {
	it, err := t.item(key)
	if err == nil {
		err = it.takeLate()
	}
	return it, err
}

// write notes the state to store for an item. It may lie in the item's buffer.
func (it *item) write(m table.Mark, state []byte) error {
	before := cap(it.buf)
	it.buf = append(it.buf[:0], state...)
	return it.wrote(m, before)
}

// writeLent is write for a state that a step has written to a buffer of the engine, which goes back when the
// transaction is over. next may be nil, and err an error of the step, which it returns.
func (it *item) writeLent(m table.Mark, buf *[]byte, next []byte, err error) error {
	t := it.t
	if err != nil || next == nil || it.lent != nil {
		if err == nil && next != nil {
			err = it.write(m, next)
		}
		t.e.buffers.put(buf, next)
		return err
	}
	it.lent, it.own, it.buf = buf, it.buf, next
	return it.wrote(m, 0)
}

// wrote notes that the item's buffer, whose capacity was before, has its state.
func (it *item) wrote(m table.Mark, before int) error {
	t := it.t
	if t.bytes += cap(it.buf) - before; t.bytes > MaxTxnBytes {
		return ErrTooMany
	}
	it.written, it.Grow, it.Must, it.changed, it.mark = true, false, false, false, m
	if it.kind, it.State = m.Kind(), it.buf; table.Expires(it.kind, it.State) <= t.now {
		it.kind, it.State = 0, nil
	}
	return nil
}

// takeLate turns a late decision into a written state, because more is to come.
func (it *item) takeLate() error {
	t := it.t
	switch {
	case !it.Grow:
		return nil
	case it.changed:
		return it.spliceLate()
	}
	it.buf = append(it.buf[:0], it.State...)
	next, err := it.takeInPlace(t.now, it.buf)
	if it.revert(); err != nil || next == nil {
		return err
	}
	return it.write(it.mark, next)
}

// writeFor writes the state that a step under l has made, with the key's block around it if it has one that matters. next must
// not lie in the item's buffer then.
func writeFor(it *item, l *limit.Limit, cost int64, d *limit.Decision, next []byte) error {
	b, err := blockOf(it)
	if err != nil {
		return err
	}
	if !b.Remembered(it.t.now) {
		return it.write(it.Mark(l, cost, d), next)
	}
	return writeAround(it, &b, l, cost, d, l.Algorithm.Kind(), next)
}

// writeAround writes a state with a block around it. The state must not lie in the item's buffer.
func writeAround(it *item, b *limit.Block, l *limit.Limit, cost int64, d *limit.Decision, kind limit.Kind, state []byte) error {
	if limit.Expires(kind, state) <= it.t.now {
		state = nil
	}
	before := cap(it.buf)
	it.buf = b.Put(it.buf, kind, state)
	return it.wrote(table.BlockMark(l, cost, d), before)
}
