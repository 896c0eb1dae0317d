package engine

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"limitdb/engine/table"
	"limitdb/hold"
	"limitdb/internal/journal"
	"limitdb/limit"
)

// Holds: an estimate is taken now and settled later.
//
// What is known of a key's ids is a state of its own beside that of the key: a hold.Set. It has
// the key's bytes, and its hash but for one bit of the tag, so it is in the same shard, and one step changes both.
// A key with such a state is not evicted. The table may keep both in one record, which nobody else notices.
//
// An estimate that goes back when its time is over goes back before anything else is decided on its
// key: when a step locks the shard and the set says that some is due, a step within it gives
// that back and ends the hold. Nothing else looks for what is due, so no index of holds is needed
// but that of the key.
//
// A long LOG is written anew for each estimate that it gets back. Then only some go back at one look, and the
// others at the next: until then they stay taken.

// returnWork is how many bytes of states one look may write, about, to give back what is due.
const returnWork = 1 << 19

// Errors of holds.
var (
	// ErrNoHold is returned for an id of which nothing is known.
	ErrNoHold = errors.New("engine: nothing is held under this id")
	// ErrHeld is returned if the id has been used for another hold, or for one that is over.
	ErrHeld = errors.New("engine: the id has been used")
	// ErrCancelled is returned for a hold that was cancelled before it came.
	ErrCancelled = errors.New("engine: the id was cancelled")
	// ErrCharge is returned for a cost that the limit of a hold cannot count. It wraps limit.ErrOverflow.
	ErrCharge = fmt.Errorf("%w; the hold stays, and can be committed at a lower cost", limit.ErrOverflow)
	// ErrOnce is returned for an id that a request which counts once has used, to another request.
	ErrOnce = errors.New("engine: the id is that of another request")
)

// Remembered is for how long an id is known after it was settled, in ns.
const Remembered = 30_000_000_000

// Hold says how a request is held.
type Hold struct {
	ID []byte
	// TTL is for how long, in ns: at most hold.MaxTTL.
	TTL int64
	// Returns has the estimate go back when that is over.
	Returns bool
	// Once has the request count once, unless it is nil. Nothing is held then, and the fields above are ignored.
	Once *Once
	// List, unless it is nil, is a key that stands for a hold of several keys: beside it, SettleList finds which they are.
	// It is no key that holds anything else. Notes[i] is told with the key of a Together at i then.
	List  []byte
	Notes [][]byte
	// Again is the engine's: whether the request was held before, so that it has taken nothing now.
	Again bool
}

// beside returns the index of the item of the record beside that of the item at an index. It
// may move the items.
func besideOf(t *Txn, at int) (int, error) {
	h, key := table.Beside(t.items[at].Hash), t.items[at].Key
	in, _ := slices.BinarySearchFunc(t.order, h, func(i uint16, h uint64) int { return cmp.Compare(t.items[i].Hash, h) })
	for k := in; k < len(t.order) && t.items[t.order[k]].Hash == h; k++ {
		if it := &t.items[t.order[k]]; it.Beside && string(it.Key) == string(key) {
			return int(t.order[k]), it.takeLate()
		}
	}
	if len(t.items) == MaxTxn {
		return -1, ErrTooMany
	}
	t.order = slices.Insert(t.order, in, uint16(len(t.items)))
	if len(t.items) < cap(t.items) {
		t.items = t.items[:len(t.items)+1]
	} else {
		t.items = append(t.items, item{})
	}
	it := &t.items[len(t.items)-1]
	it.is(t, h, key)
	it.Beside = true
	it.look(t.now)
	return len(t.items) - 1, nil
}

// set returns what is known of the ids of a key, whose item is at an index, and the index of that record's.
func setOf(t *Txn, at int) (hold.Set, int, error) {
	at, err := besideOf(t, at)
	if err != nil {
		return nil, -1, err
	}
	return hold.Set(t.items[at].State), at, nil
}

// seed returns a seed for a set, which is in an item. It tells nothing of the engine's own.
func seedOf(t *Txn, at int) uint64 { return t.e.seedOf(t.items[at].Hash) }

