package engine

import (
	"bytes"
	"math"
	"slices"
)

// The memory budget. What counts is what the engine itself has (see budget). Only
// a new key is ever refused, or one whose state has to grow beyond its record: all
// others go on working.
//
// What needs memory where there is none left gets, in this order:
//
//  1. the room of expired keys of its own segment, and then of others;
//  2. with the policy LeastDebt, the room of those keys of its segment that use
//     the smallest share of their limits (see rank). Keys are spread over the
//     segments by a seeded hash, so a segment is a fair sample of all. A
//     sixteenth of it goes at once, which makes room for the next keys too. A
//     caller that is denied now goes only where all others have gone, and a
//     lease never;
//  3. ErrOOM.
//
// Memory is given back in pages. A rewrite needs its new span before it can
// release the old one: for that moment, some microseconds, the count may be
// over the budget by a span for each processor.

// Policy says what happens to a new key when the memory budget is used up.
type Policy uint8

const (
	// NoEviction refuses new keys with ErrOOM.
	NoEviction Policy = iota
	// LeastDebt forgets those keys of a sample that use the smallest share of
	// their limits: that forgives least. Never the least recently used, for then a
	// spray of new keys would hand a fresh quota to the caller that is being limited.
	LeastDebt
)

// SetMaxMemory sets the budget in bytes, 0 for none, and what to do when it is
// used up. Keys beyond a lowered budget are evicted by Sweep and by new keys.
func (e *Engine) SetMaxMemory(bytes int64, p Policy) {
	e.arena.budget.max.Store(max(bytes, 0))
	e.arena.budget.leastDebt.Store(p == LeastDebt)
}

// relieve makes room in g's stretch at the cost of its keys: those that have
// expired, or else, if the policy says so, those that are used least. It reports
// whether it found any.
func (t *table) relieve(now int64, g *segment, keys, size int) bool {
	if t.cull(now, g) == 0 && (!t.arena.budget.leastDebt.Load() || t.evict(now, g, size) == 0) {
		return false
	}
	need := needs(g.n+keys, g.live()+size)
	more := t.arena.pages(need) - g.touched
	if need > spanSize || more > 0 && t.arena.budget.over(more) {
		keys, size = 0, 0 // it is to be split, or relieved again
	}
	_, err := t.resize(g, keys, size)
	return err == nil
}

// evictShare is the part of a segment's keys that is evicted at once.
const evictShare = 16

// mayGo reports whether a key may be evicted: it is not being changed, and nobody
// waits for a turn of it.
func (t *table) mayGo(key []byte) bool {
	return !bytes.Equal(key, t.pinned) && (len(t.waits.lines) == 0 || t.waits.lines[string(key)] == nil)
}

// evict drops the keys of g that rank lowest, and returns how many: a sixteenth
// of those that may go, and as many as have size bytes together. If all of them do
// not have so many, it drops none. Callers that are denied now go only if the
// others do not have size bytes.
func (t *table) evict(now int64, g *segment, size int) int {
	buf, _ := t.arena.ranks.Get().(*[]uint64)
	if buf == nil {
		buf = new([]uint64)
	}
	defer t.arena.ranks.Put(buf)
	all, free := (*buf)[:0], 0
	g.each(func(r record) {
		if rank, ok := t.rank(now, r); ok && t.mayGo(r.key()) {
			all = append(all, rank)
			free += r.size()
		}
	})
	*buf = all
	if len(all) == 0 || free < size {
		return 0
	}
	slices.Sort(all)
	want := (len(all) + evictShare - 1) / evictShare
	if calm, _ := slices.BinarySearch(all, rankDenied); calm > 0 {
		want = min(want, calm)
	}
	// Mostly one turn; where the records are small for size, some more.
	dropped, freed := 0, 0
	for ; ; want = min(2*want, len(all)) {
		last := all[want-1]
		g.each(func(r record) {
			rank, ok := t.rank(now, r)
			if !ok || rank > last || dropped == want || !t.mayGo(r.key()) {
				return
			}
			freed += r.size()
			t.forgive(now, g, r, rank)
			dropped++
		})
		if freed >= size || want == len(all) {
			t.waits.stir()
			return dropped
		}
	}
}

