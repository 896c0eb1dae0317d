package table

import (
	"math"
	"math/bits"
	"slices"

	"limitdb/limit"
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
//     too. The key of a caller that is denied now never goes for another, nor
//     does a lease: a flood of new keys frees nobody.
//  3. With that policy, it takes pages of other segments in the same way (see
//     Squeeze).
//  4. Otherwise it fails with ErrOOM.
//
// A segment in which an eviction was in vain is barren: it is not looked at for
// another before a key comes that may go, one has gone, or some seconds have passed,
// in which its callers may have recovered.
//
// Memory is returned in pages. A rewrite needs its new span before it can
// release the old one. For those few microseconds the count may exceed the
// budget by one span for each processor.

// relieve drops keys of g: those that have expired or, if there are none and the
// policy allows it, the least used ones. It returns how many. Nothing else evicts.
func (t *Table) relieve(now int64, g *segment, size int) (dropped int) {
	if dropped = t.cull(now, g); dropped == 0 && t.arena.budget.leastDebt.Load() {
		dropped = t.evict(now, g, size, false)
	}
	return dropped
}

// A rank orders keys by how much is lost if they are forgotten:
//
//	all bits    the key is blocked
//	bit 63      the caller is denied now
//	bits 62–39  the share of its limit that is used, 1 at bit 58
//	bits 38–0   how long it takes until nothing is used, in 2²⁴ ns
const (
	rankDenied = 1 << 63
	rankShare  = 39
	shareOne   = 1 << 19
	shareMost  = 1<<24 - 1
	rankTime   = 24
)

// rank returns the rank of a live record. It returns false for leases and holds, which are
// never evicted because what they allow is still in flight, and for values that
// never expire. Other values rank as limits that are used up but do not deny,
// because the server does not know what they count.
func (t *Table) rank(now int64, r record) (uint64, bool) {
	m, state := r.mark(), t.state(r)
	a := m.Kind()
	if a >= limit.BLOCK {
		expires := limit.Expires(a, state)
		if a == limit.BLOCK {
			return rankBlock(now, m, state, expires), true
		}
		return shareOne<<rankShare | uint64(max(0, expires-now))>>rankTime, a > limit.HOLDS && expires != math.MaxInt64
	}
	return rankLimit(now, m, a, state), true
}

// rankBlock returns the rank of a key that has a block: above all others while it is blocked, and then that of what
// the block is around.
func rankBlock(now int64, m Mark, state []byte, expires int64) uint64 {
	var b limit.Block
	kind, inner, err := b.Open(state, now)
	switch {
	case err != nil:
		return 0
	case now < b.Until:
		return math.MaxUint64
	case kind == 0:
		return uint64(max(0, expires-now)) >> rankTime
	}
	return rankLimit(now, m, kind, inner)
}

// rankLimit returns the rank of the state of an algorithm.
func rankLimit(now int64, m Mark, a limit.Kind, state []byte) uint64 {
	if m&unknown == unknown {
		return shareMost<<rankShare | uint64(max(0, limit.Expires(a, state)-now))>>rankTime
	}
	used, bound := limit.Usage(a, state, now, m.bound())
	share := uint64(shareMost)
	if hi, lo := bits.Mul64(uint64(used), shareOne); hi < uint64(bound) {
		share, _ = bits.Div64(hi, lo, uint64(bound))
		share = min(share, shareMost)
	}
	rank := share<<rankShare | uint64(max(0, limit.Expires(a, state)-now))>>rankTime
	if m&denied != 0 && used >= bound {
		rank |= rankDenied
	}
	return rank
}

// evictShare: one in evictShare of a segment's keys is evicted at once.
const evictShare = 16

// candidate returns the rank of a key, and whether it may be evicted: it is not
// being changed, no request waits for a turn of it, nothing of it is held, and its caller is
// not denied now, unless those may go as well.
func (t *Table) candidate(now int64, r record, denied bool) (uint64, bool) {
	rank, ok := t.rank(now, r)
	return rank, ok && (denied || rank < rankDenied) && r.mark()&pinned == 0 && !t.owner.Holds(r.key()) && !t.hasBeside(r)
}

// mayGo reports whether a key with this mark may be evicted at once, as far as the
// mark tells: it is no lease or hold, its caller is not denied, and it does expire.
func (m Mark) mayGo(expires int64) bool {
	k := m.Kind()
	return k != limit.LEASE && k != limit.HOLDS && expires != math.MaxInt64 && (k > limit.LEASE || m&denied == 0 || m&unknown == unknown)
}

// bar notes that no more than spare bytes can be evicted from g. The note holds
// until unbar, and for no longer than sweepRest.
func (g *segment) bar(now int64, spare int) { g.barren, g.spare = now+sweepRest, spare }

// evict drops the lowest-ranking keys of g and returns how many: a sixteenth of
// those that may go, and more if needed to free size bytes. If even all of them
// would not free size bytes, it drops none. Callers that are denied now go only
// if denied is set, after the others.
func (t *Table) evict(now int64, g *segment, size int, denied bool) int {
	if now < g.barren && g.spare < max(size, 1) && !denied {
		return 0
	}
	buf, _ := t.arena.ranks.Get().(*[]uint64)
	if buf == nil {
		buf = new([]uint64)
	}
	defer t.arena.ranks.Put(buf)
	all, free := (*buf)[:0], 0
	g.each(func(r record) {
		if rank, ok := t.candidate(now, r, denied); ok {
			all = append(all, rank)
			free += t.gain(r)
		}
	})
	*buf = all
	t.ranked += uint64(g.n)
	if len(all) == 0 || free < size {
		g.bar(now, free)
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
			rank, ok := t.candidate(now, r, denied)
			if !ok || rank > last || dropped == want {
				return
			}
			freed += t.gain(r)
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