func (e *core) seedOf(h uint64) uint64 { return table.Mix(table.Mix(e.seed) ^ h) }

// edit writes an edit of a set to the item of its record. It ignores the budget if must is set.
func editSet(t *Txn, at int, w *hold.Edit, must bool) (err error) {
	it := &t.items[at]
	switch {
	case w.Whole != nil && len(w.Whole) == 0:
		return it.write(table.Unknown(limit.HOLDS), nil)
	case w.Whole != nil:
		err = it.write(table.Unknown(limit.HOLDS), w.Whole)
	default:
		t.splices = appendSplices(t.splices[:0], w)
		err = it.splice(limit.HOLDS, w.Head, t.splices)
	}
	it.Must = must
	return err
}

// appendSplices appends what an edit replaces, for the journal.
func appendSplices(b []byte, w *hold.Edit) []byte {
	for _, p := range w.Splices {
		del := len(p.Ins)
		if p.End {
			del = 0
		}
		b = journal.AppendSplice(b, p.At, del, p.Ins)
	}
	return b
}

// hold is Take for a request that is held.
func (it *item) hold(r *Request, a *asking, d *limit.Decision) (granted int64, err error) {
	t, at := it.t, it.t.index(&it.Change)
	set, beside, err := setOf(t, at)
	if err != nil {
		return 0, err
	}
	it = &t.items[at]
	var e hold.Entry
	if r.Hold.Again = set.Find(t.now, r.Hold.ID, &e); r.Hold.Again {
		if err = again(t, &e, r.Hold, &r.Limit, r.Cost); err == nil {
			err = grantAgain(it, &r.Limit, d)
		}
		if err != nil {
			return 0, err
		}
		t.Count(Granted)
		return e.Amount, nil
	}
	// After this nothing fails but the whole step: what has been taken is held.
	if e, err = entryOf(t, beside, set, r.Hold, &r.Limit); err != nil {
		return 0, err
	}
	granted, err = it.takeNow(r, a, d)
	if err != nil || d.Limited || granted == 0 {
		return granted, err
	}
	if err = r.Hold.grantedIn(t, at, &e, &r.Limit, granted, d); err != nil {
		return 0, err
	}
	return granted, note(t, set, beside, &e)
}

// entryOf returns the entry of a hold under a limit, which is to be noted in a set. The errors are limit.ErrOverflow
// and those of hold.Set.Room.
func entryOf(t *Txn, beside int, set hold.Set, h *Hold, l *limit.Limit) (e hold.Entry, err error) {
	t.packed = limit.Pack(t.packed[:0], l)
	e, ok := h.entry(t.now, t.packed)
	if !ok {
		return e, limit.ErrOverflow
	}
	return e, roomFor(t, beside, set, &e)
}

// entry returns the entry of a request that is made at now. asked is what it has asked for: its limit or, of Once, the hash. ok is false if
// its numbers are too large.
func (h *Hold) entry(now int64, asked []byte) (e hold.Entry, ok bool) {
	if o := h.Once; o != nil {
		return hold.Entry{ID: o.ID, Status: hold.Once, Until: later(now, min(o.For, MaxOnce)), Limit: asked}, true
	}
	e = hold.Entry{ID: h.ID, Until: now + h.TTL, Rest: h.TTL, Limit: asked}
	if h.Returns {
		e.Status = hold.Returning
	}
	return e, e.Until >= now && len(e.Limit) <= hold.MaxLimit
}

// granted notes in the entry of a request what a decision has granted.
func (h *Hold) granted(e *hold.Entry, now, amount int64, d *limit.Decision) {
	switch e.Amount = amount; {
	case h.Once == nil:
		e.Back = later(now, d.Reset)
	case d.Wait > 0:
		e.Back = later(now, d.Wait)
	}
}

