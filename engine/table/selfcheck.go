//go:build selfcheck

package table

import (
	"fmt"
	"math"

	"limitdb/limit"
)

// Check verifies the table and returns the bytes it uses. It panics if an
// invariant does not hold.
func (t *Table) Check() int {
	d := t.dir.Load()
	if len(d.segs) != 1<<d.depth {
		panic(fmt.Sprintf("%d directory entries at depth %d", len(d.segs), d.depth))
	}
	sum := len(d.segs) * pointerBytes
	keys, segments, deepest, boxes, beside, joint := 0, 0, 0, 0, 0, 0
	place := t.shard << (PlaceBits - t.shardBits)
	for i := 0; i < len(d.segs); {
		g := d.segs[i].Load()
		if g.start != place || g.width != PlaceBits-t.shardBits-g.depth {
			panic(fmt.Sprintf("segment %d starts at %x with width %d, want %x", i, g.start, g.width, place))
		}
		for range 1 << (d.depth - g.depth) {
			if d.segs[i].Load() != g {
				panic(fmt.Sprintf("directory entry %d points elsewhere", i))
			}
			i++
		}
		place += 1 << g.width
		segments++
		keys += g.n
		if g.depth == d.depth {
			deepest++
		}
		boxes += t.checkSegment(g, &beside, &joint)
		sum += segmentBytes + g.touched
	}
	if keys != t.n || segments != t.segments.count || deepest != d.deepest {
		panic(fmt.Sprintf("%d keys, %d segments, %d deepest; counted %d, %d, %d", keys, segments, deepest, t.n, t.segments.count, d.deepest))
	}
	if beside != t.beside || joint != t.joint {
		panic(fmt.Sprintf("%d records are beside keys', and %d are joint; counted %d and %d", beside, joint, t.beside, t.joint))
	}
	for _, state := range t.boxes.states {
		sum += cap(state)
		if len(state) <= minBoxed || cap(state) > 2*len(state) {
			panic(fmt.Sprintf("a box has %d bytes for %d", cap(state), len(state)))
		}
	}
	if boxes != len(t.boxes.states) {
		panic(fmt.Sprintf("%d boxes, %d in use", len(t.boxes.states), boxes))
	}
	return sum
}

// checkSegment verifies a segment and returns how many of its states are in
// boxes.
func (t *Table) checkSegment(g *segment, beside, joint *int) (boxes int) {
	if g.base == nil {
		if g.n != 0 || g.top != 0 || g.touched != 0 || g.lines != 0 {
			panic(fmt.Sprintf("no span, but %+v", *g))
		}
		return 0
	}
	if g.top > g.touched || g.touched%t.arena.page != 0 || g.touched > spanSize {
		panic(fmt.Sprintf("top %d, touched %d", g.top, g.touched))
	}
	n, garbage := 0, 0
	off := g.records()
	for off < g.top {
		r := view(g.at(uint32(off)))
		off += r.size()
		if r.isDead() {
			garbage += r.size()
			continue
		}
		n++
		if r.mark()&pinned != 0 {
			panic(fmt.Sprintf("%q is pinned", r.key()))
		}
		if r.isBoxed() {
			boxes++
		} else if r.slen > maxInline {
			panic(fmt.Sprintf("%q has %d bytes of state in its record", r.key(), r.slen))
		}
		if r.blen() > 0 && r.kind() != limit.HOLDS {
			*joint++
		} else if r.kind() == limit.HOLDS {
			*beside++
		}
		if t.due(r) < g.due {
			panic(fmt.Sprintf("%q expires before due", r.key()))
		}
		h := t.hash(r)
		if t.lookup(h) != g {
			panic(fmt.Sprintf("%q is in a stranger's segment", r.key()))
		}
		if at := g.find(h, r.key()); at == nil || g.record(at).at != r.at {
			panic(fmt.Sprintf("%q is not where its slot is", r.key()))
		}
	}
	if off != g.top || n != g.n || garbage != g.garbage {
		panic(fmt.Sprintf("%d keys and %d bytes of garbage, counted %d and %d", n, garbage, g.n, g.garbage))
	}
	g.checkIndex(t.hash)
	if g.n == 0 && g.due != math.MaxInt64 {
		panic("an empty segment is due")
	}
	return boxes
}

func (g *segment) checkIndex(hash func(record) uint64) {
	strays, slots := map[uint64]uint32{}, 0
	for b := range g.lines {
		ln := g.line(b)
		for i := 1; i < len(ln); i++ {
			if (ln[i] != 0) != (i <= ln.used()) {
				panic(fmt.Sprintf("line %d has slot %d and uses %d", b, i, ln.used()))
			}
			if ln[i] == 0 {
				continue
			}
			slots++
			r := view(g.at(ln[i] & offsetMask))
			h := hash(r)
			if home := g.home(h); home != b {
				strays[home]++
			}
			if ln[i]>>spanBits != tagOf(h) {
				panic(fmt.Sprintf("%q has another tag", r.key()))
			}
		}
	}
	for b := range g.lines {
		if got := g.line(b).strays(); got != strays[b] {
			panic(fmt.Sprintf("line %d counts %d strays, there are %d", b, got, strays[b]))
		}
	}
	if slots != g.n {
		panic(fmt.Sprintf("%d slots for %d keys", slots, g.n))
	}
}

// Check panics unless the budget counts want bytes and those that the arena
// itself keeps.
func (a *Arena) Check(want int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.warm {
		want += s.touched
	}
	for _, r := range a.aside {
		want += pointerBytes * len(r.dir.segs)
		r.each(func(g *segment) { want += segmentBytes + g.touched })
		for _, box := range r.boxes {
			want += cap(box)
		}
	}
	if used := a.budget.used.Load(); used != int64(want) {
		panic(fmt.Sprintf("the budget counts %d bytes, there are %d", used, want))
	}
}
