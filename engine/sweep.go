package engine

import "limitdb/engine/table"

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
