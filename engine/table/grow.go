package table

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/zeebo/xxh3"

	"limitdb/limit"
)

// segments are the segments of a table, and the directory that finds them. They
// grow and shrink by being rewritten.
type segments struct {
	dir       atomic.Pointer[directory] // Warm reads it without the shard's lock
	shardBits uint
	seed      uint64
	shard     uint64
	count     int
	boxes
}

// hash returns the hash of a record.
func (s *segments) hash(r record) uint64 {
	h := xxh3.HashSeed(r.key(), s.seed)
	if r.kind() == limit.HOLDS {
		h = Beside(h)
	}
	return h
}

func (s *segments) lookup(h uint64) *segment { return s.dir.Load().lookup(h, s.shardBits) }

// compact gives memory back after keys of g have gone, if that saves about a
// third of it or more.
func (s *segments) compact(g *segment) {
	if g.n == 0 {
		g.top, g.garbage, g.reach, g.due = g.records(), 0, 0, math.MaxInt64
	}
	if s.merge(g) {
		return
	}
	if need := s.arena.pages(needs(g.n, g.live())) + s.arena.page; g.base != nil && need*3/2 <= g.touched {
		// resize fails only if no other span is available; then g stays as it
		// is.
		_, _ = s.resize(g, 0, 0)
	}
}

// linesFor returns the number of index lines for n keys and some more to come.
func linesFor(n int) int { return (n + n/4 + fill) / fill }

// needs returns the bytes of a span that n keys need, whose records take bytes
// bytes.
func needs(n, bytes int) int {
	if n == 0 && bytes == 0 {
		return 0
	}
	return linesFor(n)*cacheLine + bytes
}

// maxKeys returns the number of keys at which g is split.
func (s *segments) maxKeys(g *segment) int {
	return minKeys + int(Mix(s.seed^g.start^uint64(g.depth))%(minKeys/2))
}

// shrinkFor rewrites g, from which some keys have gone. It leaves room for that
// many more keys and bytes if the budget allows it; otherwise g will be split, or
// relieved again. It rewrites nothing if that alone would exceed the budget, as an
// index with room to spare may need another page. It reports whether there was a
// span to do so.
func (s *segments) shrinkFor(g *segment, keys, size int) bool {
	over := func(need int) bool {
		more := s.arena.pages(need) - g.touched
		return more > 0 && s.arena.budget.over(more)
	}
	if need := needs(g.n+keys, g.live()+size); need > spanSize || over(need) {
		keys, size = 0, 0
		if over(needs(g.n, g.live())) {
			return true
		}
	}
	_, err := s.resize(g, keys, size)
	return err == nil
}

// fits reports whether the records can be added without enlarging the segment.
func (g *segment) fits(keys, size int) bool {
	return g.hasLines(keys) && g.top+size <= g.touched
}

// hasLines reports whether the index has slots for more keys.
func (g *segment) hasLines(keys int) bool {
	return g.base != nil && g.n+keys <= int(g.lines)*fill
}

// enlarge takes one step towards room for more records in g's stretch: it adds
// pages, resizes the segment, or splits it. It reports whether the budget
// allowed that.
func (s *segments) enlarge(g *segment, keys, size int, must bool) (bool, error) {
	a := s.arena
	if g.hasLines(keys) && g.top+size <= spanSize && g.garbage <= g.live()/4 {
		if more := a.pages(g.top+size) - g.touched; must || !a.budget.over(more) {
			a.budget.add(more)
			g.touched += more
			return true, nil
		}
	}
	need := needs(g.n+keys, g.live()+size)
	full := need > spanSize || g.n >= s.maxKeys(g)
	// A span without much garbage would have to be rewritten again soon.
	if g.n >= 2 && (full || g.top+size > spanSize && g.garbage <= g.live()/4) && s.splittable(g) {
		// Each half may need another page, and the directory may double.
		if must || !a.budget.over(2*a.page+segmentBytes+pointerBytes*len(s.dir.Load().segs)) {
			return true, s.split(g)
		}
		if full {
			return false, nil
		}
	}
	if need > spanSize {
		return false, ErrOOM
	}
	if !must && a.budget.over(a.pages(need)-g.touched) {
		return false, nil
	}
	_, err := s.resize(g, keys, size)
	return true, err
}

