package engine

// sweepRest is the time in nanoseconds for which Sweep skips a segment after a
// look that was not worth it, because fewer than one key in restShare had
// expired. Mass expiry is found at once. A trickle costs at most one look at
// each key in five seconds, and keeps little memory from being reused.
const (
	sweepRest = 5_000_000_000
	restShare = 16
)

// sweepBury is the number of shards whose memory each Sweep frees after a Flush
// that its caller has not finished with Step.
const sweepBury = 8

// skipChunk is the number of segments without work that are passed under one
// hold of a shard's lock.
const skipChunk = 64

// Sweep drops expired keys, looks at about budget slots, and returns how many
// keys it dropped. It also evicts keys to meet a lowered memory budget, and
// returns unused memory to the system. It continues where the last sweep
// stopped and skips segments in which nothing can have expired. It locks one
// shard at a time, each for one segment that has work. Call it from a
// background ticker.
func (e *Engine) Sweep(now int64, budget int) int {
	for range sweepBury {
		e.arena.bury()
	}
	e.arena.trim(false)
	dropped := 0
	cursor := e.sweepAt.Load()
	// Go around the line at most once. Count the distance instead of comparing
	// with the starting place: segments change meanwhile, and none may end
	// there.
	for left := uint64(1) << placeBits; budget > 0 && left > 0; {
		n, looked, next := e.sweepSome(now, cursor, min(budget, skipChunk))
		dropped += n
		budget -= looked
		left -= min(left, (next-cursor-1)&(1<<placeBits-1)+1)
		cursor = next
	}
	e.sweepAt.Store(cursor)
	return dropped
}

// sweepSome passes up to most segments of one shard from cursor on, up to and
// including the first that has work. It returns how many keys it dropped, how
// many slots it looked at (one for a segment without work), and the next
// cursor.
func (e *Engine) sweepSome(now int64, cursor uint64, most int) (dropped, looked int, next uint64) {
	s := e.shardAt(cursor)
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.clamp(now)
	t := &s.table
	d := t.dir.Load()
	last := len(d.segs) - 1
	for i := int(cursor << placeShift << e.shardBits >> (64 - d.depth)); looked < most; {
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
func (t *table) tend(now int64, g *segment) (dropped int, work bool) {
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
		t.settle(g)
	}
	return dropped, true
}

// vacate frees the span of a segment that has no keys left.
func (t *table) vacate(g *segment) {
	next := t.empty(g.depth, g.start)
	t.publish(next)
	t.retire(g)
	t.merge(next)
}
