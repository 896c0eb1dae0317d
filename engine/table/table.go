// Package table keeps the records of one shard: keys and their states, in memory
// outside Go's heap. It finds, stores and removes them, grows and shrinks, drops
// what has expired, and evicts when memory is used up. All unsafe code is here.
//
// A Table has no lock. Its owner calls it under the shard's lock, except where a
// method says otherwise.
package table

import (
	"bytes"
	"errors"
	"sync/atomic"
	"unsafe"

	"limitdb/limit"
)

// Errors of Put and MakeRoom. After one of them nothing has changed.
var (
	// ErrKey is returned for a new key of more than MaxKey bytes.
	ErrKey = errors.New("engine: key is too long")
	// ErrOOM is returned for a record that no segment has room for.
	ErrOOM = errors.New("engine: the memory budget is used up")
	// ErrNoRoom is returned when the budget has no room for a new key or for a
	// state that grows, and this segment's keys give none.
	ErrNoRoom = errors.New("engine: no room")
)

// A Table is a directory of segments, as in extendible hashing (Fagin,
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
//
// A table has its segments, which know how to be rewritten, and they have the boxes
// of their records. The table itself knows of keys: which there are, which have
// expired, and which may be evicted.
type Table struct {
	segments
	owner *Owner
	n     int // records
	// beside is how many of them are beside a key's, and joint how many keys' have what is beside them.
	beside, joint int
	parts         []byte // scratch of compose

	expired, evicted, evictedDenied, forgiven uint64
	ranked                                    uint64 // keys looked at by evict
}

// Owner is what a Table asks of the shard that it belongs to.
type Owner struct {
	// Evicting is called for a key that is about to be evicted.
	Evicting func(kind limit.Kind, key []byte)
	// Evicted is called after some keys have been evicted.
	Evicted func()
	// Holds reports whether a key must not be evicted.
	Holds func(key []byte) bool
}

// Stats counts the keys in a table, and those that were removed from it.
type Stats struct {
	Keys, Segments, Boxes int
	// Expired and Evicted count the keys dropped for that reason, EvictedDenied
	// those whose callers were being denied. Forgiven is the sum of the times,
	// in nanoseconds, for which the evicted states still mattered.
	Expired, Evicted, EvictedDenied, Forgiven uint64
	// Ranked counts the keys that were looked at in order to evict some.
	Ranked uint64
}

// directory finds a segment by the leading bits of a place within the shard.
type directory struct {
	depth   uint
	deepest int // number of segments as deep as the directory
	segs    []atomic.Pointer[segment]
}

const (
	// PlaceBits is the number of leading bits of a hash that form its place.
	PlaceBits  = 48
	placeShift = 64 - PlaceBits

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

// Init makes t the empty table of a shard. Of each hash, made with seed, the
// first shardBits bits are the shard's number.
func (t *Table) Init(a *Arena, w *Owner, seed uint64, shardBits uint, shard int) {
	t.arena, t.owner, t.seed, t.shardBits, t.shard = a, w, seed, shardBits, uint64(shard)
	t.reset()
}

// reset makes the table empty. The caller has released its former contents.
func (t *Table) reset() {
	width := PlaceBits - t.shardBits
	d := &directory{deepest: 1, segs: make([]atomic.Pointer[segment], 1)}
	d.segs[0].Store(t.empty(0, t.shard<<width))
	t.dir.Store(d)
	t.arena.budget.add(pointerBytes)
	t.n, t.beside, t.joint = 0, 0, 0
}

// Flush forgets all keys. It sets their memory aside for the arena to free.
func (t *Table) Flush() {
	t.arena.setAside(remains{t.dir.Load(), t.boxes.states})
	t.segments.count, t.boxes.states = 0, nil
	t.reset()
}

// remains is the former contents of a table.
type remains struct {
	dir   *directory
	boxes map[uint32][]byte
}

// setAside keeps the contents of a table until Bury frees them. The budget
// counts them until then.
func (a *Arena) setAside(r remains) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.aside = append(a.aside, r)
}

