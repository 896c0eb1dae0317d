package table

import (
	"math"
	"sync/atomic"
	"unsafe"
)

// A table grows and shrinks by rewriting segments.

// compact gives memory back after keys of g have gone, if that saves about a
// third of it or more.
func (t *Table) compact(g *segment) {
	if g.n == 0 {
		g.top, g.garbage, g.reach, g.due = g.records(), 0, 0, math.MaxInt64
	}
	if t.merge(g) {
		return
	}
	if need := t.arena.pages(needs(g.n, g.live())) + t.arena.page; g.base != nil && need*3/2 <= g.touched {
		// resize fails only if no other span is available; then g stays as it
		// is.
		_, _ = t.resize(g, 0, 0)
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
func (t *Table) maxKeys(g *segment) int {
	return minKeys + int(Mix(t.seed^g.start^uint64(g.depth))%(minKeys/2))
}

// makeRoom makes room for keys more keys, whose records take size bytes
// together, in the segment for hash h, and returns that segment. If must is
// set, it ignores the budget.
func (t *Table) makeRoom(now int64, h uint64, keys, size int, must bool) (*segment, error) {
	relieved := false
	for {
		g := t.lookup(h)
		tight := !must && t.arena.budget.over(0)
		if g.fits(keys, size) && (!tight || relieved) {
			return g, nil
		}
		if !tight || relieved {
			ok, err := t.enlarge(g, keys, size, must)
			if err != nil {
				return nil, err
			}
			if ok {
				continue
			}
		}
		if t.relieve(now, g, size) == 0 || !t.shrinkFor(g, keys, size) {
			return nil, ErrNoRoom
		}
		relieved = true
	}
}

// shrinkFor rewrites g, from which some keys have gone. It leaves room for that
// many more keys and bytes if the budget allows it; otherwise g will be split, or
// relieved again. It rewrites nothing if that alone would exceed the budget, as an
// index with room to spare may need another page. It reports whether there was a
// span to do so.
func (t *Table) shrinkFor(g *segment, keys, size int) bool {
	over := func(need int) bool {
		more := t.arena.pages(need) - g.touched
		return more > 0 && t.arena.budget.over(more)
	}
	if need := needs(g.n+keys, g.live()+size); need > spanSize || over(need) {
		keys, size = 0, 0
		if over(needs(g.n, g.live())) {
			return true
		}
	}
	_, err := t.resize(g, keys, size)
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
func (t *Table) enlarge(g *segment, keys, size int, must bool) (bool, error) {
	a := t.arena
	if g.hasLines(keys) && g.top+size <= spanSize && g.garbage <= g.live()/4 {
		if more := a.pages(g.top+size) - g.touched; must || !a.budget.over(more) {
			a.budget.add(more)
			g.touched += more
			return true, nil
		}
	}
	need := needs(g.n+keys, g.live()+size)
	if g.n >= 2 && t.splittable(g) && (g.n >= t.maxKeys(g) || need > spanSize) {
		// Each half may need another page, and the directory may double.
		if !must && a.budget.over(2*a.page+segmentBytes+pointerBytes*len(t.dir.Load().segs)) {
			return false, nil
		}
		return true, t.split(g)
	}
	if need > spanSize {
		return false, ErrOOM
	}
	if !must && a.budget.over(a.pages(need)-g.touched) {
		return false, nil
	}
	_, err := t.resize(g, keys, size)
	return true, err
}

// splittable reports whether g may be split. Hashes that are nearly the same
// would double the directory again and again for one segment. (Nobody can find
// such keys without knowing the seed.) Such a segment grows instead, until its
// span is full.
func (t *Table) splittable(g *segment) bool {
	d := t.dir.Load()
	return g.depth < d.depth || d.depth < maxDepth && len(d.segs) <= 16*t.segments
}

// empty returns a segment without keys at a depth and a place.
func (t *Table) empty(depth uint, start uint64) *segment {
	t.arena.budget.add(segmentBytes)
	t.segments++
	return &segment{start: start, width: PlaceBits - t.shardBits - depth, depth: depth, due: math.MaxInt64}
}

// build returns an empty segment with room for n keys whose records take that
// many bytes.
func (t *Table) build(depth uint, start uint64, n, bytes int) (*segment, error) {
	g := t.empty(depth, start)
	if n == 0 && bytes == 0 {
		return g, nil
	}
	// Contents that fit into one span still fit, with fewer spare lines.
	lines := min(linesFor(n), (spanSize-bytes)/cacheLine)
	base, touched, err := t.arena.get(lines*cacheLine + bytes)
	if err != nil {
		t.retire(g)
		return nil, err
	}
	g.base, g.touched, g.lines = base, touched, uint64(lines)
	g.top = g.records()
	clear(unsafe.Slice((*byte)(base), g.top))
	return g, nil
}

// retire frees a segment that is no longer in the directory.
func (t *Table) retire(g *segment) {
	t.arena.budget.add(-segmentBytes)
	t.segments--
	if g.base != nil {
		t.arena.put(g.base, g.touched)
	}
}

// copyTo copies each of g's records to the segment that to chooses by its hash.
func (t *Table) copyTo(g *segment, to func(h uint64) *segment) {
	g.each(func(r record) {
		h := t.hash(r.key())
		dst := to(h)
		dst.addCopy(h, r)
		dst.due = min(dst.due, t.expires(r))
	})
}

// resize rewrites g without its garbage, with room for that many more keys and
// bytes.
func (t *Table) resize(g *segment, keys, bytes int) (*segment, error) {
	next, err := t.build(g.depth, g.start, g.n+keys, g.live()+bytes)
	if err != nil {
		return nil, err
	}
	next.rest = g.rest
	t.copyTo(g, func(uint64) *segment { return next })
	t.publish(next)
	t.retire(g)
	return next, nil
}

// split rewrites g as two segments.
func (t *Table) split(g *segment) error {
	right := func(h uint64) int { return int(h >> placeShift >> (g.width - 1) & 1) }
	var n, bytes [2]int
	g.each(func(r record) {
		i := right(t.hash(r.key()))
		n[i]++
		bytes[i] += r.size()
	})
	var halves [2]*segment
	for i := range halves {
		half, err := t.build(g.depth+1, g.start+uint64(i)<<(g.width-1), n[i], bytes[i])
		if err != nil {
			if i == 1 {
				t.retire(halves[0])
			}
			return err
		}
		half.rest = g.rest
		halves[i] = half
	}
	t.copyTo(g, func(h uint64) *segment { return halves[right(h)] })
	if d := t.dir.Load(); g.depth == d.depth {
		t.double(d)
	}
	d := t.dir.Load()
	if g.depth+1 == d.depth {
		d.deepest += 2
	}
	t.publish(halves[0])
	t.publish(halves[1])
	t.retire(g)
	return nil
}

// merge merges g with its other half if both are nearly empty, and continues
// with the result. It reports whether it merged any.
func (t *Table) merge(g *segment) bool {
	merged := false
	for g.n <= mergeKeys && g.depth > 0 {
		d := t.dir.Load()
		other := d.lookup((g.start^1<<g.width)<<placeShift, t.shardBits)
		n, bytes := g.n+other.n, g.live()+other.live()
		if other.depth != g.depth || n > mergeKeys || needs(n, bytes) > spanSize/4 {
			break
		}
		one, err := t.build(g.depth-1, min(g.start, other.start), n, bytes)
		if err != nil {
			break
		}
		t.copyTo(g, func(uint64) *segment { return one })
		t.copyTo(other, func(uint64) *segment { return one })
		if g.depth == d.depth {
			d.deepest -= 2
		}
		t.publish(one)
		t.retire(g)
		t.retire(other)
		if d.deepest == 0 {
			t.halve(d)
		}
		g, merged = one, true
	}
	return merged
}

// publish enters g into the directory.
func (t *Table) publish(g *segment) {
	d := t.dir.Load()
	from := g.start << placeShift << t.shardBits >> (64 - d.depth)
	for i := range uint64(1) << (d.depth - g.depth) {
		d.segs[from+i].Store(g)
	}
	t.arena.hopes.Add(1)
}

// double replaces the directory with one of twice the size.
func (t *Table) double(d *directory) {
	next := &directory{depth: d.depth + 1, segs: make([]atomic.Pointer[segment], 2*len(d.segs))}
	for i := range next.segs {
		next.segs[i].Store(d.segs[i/2].Load())
	}
	t.arena.budget.add(pointerBytes * len(d.segs))
	t.dir.Store(next)
}

// halve shrinks the directory while no segment needs its full depth.
func (t *Table) halve(d *directory) {
	for d.depth > 0 && d.deepest == 0 {
		next := &directory{depth: d.depth - 1, segs: make([]atomic.Pointer[segment], len(d.segs)/2)}
		for i := range next.segs {
			g := d.segs[2*i].Load()
			next.segs[i].Store(g)
			if g.depth == next.depth {
				next.deepest++
			}
		}
		t.arena.budget.add(-pointerBytes * len(next.segs))
		t.dir.Store(next)
		d = next
	}
}
