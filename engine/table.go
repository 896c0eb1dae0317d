package engine

import (
	"encoding/binary"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/zeebo/xxh3"

	"limitdb/limit"
)

// A table is a directory of segments, as in extendible hashing (Fagin,
// Nievergelt, Pippenger, Strong, 1979), in which the leading bits of the hash
// choose, so that the segments stand in the order of their hashes:
//
//	hash, 64 bits
//	├─ shard ─┼─ directory ─┼──── line of the segment ────┼─ … ─┬─ tag, 15 bits ─┤
//	├──────────── place on the line of hashes, 48 bits ─────────┤
//
//	directory (Go)          segment (Go)           span (outside Go's heap), 128 kB
//	┌───┐                  ┌───────────┐          ┌──────────────────────────────┐ 0
//	│00 ├─────────────────►│ base ─────┼─────────►│ index: lines of 64 bytes,    │
//	│01 ├───┐              │ lines     │          │  15 slots (tag, offset) each │
//	│10 ├───┴─┐            │ n, due, … │          ├──────────────────────────────┤
//	│11 ├───┐ │            └───────────┘          │ records, one behind another: │
//	└───┘   ▼ ▼                                   │  algorithm, lengths, key,    │
//	      other segments                          │  state (see record.go)       │
//	                                              ├──────────────────────────────┤ top
//	                                              │ free, pages in use           │
//	                                              ├──────────────────────────────┤ touched
//	                                              │ address space only           │
//	                                              └──────────────────────────────┘
//
// Finding a key touches two or three cache lines of far memory: one of the
// index, one or two of the record. A key of 17 bytes with a state of 8 costs
// 28 bytes for the record and about 6 for its slot.
//
// There is one way to grow, shrink, and collect garbage: to write a segment
// anew into another span, with an index of the right size (resize), into two
// (split), or two into one (merge). That moves at most one span's bytes, some
// tens of microseconds, and is the longest that a decision waits. Each segment
// is split at a size of its own (maxKeys), or else they would all be split at
// about the same time, and all be half empty after it.
//
// Rejected: offsets into one arena for each shard, with free lists. Slots are
// then twice as large, freed records leave holes of their own size, and memory
// goes back to the system only if all that shares its pages has gone.
//
// Invariants, checked after every step by builds with the tag selfcheck:
//
//   - The directory's entries for a segment's stretch point to that segment.
//   - Each record that lives has one slot, on its home line or, if that was
//     full, on one of the next reach lines; the home line counts it.
//   - Records lie one behind another from the index to top; those that are
//     dead sum up to garbage. touched is whole pages and not below top.
//   - No key of a segment expires before due.
//   - The budget counts what the arena, the segments, the directories and the
//     boxes have.
type table struct {
	dir       atomic.Pointer[directory] // Warm reads it without the shard's lock
	arena     *arena
	seed      uint64
	shardBits uint
	shard     uint64

	n        int // keys
	segments int
	// boxes holds the states that are too large for a span.
	boxes   map[uint32][]byte
	lastBox uint32

	expired, evicted, forgiven uint64
	deadlines                  []int64 // scratch of evict
}

// directory finds a segment by the leading bits of a place within the shard.
type directory struct {
	depth   uint
	deepest int // segments that are as deep as the directory
	segs    []atomic.Pointer[segment]
}

const (
	// placeBits is how many leading bits of a hash are its place.
	placeBits  = 48
	placeShift = 64 - placeBits

	// maxDepth bounds the directory.
	maxDepth = 20
	// minKeys is the least number of keys at which a segment is split. Some are
	// split at half as many more.
	minKeys = 1024
	// mergeKeys is the most keys of two segments that become one.
	mergeKeys = minKeys / 3

	segmentBytes = int(unsafe.Sizeof(segment{}))
	pointerBytes = int(unsafe.Sizeof(uintptr(0)))
)

func (t *table) init(a *arena, seed uint64, shardBits uint, shard int) {
	t.arena, t.seed, t.shardBits, t.shard = a, seed, shardBits, uint64(shard)
	t.reset()
}

// reset makes the table empty. What it had must be released before.
func (t *table) reset() {
	width := placeBits - t.shardBits
	d := &directory{deepest: 1, segs: make([]atomic.Pointer[segment], 1)}
	d.segs[0].Store(t.empty(0, t.shard<<width))
	t.dir.Store(d)
	t.arena.budget.add(pointerBytes)
	t.n = 0
}

