package table

import (
	"github.com/zeebo/xxh3"

	"limitdb/limit"
)

// Walks go along the line of hashes. A cursor is a place on it: the leading
// PlaceBits bits of a hash. Everything before a cursor has been visited, however
// the segments have changed since.

// Walk calls visit for the keys that are live at now, and with the kind HOLDS for what is beside them, in the next index lines of
// the segment at cursor, which have about count slots together. It returns how many
// slots it has visited, and the next cursor. An empty segment counts as one line.
func (t *Table) Walk(now int64, cursor uint64, count int, visit func(key []byte, info Info)) (int, uint64) {
	g := t.lookup(cursor << placeShift)
	if g.n == 0 {
		return fill, g.end()
	}
	from := g.home(cursor << placeShift)
	to := min(g.lines, from+uint64(count+fill-1)/fill)
	for b := from; b < to; b++ {
		g.eachOf(b, t.seed, func(r record) {
			if r.blen() > 0 {
				if expires := Expires(limit.HOLDS, r.beside()); expires > now {
					visit(r.key(), Info{Kind: limit.HOLDS, Expires: expires, Bytes: int64(r.blen())})
				}
			}
			if info := t.info(r); info.Expires > now && (info.Kind != limit.HOLDS || r.blen() == 0) {
				visit(r.key(), info)
			}
		})
	}
	if to == g.lines {
		return int(to-from) * fill, g.end()
	}
	return int(to-from) * fill, g.lineStart(to)
}

// Copy calls set for the keys that are live at now in the segment at cursor. It
// returns the spots of those whose states are in boxes, for which it does not call set, and
// the next cursor.
func (t *Table) Copy(now int64, cursor uint64, set func(kind limit.Kind, key, state []byte)) (boxes []Spot, next uint64) {
	g := t.lookup(cursor << placeShift)
	g.each(func(r record) {
		if r.isBoxed() {
			boxes = append(boxes, Spot{Hash: t.hash(r), Key: append([]byte(nil), r.key()...), Beside: r.kind() == limit.HOLDS})
		} else if state := r.state(); r.kind() != limit.HOLDS || r.blen() == 0 {
			if Expires(r.kind(), state) > now {
				set(r.kind(), r.key(), state)
			}
		}
		if r.blen() > 0 && Expires(limit.HOLDS, r.beside()) > now {
			set(limit.HOLDS, r.key(), r.beside())
		}
	})
	return boxes, g.end()
}

// Expect makes the segments that an empty table would have grown for that many
// keys, with indexes of the right size. Sweep skips them for some seconds after
// now. A table that is not empty stays as it is. The error is one of the system.
func (t *Table) Expect(now int64, keys int) error {
	if t.segments.count > 1 || t.n > 0 || keys < fill {
		return nil
	}
	g := t.dir.Load().segs[0].Load()
	g.rest = now + sweepRest
	return t.expect(g, keys)
}

// Tidy frees what Expect has reserved for keys that did not come.
func (t *Table) Tidy() {
	width := PlaceBits - t.shardBits
	for place := t.shard << width; place>>width == t.shard; {
		g := t.lookup(place << placeShift)
		place = g.start + 1<<g.width
		if g.n == 0 && g.base != nil {
			t.vacate(g)
		} else {
			t.compact(g)
		}
	}
}

// Hash returns the hash of a key, made with a seed.
func Hash(key []byte, seed uint64) uint64 { return xxh3.HashSeed(key, seed) }

// Mix is the finaliser of SplitMix64: changing a bit of x changes half of the
// result's bits on average. See Steele, Lea, Flood, "Fast splittable
// pseudorandom number generators" (2014).
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
