package engine

import "limitdb/engine/table"

// Policy says what happens to a new key when the memory budget is used up.
type Policy uint8

const (
	// NoEviction refuses new keys with ErrOOM.
	NoEviction Policy = iota
	// LeastDebt forgets those keys of a sample that use the smallest share of
	// their limits, because that forgives least. It does not evict the least
	// recently used keys: then a flood of new keys would give a fresh quota to
	// the caller that is being limited.
	LeastDebt
)

// SetMaxMemory sets the budget in bytes, 0 for none, and the policy for when it
// is used up. If the budget is lowered, Sweep and new keys evict the excess.
func (e *Engine) SetMaxMemory(bytes int64, p Policy) {
	e.arena.SetLimit(bytes, p == LeastDebt)
}

// withRoom runs a step in s, and runs it once more if there was no room for it and
// reclaim has made some.
func (e *Engine) withRoom(now int64, s *shard, step func() error) error {
	err := step()
	if err == table.ErrNoRoom && e.reclaim(now) {
		err = step()
	}
	return s.refuse(err)
}

// barren is how long, in nanoseconds, reclaim does not try again after it has
// found nothing, so that a flood of refused new keys does not cost a sweep each.
const barren = 1_000_000

// reclaimed is the number of bytes that reclaim looks for: the most that a
// state grows at once.
const reclaimed = 16 << 10

// reclaim makes room for a new key whose own segment has none. It drops expired
// keys elsewhere or, if the policy allows it, evicts keys. The caller must hold
// no lock. It reports whether there is more room now.
func (e *Engine) reclaim(now int64) bool {
	const (
		slots    = 4096 // slots to look at for expired keys in each sweep
		sweeps   = 16   // the most sweeps, while each finds some
		segments = 64   // the most segments to evict from
	)
	before := e.arena.Used()
	enough := func() bool { return e.arena.Used() <= before-reclaimed }
	_, evict := e.arena.Limit()
	if now < e.barrenUntil.Load() {
		return false
	}
	for e.arena.Bury() {
		if e.arena.Trim(true); enough() {
			return true
		}
	}
	for i := 0; i < sweeps && e.Sweep(now, slots) > 0; i++ {
		if e.arena.Trim(true); enough() {
			return true
		}
	}
	e.arena.Trim(true)
	for i := 0; i < segments && evict && !enough() && e.squeeze(now) > 0; i++ {
		e.arena.Trim(true)
	}
	if e.arena.Used() < before {
		return true
	}
	e.barrenUntil.Store(now + barren)
	return false
}

// squeeze drops keys of the next segment that has any to drop, and returns how
// many.
func (e *Engine) squeeze(now int64) (dropped int) {
	cursor := e.squeezeAt.Load()
	for i := 0; i < len(e.shards) && dropped == 0; i++ {
		dropped, _, cursor = e.sweepShard(now, cursor, skipChunk, true)
	}
	e.squeezeAt.Store(cursor)
	return dropped
}

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
func (e *Engine) Sweep(now int64, budget int) int {
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
		n, looked, next := e.sweepShard(now, cursor, min(budget, skipChunk), false)
		dropped += n
		budget -= looked
		left -= min(left, (next-cursor-1)&(1<<table.PlaceBits-1)+1)
		cursor = next
	}
	e.sweepAt.Store(cursor)
	return dropped
}

// sweepShard is table.Sweep in the shard of a cursor.
func (e *Engine) sweepShard(now int64, cursor uint64, most int, evict bool) (dropped, looked int, next uint64) {
	s := e.shardAt(cursor)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Sweep(s.clamp(now), cursor, most, evict)
}
