package engine

import (
	"sync"
	"unsafe"

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
// line. Only waits.n lies outside it.
type shardData struct {
	mu sync.Mutex // guards all fields below

	// last is the latest time that this shard has seen. Callers read the clock
	// before they wait for the lock, so times arrive out of order. A step never
	// runs at an earlier time than the step before it.
	last int64

	allowed, limited uint64
	skip             [topOrders]int32 // decisions to skip before following one

	table table
	waits waitlist

	// usedUp is the time given to AssumeUsedUp; 0 for never.
	usedUp int64
	// closed is set by Close. A closed shard has no keys, so only code that
	// finds no key needs to check it.
	closed bool

	peeked, refunded, refused uint64

	following *following
	watched   *Watch // the first of the list; nil: nobody watches a key
	// next is where an algorithm writes the state of a new key.
	next [limit.MaxState]byte
}

// clamp returns now, or the shard's time if that is later.
func (s *shard) clamp(now int64) int64 {
	s.last = max(s.last, now)
	return s.last
}

// live finds a key. If the key has expired, live drops it.
func (s *shard) live(now int64, sp *spot) {
	s.table.find(sp)
	if sp.at != nil && s.table.expires(sp.r) <= now {
		s.table.remove(sp)
		s.table.expired++
		sp.at = nil
	}
}

// stateFor returns the state for l's algorithm to work on, nil for an absent
// key. The algorithm may write the next state over it.
func (s *shard) stateFor(sp *spot, l *limit.Limit) ([]byte, error) {
	if sp.at == nil && s.usedUp != 0 && !s.closed {
		return s.emptied(l)
	}
	return s.stateOf(sp, l.Algorithm.Kind())
}

// open begins a step on a key, once the shard is locked. It returns the shard's
// time.
func (s *shard) open(now int64, sp *spot) int64 {
	now = s.clamp(now)
	s.live(now, sp)
	return now
}

// stateOf is stateFor for anything that a key can hold.
func (s *shard) stateOf(sp *spot, kind limit.Kind) ([]byte, error) {
	if sp.at == nil {
		if s.closed {
			return nil, ErrClosed
		}
		return nil, nil
	}
	r := sp.r
	if r.kind() != kind && !limit.SameFamily(r.kind(), kind) {
		return nil, ErrWrongType
	}
	return s.table.state(r), nil
}

// scratch returns the buffer for a step on kind k to write the next state to:
// the state itself if there is one. A short state whose length may change is
// written to a separate buffer, because in place it would need a new buffer to
// grow by a byte.
func (s *shard) scratch(k limit.Kind, state []byte) []byte {
	if n := len(state); (n != fixedState || k > limit.QUEUE.Kind()) && n <= len(s.next) {
		return s.next[:0]
	}
	return state[:0]
}

// fixedState is the length of most bucket states (GCRA to QUEUE): a time and
// its pace.
const fixedState = 10

// store keeps the state that an algorithm has made, unless an absent key would
// mean the same. If must is set, a new key ignores the budget.
func (s *shard) store(now int64, sp *spot, m mark, next []byte, must bool) error {
	if s.watched != nil {
		s.touch(sp)
	}
	if s.table.changes == nil {
		return s.keep(now, sp, m, next, must)
	}
	a := m.kind()
	c := s.table.changes
	gone := expires(a, next) <= now
	if !gone && len(next) >= longState {
		err := s.keep(now, sp, m, next, must)
		if err == nil {
			c.owe(a, sp.key)
		}
		return err
	}
	// Write the record first: next may lie in a segment that keep abandons.
	var mark int
	switch {
	case sp.at == nil && gone:
		return nil
	case gone:
		mark = c.forget(a, sp.key)
	default:
		mark = c.set(a, sp.key, next)
	}
	n := len(c.buf.Bytes) - mark
	err := s.keep(now, sp, m, next, must)
	if err != nil {
		c.undo(mark, n)
	}
	return err
}

// keep is store without recording the change.
func (s *shard) keep(now int64, sp *spot, m mark, next []byte, must bool) error {
	gone := expires(m.kind(), next) <= now
	if sp.at == nil && gone {
		return nil
	}
	switch {
	case sp.at == nil:
		return s.table.insert(now, sp, m, next, must)
	case gone:
		s.table.remove(sp)
		return nil
	}
	return s.table.update(now, sp, m, next, must)
}

// commit stores the state that a decision has made for a key, if next is not
// nil, marks the key as used, and counts the decision.
func (s *shard) commit(now int64, sp *spot, m mark, next []byte, d *limit.Decision) error {
	switch {
	case next != nil:
		if err := s.store(now, sp, m, next, false); err != nil {
			return err
		}
	case sp.at != nil:
		sp.r.setUse(m)
	}
	if s.count(d) {
		s.follow(now, sp.h, sp.key)
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
	sp := spot{h: h, key: key}
	now = s.open(now, &sp)
	state, err := s.stateFor(&sp, l)
	if err != nil {
		return err
	}
	next, err := limit.Take(l, state, now, cost, s.scratch(l.Algorithm.Kind(), state), d)
	if err != nil {
		return err
	}
	return s.commit(now, &sp, sp.markAfter(l, cost, d), next, d)
}

func (s *shard) peek(now int64, h uint64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := spot{h: h, key: key}
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
	sp := spot{h: h, key: key}
	now = s.open(now, &sp)
	state, err := s.stateFor(&sp, l)
	if err != nil {
		return err
	}
	before := expires(l.Algorithm.Kind(), state)
	next, err := limit.Refund(l, state, now, cost, s.scratch(l.Algorithm.Kind(), state), d)
	if err != nil {
		return err
	}
	if next != nil {
		if err := s.holdTurns(now, before, key, l, next, d); err != nil {
			return err
		}
		if err := s.store(now, &sp, markOf(l, 1, d), next, sp.at != nil); err != nil {
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
	sp := spot{h: h, key: key}
	now = s.open(now, &sp)
	if sp.at == nil {
		return false
	}
	if c := s.table.changes; c != nil {
		c.forget(sp.r.kind(), key)
	}
	s.table.remove(&sp)
	if line := s.waits.lines[string(key)]; line != nil {
		s.keepTurns(now, line)
	}
	s.changed(now, s.waits.find(key), nil)
	return true
}

func (s *shard) info(now int64, h uint64, key []byte) (Info, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := spot{h: h, key: key}
	now = s.open(now, &sp)
	if sp.at == nil {
		return Info{}, false
	}
	r := sp.r
	info := s.table.info(r)
	info.Level = limit.Level(r.kind(), s.table.state(r), now)
	return info, true
}

// flush forgets all keys. It records version. The shard is locked.
func (s *shard) flush(version uint64) {
	s.table.payAll()
	s.table.flush()
	*s.following = following{}
	clear(s.skip[:])
	if c := s.table.changes; c != nil {
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
	s.table.payAll()
}

// close does Close for one shard.
func (s *shard) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.table.flush()
	*s.following = following{}
}

// refuse returns err. For errNoRoom it counts the refused decision and returns
// ErrOOM.
func (s *shard) refuse(err error) error {
	if err != errNoRoom {
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
	sum.Keys += int64(s.table.n)
	sum.Allowed += s.allowed
	sum.Limited += s.limited
	sum.Peeked += s.peeked
	sum.Refunded += s.refunded
	sum.Refused += s.refused
	sum.Expired += s.table.expired
	sum.Evicted += s.table.evicted
	sum.EvictedDenied += s.table.evictedDenied
	sum.Forgiven += s.table.forgiven
	sum.Waiting += int64(s.waits.waiting)
	sum.WaitingKeys += int64(len(s.waits.queues) + len(s.waits.lines))
	sum.Waited += s.waits.waited
}
