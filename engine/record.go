package engine

import (
	"math/bits"
	"unsafe"

	"limitdb/internal/journal"
	"limitdb/limit"
)

// A record is one key and its state, in a segment's span:
//
//	 0           1       2             3 (…)          4 (…)
//	┌───────────┬───────┬─────────────┬──────────────┬───────┬─────────┬───────┐
//	│ algorithm │ bound │ key length  │ state length │  key  │  state  │ slack │
//	│  1 byte   │ 1     │ 1–2 bytes   │  1–2 bytes   │       │         │       │
//	└───────────┴───────┴─────────────┴──────────────┴───────┴─────────┴───────┘
//
// Lengths have 7 bits in each byte, the low ones first, and the top bit set
// where another byte follows. The algorithm is 0 in a record that is dead: its
// bytes are garbage until the segment is rewritten. Its top bit is set where
// the state is too large for a span: then the 4 bytes of the number of a box
// (see table.box) stand in place of the state. The first two bytes together are
// the record's mark (see mark.go).
//
// There is no expiry in a record, since the state tells it.
//
// A longer state has some slack behind it (see room), so that it can grow a
// while where it is. What it no longer needs becomes a dead record behind it, and
// its own again when it grows (see segment.fit).
type record struct {
	at   unsafe.Pointer
	head int // bytes before the key
	klen int
	slen int
}

const (
	dead  = 0    // the algorithm of a dead record
	boxed = 0x80 // a bit of the mark: the state is in a box

	boxID = 4 // bytes of a box's number

	// MaxKey is the most bytes of a key.
	MaxKey = journal.MaxKey
	// maxInline is the most bytes of a state that is kept in a record. One that
	// was longer comes back into its record below minBoxed: a state that goes up
	// and down around the one is not moved each time.
	maxInline = 8 << 10
	minBoxed  = maxInline * 3 / 4
)

// view reads the header of the record at p.
func view(p unsafe.Pointer) record {
	k, s := *(*byte)(unsafe.Add(p, markSize)), *(*byte)(unsafe.Add(p, markSize+1))
	if k|s < 0x80 {
		return record{p, minRecord, int(k), int(s)}
	}
	klen, n := getLength(unsafe.Add(p, markSize))
	slen, m := getLength(unsafe.Add(p, markSize+n))
	return record{p, markSize + n + m, klen, slen}
}

// isOf reports whether the record at p is of key.
func isOf(p unsafe.Pointer, key []byte) bool {
	k, s := *(*byte)(unsafe.Add(p, markSize)), *(*byte)(unsafe.Add(p, markSize+1))
	if k|s < 0x80 {
		return int(k) == len(key) && string(unsafe.Slice((*byte)(unsafe.Add(p, minRecord)), len(key))) == string(key)
	}
	return string(view(p).key()) == string(key)
}

// put writes a record at p, which has sizeOf(len(key), len(state)) bytes.
func put(p unsafe.Pointer, m mark, key, state []byte) {
	*(*mark)(p) = m
	n := markSize + putLength(unsafe.Add(p, markSize), len(key))
	n += putLength(unsafe.Add(p, n), len(state))
	r := record{p, n, len(key), len(state)}
	copy(r.key(), key)
	copy(r.state(), state)
}

func (r record) mark() mark       { return *(*mark)(r.at) }
func (r record) kind() limit.Kind { return r.mark().kind() }
func (r record) isDead() bool     { return *(*byte)(r.at) == dead }
func (r record) isBoxed() bool    { return *(*byte)(r.at)&boxed != 0 }

// kill makes the record garbage.
func (r record) kill() { *(*byte)(r.at) = dead }

// setMark changes the mark of a record that lives, but for where its state is.
func (r record) setMark(m mark) {
	p := (*mark)(r.at)
	*p = m | *p&boxed
}

// setUse changes what the mark of a record tells of its use, if it is another.
func (r record) setUse(m mark) {
	p := (*mark)(r.at)
	const kept = boxed | kindBits
	if next := *p&kept | m&^kept; next != *p {
		*p = next
	}
}

func (r record) key() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(r.at, r.head)), r.klen)
}

// state is what the record holds as its state; its capacity is what a state that
// is written over it may have.
func (r record) state() []byte {
	most := room(r.slen)
	if r.slen < 1<<7 {
		most = min(most, 1<<7-1) // else the length has another byte
	}
	return unsafe.Slice((*byte)(unsafe.Add(r.at, r.head+r.klen)), most)[:r.slen]
}

// size is how many bytes the record has in its span.
func (r record) size() int { return r.head + r.klen + room(r.slen) }

// holds tells whether a state of n bytes can take the place of this one.
func (r record) holds(n int) bool {
	return room(n) == room(r.slen) && lengthLen(n) == lengthLen(r.slen)
}

// cuts tells whether a shorter state, of n bytes, can take the place of this one:
// whether what is left over is enough for a dead record.
func (r record) cuts(n int) bool {
	return n < r.slen && r.size()-sizeOf(r.klen, n) >= minRecord && lengthLen(n) == lengthLen(r.slen)
}

const (
	// minRecord is the size of a record without key and state.
	minRecord = markSize + 2
	// maxDead is less than what the lengths of a record can tell.
	maxDead = 1<<14 - 1
)

// putDead makes a dead record of n bytes at p, from minRecord to maxDead.
func putDead(p unsafe.Pointer, n int) {
	*(*byte)(p) = dead
	klen, slen := n-minRecord, 0
	if klen >= 1<<7 {
		// The length has a byte more, and the key one less; if that is few enough
		// for a length of one byte again, the state has it.
		if klen--; klen < 1<<7 {
			slen = 1
		}
	}
	putLength(unsafe.Add(p, markSize+putLength(unsafe.Add(p, markSize), klen)), slen)
}

// setStateLen changes the state's length to one that the record holds.
func (r record) setStateLen(n int) {
	putLength(unsafe.Add(r.at, markSize+lengthLen(r.klen)), n)
}

// sizeOf is how many bytes a record of these lengths has in a span.
func sizeOf(klen, slen int) int {
	return markSize + lengthLen(klen) + lengthLen(slen) + klen + room(slen)
}

// room is how many bytes are set apart for a state of n bytes: none more for a
// small one, which is likely of fixed size, else up to an eighth more.
func room(n int) int {
	if n <= 32 {
		return n
	}
	step := 1 << (bits.Len(uint(n-1)) - 4)
	return (n + step - 1) &^ (step - 1)
}

func lengthLen(n int) int {
	if n < 1<<7 {
		return 1
	}
	return 2
}

func putLength(p unsafe.Pointer, n int) int {
	if n < 1<<7 {
		*(*byte)(p) = byte(n)
		return 1
	}
	*(*byte)(p) = byte(n) | 0x80
	*(*byte)(unsafe.Add(p, 1)) = byte(n >> 7)
	return 2
}

func getLength(p unsafe.Pointer) (n, size int) {
	b := *(*byte)(p)
	if b < 0x80 {
		return int(b), 1
	}
	return int(b&0x7f) | int(*(*byte)(unsafe.Add(p, 1)))<<7, 2
}
