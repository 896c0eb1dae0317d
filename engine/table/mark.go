package table

import (
	"math/bits"

	"limitdb/limit"
)

// Mark is the first two bytes of a record: the kind of its state, and what
// eviction needs to know about its limit, which the state does not contain. It
// exists only in memory.
//
//	 15            8    7       6      5   4          0
//	┌───────────────┬───────┬────────┬───┬─────────────┐
//	│ bound         │ boxed │ denied │pin│  kind       │
//	└───────────────┴───────┴────────┴───┴─────────────┘
//
// denied is set if the last decision was a denial or left nothing. The bound is
// limit.Bound at that decision, rounded down to two bits after the first. If
// that decision was no denial, it may be the bound of an earlier one that was
// no denial either. From the bound and the state follows the share of the limit
// that is used at any later time. A restored record is marked denied with the
// bound unknown: as fully used as can be, while nobody knows whether its caller
// is denied.
type Mark uint16

const (
	markSize   = 2
	kindBits   = 0x1f
	denied     = 0x40
	boundShift = 8
	// unknown is a bound that no limit has: boundCode returns less.
	unknown = 0xff << boundShift
)

// Kind returns the kind of the state.
func (m Mark) Kind() limit.Kind {
	if k := limit.Kind(m & kindBits); k <= limit.LEASE {
		return k
	}
	return valueKind(m & kindBits)
}

// The kinds of values have numbers that do not fit into a mark. There they follow
// that of leases, in their order. The last code is that of holds.
const (
	stringCode     = Mark(limit.LEASE) + 1
	collectionCode = stringCode + 4
	holdsCode      = Mark(kindBits)
)

// valueKind returns the kind of values, or of holds, with a code.
func valueKind(code Mark) limit.Kind {
	if code == holdsCode {
		return limit.HOLDS
	}
	if code < collectionCode {
		return limit.STRING + limit.Kind(code-stringCode)
	}
	return limit.SORTEDSET + limit.Kind(code-collectionCode)
}

// kindMark returns the mark of a kind, without the bits about its limit.
func kindMark(k limit.Kind) Mark {
	switch {
	case k == limit.HOLDS:
		return holdsCode
	case k < limit.STRING:
		return Mark(k)
	case k < limit.SORTEDSET:
		return stringCode + Mark(k-limit.STRING)
	}
	return collectionCode + Mark(k-limit.SORTEDSET)
}

// bound returns the stored bound. It is at most the original one.
func (m Mark) bound() int64 {
	c := uint64(m >> boundShift)
	if c < 8 {
		return int64(c)
	}
	return int64((4 | c&3) << (c/4 - 1))
}

// Mark returns the mark of the key after the decision on a cost. A key that is,
// and was, far from being denied keeps its bound. Nearly all decisions are of this
// kind, and until the key comes close to a denial, a bound left by another limit
// does no harm.
func (sp *Spot) Mark(l *limit.Limit, cost int64, d *limit.Decision) Mark {
	if sp.slot != nil && d.Remaining > 0 && !d.Limited {
		if m := sp.r.mark() &^ boxed; m&(1<<boundShift-1) == Mark(l.Algorithm) {
			return m
		}
	}
	return markOf(l, cost, d)
}

// markOf is Mark for a key that is not there, or close to a denial.
func markOf(l *limit.Limit, cost int64, d *limit.Decision) Mark {
	m := Mark(l.Algorithm)
	if !d.Limited {
		cost = 1
	}
	if d.Remaining == 0 || d.Limited && d.Wait != limit.Never {
		m |= denied
	}
	return m | Mark(boundCode(limit.Bound(l, cost)))<<boundShift
}

// BlockMark is Mark for a key whose state has the kind BLOCK.
func BlockMark(l *limit.Limit, cost int64, d *limit.Decision) Mark {
	return markOf(l, cost, d)&^kindBits | kindMark(limit.BLOCK) | denied
}

// Unknown returns the mark of a key whose limit is not known yet.
func Unknown(a limit.Kind) Mark { return kindMark(a) | denied | unknown }

// boundCode encodes a bound, 0 or more, in a byte.
func boundCode(bound int64) uint8 {
	if bound < 8 {
		return uint8(bound)
	}
	n := bits.Len64(uint64(bound))
	return uint8(4*(n-2)) | uint8(bound>>(n-3))&3
}
