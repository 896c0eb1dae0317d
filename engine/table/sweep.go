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
// that has work: it drops expired keys there, and gives memory back. It evicts to
// meet a lowered budget or, if evict is set and the policy allows it, in any case. It
// returns how many keys it dropped, how many slots it looked at (one for a segment
// without work), and the next cursor.
func (t *Table) Sweep(now int64, cursor uint64, most int, evict bool) (dropped, looked int, next uint64) {
	evict = evict || t.arena.budget.leastDebt.Load() && t.arena.budget.over(0)
	d := t.dir.Load()
	last := len(d.segs) - 1
	for i := int(cursor << placeShift << t.shardBits >> (64 - d.depth)); looked < most; {
		g := d.segs[i].Load()
		next = g.end()
		looked++
		if n, work := t.tend(now, g, evict); work {
			return n, looked + g.n + n, next
		}
		i += 1 << (d.depth - g.depth)
		if i > last {
			break
		}
	}
	return 0, looked, next
}

// end returns the place behind g's stretch, or 0 at the end of the line.
func (g *segment) end() uint64 {
	return (g.start + 1<<g.width) & (1<<PlaceBits - 1)
}

// tend does the work that g needs. It returns how many keys it dropped and
// whether there was any work.
func (t *Table) tend(now int64, g *segment, evict bool) (dropped int, work bool) {
	switch {
	case g.n == 0 && g.base != nil && g.rest <= now:
		t.vacate(g)
		return 0, true
	case evict && g.n > 0:
		dropped = t.relieve(now, g, 0)
	case g.due > now || g.rest > now:
		return 0, false
	default:
		n := g.n
		if dropped = t.cull(now, g); dropped*restShare < n {
			g.rest = now + sweepRest
		}
	}
	switch {
	case g.n == 0:
		t.vacate(g)
	case evict || dropped > 0 && t.arena.budget.over(t.arena.page):
		// If it fails, the segment stays as it is.
		if next, err := t.resize(g, 0, 0); err == nil {
			t.merge(next)
		}
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
		expires := t.expires(r)
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
	h := t.hash(r.key())
	t.drop(&Spot{Hash: h, g: g, slot: g.find(h, r.key()), r: r})
}

// vacate frees the span of a segment that has no keys left.
func (t *Table) vacate(g *segment) {
	next := t.empty(g.depth, g.start)
	t.publish(next)
	t.retire(g)
	t.merge(next)
}
