package engine

import (
	"errors"
	"sync"
	"unsafe"

	"limitdb/engine/table"
	"limitdb/engine/wait"
	"limitdb/hold"
	"limitdb/limit"
)

// shard is one stripe: everything about the keys of one stretch of the line.
// Shards are padded so that two cores that work on neighbours do not share a
// cache line. The padding is two lines, because the processor fetches them in
// pairs.
type shard struct {
	shardData
	_ [(128 - unsafe.Sizeof(shardData{})%128) % 128]byte
}

// shardData begins with the fields that every decision needs, in one cache
// line. Only watched and waits lie outside it, in another.
type shardData struct {
	mu sync.Mutex // guards all fields below

	// last is the latest time that this shard has seen. Callers read the clock
	// before they wait for the lock, so times arrive out of order. A step never
	// runs at an earlier time than the step before it.
	last int64

	allowed, limited uint64
	skip             [topOrders]int32 // decisions to skip before following one

	// changes records the changes; nil if nobody wants them.
	changes *changes

	table table.Table

	watched map[uint64]*Watch // the first watch of each hash; nil: nobody watches a key
	waits   wait.List
	buffers *buffers // the engine's

	// usedUp is the time given to AssumeUsedUp; 0 for never.
	usedUp int64
	// closed is set by Close. A closed shard has no keys, so only code that
	// finds no key needs to check it.
	closed bool

	peeked, refunded, refused uint64

	following *following
	solo      *Txn // for transactions on one key; nil: none yet
	returns   *Txn // for giveBackDue; nil: none yet
	held      [holdFigures]uint64
	full      map[uint64]*hold.Full // sets of holds that are full, by their hashes; see roomFor
	// missed holds the keys that Missed returns, with the times at which they
	// expire; nil for none.
	missed map[name]int64
	// next is where an algorithm writes the state of a new key.
	next  [limit.MaxState]byte
	short *shortWay // nil: none yet
}

// errBlock says that the key's state has the kind BLOCK.
var errBlock = errors.New("engine: the key has a block")

// clamp returns now, or the shard's time if that is later.
func (s *shard) clamp(now int64) int64 {
	s.last = max(s.last, now)
	return s.last
}

// stateFor returns the state for l's algorithm to work on, nil for an absent
// key. The algorithm may write the next state over it.
func (s *shard) stateFor(sp *table.Spot, l *limit.Limit) ([]byte, error) {
	if !sp.Found() && s.usedUp != 0 && !s.closed {
		return s.emptied(l)
	}
	return s.stateOf(sp, l.Algorithm.Kind())
}

// open begins a step on a key, once the shard is locked. It returns the shard's
// time.
func (s *shard) open(now int64, sp *table.Spot) int64 {
	now = s.clamp(now)
	s.table.Live(now, sp)
	return now
}

// stateOf is stateFor for anything that a key can hold. The error is errBlock for a key that has a block.
func (s *shard) stateOf(sp *table.Spot, kind limit.Kind) ([]byte, error) {
	if !sp.Found() {
		if s.closed {
			return nil, ErrClosed
		}
		return nil, nil
	}
	if is := sp.Kind(); is != kind && !limit.SameFamily(is, kind) {
		if is == limit.BLOCK {
			return nil, errBlock
		}
		return nil, ErrWrongType
	}
	return s.table.KeyState(sp), nil
}

// store keeps the state that an algorithm has made, unless an absent key would
// mean the same. If must is set, a new key ignores the budget.
func (s *shard) store(now int64, sp *table.Spot, m table.Mark, next []byte, must bool) error {
	if s.changes == nil {
		return s.put(now, sp, m, next, must)
	}
	a := m.Kind()
	c := s.changes
	gone := table.Expires(a, next) <= now
	recorded := a
	if len(next) > limit.MaxState {
		if !gone && len(next) >= longState {
			return s.storeOwed(now, sp, m, next, must)
		}
		recorded = a.Recorded(next)
	}
	// Write the record first: next may lie in a segment that put abandons.
	var mark int
	switch {
	case !sp.Found() && gone:
		return s.put(now, sp, m, next, must)
	case gone:
		mark = c.forget(a, sp.Key)
	default:
		mark = c.set(recorded, sp.Key, next)
	}
	n := len(c.buf.Bytes) - mark
	err := s.put(now, sp, m, next, must)
	if err != nil {
		c.buf.Cut(mark, n) // other records may follow it
	}
	return err
}

// put is store without recording the change.
func (s *shard) put(now int64, sp *table.Spot, m table.Mark, next []byte, must bool) error {
	if table.Expires(m.Kind(), next) > now {
		if err := s.table.Put(now, sp, m, next, must); err != nil {
			return err
		}
	} else if sp.Found() {
		s.table.Remove(sp)
	}
	if s.watched != nil {
		s.touch(sp)
	}
	return nil
}

// commit stores the state that a decision has made for a key, if next is not
// nil, marks the key as used, and counts the decision.
func (s *shard) commit(now int64, sp *table.Spot, m table.Mark, next []byte, d *limit.Decision) error {
	switch {
	case next != nil:
		if err := s.store(now, sp, m, next, false); err != nil {
			return err
		}
	case sp.Found():
		sp.Use(m)
	}
	if s.count(d) {
		s.follow(now, sp.Hash, sp.Key)
	}
	return nil
}

// refuse returns err. For table.ErrNoRoom it counts the refused decision and returns
// ErrOOM.
func (s *shard) refuse(err error) error {
	if err != table.ErrNoRoom {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused++
	return ErrOOM
}

// scratch returns the buffer for a step on kind k to write the next state to:
// the state itself if there is one. A short state whose length may change is
// written to a separate buffer, because in place it would need a new buffer to
// grow by a byte.
func (s *shard) scratch(k limit.Kind, state []byte) []byte {
	n := len(state)
	if (n != fixedState || k > limit.QUEUE.Kind()) && n <= len(s.next) {
		return s.next[:0]
	}
	if n > len(s.next) {
		if s.changes != nil && k == limit.LOG.Kind() {
			s.changes.was.Note(k, state)
		}
		if cap(state)-n < growth {
			if b := s.buffers.getLong(n + growth); b != nil {
				return b
			}
		}
	}
	return state[:0]
}

// emptied returns the state of a key from which all was taken at usedUp. Once
// that no longer matters, this state means the same as none.
func (s *shard) emptied(l *limit.Limit) ([]byte, error) {
	var d limit.Decision
	if err := limit.Peek(l, nil, s.usedUp, 0, &d); err != nil || d.Remaining <= 0 {
		return nil, err
	}
	return limit.Take(l, nil, s.usedUp, d.Remaining, s.next[:0], &d)
}

// count counts a decision that asked for something, and reports whether the
// caller must call follow.
func (s *shard) count(d *limit.Decision) (follow bool) {
	if d.Limited {
		s.limited++
	} else {
		s.allowed++
	}
	return s.asked(d.Limited)
}

// asked notes that a key was asked for, and reports whether the caller must call
// follow.
func (s *shard) asked(limited bool) (follow bool) {
	s.skip[ByRequests]--
	if !limited {
		return s.skip[ByRequests] < 0
	}
	s.skip[ByLimited]--
	return s.skip[ByRequests]|s.skip[ByLimited] < 0
}

// follow notes key in each sketch that is to look at it.
func (s *shard) follow(now int64, h uint64, key []byte) {
	for by := range s.following {
		if s.skip[by] < 0 {
			s.skip[by] = s.following[by].note(now, h, key)
		}
	}
}
