package table

import (
	"encoding/binary"
	"math"
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
// Lengths have 7 bits in each byte, the low ones first. The top bit is set if
// another byte follows. The algorithm of a dead record is 0: its bytes are
// garbage until the segment is rewritten. The algorithm's top bit is set if the
// state is too large for a span. The record then holds the 4-byte number of a
// box (see table.box) instead of the state. The first two bytes together are
// the record's mark (see mark.go).
//
// A record has no expiry field: the state determines when it expires.
//
// The record of a key may also have what is known of the key's ids: see beside.go.
//
// A longer state has some slack behind it (see room), so that it can grow in
// place for a while. The bytes that it no longer needs become a dead record
// behind it. It takes them back when it grows again (see segment.fit).
//
// It has no more fields than the compiler keeps in registers.
type record struct {
	at   unsafe.Pointer
	meta int // bytes before the key, and those beside the state << besideShift
	klen int
	slen int
}

// besideShift is the shift of the number of bytes beside the state.
const besideShift = 8

// head returns the number of bytes before the key.
func (r record) head() int { return r.meta & (1<<besideShift - 1) }

// blen returns the number of bytes of what is beside the state, behind it; 0 for nothing.
func (r record) blen() int { return r.meta >> besideShift }

const (
	dead  = 0    // the algorithm of a dead record
	boxed = 0x80 // a bit of the mark: the state is in a box
	// pinned is a bit of the mark: the record must not be evicted now. It is set
	// only within a step.
	pinned = 0x20

	boxID = 4 // bytes of a box's number

	// MaxKey is the largest length of a key in bytes.
	MaxKey = journal.MaxKey
	// maxInline is the largest state, in bytes, that is kept in a record. A
	// larger one moves to a box, and returns to its record only at minBoxed
	// bytes or fewer. A state whose length varies around maxInline is thus not
	// moved each time.
	maxInline = 8 << 10
	minBoxed  = maxInline * 3 / 4
)

// view reads the header of the record at p.
func view(p unsafe.Pointer) record {
	k, s := *(*byte)(unsafe.Add(p, markSize)), *(*byte)(unsafe.Add(p, markSize+1))
	if k|s < 0x80 {
		return record{p, minRecord, int(k), int(s)}
	}
	return viewLong(p)
}

// viewLong is view for a header of more than minRecord bytes.
func viewLong(p unsafe.Pointer) record {
	if isJoint(p) {
		blen, n := getLength(unsafe.Add(p, jointBeside))
		return record{p, jointBeside + n + blen<<besideShift, jointKey(p), int(*(*byte)(unsafe.Add(p, jointBeside-1)))}
	}
	klen, n := getLength(unsafe.Add(p, markSize))
	slen, m := getLength(unsafe.Add(p, markSize+n))
	return record{p, markSize + n + m, klen, slen}
}

// isOf reports whether the record at p belongs to key.
func isOf(p unsafe.Pointer, key []byte) bool {
	k, s := *(*byte)(unsafe.Add(p, markSize)), *(*byte)(unsafe.Add(p, markSize+1))
	if k|s < 0x80 {
		return int(k) == len(key) && string(unsafe.Slice((*byte)(unsafe.Add(p, minRecord)), len(key))) == string(key)
	}
	if isJoint(p) {
		at := unsafe.Add(p, jointBeside+1+int(*(*byte)(unsafe.Add(p, jointBeside))>>7))
		return jointKey(p) == len(key) && string(unsafe.Slice((*byte)(at), len(key))) == string(key)
	}
	return string(view(p).key()) == string(key)
}

// put writes a record at p, which has sizeOf(len(key), len(state)) bytes.
func put(p unsafe.Pointer, m Mark, key, state []byte) {
	*(*Mark)(p) = m
	n := markSize + putLength(unsafe.Add(p, markSize), len(key))
	n += putLength(unsafe.Add(p, n), len(state))
	r := record{p, n, len(key), len(state)}
	copy(r.key(), key)
	copy(r.state(), state)
}

func (r record) mark() Mark       { return *(*Mark)(r.at) }
func (r record) kind() limit.Kind { return r.mark().Kind() }
func (r record) isDead() bool     { return *(*byte)(r.at) == dead }
func (r record) isBoxed() bool    { return *(*byte)(r.at)&boxed != 0 }

// kill makes the record garbage.
func (r record) kill() { *(*byte)(r.at) = dead }

// pin sets or clears the record's pinned bit.
func (r record) pin(on bool) {
	p := (*Mark)(r.at)
	if *p &^= pinned; on {
		*p |= pinned
	}
}

// setMark changes the mark of a live record, except for its boxed bit.
func (r record) setMark(m Mark) {
	p := (*Mark)(r.at)
	*p = m | *p&boxed
}

// setUse changes the part of a record's mark that describes its use. It writes
// nothing if that part stays the same.
func (r record) setUse(m Mark) {
	p := (*Mark)(r.at)
	const kept = boxed | kindBits
	if next := *p&kept | m&^kept; next != *p {
		*p = next
	}
}

func (r record) key() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(r.at, r.head())), r.klen)
}

// state returns the bytes that the record holds as its state. Its capacity is
// the room for a state written over it.
func (r record) state() []byte {
	most := r.slen
	if most > exactRoom {
		if most = room(r.slen); r.slen < 1<<7 {
			most = min(most, 1<<7-1) // a longer one needs another length byte
		}
	}
	return unsafe.Slice(r.stateAt(), most)[:r.slen]
}

// stateAt returns where the state begins.
func (r record) stateAt() *byte { return (*byte)(unsafe.Add(r.at, r.head()+r.klen)) }

// size returns the number of bytes that the record takes in its span.
func (r record) size() int { return r.head() + r.klen + room(r.slen+r.blen()) }

// holds reports whether a state of n bytes fits exactly in the room of this
// one.
func (r record) holds(n int) bool {
	return room(n) == room(r.slen) && lengthLen(n) == lengthLen(r.slen)
}

// cuts reports whether a shorter state of n bytes can replace this one in
// place: whether the rest is large enough for a dead record.
func (r record) cuts(n int) bool {
	return n < r.slen && r.size()-sizeOf(r.klen, n) >= minRecord && lengthLen(n) == lengthLen(r.slen)
}

const (
	// minRecord is the size of a record without key and state.
	minRecord = markSize + 2
	// maxDead is less than the largest size that a record's lengths can
	// express.
	maxDead = 1<<14 - 1
)

// putDead writes a dead record of n bytes at p; n is from minRecord to maxDead.
func putDead(p unsafe.Pointer, n int) {
	*(*byte)(p) = dead
	klen, slen := n-minRecord, 0
	if klen >= 1<<7 {
		// The key's length takes a byte more, so the key gets one less. If its
		// length then fits into one byte again, the state gets that byte.
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

// sizeOf returns the number of bytes that a record with these lengths takes in
// a span.
func sizeOf(klen, slen int) int {
	return markSize + lengthLen(klen) + lengthLen(slen) + klen + room(slen)
}

// exactRoom is the longest state, in bytes, that has no slack behind it.
const exactRoom = 32

// room returns the number of bytes reserved for a state of n bytes: n for a
// small one, whose size is probably fixed, otherwise up to an eighth more.
func room(n int) int {
	if n <= exactRoom {
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

// Expires is limit.Expires for a kind that is known, as all in the table are.
func Expires(k limit.Kind, state []byte) int64 {
	switch {
	case k >= limit.STRING && k&1 == 1 && len(state) > 0:
		return math.MaxInt64
	case len(state) < 8:
		return math.MinInt64
	}
	return int64(binary.LittleEndian.Uint64(state))
}