// splittable reports whether g may be split. Hashes that are nearly the same
// would double the directory again and again for one segment. (Nobody can find
// such keys without knowing the seed.) Such a segment grows instead, until its
// span is full.
func (s *segments) splittable(g *segment) bool {
	d := s.dir.Load()
	return g.depth < d.depth || d.depth < maxDepth && len(d.segs) <= 16*s.count
}

// empty returns a segment without keys at a depth and a place.
func (s *segments) empty(depth uint, start uint64) *segment {
	s.arena.budget.add(segmentBytes)
	s.count++
	return &segment{start: start, width: PlaceBits - s.shardBits - depth, depth: depth, due: math.MaxInt64}
}

// build returns an empty segment with room for n keys whose records take that
// many bytes.
func (s *segments) build(depth uint, start uint64, n, bytes int) (*segment, error) {
	if n == 0 && bytes == 0 {
		return s.empty(depth, start), nil
	}
	// Contents that fit into one span still fit, with fewer spare lines.
	g, err := s.withLines(depth, start, min(linesFor(n), (spanSize-bytes)/cacheLine), bytes)
	if err == nil {
		clear(unsafe.Slice((*byte)(g.base), g.top))
	}
	return g, err
}

// withLines is build for an index of that many lines, which are not cleared.
func (s *segments) withLines(depth uint, start uint64, lines, bytes int) (*segment, error) {
	g := s.empty(depth, start)
	base, touched, err := s.arena.get(lines*cacheLine + bytes)
	if err != nil {
		s.retire(g)
		return nil, err
	}
	g.base, g.touched, g.lines = base, touched, uint64(lines)
	g.top = g.records()
	return g, nil
}

// retire frees a segment that is no longer in the directory.
func (s *segments) retire(g *segment) {
	s.arena.budget.add(-segmentBytes)
	s.count--
	if g.base != nil {
		s.arena.put(g.base, g.touched)
	}
}

// copyTo copies each of g's records to the segment that to chooses by its hash.
func (s *segments) copyTo(g *segment, to func(h uint64) *segment) {
	g.each(func(r record) {
		h := s.hash(r)
		dst := to(h)
		dst.addCopy(h, r)
		dst.due = min(dst.due, s.due(r))
	})
}

// resize rewrites g without its garbage, with room for that many more keys and
// bytes.
func (s *segments) resize(g *segment, keys, bytes int) (*segment, error) {
	next, err := s.rewrite(g, keys, bytes)
	if err != nil {
		return nil, err
	}
	next.rest = g.rest
	s.publish(next)
	s.retire(g)
	return next, nil
}

// rewrite returns what is to take g's place.
func (s *segments) rewrite(g *segment, keys, bytes int) (*segment, error) {
	bytes += g.live()
	lines := int(g.lines)
	if !g.hasLines(keys) || lines > linesFor(g.n+keys) || lines*cacheLine+bytes > spanSize {
		next, err := s.build(g.depth, g.start, g.n+keys, bytes)
		if err == nil {
			s.copyTo(g, func(uint64) *segment { return next })
		}
		return next, err
	}
	next, err := s.withLines(g.depth, g.start, lines, bytes)
	if err == nil {
		next.copyIndexed(g)
	}
	return next, err
}

// split rewrites g as two segments.
func (s *segments) split(g *segment) error {
	right := func(h uint64) int { return int(h >> placeShift >> (g.width - 1) & 1) }
	var n, bytes [2]int
	g.each(func(r record) {
		i := right(s.hash(r))
		n[i]++
		bytes[i] += r.size()
	})
	var halves [2]*segment
	for i := range halves {
		half, err := s.build(g.depth+1, g.start+uint64(i)<<(g.width-1), n[i], bytes[i])
		if err != nil {
			if i == 1 {
				s.retire(halves[0])
			}
			return err
		}
		half.rest = g.rest
		halves[i] = half
	}
	s.copyTo(g, func(h uint64) *segment { return halves[right(h)] })
	if d := s.dir.Load(); g.depth == d.depth {
		s.double(d)
	}
	d := s.dir.Load()
	if g.depth+1 == d.depth {
		d.deepest += 2
	}
	s.publish(halves[0])
	s.publish(halves[1])
	s.retire(g)
	return nil
}