// grantedIn is granted for a key whose item is at an index. That a block is remembered for longer than what was taken says nothing
// of when that has come back.
func (h *Hold) grantedIn(t *Txn, at int, e *hold.Entry, l *limit.Limit, amount int64, d *limit.Decision) error {
	plain := *d
	if it := &t.items[at]; it.kind == limit.BLOCK && h.Once == nil {
		state, err := it.stateFor(l)
		if err == nil {
			err = limit.Peek(l, state, t.now, 0, &plain)
		}
		if err != nil {
			return err
		}
	}
	h.granted(e, t.now, amount, &plain)
	return nil
}

// fullMost is for how many sets a shard remembers that they are full. Each has some MB.
const fullMost = 64

// roomFor returns the error for an entry that a set, whose record is in an item, has no room for. Asking again costs little.
func roomFor(t *Txn, beside int, set hold.Set, e *hold.Entry) error {
	if set.Takes(e) {
		return nil
	}
	s, h := t.items[beside].s, t.items[beside].Hash
	f := s.full[h]
	if f == nil {
		if f = new(hold.Full); s.full == nil || len(s.full) >= fullMost {
			s.full = map[uint64]*hold.Full{}
		}
		s.full[h] = f
	}
	return set.Room(t.now, e, f)
}

// note notes what is held in a set, which is in an item.
func note(t *Txn, set hold.Set, beside int, e *hold.Entry) error {
	if err := set.Add(&t.holds, t.now, e, seedOf(t, beside)); err != nil {
		return err
	}
	t.tallies.count(holdsTaken)
	return editSet(t, beside, &t.holds, false)
}

// again returns nil if an entry is that of the same request: it is granted again, and takes nothing. l is nil if the limit
// does not matter. The errors are ErrCancelled and ErrHeld.
func again(t *Txn, e *hold.Entry, h *Hold, l *limit.Limit, cost int64) error {
	if l != nil {
		t.packed = limit.Pack(t.packed[:0], l)
	}
	switch {
	case e.Status == hold.Once:
		return ErrOnce
	case e.Status == hold.Cancelled && e.Amount == cancelledFirst:
		return ErrCancelled
	case !h.made(e, t.now, cost) || l != nil && string(e.Limit) != string(t.packed):
		return ErrHeld
	}
	return nil
}

// made reports whether an entry is that of the same hold, if the limit is the same, and is live.
func (h *Hold) made(e *hold.Entry, now, cost int64) bool {
	return e.Live(now) && e.Rest == h.TTL && e.Amount == cost && h.Returns == (e.Status == hold.Returning)
}

// grantAgain makes *d the answer to a request that is granted again.
func grantAgain(it *item, l *limit.Limit, d *limit.Decision) error {
	err := it.peek(l, 0, d)
	d.Limited, d.Wait = false, limit.Never
	return err
}

// cancelledFirst is the amount of an id that was cancelled before its hold came. No other has it.
const cancelledFirst = -1

// Settlement is how a hold was settled.
type Settlement struct {
	// Estimate is what was held, and Actual what it has cost, unless Again is set.
	Estimate, Actual int64
	// Charged is how much more was taken than had been, or less than 0 for what went back.
	Charged int64
	// Over is how much of that was beyond the limit.
	Over int64
	// Again is set if the hold had been settled before: nothing has changed.
	Again bool
	// Limit is the limit under which the hold was taken, and Decision what is left of it. Decision.Limit and Decision.Remaining are -1 if the
	// id was never that of a hold, or if the key has a limit of another family now.
	Limit    limit.Limit
	Decision limit.Decision
}

// Settle settles the hold of an id: it gives back what was too much, or takes what was too little, whatever is left.
// actual is what it has cost; less than 0 means the estimate. A hold that has been settled stays as it is, and so says s.
// The errors are ErrNoHold, ErrCharge, and those of limit.Charge.
func Settle(t *Txn, key, id []byte, actual int64, s *Settlement) error {
	return settle(t, key, id, actual, hold.Committed, false, s)
}

// GiveUp settles the hold of an id at a cost of 0. If nothing is known of the id, it is remembered, so that a hold
// that comes later is refused.
func GiveUp(t *Txn, key, id []byte, s *Settlement) error {
	return settle(t, key, id, 0, hold.Cancelled, false, s)
}

