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
	// next is where an algorithm writes the state of a new key.
	next [limit.MaxState]byte
}

// clamp returns now, or the shard's time if that is later.
func (s *shard) clamp(now int64) int64 {
	s.last = max(s.last, now)
	return s.last
}

// live finds key. If the key has expired, live drops it.
func (s *shard) live(now int64, h uint64, key []byte) (*segment, slot) {
	g, at := s.table.find(h, key)
	if at != nil && s.table.expires(g.record(at)) <= now {
		s.table.remove(g, h, at)
		s.table.expired++
		return g, nil
	}
	return g, at
}

// stateFor returns the state for l's algorithm to work on, nil for an absent
// key. The algorithm may write the next state over it.
func (s *shard) stateFor(g *segment, at slot, l *limit.Limit) ([]byte, error) {
	if at == nil && s.usedUp != 0 && !s.closed {
		return s.emptied(l)
	}
	return s.stateOf(g, at, l.Algorithm.Kind())
}

// open begins a step on a limit, once the shard is locked. It returns the
// shard's time, the key's segment and slot, and its state.
func (s *shard) open(now int64, h uint64, key []byte, l *limit.Limit) (_ int64, g *segment, at slot, state []byte, err error) {
	now = s.clamp(now)
	g, at = s.live(now, h, key)
	state, err = s.stateFor(g, at, l)
	return now, g, at, state, err
}

// stateOf is stateFor for anything that a key can hold.
func (s *shard) stateOf(g *segment, at slot, kind limit.Kind) ([]byte, error) {
	if at == nil {
		if s.closed {
			return nil, ErrClosed
		}
		return nil, nil
	}
	r := g.record(at)
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
func (s *shard) store(now int64, h uint64, g *segment, at slot, key []byte, m mark, next []byte, must bool) error {
	if s.table.changes == nil {
		return s.keep(now, h, g, at, key, m, next, must)
	}
	a := m.kind()
	c := s.table.changes
	gone := limit.Expires(a, next) <= now
	if !gone && len(next) >= longState {
		err := s.keep(now, h, g, at, key, m, next, must)
		if err == nil {
			c.owe(a, key)
		}
		return err
	}
	// Write the record first: next may lie in a segment that keep abandons.
	var mark int
	switch {
	case at == nil && gone:
		return nil
	case gone:
		mark = c.forget(a, key)
	default:
		mark = c.set(a, key, next)
	}
	n := len(c.buf.Bytes) - mark
	err := s.keep(now, h, g, at, key, m, next, must)
	if err != nil {
		c.undo(mark, n)
	}
	return err
}

// keep is store without recording the change.
func (s *shard) keep(now int64, h uint64, g *segment, at slot, key []byte, m mark, next []byte, must bool) error {
	gone := limit.Expires(m.kind(), next) <= now
	switch {
	case at == nil && gone:
		return nil
	case at == nil:
		return s.table.insert(now, h, key, m, next, must)
	case gone:
		s.table.remove(g, h, at)
		return nil
	}
	return s.table.update(now, h, g, at, key, m, next, must)
}

// commit stores the state that a decision has made for a key, if next is not
// nil, marks the key as used, and counts the decision.
func (s *shard) commit(now int64, h uint64, g *segment, at slot, key []byte, m mark, next []byte, d *limit.Decision) error {
	switch {
	case next != nil:
		if err := s.store(now, h, g, at, key, m, next, false); err != nil {
			return err
		}
	case at != nil:
		g.record(at).setUse(m)
	}
	if s.count(d) {
		s.follow(now, h, key)
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
	now = s.clamp(now)
	g, at := s.live(now, h, key)
	state, err := s.stateFor(g, at, l)
	if err != nil {
		return err
	}
	next, err := limit.Take(l, state, now, cost, s.scratch(l.Algorithm.Kind(), state), d)
	if err != nil {
		return err
	}
	if next != nil {
		if err := s.store(now, h, g, at, key, g.markAfter(at, l, cost, d), next, false); err != nil {
			return err
		}
	} else if at != nil {
		g.record(at).setUse(markOf(l, cost, d))
	}
	if s.count(d) {
		s.follow(now, h, key)
	}
	return nil
}

func (s *shard) peek(now int64, h uint64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, _, _, state, err := s.open(now, h, key, l)
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
	now, g, at, state, err := s.open(now, h, key, l)
	if err != nil {
		return err
	}
	before := limit.Expires(l.Algorithm.Kind(), state)
	next, err := limit.Refund(l, state, now, cost, s.scratch(l.Algorithm.Kind(), state), d)
	if err != nil {
		return err
	}
	if next != nil {
		if err := s.holdTurns(now, before, key, l, next, d); err != nil {
			return err
		}
		if err := s.store(now, h, g, at, key, markOf(l, 1, d), next, at != nil); err != nil {
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
	now = s.clamp(now)
	g, at := s.live(now, h, key)
	if at == nil {
		return false
	}
	if c := s.table.changes; c != nil {
		c.forget(g.record(at).kind(), key)
	}
	s.table.remove(g, h, at)
	if line := s.waits.lines[string(key)]; line != nil {
		s.keepTurns(now, line)
	}
	s.changed(now, s.waits.find(key), nil)
	return true
}

func (s *shard) info(now int64, h uint64, key []byte) (Info, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.clamp(now)
	g, at := s.live(now, h, key)
	if at == nil {
		return Info{}, false
	}
	r := g.record(at)
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
