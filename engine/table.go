package engine

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/zeebo/xxh3"
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
// index and one or two of the record. A key of 17 bytes with a state of 8 bytes
// takes 29 bytes for the record and about 6 for its slot.
//
// A table grows, shrinks, and collects garbage in only one way: it rewrites a
// segment into another span with an index of the right size (resize), into two
// (split), or two segments into one (merge). This moves at most the bytes of
// one span and takes some tens of microseconds, the longest that a decision
// waits. Each segment has its own size at which it is split (maxKeys).
// Otherwise all segments would be split at about the same time, and would then
// all be half empty.
//
// Rejected: offsets into one arena for each shard, with free lists. Slots would
// be twice as large, freed records would leave holes of their own size, and a
// page could return to the system only after everything on it is gone.
//
// Invariants, checked after every step by builds with the tag selfcheck:
//
//   - The directory's entries for a segment's stretch point to that segment.
//   - Each live record has one slot, on its home line or, if that was full, on
//     one of the next reach lines; the home line counts such strays.
//   - Records lie one behind another from the index to top; garbage is the total
//     size of the dead ones. touched is whole pages and not below top.
//   - No key of a segment expires before due.
//   - The budget counts the memory of the arena, the segments, the directories
//     and the boxes.
type table struct {
	dir       atomic.Pointer[directory] // Warm reads it without the shard's lock
	shardBits uint
	// changes records the changes; nil if nobody wants them.
	changes *changes

	arena *arena
	waits *waitlist // is told of evictions
	seed  uint64
	shard uint64

	n        int // keys
	segments int
	// boxes holds the states that are too large for a record. Their capacities
	// are whole pages.
	boxes   map[uint32][]byte
	lastBox uint32
	// ready is a box that already holds the long state that is about to be
	// stored; nil for none.
	ready []byte

	expired, evicted, evictedDenied, forgiven uint64
}

// directory finds a segment by the leading bits of a place within the shard.
type directory struct {
	depth   uint
	deepest int // number of segments as deep as the directory
	segs    []atomic.Pointer[segment]
}

const (
	// placeBits is the number of leading bits of a hash that form its place.
	placeBits  = 48
	placeShift = 64 - placeBits

	// maxDepth bounds the directory.
	maxDepth = 20
	// minKeys is the smallest number of keys at which a segment is split. Some
	// segments are split only at up to half as many more.
	minKeys = 1024
	// mergeKeys is the largest number of keys that two segments may have
	// together to be merged.
	mergeKeys = minKeys / 3

	segmentBytes = int(unsafe.Sizeof(segment{}))
	pointerBytes = int(unsafe.Sizeof(uintptr(0)))
)

func (t *table) init(a *arena, w *waitlist, seed uint64, shardBits uint, shard int) {
	t.arena, t.waits, t.seed, t.shardBits, t.shard = a, w, seed, shardBits, uint64(shard)
	t.reset()
}

// reset makes the table empty. The caller has released its former contents.
func (t *table) reset() {
	width := placeBits - t.shardBits
	d := &directory{deepest: 1, segs: make([]atomic.Pointer[segment], 1)}
	d.segs[0].Store(t.empty(0, t.shard<<width))
	t.dir.Store(d)
	t.arena.budget.add(pointerBytes)
	t.n = 0
}

// flush forgets all keys. It sets their memory aside for the arena to free.
func (t *table) flush() {
	t.arena.setAside(remains{t.dir.Load(), t.boxes})
	t.segments, t.boxes = 0, nil
	t.reset()
}

// remains is the former contents of a table.
type remains struct {
	dir   *directory
	boxes map[uint32][]byte
}

// setAside keeps the contents of a table until bury frees them. The budget
// counts them until then.
func (a *arena) setAside(r remains) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.aside = append(a.aside, r)
}

// bury frees the contents of one table, and reports whether there was one. Its
// spans keep their pages: returning pages takes the system some time, so trim
// does that.
func (a *arena) bury() bool {
	a.mu.Lock()
	n := len(a.aside)
	if n == 0 {
		a.mu.Unlock()
		return false
	}
	r := a.aside[n-1]
	a.aside[n-1] = remains{}
	a.aside = a.aside[:n-1]
	a.mu.Unlock()
	var spans []warmSpan
	r.each(func(g *segment) {
		if g.base != nil {
			spans = append(spans, warmSpan{g.base, g.touched})
		}
		a.budget.add(-segmentBytes)
	})
	a.keep(spans)
	a.budget.add(-pointerBytes * len(r.dir.segs))
	for _, box := range r.boxes {
		a.free(box)
	}
	return true
}

