package table

import (
	"unsafe"

	"github.com/zeebo/xxh3"
)

const (
	cacheLine = 64

	// slotsPerLine is how many keys a line can point to. Its first word holds
	// counts.
	slotsPerLine = 15
	// fill is the largest average number of keys for each line. Lines fill
	// unevenly: with 12 of 15, one key in twenty has to go to a neighbour.
	fill = 12

	offsetMask = spanSize - 1
)

// line is one cache line of a segment's index.
//
//	word 0:     slots in use (8 bits), keys of this line that had to go to
//	            one of the next (24 bits)
//	word 1–15:  tag (the hash's low 15 bits), the record's offset in the span
//	            (17 bits)
//
// The slots in use come first.
type line [cacheLine / 4]uint32

func (ln *line) used() int { return int(ln[0] & 0xff) }

func (ln *line) strays() uint32 { return ln[0] >> 8 }

const oneStray = 1 << 8

// next returns the index of the first slot behind i with a tag, or 0.
func (ln *line) next(tag uint32, i int) int {
	for n := min(ln.used(), slotsPerLine); i < n; {
		if i++; ln[i]>>spanBits == tag {
			return i
		}
	}
	return 0
}

// segment is a stretch of the line of hashes with at most some 1 500 keys, in
// one span of memory. A segment that needs another index is replaced. Its first
// cache line is all that a lookup reads. It is written to when a key strays
// farther than any before, or will expire before all others. The counters, which
// every new key changes, are in the second.
type segment struct {
	// These never change, so that Batch can read them without a lock.
	base  unsafe.Pointer // of the span, outside Go's heap; nil if there are no keys
	lines uint64         // of the index
	start uint64         // the place, in 48 bits, where the stretch begins
	width uint           // the stretch is 1<<width places long
	depth uint           // leading bits, after the shard's, that all its keys share

	reach int   // distance, in lines, of the farthest stray from its home line
	due   int64 // no key expires before this time
	_     [8]byte

	n       int   // keys
	top     int   // end of the last record
	garbage int   // bytes of dead records
	touched int   // end of the span's pages that are in use and counted by the budget
	rest    int64 // Sweep skips the segment until this time
	// Until barren, nothing more than spare bytes is looked for here by eviction.
	// See bar.
	barren int64
	spare  int
	_      [8]byte
}

// slot points to the word of a line that refers to a key; nil if the key was
// not found. It is a single word so that it stays in a register.
type slot = *uint32

// lineOf returns the line that contains a slot, and the index of the slot in
// it. Lines are aligned to their size.
func lineOf(s slot) (*line, int) {
	in := uintptr(unsafe.Pointer(s)) % cacheLine
	return (*line)(unsafe.Add(unsafe.Pointer(s), -int(in))), int(in / unsafe.Sizeof(*s))
}

// record returns the record that a slot points to.
func (g *segment) record(s slot) record { return view(g.at(*s & offsetMask)) }

func (g *segment) line(b uint64) *line {
	return (*line)(unsafe.Add(g.base, b*cacheLine))
}

// home returns the line where a key with hash h belongs. It uses only the
// leading 48 bits, so that a line is a stretch that cursors can name exactly.
func (g *segment) home(h uint64) uint64 {
	return (h >> placeShift & (1<<g.width - 1)) * g.lines >> g.width
}

// lineStart returns the place where line b's stretch begins. It is the inverse
// of home.
func (g *segment) lineStart(b uint64) uint64 {
	return g.start + (b<<g.width+g.lines-1)/g.lines
}

// after returns the line after b. The first line follows the last.
func (g *segment) after(b uint64) uint64 {
	if b++; b < g.lines {
		return b
	}
	return 0
}

func (g *segment) at(off uint32) unsafe.Pointer { return unsafe.Add(g.base, off) }

// records returns the offset of the first record.
func (g *segment) records() int { return int(g.lines) * cacheLine }

// live returns the size of the live records in bytes.
func (g *segment) live() int { return g.top - g.records() - g.garbage }

func tagOf(h uint64) uint32 { return uint32(h) & (1<<(32-spanBits) - 1) }

// find looks for key, whose hash is h.
func (g *segment) find(h uint64, key []byte) slot {
	if g.base == nil {
		return nil
	}
	b := g.home(h)
	home := g.line(b)
	tag := tagOf(h)
	for ln, away := home, 0; ; away++ {
		for i := ln.next(tag, 0); i > 0; i = ln.next(tag, i) {
			if isOf(g.at(ln[i]&offsetMask), key) {
				return &ln[i]
			}
		}
		if home.strays() == 0 || away == g.reach {
			return nil
		}
		b = g.after(b)
		ln = g.line(b)
	}
}

// add appends a record and enters it into the index. There must be room for
// both.
func (g *segment) add(h uint64, m Mark, key, state []byte) {
	put(g.at(uint32(g.top)), m, key, state)
	g.enter(h, sizeOf(len(key), len(state)))
}

