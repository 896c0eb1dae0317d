package engine

import (
	"limitdb/engine/table"
	"limitdb/limit"
)

// Walks go along the line of hashes. A cursor is a place on it: the leading 48
// bits of a hash. 48 bits stay exact in clients that read cursors as doubles.
// Everything before a cursor has been visited, however the segments have
// changed since. An index line that begins before the cursor is visited once
// more.

// walkChunk is the number of slots that are walked under one hold of a shard's
// lock.
const walkChunk = 768

// tries is the number of places that Random tries.
const tries = 16

// walk is table.Walk under the lock of the cursor's shard, for at most walkChunk
// slots.
func (e *core) walk(now int64, cursor uint64, count int, visit func(key []byte, info Info)) (int, uint64) {
	s := e.shardAt(cursor)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Walk(s.clamp(now), cursor, min(count, walkChunk), visit)
}

// keysOnly returns a visit of keys alone, and not of what is known of ids beside them.
func keysOnly(visit func(key []byte, info Info)) func(key []byte, info Info) {
	return func(key []byte, info Info) {
		if info.Kind != limit.HOLDS {
			visit(key, info)
		}
	}
}

// Range calls fn for live keys from cursor on (0 to begin), for about count
// slots of the table, and returns the next cursor (0 at the end). A key that is
// live during the whole iteration is visited at least once, however the table
// grows or shrinks meanwhile. key is valid only during the call. fn must not
// call the engine. A cursor has 48 bits; higher bits are ignored.
func (e Walks) Range(now int64, cursor uint64, count int, fn func(key []byte, info Info)) uint64 {
	return e.Records(now, cursor, count, keysOnly(fn))
}

// Records is Range that also calls fn, with the kind HOLDS, for keys beside which ids are known, whether they have a state or not.
func (e Walks) Records(now int64, cursor uint64, count int, fn func(key []byte, info Info)) uint64 {
	cursor &= 1<<table.PlaceBits - 1
	for left := max(count, 1); left > 0; {
		var n int
		n, cursor = e.walk(now, cursor, left, fn)
		if cursor == 0 {
			return 0
		}
		left -= min(left, n)
	}
	return cursor
}

// Mark returns a number that was drawn for this engine. Another engine most likely has another one, and keys have
// other places there, so a cursor of Range means nothing to it.
func (e Walks) Mark() uint16 { return e.mark }

// Random appends a random live key to dst. It chooses a place on the line, then
// one of the keys there. It returns false if it found no key at a few places.
// Then only few keys are left of many, or none, and Range from the returned
// cursor finds one if there is any.
func (e Walks) Random(now int64, dst []byte) (key []byte, cursor uint64, ok bool) {
	base, seen := len(dst), uint64(0)
	draw := table.Mix(e.seed + e.draws.Add(1))
	visit := keysOnly(func(key []byte, _ Info) {
		// The n-th key replaces the choice with a chance of 1/n, which makes
		// all of them equally likely.
		seen++
		draw = table.Mix(draw)
		if draw%seen == 0 {
			dst = append(dst[:base], key...)
		}
	})
	for range tries {
		draw = table.Mix(draw)
		if e.walk(now, draw>>(64-table.PlaceBits), 1, visit); seen > 0 {
			return dst, 0, true
		}
	}
	return dst, table.Mix(draw) >> (64 - table.PlaceBits), false
}
