package engine

import (
	"math"

	"limitdb/engine/table"
	"limitdb/limit"
)

// item is a key of a transaction, and what the transaction makes of it. Its spot is
// valid as long as the table does not change. Its State is in the table, or in buf
// once it is written. Grow is set if the decision below is to be taken, late, from
// the long state in its box.
type item struct {
	table.Change
	t    *Txn
	s    *shard
	kind limit.Kind // what the key holds now; 0 if it is absent
	buf  []byte

	// lent is a buffer of the engine, which buf is meanwhile, and own the item's; nil for none.
	lent *[]byte
	own  []byte

	expired bool // its record has expired; commit drops it
	written bool
	touched bool // those who watch it are to see a change
	used    bool // a decision that has written nothing gives its record the mark
	mark    table.Mark

	// changed is set if splices make the state in buf, which has the revision, from the one in
	// the table, which has a body of before bytes and expires at until.
	changed  bool
	before   int
	until    int64
	revision uint32
	splices  []byte
	head     []byte // of the state, if Grow is set as well: see Splice

	// The last decision, and how many there were. Those who ask count them: see
	// Txn.Count.
	under           *limit.Limit // a copy that the item keeps, of a late decision, or if others wait for the key
	hasUnder        bool         // that is set
	cost            int64
	allowed, denied uint32
	round           uint32 // of the last Together that it was part of
	earlier         bool   // it had been written before that
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

// is makes it the item of a key.
func (it *item) is(t *Txn, h uint64, key []byte) {
	it.t, it.Hash, it.Key, it.s, it.Beside = t, h, key, t.e.shardOf(h), false
	it.Table = &it.s.table
}

// look finds the key, and forgets what an earlier run, or another transaction, has made of it.
func (it *item) look(now int64) {
	it.Table.Find(&it.Spot)
	it.hasUnder, it.allowed, it.denied, it.other = false, 0, 0, false
	it.expired, it.touched, it.used, it.round = false, false, false, 0
	if it.revert(); it.kind != 0 && table.Expires(it.kind, it.State) <= now {
		it.expired, it.kind, it.State = true, 0, nil
	}
}

// revert discards the writes to the key.
func (it *item) revert() {
	it.kind, it.State = 0, nil
	it.written, it.Grow, it.Must, it.changed, it.More = false, false, false, false, 0
	if it.Found() && !it.expired {
		it.kind, it.State = it.Kind(), it.Table.State(&it.Spot)
	}
}

// keep keeps the limit and the cost of a decision.
func (it *item) keep(l *limit.Limit, cost int64) {
	if it.under == nil {
		it.under = new(limit.Limit)
	}
	*it.under, it.cost, it.hasUnder = *l, cost, true
}

// count counts a decision.
func (it *item) count(limited bool) {
	if limited {
		it.denied++
	} else {
		it.allowed++
	}
}

// retract takes the last decision back, before which nothing had been written.
func (it *item) retract(limited bool) {
	if it.revert(); limited {
		it.denied--
	} else {
		it.allowed--
	}
}

// soften makes the last decision, a denial, one that stops nobody. What it has written,
// a faster pace, stays.
func (it *item) soften() {
	it.denied--
	it.other = true
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

// stateFor returns the item's state for l's algorithm. Of a key that has a block, it is what the block is around.
func (it *item) stateFor(l *limit.Limit) ([]byte, error) {
	if it.kind == 0 && it.s.usedUp != 0 && !it.s.closed {
		return it.s.emptied(l)
	}
	state, err := it.stateOf(l.Algorithm.Kind())
	if err != nil && it.kind == limit.BLOCK {
		return stateInBlock(it, l)
	}
	return state, err
}

// takeInPlace makes the late decision on a state, in place. Copying a long state as
// the others are copied would take longer than all the rest. Peek has given the
// answer, so this can no longer fail.
func (it *item) takeInPlace(now int64, state []byte) (next []byte, err error) {
	var d limit.Decision
	var own limit.Limit
	return limit.Take(uncounted(it.under, &own), state, now, it.cost, state[:0], &d)
}

// conclude notes the decisions on a key once it is stored, and shows a touch.
func (it *item) conclude(now int64) {
	if it.touched && it.s.watched != nil {
		it.s.touch(&it.Spot)
	}
	for i := range it.allowed + it.denied {
		if it.s.asked(i >= it.allowed) {
			it.s.follow(now, it.Hash, it.Key)
		}
	}
}

// Outcome is what a request was answered.
type Outcome uint8

// The outcomes.
const (
	Granted Outcome = iota
	Denied
	Peeked
	Refunded
	outcomes
)

// OutcomeOf returns Denied if limited is set, and otherwise Granted.
func OutcomeOf(limited bool) Outcome {
	if limited {
		return Denied
	}
	return Granted
}

// tallies are what a transaction counts, for the figures of a shard. Most count nothing.
type tallies struct {
	some     bool // there is something to tell
	requests [outcomes]uint32
	held     [holdFigures]uint32 // holds, ids and blocks
}

// count counts one more of the figures of holds, ids and blocks.
func (c *tallies) count(i int) { c.some, c.held[i] = true, c.held[i]+1 }

func (c *tallies) forget() {
	if c.some {
		*c = tallies{}
	}
}

// Count counts a request, once the transaction is stored. A request for several
// limits is one: Decide, Peek and Refund count nothing themselves.
func (t *Txn) Count(o Outcome) { t.tallies.some, t.tallies.requests[o] = true, t.tallies.requests[o]+1 }

// tell adds what was counted to a shard's figures.
func (t *Txn) tell() {
	c := &t.tallies
	if !c.some || len(t.items) == 0 {
		return
	}
	s := t.items[0].s
	s.allowed += uint64(c.requests[Granted])
	s.limited += uint64(c.requests[Denied])
	s.peeked += uint64(c.requests[Peeked])
	s.refunded += uint64(c.requests[Refunded])
	if h := &c.held; h[holdsTaken]|h[holdsSettled]|h[holdsOver]|h[holdsReturned]|h[onceRepeated]|h[blocksBegun] != 0 { // != would call a function
		for i, n := range h {
			s.held[i] += uint64(n)
		}
		c.held = [holdFigures]uint32{}
	}
}

// blockOf returns the block of the item's key, the zero value if it has none.
func blockOf(it *item) (b limit.Block, err error) {
	if it.kind == limit.BLOCK {
		_, _, err = b.Open(it.State, it.t.now)
	}
	return b, err
}

// stateInBlock is stateFor for a key that has a block. While it is blocked, the state of another family is no error: that
// the key is blocked comes first.
func stateInBlock(it *item, l *limit.Limit) ([]byte, error) {
	var b limit.Block
	kind, state, err := b.Open(it.State, it.t.now)
	switch {
	case err != nil:
		return nil, err
	case kind == 0 && it.s.usedUp != 0:
		return it.s.emptied(l)
	case kind == 0 || limit.SameFamily(kind, l.Algorithm.Kind()):
		return state, nil
	case b.Left(l, it.t.now) > 0:
		return nil, nil
	}
	return nil, ErrWrongType
}

// isFor reports whether the key is absent, or has the state of an algorithm that l's reads.
func isFor(it *item, l *limit.Limit) bool {
	kind := it.kind
	if kind == limit.BLOCK {
		var b limit.Block
		kind, _, _ = b.Open(it.State, it.t.now)
	}
	return kind == 0 || limit.SameFamily(kind, l.Algorithm.Kind())
}

// fullAt returns when the state of an item for l's algorithm expires.
func fullAt(it *item, l *limit.Limit) int64 {
	state, err := it.stateFor(l)
	if err != nil {
		return math.MinInt64
	}
	return limit.Expires(l.Algorithm.Kind(), state)
}
