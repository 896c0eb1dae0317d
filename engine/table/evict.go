package table

import (
	"math"
	"slices"
)

// The memory budget counts the memory of the engine itself (see budget). Only a
// new key, or one whose state has to grow beyond its record, is ever refused.
// All other keys continue to work.
//
// A step that needs memory when none is left gets it in this order:
//
//  1. It takes the room of expired keys, first of its own segment, then of others.
//  2. With the policy LeastDebt, it takes the room of those keys of its segment
//     that use the smallest share of their limits (see rank). A seeded hash
//     spreads the keys over the segments, so a segment is a fair sample of all.
//     A sixteenth of its keys goes at once, which makes room for the next keys
//     too. The key of a caller that is denied now goes only after all others,
//     and a lease never goes.
//  3. Otherwise it fails with ErrOOM.
//
// Memory is returned in pages. A rewrite needs its new span before it can
// release the old one. For those few microseconds the count may exceed the
// budget by one span for each processor.

// relieve makes room in g's stretch at the cost of its keys: the expired ones
// or, if there are none and the policy allows it, the least used ones. It
// reports whether it found any.
func (t *Table) relieve(now int64, g *segment, keys, size int) bool {
	if t.cull(now, g) == 0 && (!t.arena.budget.leastDebt.Load() || t.evict(now, g, size) == 0) {
		return false
	}
	need := needs(g.n+keys, g.live()+size)
	more := t.arena.pages(need) - g.touched
	if need > spanSize || more > 0 && t.arena.budget.over(more) {
		keys, size = 0, 0 // it will be split, or relieved again
	}
	_, err := t.resize(g, keys, size)
	return err == nil
}

// evictShare: one in evictShare of a segment's keys is evicted at once.
const evictShare = 16

// mayGo reports whether a key may be evicted: it is not being changed, and
// nobody waits for a turn of it.
func (t *Table) mayGo(r record) bool {
	return r.mark()&pinned == 0 && !t.owner.Holds(r.key())
}

// evict drops the lowest-ranking keys of g and returns how many: a sixteenth of
// those that may go, and more if needed to free size bytes. If even all of them
// would not free size bytes, it drops none. Callers that are denied now go only
// if the others do not free enough.
func (t *Table) evict(now int64, g *segment, size int) int {
	buf, _ := t.arena.ranks.Get().(*[]uint64)
	if buf == nil {
		buf = new([]uint64)
	}
	defer t.arena.ranks.Put(buf)
	all, free := (*buf)[:0], 0
	g.each(func(r record) {
		if rank, ok := t.rank(now, r); ok && t.mayGo(r) {
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
	// One round is usually enough. If the records are small compared to size,
	// it takes more.
	dropped, freed := 0, 0
	for ; ; want = min(2*want, len(all)) {
		last := all[want-1]
		g.each(func(r record) {
			rank, ok := t.rank(now, r)
			if !ok || rank > last || dropped == want || !t.mayGo(r) {
				return
			}
			freed += r.size()
			t.forgive(now, g, r, rank)
			dropped++
		})
		if freed >= size || want == len(all) {
			t.owner.Evicted()
			return dropped
		}
	}
}

// forgive evicts a key.
func (t *Table) forgive(now int64, g *segment, r record, rank uint64) {
	t.owner.Evicting(r.kind(), r.key())
	t.evicted++
	if rank >= rankDenied {
		t.evictedDenied++
	}
	t.forgiven += uint64(max(0, t.expires(r)-now))
	t.dropRecord(g, r)
}

// cull drops the expired keys of g and returns how many. It leaves due exact.
func (t *Table) cull(now int64, g *segment) int {
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

// dropRecord drops the key of a record.
func (t *Table) dropRecord(g *segment, r record) {
	h := t.hash(r.key())
	t.drop(&Spot{h, r.key(), g, g.find(h, r.key()), r})
}

// shed drops the expired keys of g or, if there are none, evicts some, and
// gives the memory back. It returns how many keys went.
func (t *Table) shed(now int64, g *segment) (dropped int) {
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

// Shed drops the expired keys of the segment at a cursor or, if there are none,
// evicts some. It returns the next cursor, and whether there were any keys.
func (t *Table) Shed(now int64, cursor uint64) (next uint64, found bool) {
	g := t.lookup(cursor << placeShift)
	next = g.end()
	if found = g.n > 0; found {
		t.shed(now, g)
	}
	return next, found
}