// settle is Settle and GiveUp. If dry is set it changes nothing, and returns the error that it would return.
func settle(t *Txn, key, id []byte, actual int64, as hold.Status, dry bool, s *Settlement) error {
	it, err := t.current(key)
	if err != nil {
		return err
	}
	at := t.index(&it.Change)
	set, beside, err := setOf(t, at)
	if err != nil {
		return err
	}
	*s = Settlement{}
	s.Decision.Limit, s.Decision.Remaining = -1, -1 // until there is a limit that says more
	var e hold.Entry
	known := set.Find(t.now, id, &e)
	switch {
	case known && e.Status == hold.Once:
		return ErrOnce
	case !known:
		if as == hold.Committed {
			return ErrNoHold
		}
		e = hold.Entry{ID: id, Status: hold.Cancelled, Until: t.now + Remembered, Amount: cancelledFirst}
		if err := roomFor(t, beside, set, &e); dry || err != nil {
			return err
		}
		if err := set.Add(&t.holds, t.now, &e, seedOf(t, beside)); err != nil {
			return err
		}
		return editSet(t, beside, &t.holds, false)
	}
	if e.Settled() {
		s.Again, s.Charged, s.Over = true, e.Back, max(0, e.Amount)
		return tellSettled(&t.items[at], &e, s)
	}
	if err := limit.Unpack(e.Limit, &t.e.zones, &s.Limit); err != nil {
		return err
	}
	actual = s.costs(&e, actual)
	if err := t.items[at].charge(&e, actual, set.Void(), dry, s); err != nil || dry {
		return err
	}
	s.of(&e, as, t.now)
	set.Change(&t.holds, t.now, &e)
	if t.tallies.count(holdsSettled); s.Over > 0 {
		t.tallies.count(holdsOver)
	}
	return editSet(t, beside, &t.holds, true)
}

// of makes an entry that of the settlement.
func (s *Settlement) of(e *hold.Entry, as hold.Status, now int64) {
	e.Status, e.Back, e.Amount, e.Rest = as, s.Charged, s.Over, now+Remembered-e.Until
	if e.Rest < -hold.MaxTTL { // the time was over long ago
		e.Rest = 0
	}
}

// tellSettled says what is left of the limit of a hold that was settled before.
func tellSettled(it *item, e *hold.Entry, s *Settlement) error {
	if len(e.Limit) == 0 {
		return nil // it never was a hold
	}
	if err := limit.Unpack(e.Limit, &it.t.e.zones, &s.Limit); err != nil {
		return err
	}
	state, err := it.stateFor(&s.Limit)
	if err == ErrWrongType {
		return nil
	}
	if err == nil {
		err = limit.Peek(&s.Limit, state, it.t.now, 0, &s.Decision)
	}
	return err
}

// charge brings what an entry has taken to what it has cost. If dry is set it only says what that comes to.
func (it *item) charge(e *hold.Entry, actual, void int64, dry bool, s *Settlement) error {
	t := it.t
	if !isFor(it, &s.Limit) {
		s.Charged = max(0, actual-e.Amount) // nothing holds it any longer
		s.Over = s.Charged
		return nil
	}
	state, err := it.stateFor(&s.Limit)
	if err != nil {
		return err
	}
	buf := t.e.buffers.get()
	next, err := settleState(state, it.kind != 0, e, actual, void, t.now, *buf, s)
	defer func() { t.e.buffers.put(buf, next) }()
	if err != nil || next == nil || dry {
		return err
	}
	must := it.kind != 0
	if err = writeFor(it, &s.Limit, 1, &s.Decision, next); err != nil {
		return err
	}
	it.Must, it.other = must, true
	return nil
}

// costs notes the estimate of an entry and what it has cost, and returns that; actual is less than 0 for the estimate.
func (s *Settlement) costs(e *hold.Entry, actual int64) int64 {
	if s.Estimate = e.Amount; e.Status == hold.Returned {
		s.Estimate = e.Back
	}
	if s.Actual = actual; actual < 0 {
		s.Actual = s.Estimate
	}
	return s.Actual
}

