package engine

import (
	"math"
	"sync"

	"limitdb/engine/table"
)

// Policy says what happens to a new key when the memory budget is used up.
type Policy uint8

const (
	// NoEviction refuses new keys with ErrOOM.
	NoEviction Policy = iota
	// LeastDebt forgets those keys of a sample that use the smallest share of
	// their limits, because that forgives least. It does not evict the least
	// recently used keys: then a flood of new keys would give a fresh quota to
	// the caller that is being limited. If all callers of the sample are denied
	// now, it refuses the new key.
	LeastDebt
)

// SetMaxMemory sets the budget in bytes, 0 for none, and the policy for when it
// is used up. If the budget is lowered, Sweep and new keys evict the excess.
func (e Upkeep) SetMaxMemory(bytes int64, p Policy) {
	e.arena.SetLimit(bytes, p == LeastDebt)
}

// barren is how long, in nanoseconds, reclaim does not look for expired keys again
// after it has found none. A look takes well under a millisecond, since Sweep skips
// what cannot have expired.
const barren = 10_000_000

// reclaimed is the number of bytes that reclaim looks for: the most that a
// state grows at once.
const reclaimed = 16 << 10

// squeezing is how far reclaim has gone around the line in order to evict.
type squeezing struct {
	mu sync.Mutex // guards the fields below
	at uint64     // the place where it continues
	// left is how much of the line it has not passed in vain. Once that is 0, there
	// is nothing to evict until the arena has other hopes, or until that time.
	left, hopes uint64
	until       int64
}

// reclaim makes room for a new key whose own segment has none. It drops expired
// keys elsewhere or, if the policy allows it, evicts keys. The caller must hold
// no lock. It reports whether there is more room now. A flood of refused new keys
// does not cost a sweep each: what was in vain is not repeated before something
// could have changed.
func (e *core) reclaim(now int64) bool {
	const (
		slots  = 4096 // slots to look at for expired keys in each sweep
		sweeps = 16   // the most sweeps, while each finds some
	)
	before := e.arena.Used()
	enough := func() bool { return e.arena.Used() <= before-reclaimed }
	for e.arena.Bury() {
		if e.arena.Trim(true); enough() {
			return true
		}
	}
	for i := 0; i < sweeps && now >= e.barrenUntil.Load(); i++ {
		if e.sweep(now, slots) == 0 {
			e.barrenUntil.Store(now + barren)
		}
		if e.arena.Trim(true); enough() {
			return true
		}
	}
	e.arena.Trim(true)
	if _, evict := e.arena.Limit(); evict {
		e.squeeze(now, enough)
	}
	return e.arena.Used() < before
}

// squeeze evicts keys until there is enough room. It looks at so many slots that
// others hardly wait, and continues there the next time.
func (e *core) squeeze(now int64, enough func() bool) {
	const slots = 1 << 14
	q := &e.squeezing
	q.mu.Lock()
	defer q.mu.Unlock()
	for budget := slots; budget > 0 && !enough(); {
		if hopes := e.arena.Hopes(); q.hopes != hopes || q.left == 0 && q.until <= now {
			q.left, q.hopes, q.until = 1<<table.PlaceBits, hopes, math.MaxInt64
		}
		if q.left == 0 {
			break
		}
		s := e.shardAt(q.at)
		s.mu.Lock()
		freed, looked, until, next := s.table.Squeeze(s.clamp(now), q.at, min(budget, skipChunk))
		s.mu.Unlock()
		budget -= looked
		q.left -= min(q.left, distance(q.at, next))
		q.at, q.until = next, min(q.until, until)
		if freed {
			e.arena.Trim(true)
		}
	}
}

// distance returns how far a cursor has gone on the line, at least 1.
func distance(from, to uint64) uint64 { return (to-from-1)&(1<<table.PlaceBits-1) + 1 }

// sweepBury is the number of shards whose memory each Sweep frees after a Flush
// that its caller has not finished with Step.
const sweepBury = 8

// skipChunk is the number of segments without work that are passed under one
// hold of a shard's lock.
const skipChunk = 64

// Sweep drops expired keys, looks at about budget slots, and returns how many
// keys it dropped. It also evicts keys to meet a lowered memory budget, and
// returns unused memory to the system. It continues where the last sweep
// stopped and skips segments in which nothing can have expired. It locks one
// shard at a time, each for one segment that has work. Call it from a
// background ticker.
func (e Upkeep) Sweep(now int64, budget int) int { return e.sweep(now, budget) }

func (e *core) sweep(now int64, budget int) int {
	for range sweepBury {
		e.arena.Bury()
	}
	e.arena.Trim(false)
	dropped := 0
	cursor := e.sweepAt.Load()
	// Go around the line at most once. Count the distance instead of comparing
	// with the starting place: segments change meanwhile, and none may end
	// there.
	for left := uint64(1) << table.PlaceBits; budget > 0 && left > 0; {
		n, looked, next := e.sweepShard(now, cursor, min(budget, skipChunk))
		dropped += n
		budget -= looked
		left -= min(left, distance(cursor, next))
		cursor = next
	}
	e.sweepAt.Store(cursor)
	return dropped
}

// sweepShard is table.Sweep in the shard of a cursor.
func (e *core) sweepShard(now int64, cursor uint64, most int) (dropped, looked int, next uint64) {
	s := e.shardAt(cursor)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Sweep(s.clamp(now), cursor, most)
}
