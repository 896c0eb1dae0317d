package engine

import (
	"sync"
	"unsafe"

	"limitdb/engine/table"
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
// line. Only watched and waits.n lie outside it, in another.
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

	watched *Watch // the first of the list; nil: nobody watches a key
	waits   waitlist
	buffers *buffers // the engine's

	// usedUp is the time given to AssumeUsedUp; 0 for never.
	usedUp int64
	// closed is set by Close. A closed shard has no keys, so only code that
	// finds no key needs to check it.
	closed bool

	peeked, refunded, refused uint64

	following *following
	// next is where an algorithm writes the state of a new key.
	next [limit.MaxState]byte
}

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

// stateOf is stateFor for anything that a key can hold.
func (s *shard) stateOf(sp *table.Spot, kind limit.Kind) ([]byte, error) {
	if !sp.Found() {
		if s.closed {
			return nil, ErrClosed
		}
		return nil, nil
	}
	if is := sp.Kind(); is != kind && !limit.SameFamily(is, kind) {
		return nil, ErrWrongType
	}
	return s.table.State(sp), nil
}

// store keeps the state that an algorithm has made, unless an absent key would
// mean the same. If must is set, a new key ignores the budget.
func (s *shard) store(now int64, sp *table.Spot, m table.Mark, next []byte, must bool) error {
	if s.watched != nil {
		s.touch(sp)
	}
	if s.changes == nil {
		return s.keep(now, sp, m, next, must)
	}
	a := m.Kind()
	c := s.changes
	gone := table.Expires(a, next) <= now
	if !gone && len(next) >= longState {
		err := s.keep(now, sp, m, next, must)
		if err == nil {
			c.owe(a, sp)
		}
		return err
	}
	// Write the record first: next may lie in a segment that keep abandons.
	var mark int
	switch {
	case !sp.Found() && gone:
		return nil
	case gone:
		mark = c.forget(a, sp.Key)
	default:
		mark = c.set(a, sp.Key, next)
	}
	n := len(c.buf.Bytes) - mark
	err := s.keep(now, sp, m, next, must)
	if err != nil {
		c.undo(mark, n)
	}
	return err
}

// keep is store without recording the change.
func (s *shard) keep(now int64, sp *table.Spot, m table.Mark, next []byte, must bool) error {
	gone := table.Expires(m.Kind(), next) <= now
	switch {
	case !gone:
		return s.table.Put(now, sp, m, next, must)
	case sp.Found():
		s.table.Remove(sp)
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

// take writes its answer to *d, as package limit does; it is valid only if the
// error is nil. The error errBehind leaves the decision to ask.
func (s *shard) take(now int64, h uint64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits.n != 0 && s.waits.find(key) != nil {
		return errBehind
	}
	sp := table.Spot{Hash: h, Key: key}
	now = s.open(now, &sp)
	state, err := s.stateFor(&sp, l)
	if err != nil {
		return err
	}
	next, err := limit.Take(l, state, now, cost, s.scratch(l.Algorithm.Kind(), state), d)
	if err != nil {
		return err
	}
	if len(next) > len(s.next) {
		return s.commitLong(now, &sp, sp.Mark(l, cost, d), next, state, d)
	}
	return s.commit(now, &sp, sp.Mark(l, cost, d), next, d)
}

// commitLong is commit of a long state, whose buffer the next step may use.
func (s *shard) commitLong(now int64, sp *table.Spot, m table.Mark, next, state []byte, d *limit.Decision) error {
	defer s.buffers.putLong(next, state)
	return s.commit(now, sp, m, next, d)
}

func (s *shard) peek(now int64, h uint64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := table.Spot{Hash: h, Key: key}
	now = s.open(now, &sp)
	state, err := s.stateFor(&sp, l)
	if err != nil {
		return err
	}
	if err := limit.Peek(l, state, now, cost, d); err != nil {
		return err
	}
	if q := s.waits.find(key); q.holds() && cost > 0 {
		if err := s.behind(now, q, state, &Request{Limit: *l, Cost: cost}, d); err != nil {
			return err
		}
	}
	s.peeked++
	return nil
}

func (s *shard) refund(now int64, h uint64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	s.mu.Lock()
	defer s.unlock()
	sp := table.Spot{Hash: h, Key: key}
	now = s.open(now, &sp)
	state, err := s.stateFor(&sp, l)
	if err != nil {
		return err
	}
	before := table.Expires(l.Algorithm.Kind(), state)
	next, err := limit.Refund(l, state, now, cost, s.scratch(l.Algorithm.Kind(), state), d)
	if err != nil {
		return err
	}
	if next != nil {
		if err := s.holdTurns(now, before, key, l, next, d); err != nil {
			return err
		}
		if err := s.store(now, &sp, sp.Mark(l, 1, d), next, sp.Found()); err != nil {
			return err
		}
		s.changed(now, s.waits.find(key), nil)
	}
	s.refunded++
	return nil
}

func (s *shard) reset(now int64, h uint64, key []byte) bool {
	s.mu.Lock()
	defer s.unlock()
	sp := table.Spot{Hash: h, Key: key}
	now = s.open(now, &sp)
	if !sp.Found() {
		return false
	}
	if c := s.changes; c != nil {
		c.forget(sp.Kind(), key)
	}
	s.table.Remove(&sp)
	if line := s.waits.lines[string(key)]; line != nil {
		s.keepTurns(now, line)
	}
	s.changed(now, s.waits.find(key), nil)
	return true
}

func (s *shard) info(now int64, h uint64, key []byte) (Info, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := table.Spot{Hash: h, Key: key}
	now = s.open(now, &sp)
	if !sp.Found() {
		return Info{}, false
	}
	return s.table.Info(&sp, now), true
}

// flush forgets all keys. It records version. The shard is locked.
func (s *shard) flush(version uint64) {
	s.payOwed()
	s.table.Flush()
	*s.following = following{}
	clear(s.skip[:])
	if c := s.changes; c != nil {
		c.flushed(version)
	}
	for _, line := range s.waits.lines {
		s.keepTurns(s.last, line)
	}
	s.waits.stir()
}

// payAll pays for all keys that are owed.
func (s *shard) payAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.payOwed()
}

// close does Close for one shard.
func (s *shard) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.table.Flush()
	*s.following = following{}
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

func (s *shard) addTo(sum *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table.Stats()
	sum.Keys += int64(t.Keys)
	sum.Allowed += s.allowed
	sum.Limited += s.limited
	sum.Peeked += s.peeked
	sum.Refunded += s.refunded
	sum.Refused += s.refused
	sum.Expired += t.Expired
	sum.Evicted += t.Evicted
	sum.EvictedDenied += t.EvictedDenied
	sum.Forgiven += t.Forgiven
	sum.Waiting += int64(s.waits.waiting)
	sum.WaitingKeys += int64(len(s.waits.queues) + len(s.waits.lines))
	sum.Waited += s.waits.waited
}