// flush forgets all keys and gives their memory back.
func (t *table) flush() {
	d := t.dir.Load()
	for i := 0; i < len(d.segs); {
		g := d.segs[i].Load()
		i += 1 << (d.depth - g.depth)
		t.retire(g)
	}
	t.arena.budget.add(-pointerBytes * len(d.segs))
	for id := range t.boxes {
		t.unbox(id)
	}
	t.reset()
}

func (t *table) hash(key []byte) uint64 { return xxh3.HashSeed(key, t.seed) }

func (t *table) lookup(h uint64) *segment { return t.dir.Load().lookup(h, t.shardBits) }

func (d *directory) lookup(h uint64, shardBits uint) *segment {
	return d.segs[h<<shardBits>>(64-d.depth)].Load()
}

// find looks for key, whose hash is h.
func (t *table) find(h uint64, key []byte) (*segment, slot) {
	g := t.lookup(h)
	return g, g.find(h, key)
}

// state is the record's state, wherever it is.
func (t *table) state(r record) []byte {
	if r.isBoxed() {
		return t.boxes[boxOf(r)]
	}
	return r.state()
}

func (t *table) expires(r record) int64 { return limit.Expires(r.algorithm(), t.state(r)) }

func (t *table) info(r record) Info {
	const slotBytes = 4
	n := r.size() + slotBytes
	if r.isBoxed() {
		n += cap(t.state(r))
	}
	return Info{Algorithm: r.algorithm(), Expires: t.expires(r), Bytes: int64(n)}
}

// insert adds a key that is not there. Errors: ErrKey, errNoRoom (never if
// must is set) and those of the system.
func (t *table) insert(now int64, h uint64, key []byte, a limit.Algorithm, state []byte, must bool) error {
	if len(key) > MaxKey {
		return ErrKey
	}
	slen := len(state)
	if slen > maxInline {
		slen = boxID
	}
	g, err := t.makeRoom(now, h, sizeOf(len(key), slen), must)
	if err != nil {
		return err
	}
	t.place(g, h, key, a, state)
	t.n++
	return nil
}

// place appends the key to a segment that has room for it.
func (t *table) place(g *segment, h uint64, key []byte, a limit.Algorithm, state []byte) {
	g.due = min(g.due, limit.Expires(a, state))
	if len(state) > maxInline {
		g.add(h, byte(a)|boxed, key, t.box(state))
		return
	}
	g.add(h, byte(a), key, state)
}

// update gives a key that is there another state, which may have been written
// over the old one in place. The slot is of no use afterwards. Errors: those of
// the system; nothing has changed then.
func (t *table) update(now int64, h uint64, g *segment, at slot, key []byte, a limit.Algorithm, state []byte) error {
	r := g.record(at)
	if !r.isBoxed() && r.holds(len(state)) {
		r.setAlgorithm(a)
		if len(state) != r.slen {
			r.setStateLen(len(state))
		}
		copy(r.state()[:len(state)], state) // nothing, where it is in place already
		g.due = min(g.due, limit.Expires(a, state))
		return nil
	}
	slen := len(state)
	if slen > maxInline {
		slen = boxID
	}
	if r.isBoxed() && len(state) > maxInline {
		t.rebox(boxOf(r), state)
		r.setAlgorithm(a)
		g.due = min(g.due, limit.Expires(a, state))
		return nil
	}
	// Making room may move the record; a state in place would move with it.
	if !r.isBoxed() && unsafe.SliceData(state) == unsafe.SliceData(r.state()) {
		state = append([]byte(nil), state...)
	}
	if _, err := t.makeRoom(now, h, sizeOf(len(key), slen), true); err != nil {
		return err
	}
	g, at = t.find(h, key)
	t.drop(g, h, at)
	t.place(g, h, key, a, state)
	t.n++
	return nil
}

// remove drops the key at a slot.
func (t *table) remove(g *segment, h uint64, at slot) {
	t.drop(g, h, at)
	t.settle(g)
}

// drop is remove without tidying up.
func (t *table) drop(g *segment, h uint64, at slot) {
	if r := g.record(at); r.isBoxed() {
		t.unbox(boxOf(r))
	}
	g.drop(h, at)
	t.n--
}

// settle gives memory back after keys of g have gone, if that is worth the
// work: if about a third of it or more.
func (t *table) settle(g *segment) {
	if g.n == 0 {
		g.top, g.garbage, g.reach, g.due = g.records(), 0, 0, math.MaxInt64
	}
	if t.merge(g) {
		return
	}
	if need := t.arena.pages(needs(g.n, g.live())) + t.arena.page; g.base != nil && need*3/2 <= g.touched {
		// It can fail only if no other span can be had: then it stays as it is.
		_, _ = t.resize(g, 0, 0)
	}
}