// settleState brings what an entry has taken from the state of a key to what it has cost, and returns the next
// state, nil if it stays. there is whether the key is there, and void the time of its last reset.
func settleState(state []byte, there bool, e *hold.Entry, actual, void, now int64, dst []byte, s *Settlement) (next []byte, err error) {
	more := actual - e.Amount
	if more > 0 {
		if err := limit.Peek(&s.Limit, state, now, 0, &s.Decision); err != nil {
			return nil, err
		}
		s.Charged, s.Over = more, max(0, more-s.Decision.Remaining)
		if next, err = limit.Charge(&s.Limit, state, now, more, dst, &s.Decision); err == limit.ErrOverflow {
			err = ErrCharge
		}
		return next, err
	}
	if e.Status == hold.Returned || !there || e.Taken() <= void {
		return nil, limit.Peek(&s.Limit, state, now, 0, &s.Decision)
	}
	next, back, err := limit.ReturnAndPeek(&s.Limit, state, now, e.Back, -more, dst, &s.Decision)
	s.Charged = -back
	return next, err
}

// giveBackOf gives back some of what an entry has taken, unless the key was reset since.
func giveBackOf(state []byte, now int64, l *limit.Limit, e *hold.Entry, amount, void int64, dst []byte) (next []byte, returned int64, err error) {
	if e.Taken() <= void || amount == 0 {
		return nil, 0, nil
	}
	return limit.Return(l, state, now, e.Back, amount, dst)
}

// Held is what is known of an id.
type Held struct {
	hold.Entry
	Limit limit.Limit // of a hold that was not cancelled before it came
}

// Holds calls fn for what is known of the ids of a key, in the order in which they came, until fn returns false.
func Holds(t *Txn, key []byte, fn func(h *Held) bool) error {
	it, err := t.current(key)
	if err != nil {
		return err
	}
	set, _, err := setOf(t, t.index(&it.Change))
	if err != nil {
		return err
	}
	var h Held
	set.Each(t.now, func(e *hold.Entry) bool {
		h.Entry, h.Limit = *e, limit.Limit{}
		if len(e.Limit) > 0 && e.Status != hold.Once {
			if err = limit.Unpack(e.Limit, &t.e.zones, &h.Limit); err != nil {
				return false
			}
		}
		return fn(&h)
	})
	return err
}

// mayKnowIDs reports whether something may be known of ids of the key: the table has some, or the step has perhaps made one.
func mayKnowIDs(it *item) bool { return it.written || it.s.table.Besides() > 0 }

// reset notes that the key of an item is reset: nothing that was taken by now goes back. It returns the item, which may
// have moved.
func (it *item) reset() (*item, error) {
	if !mayKnowIDs(it) || it.Beside {
		return it, nil
	}
	t := it.t
	at := t.index(&it.Change)
	set, beside, err := setOf(t, at)
	if err == nil && set.Valid() {
		set.Reset(&t.holds, t.now)
		err = editSet(t, beside, &t.holds, true)
	}
	return &t.items[at], err
}

// giveBackDue gives back what is due at now of the holds of a key, in a step of its own in the shard, which is locked. It
// reports whether it has done anything.
func giveBackDue(s *shard, e *core, now int64, h uint64, key []byte) (any bool) {
	for work := 0; work < returnWork && !s.closed; {
		sp := table.Spot{Hash: table.Beside(h), Key: key, Beside: true}
		if s.table.Find(&sp); !sp.Found() || !hold.Set(s.table.State(&sp)).Due(now) {
			return any
		}
		t := s.returns
		if t == nil {
			t = new(Txn)
			t.prepare(e, [][]byte{key})
			s.returns = t
		}
		only(t, h, key)
		t.now = now
		t.items[0].look(now)
		work += len(t.items[0].State)
		err := giveBackFirst(t)
		for _, q := range t.stirred {
			s.waits.LookSoon(q)
		}
		if t.rest(); err != nil { // of the system: the estimate stays taken until it is tried again
			return any
		}
		any = true
	}
	return any
}

