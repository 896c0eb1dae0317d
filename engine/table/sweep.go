package table

import "math"

// sweepRest is the time in nanoseconds for which Sweep skips a segment after a
// look that was not worth it, because fewer than one key in restShare had
// expired. Mass expiry is found at once. A trickle costs at most one look at
// each key in five seconds, and keeps little memory from being reused.
const (
	sweepRest = 5_000_000_000
	restShare = 16
)

// Sweep passes up to most segments from cursor on, up to and including the first
// that has work: it drops expired keys there, and gives memory back. If the policy
// allows it, it evicts to meet the budget; callers that are denied go only if the
// budget was lowered. It returns how many keys it dropped, how many slots it looked
// at (one for a segment without work), and the next cursor.
func (t *Table) Sweep(now int64, cursor uint64, most int) (dropped, looked int, next uint64) {
	evict, denied := t.arena.budget.excess()
	d := t.dir.Load()
	last := len(d.segs) - 1
	for i := int(cursor << placeShift << t.shardBits >> (64 - d.depth)); looked < most; {
		g := d.segs[i].Load()
		next = g.end()
		looked++
		if n, work := t.tend(now, g, evict, denied); work {
			return n, looked + g.n + n, next
		}
		i += 1 << (d.depth - g.depth)
		if i > last {
			break
		}
	}
	return 0, looked, next
}

// Squeeze passes up to most segments from cursor on, up to and including the first
// that gives memory back: it drops expired keys there or, if there are none, evicts
// as many as it takes to free a page. It reports whether there was such a segment,
// and returns how many slots it looked at, the first time at which one of those
// that it passed is worth another look, and the next cursor.
func (t *Table) Squeeze(now int64, cursor uint64, most int) (freed bool, looked int, until int64, next uint64) {
	until = math.MaxInt64
	d := t.dir.Load()
	last := len(d.segs) - 1
	for i := int(cursor << placeShift << t.shardBits >> (64 - d.depth)); looked < most; {
		g := d.segs[i].Load()
		next = g.end()
		looked++
		if g.n > 0 {
			if g.due <= now || g.barren <= now {
				looked += g.n
				if freed = t.wring(now, g); freed {
					break
				}
			}
			until = min(until, g.due, g.barren)
		}
		i += 1 << (d.depth - g.depth)
		if i > last {
			break
		}
	}
	return freed, looked, until, next
}

// wring has g give memory back, and reports whether it has.
func (t *Table) wring(now int64, g *segment) bool {
	if t.cull(now, g) == 0 && !t.saves(g) {
		// The last page goes with the last key.
		size := min(g.live(), needs(g.n, g.live())-g.touched+t.arena.page)
		if t.evict(now, g, size, false) == 0 {
			return false
		}
	}
	t.shrink(g)
	return true
}

// end returns the place behind g's stretch, or 0 at the end of the line.
func (g *segment) end() uint64 {
	return (g.start + 1<<g.width) & (1<<PlaceBits - 1)
}

// tend does the work that g needs. It returns how many keys it dropped and
// whether there was any work.
func (t *Table) tend(now int64, g *segment, evict, denied bool) (dropped int, work bool) {
	switch {
	case g.n == 0 && g.base != nil && g.rest <= now:
		t.vacate(g)
		return 0, true
	case evict && g.n > 0:
		if dropped = t.cull(now, g); dropped == 0 {
			dropped = t.evict(now, g, 0, denied)
		}
	case g.due > now || g.rest > now:
		return 0, false
	default:
		n := g.n
		if dropped = t.cull(now, g); dropped*restShare < n {
			g.rest = now + sweepRest
		}
	}
	switch {
	case g.n == 0 || evict || dropped > 0 && t.arena.budget.over(t.arena.page):
		t.shrink(g)
	case dropped > 0:
		t.compact(g)
	}
	return dropped, true
}

// cull drops the expired keys of g and returns how many. It leaves due exact.
func (t *Table) cull(now int64, g *segment) int {
	if g.due > now {
		return 0
	}
	dropped, due := 0, int64(math.MaxInt64)
	g.each(func(r record) {
		expires := t.due(r)
		if expires <= now && r.blen() > 0 {
			if expires = cullJoint(t, now, g, r); expires > now {
				dropped++
			}
		}
		if expires > now {
			due = min(due, expires)
			return
		}
		t.dropRecord(g, r)
		dropped++
	})
	g.due = due
	t.expired += uint64(dropped)
	return dropped
}

// dropRecord drops the key of a record.
func (t *Table) dropRecord(g *segment, r record) {
	h := t.hash(r)
	t.drop(&Spot{Hash: h, g: g, slot: g.find(h, r.key()), r: r})
}
