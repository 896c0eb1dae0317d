package engine

import "limitdb/limit"

// Walks go along the line of hashes. A cursor is the leading 48 bits of the
// place where the walk goes on: 48, so that clients that read cursors as
// doubles keep them exact. A bucket is always a whole stretch of the line, so
// a cursor made by a table of one size is good for every other: what lies
// before it has been visited, and what a bigger bucket holds in front of it is
// visited twice.
const cursorBits = 48

// chunk is how many buckets are walked under one hold of a shard's lock.
const chunk = 64

// tries is how many places Random tries before it walks the line.
const tries = 16

// stretch says where a walk is: in which shard and at which of its buckets.
// The shard's lock must be held, since the table's width is read.
func (e *Engine) stretch(s *shard, cursor uint64) (bucket, end int) {
	pos := cursor << (64 - cursorBits) << e.shardBits
	return int(pos >> (64 - s.table.width)), len(s.table.buckets)
}

// cursor is the inverse of stretch: the place where a shard's bucket starts,
// or 0 where the line ends.
func (e *Engine) cursor(shard, bucket int, width uint) uint64 {
	at := (uint64(shard)<<width + uint64(bucket)) << (cursorBits - e.shardBits - width)
	return at & (1<<cursorBits - 1)
}

// walk calls visit for up to chunk buckets of the shard at cursor, under its
// lock and with the shard's time, and returns how many there were and the
// cursor behind them.
func (e *Engine) walk(now int64, cursor uint64, count int, visit func(s *shard, b **entry, now int64)) (int, uint64) {
	i := int(cursor >> (cursorBits - e.shardBits))
	s := &e.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.clamp(now)
	from, end := e.stretch(s, cursor)
	end = min(end, from+min(chunk, count))
	width := s.table.width
	for b := from; b < end; b++ {
		visit(s, &s.table.buckets[b], now)
	}
	next := e.cursor(i, end, width)
	s.table.shrink()
	return end - from, next
}

// Range visits live keys from cursor on (0 starts), about count slots of the
// table, and returns the next cursor (0: the end). A key that is live during
// the whole iteration is visited at least once, whatever grows or shrinks
// meanwhile. key is valid during the call only; fn must not call the engine.
// A cursor has 48 bits; any other number counts as its low 48 bits.
func (e *Engine) Range(now int64, cursor uint64, count int, fn func(key []byte, info Info)) uint64 {
	cursor &= 1<<cursorBits - 1
	for left := max(count, 1); left > 0; {
		var n int
		n, cursor = e.walk(now, cursor, left, func(_ *shard, b **entry, now int64) {
			for x := *b; x != nil; x = x.next {
				if info := x.info(); info.Expires > now {
					fn(x.key, info)
				}
			}
		})
		if cursor == 0 {
			return 0
		}
		left -= n
	}
	return cursor
}

// Random appends a random live key to dst, or returns false when there is none.
// It chooses a place on the line, then one of the keys there; in a sparse table
// keys after a wide gap are chosen more often.
func (e *Engine) Random(now int64, dst []byte) ([]byte, bool) {
	base, seen := len(dst), uint64(0)
	draw := mix(e.seed + e.draws.Add(1))
	visit := func(_ *shard, b **entry, now int64) {
		for x := *b; x != nil; x = x.next {
			if limit.Expires(x.algorithm, x.state) <= now {
				continue
			}
			// The n-th key replaces the choice with a chance of 1/n, which makes
			// all of them equally likely.
			seen++
			draw = mix(draw)
			if draw%seen == 0 {
				dst = append(dst[:base], x.key...)
			}
		}
	}
	for range tries {
		draw = mix(draw)
		if e.walk(now, draw>>(64-cursorBits), 1, visit); seen > 0 {
			return dst, true
		}
	}
	start := mix(draw) >> (64 - cursorBits)
	for cursor := start; ; {
		if _, cursor = e.walk(now, cursor, chunk, visit); seen > 0 {
			return dst, true
		}
		if cursor == 0 {
			break
		}
	}
	for cursor := uint64(0); ; {
		if _, cursor = e.walk(now, cursor, chunk, visit); seen > 0 {
			return dst, true
		}
		if cursor == 0 || cursor > start {
			return dst, false
		}
	}
}

// mix is the finaliser of SplitMix64: every bit of x changes half of the result.
// See Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Sweep drops expired keys, looking at about budget slots, and returns how
// many it dropped. It goes on where the sweep before it stopped, and holds one
// shard's lock at a time, each for a bounded number of slots. Call it from a
// background ticker.
func (e *Engine) Sweep(now int64, budget int) int {
	dropped := 0
	cursor := e.sweepAt.Load()
	start, wrapped := cursor, false
	for budget > 0 && !(wrapped && cursor >= start) {
		n, next := e.walk(now, cursor, budget, func(s *shard, b **entry, now int64) {
			for *b != nil {
				if x := *b; limit.Expires(x.algorithm, x.state) > now {
					b = &x.next
					continue
				}
				s.table.unlink(b)
				s.expired++
				dropped++
			}
		})
		wrapped = wrapped || next <= cursor
		cursor = next
		budget -= n
	}
	e.sweepAt.Store(cursor)
	return dropped
}
