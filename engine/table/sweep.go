package table

// sweepRest is the time in nanoseconds for which Sweep skips a segment after a
// look that was not worth it, because fewer than one key in restShare had
// expired. Mass expiry is found at once. A trickle costs at most one look at
// each key in five seconds, and keeps little memory from being reused.
const (
	sweepRest = 5_000_000_000
	restShare = 16
)

// Sweep passes up to most segments from cursor on, up to and including the first
// that has work: it drops expired keys there, evicts to meet a lowered budget, and
// gives memory back. It returns how many keys it dropped, how many slots it looked
// at (one for a segment without work), and the next cursor.
func (t *Table) Sweep(now int64, cursor uint64, most int) (dropped, looked int, next uint64) {
	d := t.dir.Load()
	last := len(d.segs) - 1
	for i := int(cursor << placeShift << t.shardBits >> (64 - d.depth)); looked < most; {
		g := d.segs[i].Load()
		next = g.end()
		looked++
		if n, work := t.tend(now, g); work {
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
	return (g.start + 1<<g.width) & (1<<placeBits - 1)
}

// tend does the work that g needs. It returns how many keys it dropped and
// whether there was any work.
func (t *Table) tend(now int64, g *segment) (dropped int, work bool) {
	over := t.arena.budget.leastDebt.Load() && t.arena.budget.over(0)
	switch {
	case g.n == 0 && g.base != nil && g.rest <= now:
		t.vacate(g)
		return 0, true
	case over && g.n > 0:
		return t.shed(now, g), true
	case g.due > now || g.rest > now:
		return 0, false
	}
	n := g.n
	dropped = t.cull(now, g)
	if dropped*restShare < n {
		g.rest = now + sweepRest
	}
	switch scarce := t.arena.budget.over(t.arena.page); {
	case g.n == 0:
		t.vacate(g)
	case dropped > 0 && scarce:
		_, _ = t.resize(g, 0, 0) // if it fails, the segment stays as it is
	case dropped > 0:
		t.compact(g)
	}
	return dropped, true
}

// vacate frees the span of a segment that has no keys left.
func (t *Table) vacate(g *segment) {
	next := t.empty(g.depth, g.start)
	t.publish(next)
	t.retire(g)
	t.merge(next)
}