// merge merges g with its other half if both are nearly empty, and continues
// with the result. It reports whether it merged any.
func (s *segments) merge(g *segment) bool {
	merged := false
	for g.n <= mergeKeys && g.depth > 0 {
		d := s.dir.Load()
		other := d.lookup((g.start^1<<g.width)<<placeShift, s.shardBits)
		n, bytes := g.n+other.n, g.live()+other.live()
		if other.depth != g.depth || n > mergeKeys || needs(n, bytes) > spanSize/4 {
			break
		}
		one, err := s.build(g.depth-1, min(g.start, other.start), n, bytes)
		if err != nil {
			break
		}
		s.copyTo(g, func(uint64) *segment { return one })
		s.copyTo(other, func(uint64) *segment { return one })
		if g.depth == d.depth {
			d.deepest -= 2
		}
		s.publish(one)
		s.retire(g)
		s.retire(other)
		if d.deepest == 0 {
			s.halve(d)
		}
		g, merged = one, true
	}
	return merged
}

// publish enters g into the directory.
func (s *segments) publish(g *segment) {
	d := s.dir.Load()
	from := g.start << placeShift << s.shardBits >> (64 - d.depth)
	for i := range uint64(1) << (d.depth - g.depth) {
		d.segs[from+i].Store(g)
	}
	s.arena.hopes.Add(1)
}

// double replaces the directory with one of twice the size.
func (s *segments) double(d *directory) {
	next := &directory{depth: d.depth + 1, segs: make([]atomic.Pointer[segment], 2*len(d.segs))}
	for i := range next.segs {
		next.segs[i].Store(d.segs[i/2].Load())
	}
	s.arena.budget.add(pointerBytes * len(d.segs))
	s.dir.Store(next)
}

// halve shrinks the directory while no segment needs its full depth.
func (s *segments) halve(d *directory) {
	for d.depth > 0 && d.deepest == 0 {
		next := &directory{depth: d.depth - 1, segs: make([]atomic.Pointer[segment], len(d.segs)/2)}
		for i := range next.segs {
			g := d.segs[2*i].Load()
			next.segs[i].Store(g)
			if g.depth == next.depth {
				next.deepest++
			}
		}
		s.arena.budget.add(-pointerBytes * len(next.segs))
		s.dir.Store(next)
		d = next
	}
}

// saves reports whether g would need fewer pages if it were rewritten.
func (s *segments) saves(g *segment) bool {
	return s.arena.pages(needs(g.n, g.live())) < g.touched
}

// shrink gives back the pages that g no longer needs. If that fails, g stays as it
// is.
func (s *segments) shrink(g *segment) {
	if g.n == 0 {
		s.vacate(g)
	} else if s.saves(g) {
		if next, err := s.resize(g, 0, 0); err == nil {
			s.merge(next)
		}
	}
}

// vacate frees the span of a segment that has no keys left.
func (s *segments) vacate(g *segment) {
	next := s.empty(g.depth, g.start)
	s.publish(next)
	s.retire(g)
	s.merge(next)
}

// expects notes when a key of g expires. It rarely changes anything. When
// it does not, it writes nothing, so that processors can share the cache line.
func (s *segments) expects(g *segment, expires int64) {
	if expires < g.due {
		g.due = expires
		s.unbar(g) // it may be the first that expires at all
	}
}

// unbar ends the note of bar, because a key comes that may go, one has gone, or one
// expires earlier than all others.
func (s *segments) unbar(g *segment) {
	if g.barren != 0 {
		g.barren = 0
		s.arena.hopes.Add(1)
	}
}

// expect splits g, which is empty, as that many keys would, and gives each
// resulting segment an index for its keys.
func (s *segments) expect(g *segment, keys int) error {
	// The index has some lines to spare, since hashes do not fall evenly.
	if keys < s.maxKeys(g) || g.depth == maxDepth {
		_, err := s.resize(g, keys, 0)
		return err
	}
	if err := s.split(g); err != nil {
		return err
	}
	for i := range uint64(2) {
		half := s.lookup((g.start + i<<(g.width-1)) << placeShift)
		if err := s.expect(half, keys/2); err != nil {
			return err
		}
	}
	return nil
}