// linesFor is how many lines an index has for n keys and some more to come.
func linesFor(n int) int { return (n + n/4 + fill) / fill }

// needs is how many bytes of a span n keys need, whose records have so many bytes.
func needs(n, bytes int) int {
	if n == 0 && bytes == 0 {
		return 0
	}
	return linesFor(n)*cacheLine + bytes
}

// maxKeys is the number of keys above which g is split.
func (t *table) maxKeys(g *segment) int {
	return minKeys + int(mix(t.seed^g.start^uint64(g.depth))%(minKeys/2))
}

// makeRoom returns the segment for a key with hash h, after it has seen to it
// that a record of size bytes can be added. With must it heeds no budget.
func (t *table) makeRoom(now int64, h uint64, size int, must bool) (*segment, error) {
	relieved := false
	for {
		g := t.lookup(h)
		tight := !must && t.arena.budget.over(0)
		if g.fits(size) && (!tight || relieved) {
			return g, nil
		}
		if !tight || relieved {
			ok, err := t.enlarge(g, size, must)
			if err != nil {
				return nil, err
			}
			if ok {
				continue
			}
		}
		if relieved || !t.relieve(now, g, size) {
			return nil, errNoRoom
		}
		relieved = true
	}
}

// fits tells whether another record can be added as things are.
func (g *segment) fits(size int) bool {
	return g.base != nil && g.n < int(g.lines)*fill && g.top+size <= g.touched
}

// enlarge takes one step towards room for another record in g's stretch: more
// pages, another size, or two segments. It tells whether the budget allowed it.
func (t *table) enlarge(g *segment, size int, must bool) (bool, error) {
	a := t.arena
	if g.base != nil && g.n < int(g.lines)*fill && g.top+size <= spanSize && g.garbage <= g.live()/4 {
		if more := a.pages(g.top+size) - g.touched; must || !a.budget.over(more) {
			a.budget.add(more)
			g.touched += more
			return true, nil
		}
	}
	need := needs(g.n+1, g.live()+size)
	if g.n >= 2 && t.splittable(g) && (g.n >= t.maxKeys(g) || need > spanSize) {
		if !must && a.budget.over(a.page+segmentBytes) {
			return false, nil
		}
		return true, t.split(g)
	}
	if need > spanSize {
		return false, ErrOOM
	}
	if !must && a.budget.over(a.pages(need)-g.touched) {
		return false, nil
	}
	_, err := t.resize(g, 1, size)
	return true, err
}

// splittable tells whether g may be split. Hashes that are nearly the same, and
// that nobody can find who does not know the seed, would have the directory
// doubled time and again for one segment: then that one grows, until its span
// is full.
func (t *table) splittable(g *segment) bool {
	d := t.dir.Load()
	return g.depth < d.depth || d.depth < maxDepth && len(d.segs) <= 16*t.segments
}

// empty returns a segment without keys, at a depth and a place.
func (t *table) empty(depth uint, start uint64) *segment {
	t.arena.budget.add(segmentBytes)
	t.segments++
	return &segment{start: start, width: placeBits - t.shardBits - depth, depth: depth, due: math.MaxInt64}
}

// build returns an empty segment with room for n keys in so many bytes.
func (t *table) build(depth uint, start uint64, n, bytes int) (*segment, error) {
	g := t.empty(depth, start)
	if n == 0 && bytes == 0 {
		return g, nil
	}
	// What fitted into one span still fits, with fewer spare lines.
	lines := min(linesFor(n), (spanSize-bytes)/cacheLine)
	base, touched, err := t.arena.get(lines*cacheLine + bytes)
	if err != nil {
		t.retire(g)
		return nil, err
	}
	g.base, g.touched, g.lines = base, touched, uint64(lines)
	g.top = g.records()
	clear(unsafe.Slice((*byte)(base), g.top))
	return g, nil
}

// retire gives back what a segment has that is no longer in the directory.
func (t *table) retire(g *segment) {
	t.arena.budget.add(-segmentBytes)
	t.segments--
	if g.base != nil {
		t.arena.put(g.base, g.touched)
	}
}

// copyTo copies g's records to the segments that to chooses by their hashes.
func (t *table) copyTo(g *segment, to func(h uint64) *segment) {
	g.each(func(r record) {
		h := t.hash(r.key())
		dst := to(h)
		dst.addCopy(h, r)
		dst.due = min(dst.due, t.expires(r))
	})
}