// each calls fn for each segment once.
func (r remains) each(fn func(g *segment)) {
	for i := 0; i < len(r.dir.segs); {
		g := r.dir.segs[i].Load()
		i += 1 << (r.dir.depth - g.depth)
		fn(g)
	}
}

func (t *table) hash(key []byte) uint64 { return xxh3.HashSeed(key, t.seed) }

func (t *table) lookup(h uint64) *segment { return t.dir.Load().lookup(h, t.shardBits) }

func (d *directory) lookup(h uint64, shardBits uint) *segment {
	return d.segs[h<<shardBits>>(64-d.depth)].Load()
}

// spot is a key with hash h, and where the table has it. It is valid until the
// table changes.
type spot struct {
	h   uint64
	key []byte
	g   *segment // where the key is or would be
	at  slot     // nil if the key is not there
	r   record   // of a key that is there
}

// find looks for the key of a spot that has only its key and hash, and
// completes the spot.
func (t *table) find(sp *spot) {
	sp.g = t.lookup(sp.h)
	if sp.at = sp.g.find(sp.h, sp.key); sp.at != nil {
		sp.r = sp.g.record(sp.at)
	}
}

// spotOf finds key.
func (t *table) spotOf(key []byte) spot {
	sp := spot{h: t.hash(key), key: key}
	t.find(&sp)
	return sp
}

// state returns the record's state, from the record or from its box.
func (t *table) state(r record) []byte {
	if r.isBoxed() {
		return t.boxes[boxOf(r)]
	}
	return r.state()
}

func (t *table) expires(r record) int64 { return expires(r.kind(), t.state(r)) }

func (t *table) info(r record) Info {
	const slotBytes = 4
	n := r.size() + slotBytes
	if r.isBoxed() {
		n += cap(t.state(r))
	}
	return Info{Kind: r.kind(), Expires: t.expires(r), Bytes: int64(n)}
}

// insert adds a key that is not in the table. Errors: ErrKey, errNoRoom (never
// if must is set) and those of the system.
func (t *table) insert(now int64, sp *spot, m mark, state []byte, must bool) error {
	if len(sp.key) > MaxKey {
		return ErrKey
	}
	g, err := t.makeRoom(now, sp.h, 1, sizeOf(len(sp.key), inline(state)), must)
	if err != nil {
		return err
	}
	content, m, err := t.content(m, state, must)
	if err != nil {
		return err
	}
	t.place(g, sp.h, sp.key, m, state, content)
	t.n++
	return nil
}

// inline returns the number of bytes that a state takes in its record.
func inline(state []byte) int {
	if len(state) > maxInline {
		return boxID
	}
	return len(state)
}

// needs returns the number of bytes that insert takes. For an existing key it
// returns the most that update takes, or 0 if the record can stay in place.
func (t *table) needs(sp *spot, state []byte) int {
	if sp.at != nil {
		r := sp.r
		if r.isBoxed() && len(state) > minBoxed || !r.isBoxed() && (r.holds(len(state)) || r.cuts(len(state))) {
			return 0
		}
	}
	return sizeOf(len(sp.key), inline(state))
}

// content returns what a new record stores as its state, and its mark. That is
// the state itself, or the number of a new box that holds it. Errors are those
// of rebox.
func (t *table) content(m mark, state []byte, must bool) ([]byte, mark, error) {
	if len(state) <= maxInline {
		return state, m, nil
	}
	number, err := t.box(state, must)
	return number, m | boxed, err
}

// place appends the key to a segment that has room for it.
func (t *table) place(g *segment, h uint64, key []byte, m mark, state, content []byte) {
	g.expects(expires(m.kind(), state))
	g.add(h, m, key, content)
}

// update replaces the state of an existing key. The new state may have been
// written over the old one in place. Errors: errNoRoom for a state that grows
// (never if must is set), and those of the system. After an error nothing has
// changed, except that a state that was written in place and cannot be kept is
// forgotten.
func (t *table) update(now int64, sp *spot, m mark, state []byte, must bool) error {
	g, r := sp.g, sp.r
	if unsafe.SliceData(state) == unsafe.SliceData(r.state()) && len(state) == r.slen {
		r.setMark(m)
		g.expects(expires(m.kind(), state)) // written in place: nothing to copy
		return nil
	}
	if r.isBoxed() {
		return t.updateBox(now, sp, m, state, must)
	}
	if len(state) <= maxInline && g.fit(r, len(state)) {
		r.setMark(m)
		if len(state) != r.slen {
			r.setStateLen(len(state))
			r.slen = len(state)
		}
		copy(r.state(), state) // copies nothing if it is already in place
		g.expects(expires(m.kind(), state))
		return nil
	}
	// Making room may move the record, and a state in place with it.
	inPlace := unsafe.SliceData(state) == unsafe.SliceData(r.state())
	if inPlace {
		state = append([]byte(nil), state...)
	}
	err := t.replace(now, sp, m, state, must || len(state) <= r.slen)
	if err != nil && inPlace {
		t.remove(sp)
	}
	return err
}