// only makes it a transaction on one key.
func only(t *Txn, h uint64, key []byte) {
	t.items, t.order = t.items[:1], append(t.order[:0], 0)
	t.items[0].Hash, t.items[0].Key = h, key
}

// giveBackFirst is a step of giveBackDue.
func giveBackFirst(t *Txn) error {
	set, beside, err := setOf(t, 0)
	if err != nil {
		return err
	}
	var told []GoneBack
	g := givingBack{t: t, void: set.Void(), bufs: [2]*[]byte{t.e.buffers.get(), t.e.buffers.get()}}
	long := len(t.items[0].State) > longState
	set.Return(&t.holds, t.now, long, func(e *hold.Entry) {
		t.tallies.count(holdsReturned)
		back := g.add(e)
		if t.e.goneBack != nil {
			told = append(told, GoneBack{t.now, t.items[0].Key, bytes.Clone(e.ID), e.Amount, back})
		}
		e.Back, e.Amount = e.Amount, e.Amount-back
	})
	g.store()
	t.e.buffers.put(g.bufs[0], nil)
	t.e.buffers.put(g.bufs[1], nil)
	if err := editSet(t, beside, &t.holds, true); err != nil {
		return err
	}
	if _, err = t.commit(); err != nil {
		return err
	}
	for i := range told {
		t.e.goneBack(&told[i])
	}
	return nil
}

// givingBack gives estimates back to the state of a key, one after the other. Nearly all have the same limit. So the limit is read, and
// the state stored, once for all that have the same in a row.
type givingBack struct {
	t      *Txn
	void   int64
	limit  limit.Limit
	packed []byte // the limit; empty for none
	open   bool   // the key's state is one for it
	state  []byte
	given  bool       // state is not stored, and lies in the second of bufs
	bufs   [2]*[]byte // the first is for the next state
}

// add gives an estimate back, and returns how much that is.
func (g *givingBack) add(e *hold.Entry) (back int64) {
	if len(g.packed) == 0 || string(e.Limit) != string(g.packed) {
		g.begin(e.Limit)
	}
	if !g.open {
		return 0
	}
	next, back, err := giveBackOf(g.state, g.t.now, &g.limit, e, e.Amount, g.void, (*g.bufs[0])[:0])
	if err != nil || next == nil {
		return 0
	}
	*g.bufs[0] = next[:0]
	g.bufs[0], g.bufs[1] = g.bufs[1], g.bufs[0]
	g.state, g.given = next, true
	return back
}

// begin begins with the estimates of a limit.
func (g *givingBack) begin(packed []byte) {
	g.store()
	it := &g.t.items[0]
	g.packed, g.open = packed, it.kind != 0 && limit.Unpack(packed, &g.t.e.zones, &g.limit) == nil && isFor(it, &g.limit)
	if g.open {
		var err error
		g.state, err = it.stateFor(&g.limit)
		g.open = err == nil
	}
}

// store writes the state to the key's item. If it cannot be read after all, the estimates stay taken.
func (g *givingBack) store() {
	if !g.given {
		return
	}
	it := &g.t.items[0]
	var d limit.Decision
	if g.given = false; limit.Peek(&g.limit, g.state, g.t.now, 0, &d) == nil && writeFor(it, &g.limit, 1, &d, g.state) == nil {
		it.Must, it.other = true, true
	}
}

// nextReturn returns when something of the item's key is to go back, or math.MaxInt64.
func (it *item) nextReturn() int64 {
	if it.s.table.Besides() == 0 {
		return math.MaxInt64
	}
	sp := table.Spot{Hash: table.Beside(it.Hash), Key: it.Key, Beside: true}
	if it.s.table.Find(&sp); sp.Found() {
		if next, ok := hold.Set(it.s.table.State(&sp)).Next(it.t.now); ok {
			return next
		}
	}
	return math.MaxInt64
}

// The figures of holds, of ids, and of blocks.
const (
	holdsTaken = iota
	holdsSettled
	holdsOver
	holdsReturned
	onceRepeated
	blocksBegun
	holdFigures
)
