package engine

import (
	"sync"
	"unsafe"

	"limitdb/limit"
)

// shard is one stripe: everything about the keys of one stretch of the line.
// Shards are padded so that two cores working on neighbours do not share a
// cache line (two lines, because the processor fetches them in pairs).
type shard struct {
	shardData
	_ [(128 - unsafe.Sizeof(shardData{})%128) % 128]byte
}

type shardData struct {
	mu sync.Mutex // guards all fields below

	// last is the latest time that this shard has seen. Callers read the clock
	// before they wait for the lock, so times arrive out of order; a step never
	// runs earlier than the step before it.
	last  int64
	table table
	// next is where an algorithm writes a new state, before it is stored.
	next []byte

	allowed, limited, peeked, refunded, expired uint64
}

// clamp returns now, or the shard's time where that is later.
func (s *shard) clamp(now int64) int64 {
	s.last = max(s.last, now)
	return s.last
}

// live finds key, and drops it instead if its time has come.
func (s *shard) live(h uint64, now int64, key []byte) *entry {
	e := s.table.find(h, key)
	if e != nil && limit.Expires(e.algorithm, e.state) <= now {
		s.table.remove(h, key)
		s.expired++
		return nil
	}
	return e
}

// stateFor returns the state that l's algorithm is to work on, nil for a key
// that is not there.
func stateFor(e *entry, l *limit.Limit) ([]byte, error) {
	if e == nil {
		return nil, nil
	}
	if !limit.SameFamily(e.algorithm, l.Algorithm) {
		return nil, ErrWrongType
	}
	return e.state, nil
}

// store keeps the state that an algorithm has written to s.next, unless it
// says no more than an absent key does.
func (s *shard) store(h uint64, now int64, key []byte, e *entry, a limit.Algorithm) {
	switch gone := limit.Expires(a, s.next) <= now; {
	case gone && e != nil:
		s.table.remove(h, key)
	case gone:
	case e != nil:
		s.table.update(e, a, s.next)
	default:
		s.table.insert(h, key, a, s.next)
	}
}

func (s *shard) take(h uint64, now int64, key []byte, l *limit.Limit, cost int64) (limit.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.clamp(now)
	e := s.live(h, now, key)
	state, err := stateFor(e, l)
	if err != nil {
		return limit.Decision{}, err
	}
	next, d, err := limit.Take(l, state, now, cost, s.next)
	if err != nil {
		return limit.Decision{}, err
	}
	if next != nil {
		s.next = next
		s.store(h, now, key, e, l.Algorithm)
	}
	if d.Limited {
		s.limited++
	} else {
		s.allowed++
	}
	return d, nil
}

func (s *shard) peek(h uint64, now int64, key []byte, l *limit.Limit, cost int64) (limit.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.clamp(now)
	state, err := stateFor(s.live(h, now, key), l)
	if err != nil {
		return limit.Decision{}, err
	}
	d, err := limit.Peek(l, state, now, cost)
	if err != nil {
		return limit.Decision{}, err
	}
	s.peeked++
	return d, nil
}

func (s *shard) refund(h uint64, now int64, key []byte, l *limit.Limit, cost int64) (limit.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.clamp(now)
	e := s.live(h, now, key)
	state, err := stateFor(e, l)
	if err != nil {
		return limit.Decision{}, err
	}
	next, d, err := limit.Refund(l, state, now, cost, s.next)
	if err != nil {
		return limit.Decision{}, err
	}
	if next != nil {
		s.next = next
		s.store(h, now, key, e, l.Algorithm)
	}
	s.refunded++
	return d, nil
}

func (s *shard) reset(h uint64, now int64, key []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live(h, s.clamp(now), key) == nil {
		return false
	}
	s.table.remove(h, key)
	return true
}

func (s *shard) info(h uint64, now int64, key []byte) (Info, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.live(h, s.clamp(now), key)
	if e == nil {
		return Info{}, false
	}
	return e.info(), true
}

func (s *shard) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table = newTable(s.table.skip)
}

func (s *shard) addTo(sum *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum.Keys += int64(s.table.n)
	sum.Bytes += s.table.bytes
	sum.Allowed += s.allowed
	sum.Limited += s.limited
	sum.Peeked += s.peeked
	sum.Refunded += s.refunded
	sum.Expired += s.expired
}