// forgive drops a key that is evicted.
func (t *table) forgive(now int64, g *segment, r record, rank uint64) {
	if t.changes != nil {
		t.changes.forget(r.kind(), r.key())
	}
	t.evicted++
	if rank >= rankDenied {
		t.evictedDenied++
	}
	t.forgiven += uint64(max(0, t.expires(r)-now))
	t.dropRecord(g, r)
}

// cull drops the keys of g that have expired, and returns how many. It leaves
// due exact.
func (t *table) cull(now int64, g *segment) int {
	if g.due > now {
		return 0
	}
	dropped, due := 0, int64(math.MaxInt64)
	g.each(func(r record) {
		at := t.expires(r)
		if at > now {
			due = min(due, at)
			return
		}
		t.dropRecord(g, r)
		dropped++
	})
	g.due = due
	t.expired += uint64(dropped)
	return dropped
}

// dropRecord drops a key that was found by its record.
func (t *table) dropRecord(g *segment, r record) {
	h := t.hash(r.key())
	t.drop(g, h, g.find(h, r.key()))
}

// barren is for how long reclaim does not try again after it has found nothing,
// in nanoseconds: a spray of new keys that are all refused costs no sweep each.
const barren = 1_000_000

// reclaimed is how many bytes reclaim looks for: what any state grows by at once.
const reclaimed = 16 << 10

// reclaim makes room for a new key whose own segment has none to give: it
// drops what has expired elsewhere or, if the policy says so, evicts. No lock
// is held when it is called. It tells whether there is more room now.
func (e *Engine) reclaim(now int64) bool {
	const (
		slots    = 4 * minKeys // that are looked at for expired keys,
		sweeps   = 16          // as often as that finds some
		segments = 64          // whose keys may be evicted
	)
	b := &e.arena.budget
	before := b.used.Load()
	enough := func() bool { return b.used.Load() <= before-reclaimed }
	if now < e.barrenUntil.Load() {
		return false
	}
	for e.arena.bury() {
		if e.arena.trim(true); enough() {
			return true
		}
	}
	for i := 0; i < sweeps && e.Sweep(now, slots) > 0; i++ {
		if e.arena.trim(true); enough() {
			return true
		}
	}
	e.arena.trim(true)
	for i := 0; i < segments && !enough() && b.leastDebt.Load(); i++ {
		if !e.squeeze(now) {
			break
		}
		e.arena.trim(true)
	}
	if b.used.Load() < before {
		return true
	}
	e.barrenUntil.Store(now + barren)
	return false
}

// squeeze evicts from the next segment that has keys, and reports whether it
// has found one.
func (e *Engine) squeeze(now int64) (found bool) {
	cursor := e.squeezeAt.Load()
	for range len(e.shards) {
		s := e.shardAt(cursor)
		s.mu.Lock()
		g := s.table.lookup(cursor << placeShift)
		cursor = g.end()
		if g.n > 0 {
			s.table.shed(s.clamp(now), g)
			s.mu.Unlock()
			found = true
			break
		}
		s.mu.Unlock()
	}
	e.squeezeAt.Store(cursor)
	return found
}

// shed drops what has expired from g, or else evicts, and gives the memory back.
// It returns how many keys went.
func (t *table) shed(now int64, g *segment) (dropped int) {
	if dropped = t.cull(now, g); dropped == 0 {
		dropped = t.evict(now, g, 0)
	}
	if g.n == 0 {
		t.vacate(g)
	} else if next, err := t.resize(g, 0, 0); err == nil {
		t.merge(next)
	}
	return dropped
}