// addCopy is add for a record of another segment.
func (g *segment) addCopy(h uint64, r record) {
	size := r.size()
	copy(unsafe.Slice((*byte)(g.at(uint32(g.top))), size), unsafe.Slice((*byte)(r.at), size))
	g.enter(h, size)
}

// copyIndexed copies the index and the records of another segment, which has as many lines. Each record stays in its line, so none is hashed.
func (g *segment) copyIndexed(from *segment) {
	copy(unsafe.Slice((*line)(g.base), g.lines), unsafe.Slice((*line)(from.base), from.lines))
	for b := range g.lines {
		ln := g.line(b)
		for i := 1; i <= ln.used(); i++ {
			r := from.record(&ln[i])
			size := r.size()
			copy(unsafe.Slice((*byte)(g.at(uint32(g.top))), size), unsafe.Slice((*byte)(r.at), size))
			ln[i] = ln[i]&^offsetMask | uint32(g.top)
			g.top += size
		}
	}
	g.n, g.reach, g.due = from.n, from.reach, from.due
}

// enter makes size bytes at the end, which have been written, a record in the index.
func (g *segment) enter(h uint64, size int) {
	g.point(h, g.top)
	g.top += size
	g.n++
}

// move makes the record at a slot garbage, and returns where it is to be written anew: size bytes at the end, for which there must be room.
func (g *segment) move(s slot, size int) unsafe.Pointer {
	r := g.record(s)
	r.kill()
	g.garbage += r.size()
	p := g.at(uint32(g.top))
	*s = *s&^offsetMask | uint32(g.top)
	g.top += size
	return p
}

// point enters a record's offset into the index.
func (g *segment) point(h uint64, off int) {
	b := g.home(h)
	home := g.line(b)
	ln := home
	for reach := 1; ln.used() == slotsPerLine; reach++ {
		b = g.after(b)
		ln = g.line(b)
		if ln.used() < slotsPerLine {
			home[0] += oneStray
			g.reach = max(g.reach, reach)
		}
	}
	ln[0]++
	ln[ln.used()] = tagOf(h)<<spanBits | uint32(off)
}

// drop removes the key at a slot, with hash h, from the index and makes its
// record garbage.
func (g *segment) drop(h uint64, s slot) {
	r := g.record(s)
	r.kill()
	g.garbage += r.size()
	ln, i := lineOf(s)
	last := ln.used()
	ln[i] = ln[last]
	ln[last] = 0
	ln[0]--
	if home := g.line(g.home(h)); home != ln {
		home[0] -= oneStray
	}
	g.n--
}

// fit resizes a record in place for a state of n bytes, and reports whether it
// could. A record grows into its slack, into the garbage behind it, or into the
// free space behind it. When it shrinks, the bytes that it no longer needs
// become garbage until it grows again.
func (g *segment) fit(r record, n int) bool {
	if r.holds(n) {
		return true
	}
	return lengthLen(n) == lengthLen(r.slen) && g.stretch(r, sizeOf(r.klen, n))
}

// stretch is fit for a record that is to have need bytes.
func (g *segment) stretch(r record, need int) bool {
	size := r.size()
	off := int(uintptr(r.at) - uintptr(g.base))
	free := 0
	if need > size {
		if off+size < g.top {
			if behind := view(unsafe.Add(r.at, size)); behind.isDead() {
				free = behind.size()
			}
		}
		if off+size+free == g.top {
			if off+need > g.touched {
				return false
			}
			g.garbage -= free
			g.top = off + need
			return true
		}
	}
	left := size + free - need
	if left != 0 && left < minRecord || left > maxDead {
		return false
	}
	if left > 0 {
		putDead(unsafe.Add(r.at, need), left)
	}
	g.garbage += left - free
	return true
}

// each calls fn for every live record, in the order of their offsets.
func (g *segment) each(fn func(r record)) {
	if g.base == nil {
		return
	}
	for off := g.records(); off < g.top; {
		r := view(g.at(uint32(off)))
		off += r.size()
		if !r.isDead() {
			fn(r)
		}
	}
}

// eachOf calls fn for every record that belongs to line b. seed is the hash's
// seed.
func (g *segment) eachOf(b, seed uint64, fn func(r record)) {
	lines := 1
	if g.line(b).strays() > 0 {
		lines += g.reach
	}
	for x := b; lines > 0; lines-- {
		ln := g.line(x)
		for i := 1; i <= ln.used(); i++ {
			r := view(g.at(ln[i] & offsetMask))
			// If no key has strayed, every record of a line belongs to it.
			if g.reach == 0 || g.home(xxh3.HashSeed(r.key(), seed)) == b {
				fn(r)
			}
		}
		x = g.after(x)
	}
}
