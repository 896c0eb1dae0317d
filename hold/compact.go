package hold

import (
	"encoding/binary"
	"math"
)

// A compact Set has no more than few entries, behind one another:
//
//	0         8          12     13
//	┌─────────┬──────────┬──────┬─────────┬─────────┐
//	│ expires │ revision │ form │ void    │ entries │
//	│         │          │      │ 8, or 0 │         │
//	└─────────┴──────────┴──────┴─────────┴─────────┘
//
// Form says whether there is a void, and whether an entry is Returning. The entries are those of a long Set.

const (
	few = 16 // entries of a compact set

	// The bits of a form.
	isCompact = 0x80
	hasVoid   = 2
	returning = 4 // an entry is, or was, Returning
)

func (s Set) compact() bool { return len(s) > formAt && s[formAt]&isCompact != 0 }

// compactHead returns the size of what comes before the entries.
func compactHead(s Set) int { return formAt + 1 + 4*int(s[formAt]&hasVoid) }

// sizeAt returns the size of the entry at an offset, which must have at least leastEntry bytes left. For a damaged entry, the size may exceed what is left.
func sizeAt(s Set, at int) int {
	b := s[at:]
	if b[statusAt] == brief {
		return leastEntry + int(b[idAt])
	}
	if len(b) < entrySize {
		return entrySize
	}
	return entrySize + int(b[idAt]) + int(b[limitLenAt])
}

// forgottenAt is Forgotten of that entry.
func forgottenAt(s Set, at int) int64 {
	b := s[at:]
	until := int64(binary.LittleEndian.Uint64(b[untilAt:]))
	if b[statusAt] == brief {
		return until
	}
	if len(b) < entrySize {
		return never
	}
	rest := int64(binary.LittleEndian.Uint64(b[restAt:])) << 16 >> 16
	forgotten := until + rest
	if rest > 0 && forgotten < until {
		forgotten = math.MaxInt64
	}
	if Status(b[statusAt]) == Returning {
		forgotten = max(forgotten, int64(binary.LittleEndian.Uint64(b[backAt:])))
	}
	return forgotten
}

// findCompact finds an id, known or not.
func findCompact(s Set, id []byte, e *Entry) (ok bool) {
	for at := compactHead(s); len(s)-at >= leastEntry; at += sizeAt(s, at) {
		from := at + entrySize
		if s[at] == brief {
			from = at + briefSize
		}
		if to := from + len(id); int(s[at+idAt]) == len(id) && to <= len(s) && string(s[from:to]) == string(id) {
			return s.read(at, e) > 0
		}
	}
	return false
}

// addCompact is Add for a compact set in which no entry is to be dropped. It reports whether there is one.
func addCompact(s Set, w *Edit, now int64, e *Entry) bool {
	n, at, expires := 0, compactHead(s), e.Forgotten()
	for ; len(s)-at >= leastEntry; at += sizeAt(s, at) {
		over := forgottenAt(s, at)
		if n++; over <= now {
			return false
		}
		expires = max(expires, over)
	}
	if n >= few || at != len(s) {
		return false
	}
	b := Set(appendEntry(append(w.room[:0], s...), e))
	if e.Status == Returning {
		b[formAt] |= returning
	}
	begin(b, expires, s)
	w.whole(b)
	return true
}

// changeCompact makes w the edit that gives the entry e of a compact set another status, Rest, Back and Amount.
func changeCompact(s Set, w *Edit, e *Entry) {
	b := Set(append(w.room[:0], s...))
	b[e.at+statusAt] = byte(e.Status)
	putNumbers(b[e.at:], e)
	expires := e.Forgotten()
	for at := compactHead(b); len(b)-at >= leastEntry; at += sizeAt(b, at) {
		if at != e.at {
			expires = max(expires, forgottenAt(b, at))
		}
	}
	begin(b, expires, s)
	w.whole(b)
}

// begin gives a set that comes from another its head.
func begin(s Set, expires int64, from Set) {
	binary.LittleEndian.PutUint64(s, uint64(expires))
	binary.LittleEndian.PutUint32(s[headSize-4:], revisionOf(from)+1)
}

// beginCompact begins a compact set in the room of w, without its head.
func beginCompact(w *Edit, void int64) Set {
	b := append(w.room[:0], make([]byte, formAt)...)
	if void == never {
		return append(b, isCompact)
	}
	return binary.LittleEndian.AppendUint64(append(b, isCompact|hasVoid), uint64(void))
}

// writeOne makes w a set of one entry, where nothing was known.
func writeOne(w *Edit, e *Entry) {
	b := appendEntry(beginCompact(w, never), e)
	if e.Status == Returning {
		b[formAt] |= returning
	}
	begin(b, e.Forgotten(), nil)
	w.whole(b)
}

// rewriteCompact is rewrite if what is known is few. It reports whether it is.
func rewriteCompact(s Set, w *Edit, now int64, c *changes) bool {
	if s.Valid() && !s.compact() && !isFew(s, now) { // known before anyone is told of what goes back
		return false
	}
	n, expires, b := 0, int64(never), beginCompact(w, c.set())
	add := func(e *Entry) bool {
		over := e.Forgotten()
		if over <= now {
			return true
		}
		if n++; n > few {
			return false
		}
		expires = max(expires, over)
		if b = appendEntry(b, e); e.Status == Returning {
			b[formAt] |= returning
		}
		return true
	}
	if s.Valid() {
		var e Entry
		for from := s.walk(); from.next(&e); {
			if e.Forgotten() <= now {
				continue
			}
			if c.of(now, &e); !add(&e) {
				return false
			}
		}
	}
	if c.more != nil && !add(c.more) {
		return false
	}
	if n == 0 {
		w.whole(nil)
		return true
	}
	begin(b, expires, s)
	w.whole(b)
	return true
}

// isFew reports whether what is known of a long set is few.
func isFew(s Set, now int64) bool {
	n := 0
	s.Each(now, func(*Entry) bool {
		n++
		return n <= few
	})
	return n <= few
}