// resize writes g anew without its garbage, with room for so many more keys and bytes.
func (t *table) resize(g *segment, keys, bytes int) (*segment, error) {
	next, err := t.build(g.depth, g.start, g.n+keys, g.live()+bytes)
	if err != nil {
		return nil, err
	}
	next.rest = g.rest
	t.copyTo(g, func(uint64) *segment { return next })
	t.publish(next)
	t.retire(g)
	return next, nil
}

// split writes g anew as two segments.
func (t *table) split(g *segment) error {
	right := func(h uint64) int { return int(h >> placeShift >> (g.width - 1) & 1) }
	var n, bytes [2]int
	g.each(func(r record) {
		i := right(t.hash(r.key()))
		n[i]++
		bytes[i] += r.size()
	})
	var halves [2]*segment
	for i := range halves {
		half, err := t.build(g.depth+1, g.start+uint64(i)<<(g.width-1), n[i], bytes[i])
		if err != nil {
			if i == 1 {
				t.retire(halves[0])
			}
			return err
		}
		half.rest = g.rest
		halves[i] = half
	}
	t.copyTo(g, func(h uint64) *segment { return halves[right(h)] })
	if d := t.dir.Load(); g.depth == d.depth {
		t.double(d)
	}
	d := t.dir.Load()
	if g.depth+1 == d.depth {
		d.deepest += 2
	}
	t.publish(halves[0])
	t.publish(halves[1])
	t.retire(g)
	return nil
}

// merge makes one segment of g and its other half, if both are nearly empty,
// and goes on with the result. It tells whether it did.
func (t *table) merge(g *segment) bool {
	merged := false
	for g.n <= mergeKeys && g.depth > 0 {
		d := t.dir.Load()
		other := d.lookup((g.start^1<<g.width)<<placeShift, t.shardBits)
		n, bytes := g.n+other.n, g.live()+other.live()
		if other.depth != g.depth || n > mergeKeys || needs(n, bytes) > spanSize/4 {
			break
		}
		one, err := t.build(g.depth-1, min(g.start, other.start), n, bytes)
		if err != nil {
			break
		}
		t.copyTo(g, func(uint64) *segment { return one })
		t.copyTo(other, func(uint64) *segment { return one })
		if g.depth == d.depth {
			d.deepest -= 2
		}
		t.publish(one)
		t.retire(g)
		t.retire(other)
		if d.deepest == 0 {
			t.halve(d)
		}
		g, merged = one, true
	}
	return merged
}

// publish enters g into the directory.
func (t *table) publish(g *segment) {
	d := t.dir.Load()
	from := g.start << placeShift << t.shardBits >> (64 - d.depth)
	for i := range uint64(1) << (d.depth - g.depth) {
		d.segs[from+i].Store(g)
	}
}

// double makes a directory of twice the size.
func (t *table) double(d *directory) {
	next := &directory{depth: d.depth + 1, segs: make([]atomic.Pointer[segment], 2*len(d.segs))}
	for i := range next.segs {
		next.segs[i].Store(d.segs[i/2].Load())
	}
	t.arena.budget.add(pointerBytes * len(d.segs))
	t.dir.Store(next)
}

// halve makes the directory smaller while no segment needs it as it is.
func (t *table) halve(d *directory) {
	for d.depth > 0 && d.deepest == 0 {
		next := &directory{depth: d.depth - 1, segs: make([]atomic.Pointer[segment], len(d.segs)/2)}
		for i := range next.segs {
			g := d.segs[2*i].Load()
			next.segs[i].Store(g)
			if g.depth == next.depth {
				next.deepest++
			}
		}
		t.arena.budget.add(-pointerBytes * len(next.segs))
		t.dir.Store(next)
		d = next
	}
}

// box keeps a state outside the spans and returns what stands in its place.
func (t *table) box(state []byte) []byte {
	if t.boxes == nil {
		t.boxes = map[uint32][]byte{}
	}
	for taken := true; taken; {
		t.lastBox++
		_, taken = t.boxes[t.lastBox]
	}
	t.rebox(t.lastBox, state)
	return binary.LittleEndian.AppendUint32(nil, t.lastBox)
}

// rebox changes the state that a box holds.
func (t *table) rebox(id uint32, state []byte) {
	old := t.boxes[id]
	next := append(old[:0], state...)
	t.arena.budget.add(cap(next) - cap(old))
	t.boxes[id] = next
}

func (t *table) unbox(id uint32) {
	t.arena.budget.add(-cap(t.boxes[id]))
	delete(t.boxes, id)
}

func boxOf(r record) uint32 { return binary.LittleEndian.Uint32(r.state()) }