// Bury frees the contents of one table, and reports whether there was one. Its
// spans keep their pages: returning pages takes the system some time, so Trim
// does that.
func (a *Arena) Bury() bool {
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
	a.mu.Lock()
	a.warm = append(a.warm, spans...)
	a.mu.Unlock()
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

func (d *directory) lookup(h uint64, shardBits uint) *segment {
	return d.segs[h<<shardBits>>(64-d.depth)].Load()
}

// Spot is a key with its hash, and where the table has it. Find completes it. It
// is valid until the table changes.
type Spot struct {
	Hash uint64
	Key  []byte
	// Beside is set for the record beside a key's.
	Beside bool

	g    *segment // where the key is or would be
	slot slot     // nil if the key is not there
	r    record   // of a key that is there
	box  *[]byte  // from MakeRoom: holds the state that Put is to store; nil for none
}

// Found reports whether the key is there. The methods below need that.
func (sp *Spot) Found() bool { return sp.slot != nil }

// Forget makes the spot that of a key that is not there.
func (sp *Spot) Forget() { sp.slot = nil }

// Kind returns the kind of the key's state.
func (sp *Spot) Kind() limit.Kind {
	if sp.Beside {
		return limit.HOLDS
	}
	return sp.r.kind()
}

// Boxed reports whether the state is a long one, in a box.
func (sp *Spot) Boxed() bool { return sp.r.isBoxed() }

// WasMark returns the mark of a key that is there, as Put takes it.
func (sp *Spot) WasMark() Mark { return sp.r.mark() &^ (boxed | pinned) }

// Pin has a key that is there not be evicted, or ends that. It does nothing for another.
func (t *Table) Pin(sp *Spot, on bool) {
	if sp.Found() {
		sp.r.pin(on)
	}
}

// Use notes what the last decision says about the use of the key's limit.
func (sp *Spot) Use(m Mark) { sp.r.setUse(m) }

// State returns the state of a key that is there. Its capacity is the room for a
// state written over it.
func (t *Table) State(sp *Spot) []byte {
	if sp.Beside && sp.r.blen() > 0 {
		return sp.r.beside()
	}
	return t.state(sp.r)
}

// KeyState is State for a spot that is not Beside. It is short, so that decisions include it.
func (t *Table) KeyState(sp *Spot) []byte { return t.state(sp.r) }

// Find looks for the key of a spot that has only its key and hash, and
// completes the spot.
func (t *Table) Find(sp *Spot) {
	sp.g = t.lookup(sp.Hash)
	if sp.slot = sp.g.find(sp.Hash, sp.Key); sp.slot != nil {
		p := sp.g.at(*sp.slot & offsetMask)
		if k, s := *(*byte)(unsafe.Add(p, markSize)), *(*byte)(unsafe.Add(p, markSize+1)); k|s < 0x80 { // view, without a call
			sp.r = record{p, minRecord, int(k), int(s)}
		} else {
			sp.r = viewLong(p)
		}
	} else if sp.Beside {
		findJoint(t, sp)
	}
}

// Info describes one key.
type Info struct {
	Kind limit.Kind
	// Expires is the Unix time in nanoseconds from which the state no longer matters.
	Expires int64
	// Level is the state as one number, as limit.Level returns it; 0 from
	// walks.
	Level int64
	// Bytes is the memory that the key uses: its record and its slot in the
	// index.
	Bytes int64
	// Block is the last block of a key that is blocked, or was lately; the zero value from walks.
	Block limit.Block
}

// Info describes a key that is there, at now.
func (t *Table) Info(sp *Spot, now int64) Info {
	info := t.info(sp.r)
	info.Level = limit.Level(sp.r.kind(), t.state(sp.r), now)
	if info.Kind == limit.BLOCK {
		_, _, _ = info.Block.Open(t.state(sp.r), now) // of a damaged state, it is what can be read
	}
	return info
}

func (t *Table) info(r record) Info {
	const slotBytes = 4
	n := r.size() + slotBytes
	if r.isBoxed() {
		n += cap(t.state(r))
	}
	return Info{Kind: r.kind(), Expires: t.expires(r), Bytes: int64(n)}
}

// Live finds a key. If the key has expired at now, Live drops it.
func (t *Table) Live(now int64, sp *Spot) {
	t.Find(sp)
	if sp.slot == nil {
		return
	}
	expires := t.expires(sp.r)
	if sp.Beside && sp.r.blen() > 0 {
		expires = Expires(limit.HOLDS, sp.r.beside())
	}
	if expires <= now {
		t.Remove(sp)
		t.expired++
		sp.slot = nil
	}
}

// insert adds a key that is not in the table. Errors: ErrKey, ErrNoRoom (never
// if must is set) and those of the system.
func (t *Table) insert(now int64, sp *Spot, m Mark, state []byte, must bool) error {
	if len(sp.Key) > MaxKey {
		return ErrKey
	}
	g, err := t.makeRoom(now, sp.Hash, 1, sizeOf(len(sp.Key), inline(state)), must)
	if err != nil {
		return err
	}
	content, m, err := t.content(sp, m, state, must)
	if err != nil {
		return err
	}
	t.add(g, sp.Hash, sp.Key, m, state, content)
	t.n++
	if m.Kind() == limit.HOLDS {
		t.beside++
	}
	return nil
}

// makeRoom makes room for keys more keys, whose records take size bytes
// together, in the segment for hash h, and returns that segment. If must is
// set, it ignores the budget.
func (t *Table) makeRoom(now int64, h uint64, keys, size int, must bool) (*segment, error) {
	relieved := false
	for {
		g := t.lookup(h)
		tight := !must && t.arena.budget.over(0)
		if g.fits(keys, size) && (!tight || relieved) {
			return g, nil
		}
		if !tight || relieved {
			ok, err := t.enlarge(g, keys, size, must)
			if err != nil {
				return nil, err
			}
			if ok {
				continue
			}
		}
		if t.relieve(now, g, size) == 0 || !t.shrinkFor(g, keys, size) {
			return nil, ErrNoRoom
		}
		relieved = true
	}
}

// inline returns the number of bytes that a state takes in its record.
func inline(state []byte) int {
	if len(state) > maxInline {
		return boxID
	}
	return len(state)
}

// content returns what a new record stores as its state, and its mark. That is
// the state itself, or the number of a new box that holds it. Errors are those
// of rebox.
func (t *Table) content(sp *Spot, m Mark, state []byte, must bool) ([]byte, Mark, error) {
	if len(state) <= maxInline {
		return state, m, nil
	}
	number, err := t.addBox(sp, state, must)
	return number, m | boxed, err
}

// add appends the key to a segment that has room for it.
func (t *Table) add(g *segment, h uint64, key []byte, m Mark, state, content []byte) {
	expires := Expires(m.Kind(), state)
	t.expects(g, expires)
	g.add(h, m, key, content)
	if m.mayGo(expires) {
		t.unbar(g)
	}
}

// Put gives the key of a spot a state and a mark. It ignores the budget if must
// is set. The new state of a key that is there may have been written over the old
// one in place. Errors: ErrKey, ErrNoRoom, and those of the system. After an error
// nothing has changed, except that a state that was written in place and cannot be
// kept is forgotten.
func (t *Table) Put(now int64, sp *Spot, m Mark, state []byte, must bool) error {
	if sp.slot == nil || sp.Beside {
		if sp.Beside {
			return putBeside(t, now, sp, m, state, must)
		}
		return t.insert(now, sp, m, state, must)
	}
	g, r := sp.g, sp.r
	if r.isBoxed() {
		return t.updateBox(now, sp, m, state, must)
	}
	if len(state) == r.slen {
		r.setMark(m)
		if at := r.stateAt(); at != unsafe.SliceData(state) { // else written in place
			copy(unsafe.Slice(at, r.slen), state)
		}
		t.expects(g, Expires(m.Kind(), state))
		return nil
	}
	if r.blen() > 0 {
		return putJoint(t, now, sp, m, state, must)
	}
	if len(state) <= maxInline && g.fit(r, len(state)) {
		r.setMark(m)
		r.setStateLen(len(state))
		r.slen = len(state)
		copy(r.state(), state) // copies nothing if it is already in place
		t.expects(g, Expires(m.Kind(), state))
		return nil
	}
	// Making room may move the record, and a state in place with it.
	inPlace := unsafe.SliceData(state) == unsafe.SliceData(r.state())
	if inPlace {
		state = append([]byte(nil), state...)
	}
	err := t.replace(now, sp, m, state, must || len(state) <= r.slen)
	if err != nil && inPlace {
		t.Remove(sp)
	}
	return err
}

// replace rewrites the record of an existing key. It does not evict that key to
// make room for it.
func (t *Table) replace(now int64, sp *Spot, m Mark, state []byte, must bool) error {
	sp.r.pin(true)
	_, err := t.makeRoom(now, sp.Hash, 1, sizeOf(len(sp.Key), inline(state)), must)
	var content []byte
	if err == nil {
		content, m, err = t.content(sp, m, state, must)
	}
	t.Find(sp)
	if err != nil {
		sp.r.pin(false)
		return err
	}
	t.drop(sp)
	t.add(sp.g, sp.Hash, sp.Key, m, state, content)
	t.n++
	if m.Kind() == limit.HOLDS {
		t.beside++
	}
	return nil
}

// updateBox is Put for a state in a box. A state that has become short moves
// back into its record if there is room.
func (t *Table) updateBox(now int64, sp *Spot, m Mark, state []byte, must bool) error {
	r, expires := sp.r, Expires(m.Kind(), state) // rebox may free its bytes
	if err := t.rebox(boxOf(r), sp, state, must); err != nil {
		return err
	}
	r.setMark(m)
	t.expects(sp.g, expires)
	if len(state) <= minBoxed {
		// Dropping the old record frees the box.
		_ = t.replace(now, sp, m, bytes.Clone(t.state(r)), true)
	}
	return nil
}

// Remove drops a key that is there, or what is beside one.
func (t *Table) Remove(sp *Spot) {
	switch {
	case sp.r.blen() == 0 || sp.r.kind() == limit.HOLDS:
		t.drop(sp)
	case sp.Beside:
		cut(t, sp.g, sp.r)
	default:
		leave(t, sp)
		return
	}
	t.compact(sp.g)
}

// drop drops a record.
func (t *Table) drop(sp *Spot) {
	if sp.r.isBoxed() {
		t.unbox(boxOf(sp.r))
	}
	switch {
	case sp.r.kind() == limit.HOLDS:
		t.beside--
	case sp.r.blen() > 0:
		t.joint--
	}
	sp.g.drop(sp.Hash, sp.slot)
	t.n--
	t.unbar(sp.g)
}

// Stats returns the table's counters.
func (t *Table) Stats() Stats {
	return Stats{
		Keys: t.n - t.beside, Segments: t.segments.count, Boxes: len(t.boxes.states),
		Expired: t.expired, Evicted: t.evicted, EvictedDenied: t.evictedDenied, Forgiven: t.forgiven,
		Ranked: t.ranked,
	}
}
