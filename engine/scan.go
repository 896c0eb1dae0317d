package engine

// Walks go along the line of hashes. A cursor is a place on it: the leading 48
// bits of a hash. 48 bits stay exact in clients that read cursors as doubles.
// Everything before a cursor has been visited, however the segments have
// changed since. An index line that begins before the cursor is visited once
// more.

// walkChunk is the number of lines that are walked under one hold of a shard's
// lock.
const walkChunk = 64

// tries is the number of places that Random tries.
const tries = 16

func (e *Engine) shardAt(cursor uint64) *shard {
	return &e.shards[cursor>>(placeBits-e.shardBits)]
}

// walk calls visit for the live keys of up to count lines of the segment at
// cursor, under its shard's lock. It returns the number of lines and the next
// cursor. An empty segment counts as one line.
func (e *Engine) walk(now int64, cursor uint64, count int, visit func(key []byte, info Info)) (int, uint64) {
	s := e.shardAt(cursor)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.walk(s.clamp(now), cursor, count, visit)
}

// walk is Engine.walk in a shard that is locked.
func (s *shard) walk(now int64, cursor uint64, count int, visit func(key []byte, info Info)) (int, uint64) {
	g := s.table.lookup(cursor << placeShift)
	if g.n == 0 {
		return 1, g.end()
	}
	from := g.home(cursor << placeShift)
	to := min(g.lines, from+uint64(min(count, walkChunk)))
	for b := from; b < to; b++ {
		g.eachOf(b, s.table.seed, func(r record) {
			if info := s.table.info(r); info.Expires > now {
				visit(r.key(), info)
			}
		})
	}
	if to == g.lines {
		return int(to - from), g.end()
	}
	return int(to - from), g.lineStart(to)
}

// Range calls fn for live keys from cursor on (0 to begin), for about count
// slots of the table, and returns the next cursor (0 at the end). A key that is
// live during the whole iteration is visited at least once, however the table
// grows or shrinks meanwhile. key is valid only during the call. fn must not
// call the engine. A cursor has 48 bits; higher bits are ignored.
func (e *Engine) Range(now int64, cursor uint64, count int, fn func(key []byte, info Info)) uint64 {
	cursor &= 1<<placeBits - 1
	for left := max(count, 1); left > 0; {
		var n int
		n, cursor = e.walk(now, cursor, (left+fill-1)/fill, fn)
		if cursor == 0 {
			return 0
		}
		left -= min(left, n*fill)
	}
	return cursor
}

// Mark returns a number that was drawn for this engine. Another engine most likely has another one, and keys have
// other places there, so a cursor of Range means nothing to it.
func (e *Engine) Mark() uint16 { return e.mark }

// Random appends a random live key to dst. It chooses a place on the line, then
// one of the keys there. It returns false if it found no key at a few places.
// Then only few keys are left of many, or none, and Range from the returned
// cursor finds one if there is any.
func (e *Engine) Random(now int64, dst []byte) (key []byte, cursor uint64, ok bool) {
	base, seen := len(dst), uint64(0)
	draw := mix(e.seed + e.draws.Add(1))
	visit := func(key []byte, _ Info) {
		// The n-th key replaces the choice with a chance of 1/n, which makes
		// all of them equally likely.
		seen++
		draw = mix(draw)
		if draw%seen == 0 {
			dst = append(dst[:base], key...)
		}
	}
	for range tries {
		draw = mix(draw)
		if e.walk(now, draw>>placeShift, 1, visit); seen > 0 {
			return dst, 0, true
		}
	}
	return dst, mix(draw) >> placeShift, false
}

// mix is the finaliser of SplitMix64: changing a bit of x changes half of the
// result's bits on average. See Steele, Lea, Flood, "Fast splittable
// pseudorandom number generators" (2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