// replace rewrites the record of an existing key. It does not evict that key to
// make room for it.
func (t *table) replace(now int64, sp *spot, m mark, state []byte, must bool) error {
	sp.r.pin(true)
	_, err := t.makeRoom(now, sp.h, 1, sizeOf(len(sp.key), inline(state)), must)
	var content []byte
	if err == nil {
		content, m, err = t.content(m, state, must)
	}
	t.find(sp)
	if err != nil {
		sp.r.pin(false)
		return err
	}
	t.drop(sp)
	t.place(sp.g, sp.h, sp.key, m, state, content)
	t.n++
	return nil
}

// updateBox is update for a state in a box. A state that has become short moves
// back into its record if there is room.
func (t *table) updateBox(now int64, sp *spot, m mark, state []byte, must bool) error {
	r := sp.r
	if err := t.rebox(boxOf(r), state, must); err != nil {
		return err
	}
	r.setMark(m)
	sp.g.expects(t.expires(r))
	if len(state) <= minBoxed {
		// Dropping the old record frees the box.
		_ = t.replace(now, sp, m, bytes.Clone(t.state(r)), true)
	}
	return nil
}

// remove drops a key that is there.
func (t *table) remove(sp *spot) {
	t.drop(sp)
	t.settle(sp.g)
}

// drop is remove without settle.
func (t *table) drop(sp *spot) {
	if sp.r.isBoxed() {
		t.unbox(boxOf(sp.r))
	}
	sp.g.drop(sp.h, sp.at)
	t.n--
}

// box stores a state outside the records and returns the box number to store in
// its place. Errors are those of rebox.
func (t *table) box(state []byte, must bool) ([]byte, error) {
	if t.boxes == nil {
		t.boxes = map[uint32][]byte{}
	}
	for taken := true; taken; {
		t.lastBox++
		_, taken = t.boxes[t.lastBox]
	}
	if err := t.rebox(t.lastBox, state, must); err != nil {
		return nil, err
	}
	return binary.LittleEndian.AppendUint32(nil, t.lastBox), nil
}

// rebox changes the state that a box holds. It moves nothing if the state was
// written there in place. Errors: errNoRoom for a box that grows (never if must
// is set), and those of the system. After an error nothing has changed.
func (t *table) rebox(id uint32, state []byte, must bool) error {
	box := t.boxes[id]
	if t.ready != nil {
		t.arena.free(box)
		t.boxes[id], t.ready = t.ready, nil
		return nil
	}
	if n := len(state); cap(box) < n || cap(box) > 2*n {
		if more := t.arena.boxSize(n) - cap(box); !must && more > 0 && t.arena.budget.over(more) {
			return errNoRoom
		}
		next, err := t.arena.resize(box, state, 0)
		if err == nil {
			t.boxes[id] = next
		}
		return err
	}
	if unsafe.SliceData(box) == unsafe.SliceData(state) {
		box = box[:len(state)]
	} else {
		box = append(box[:0], state...)
	}
	t.boxes[id] = box
	return nil
}

// newBox returns a new box that holds a copy of state. It is not in use yet.
// Errors are those of rebox.
func (t *table) newBox(state []byte, must bool) ([]byte, error) {
	if !must && t.arena.budget.over(t.arena.boxSize(len(state))) {
		return nil, errNoRoom
	}
	box, err := t.arena.allot(len(state))
	if err != nil {
		return nil, err
	}
	return append(box, state...), nil
}

// widen makes room in a box for the growth of its state in one step. Errors are
// those of rebox.
func (t *table) widen(id uint32) error {
	box := t.boxes[id]
	if cap(box)-len(box) >= lateGrowth {
		return nil
	}
	if t.arena.budget.over(t.arena.page) {
		return errNoRoom
	}
	next, err := t.arena.resize(box, box, lateGrowth)
	if err == nil {
		t.boxes[id] = next
	}
	return err
}

// lateGrowth is larger than the growth of a long state in one step.
const lateGrowth = 256

func (t *table) unbox(id uint32) {
	t.arena.free(t.boxes[id])
	delete(t.boxes, id)
}

func boxOf(r record) uint32 { return binary.LittleEndian.Uint32(r.state()) }
