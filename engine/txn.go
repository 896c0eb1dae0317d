package engine

import (
	"bytes"
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
	bytes      int          // in the buffers of items
	places     []Place      // scratch of begin
	needs      []table.Need // scratch of makeRecords
	uncounted  limit.Limit  // a limit without its CountDenied
}

// item is a key of a transaction: its spot, as long as the table does not
// change, and what the transaction makes of it.
type item struct {
	table.Spot
	s     *shard
	kind  limit.Kind // what the key holds now; 0 if it is absent
	state []byte     // in the table, or in buf once it is written
	buf   []byte

	expired bool // its record has expired; commit drops it
	written bool
	late    bool // the decision below is to be taken from the long state in its box
	gone    bool // an absent key means the same as what was written
	must    bool // ignores the budget
	mark    table.Mark
	needs   int    // bytes that storing the state takes in its segment
	box     []byte // a new box with the state; nil if it needs none

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

// is makes it, which is empty, the item of a key.
func (it *item) is(e *Engine, h uint64, key []byte) {
	it.Hash, it.Key, it.s = h, key, &e.shards[h>>(64-e.shardBits)]
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
		it := &t.items[i]
		it.look(now)
		it.limit, it.allowed, it.denied, it.peeked, it.refunded, it.other = nil, 0, 0, 0, 0, false
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

// look finds the key.
func (it *item) look(now int64) {
	it.s.table.Find(&it.Spot)
	it.expired = it.Found() && it.s.table.Expires(&it.Spot) <= now
	it.revert()
}

// revert forgets what was written to the key.
func (it *item) revert() {
	it.kind, it.state = 0, nil
	it.written, it.late, it.must = false, false, false
	if it.Found() && !it.expired {
		it.kind, it.state = it.Kind(), it.s.table.State(&it.Spot)
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

// Now returns the time of the step.
func (t *Txn) Now() int64 { return t.now }

// Get returns the kind of what key holds, and its state. The kind is 0 if the
// key is absent.
func (t *Txn) Get(key []byte) (kind limit.Kind, state []byte, err error) {
	it, err := t.item(key)
	if err == nil {
		err = t.takeLate(it)
	}
	if err != nil {
		return 0, nil, err
	}
	return it.kind, it.state, nil
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
	it, err := t.item(key)
	if err == nil {
		err = t.takeLate(it)
	}
	if err != nil {
		return err
	}
	state, err := it.stateOf(kind)
	if err != nil {
		return err
	}
	buf := t.e.arena.TakeBuffer()
	next, err := step(t.now, state, *buf)
	defer func() { t.e.arena.PutBuffer(buf, next) }()
	if err != nil || next == nil {
		return err
	}
	it.other = true
	return t.write(it, table.KindMark(kind), next)
}

// Refund gives cost back to key, as Engine.Refund does. Its errors are
// ErrWrongType and those of limit.Refund.
func (t *Txn) Refund(key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	it, err := t.item(key)
	if err == nil {
		err = t.takeLate(it)
	}
	if err != nil {
		return err
	}
	state, err := it.stateFor(l)
	if err != nil {
		return err
	}
	before := limit.Expires(l.Algorithm.Kind(), state)
	buf := t.e.arena.TakeBuffer()
	next, err := limit.Refund(l, state, t.now, cost, *buf, d)
	defer func() { t.e.arena.PutBuffer(buf, next) }()
	if err == nil && next != nil {
		if err = it.s.holdTurns(t.now, before, key, l, next, d); err == nil {
			there := it.kind != 0
			err = t.write(it, table.MarkOf(l, 1, d), next)
			it.must, it.other = there, true
		}
	}
	if err == nil {
		it.refunded++
	}
	return err
}

// write notes the state to store for an item. It may lie in the item's buffer.
func (t *Txn) write(it *item, m table.Mark, state []byte) error {
	before := cap(it.buf)
	it.buf = append(it.buf[:0], state...)
	if t.bytes += cap(it.buf) - before; t.bytes > MaxTxnBytes {
		return ErrTooMany
	}
	it.written, it.late, it.must, it.mark = true, false, false, m
	if it.kind, it.state = m.Kind(), it.buf; limit.Expires(it.kind, state) <= t.now {
		it.kind, it.state = 0, nil
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
	return it.state, nil
}

// stateFor returns the item's state for l's algorithm.
func (it *item) stateFor(l *limit.Limit) ([]byte, error) {
	if it.kind == 0 && it.s.usedUp != 0 && !it.s.closed {
		return it.s.emptied(l)
	}
	return it.stateOf(l.Algorithm.Kind())
}

// Decide decides whether cost may be taken from key, and writes the answer to
// *d. If so, the transaction takes it. A denial writes nothing, except that it
// moves the key to the pace of a limit that was raised; a limit with
// CountDenied counts nothing either. It does not end the transaction: see
// Retract. The errors are those of Take, except for ErrKey and ErrOOM, which
// come from the commit.
func (t *Txn) Decide(key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	it, err := t.item(key)
	if err != nil {
		return err
	}
	return t.decide(it, l, cost, d)
}

func (t *Txn) decide(it *item, l *limit.Limit, cost int64, d *limit.Decision) error {
	if err := t.takeLate(it); err != nil {
		return err
	}
	state, err := it.stateFor(l)
	if err != nil {
		return err
	}
	asked := l
	if l.CountDenied { // a denial of one is not to be counted by another
		t.uncounted = *l
		t.uncounted.CountDenied = false
		l = &t.uncounted
	}
	q := it.s.waits.find(it.Key)
	held := q.holds() && cost > 0
	late := !it.written && it.kind != 0 && it.Boxed()
	if late || held {
		if err := limit.Peek(l, state, t.now, cost, d); err != nil {
			return err
		}
	}
	var next []byte
	if !late && (!held || d.Limited) {
		it.buf = append(it.buf[:0], state...)
		if next, err = limit.Take(l, it.buf, t.now, cost, it.buf[:0], d); err != nil {
			return err
		}
	}
	limited := d.Limited
	if held {
		if err := it.s.behind(t.now, q, state, &Request{Limit: *l, Cost: cost}, d); err != nil {
			return err
		}
	}
	it.limit, it.cost = asked, cost
	if d.Limited {
		it.denied++
	} else {
		it.allowed++
	}
	switch {
	case late && (limited || cost > 0 && !held):
		it.written, it.late, it.mark = true, true, table.MarkOf(asked, cost, d)
	case next != nil:
		before := len(it.state)
		must := it.kind != 0 && !it.written && len(next) <= before || limited
		if err := t.write(it, table.MarkOf(asked, cost, d), next); err != nil {
			return err
		}
		it.must = must
	}
	return nil
}

// takeLate turns a late decision into a written state, because more is to come.
func (t *Txn) takeLate(it *item) error {
	if !it.late {
		return nil
	}
	it.buf = append(it.buf[:0], it.state...)
	next, err := it.take(t.now, it.buf)
	if it.revert(); err != nil || next == nil {
		return err
	}
	return t.write(it, it.mark, next)
}

// take makes the late decision on a state, in place. Copying a long state as
// the others are copied would take longer than all the rest. Peek has given the
// answer, so this can no longer fail.
func (it *item) take(now int64, state []byte) (next []byte, err error) {
	var d limit.Decision
	l := *it.limit
	l.CountDenied = false
	return limit.Take(&l, state, now, it.cost, state[:0], &d)
}

// Peek answers as Decide would, and takes nothing.
func (t *Txn) Peek(key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	it, err := t.item(key)
	if err == nil {
		err = t.takeLate(it)
	}
	if err == nil {
		err = t.peek(it, l, cost, d)
	}
	if err == nil {
		it.peeked++
	}
	return err
}

func (t *Txn) peek(it *item, l *limit.Limit, cost int64, d *limit.Decision) error {
	state, err := it.stateFor(l)
	if err != nil {
		return err
	}
	if err := limit.Peek(l, state, t.now, cost, d); err != nil {
		return err
	}
	if q := it.s.waits.find(it.Key); q.holds() && cost > 0 {
		return it.s.behind(t.now, q, state, &Request{Limit: *l, Cost: cost}, d)
	}
	return nil
}

// Retract takes back all that the transaction has written, because one of its
// decisions is a denial. Only the keys of denials still move to a faster pace,
// so that their waits are true. Decisions that were granted count as peeks.
func (t *Txn) Retract() error {
	for i := range t.items {
		it := &t.items[i]
		again := it.denied > 0 && it.allowed > 0
		if it.denied == 0 || again {
			it.revert()
		}
		it.peeked += it.allowed
		it.allowed = 0
		if !again {
			continue
		}
		// What it lacked may have been taken by one of those that were granted.
		var d limit.Decision
		denied := it.denied
		if err := t.decide(it, it.limit, it.cost, &d); err != nil {
			return err
		}
		if it.allowed, it.denied = 0, denied; !d.Limited {
			it.revert()
		}
	}
	return nil
}
