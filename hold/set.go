// Package hold keeps what is known of the ids of a key: the estimates that are held, and
// for a while what has become of them. It is bytes and places; it knows no limits.
package hold

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"

	"github.com/zeebo/xxh3"
)

// A Set is the state of a record beside a key, in one of two forms. Most keys have few ids,
// so a short Set is compact: see compact.go. But one key may have 65 536 holds, and a step
// that concerns one of them must not walk over the others, nor copy them. So a long Set has
// an index by id, and a heap of the holds that go back when their time is over. A step
// makes an Edit: some numbers of a fixed size change where they are, and an entry comes at
// the end. What is dead goes when a Set is written anew, because it has no room left.
//
//	0         8          12     13      17     21       25    26     30     38     46
//	┌─────────┬──────────┬──────┬───────┬──────┬────────┬─────┬──────┬──────┬──────┬─────────┬────────┬─────────┐
//	│ expires │ revision │ form │ count │ live │ queued │ log │ room │ void │ seed │ index   │ heap   │ entries │
//	│         │          │ 0    │       │      │        │     │      │      │      │ 4·2^log │ 4·room │         │
//	└─────────┴──────────┴──────┴───────┴──────┴────────┴─────┴──────┴──────┴──────┴─────────┴────────┴─────────┘
//
// All numbers are little-endian. Count is how many entries there are, live at least how many
// of them are. Queued is how many of the heap's places are in use, and room how many it has. A
// place of the index or of the heap has the offset of an entry, or 0; the index is an open hash
// table, and the top 6 bits of a place of it are of the hash. Void is a time: the key was reset then, so what was taken by then does not go back. It ends
// with a hold that is taken at that very time, after the reset: then it is the Back of those that were taken before. An entry:
//
//	0        1        2       10     16     24       32       33
//	┌────────┬────────┬───────┬──────┬──────┬────────┬────────┬────┬───────┐
//	│ status │ id     │ until │ rest │ back │ amount │ limit  │ id │ limit │
//	│        │ length │       │      │      │        │ length │    │       │
//	└────────┴────────┴───────┴──────┴──────┴────────┴────────┴────┴───────┘
//
// Nearly every entry of Once says nothing but this, and then it is brief: its status is 0x85, the amount is below 256, rest and
// back are 0, and the limit has 8 bytes.
//
//	0        1        2       10       11   11+id
//	┌────────┬────────┬───────┬────────┬────┬───────┐
//	│ status │ id     │ until │ amount │ id │ limit │
//	│        │ length │       │        │    │ 8     │
//	└────────┴────────┴───────┴────────┴────┴───────┘
type Set []byte

// Status is what has become of a hold.
type Status uint8

// The statuses.
const (
	// Kept is a hold whose estimate stays taken when its time is over.
	Kept Status = iota
	// Returning is a hold whose estimate goes back when its time is over.
	Returning
	// Returned is a hold whose time was over, and whose estimate has gone back.
	Returned
	// Committed is a hold that has been settled.
	Committed
	// Cancelled is a hold that has been given up, perhaps before it was made.
	Cancelled
	// Once is no hold: the id of a request that was granted, and is to count once. It is known until Until.
	Once
	statuses
)

// Entry is what is known of an id.
type Entry struct {
	ID     []byte
	Status Status
	// Until is when the hold's time is over, or would have been. It is in Unix nanoseconds, as all times are.
	Until int64
	// Rest is for how long the id is remembered after that: for as long as it was held. It is less than 0 for one
	// that is forgotten sooner because it was settled.
	Rest int64
	// Back is when all that was in use when it was taken has come back by itself. Of one
	// that was settled, it is how much more was taken than had been, or less than 0. Of Once, it is when the
	// request goes ahead, if that is later.
	Back int64
	// Amount is what is taken. Of one that was settled, it is how much was beyond the limit.
	Amount int64
	// Limit is the limit under which it was taken, as its owner encodes it. Of Once, it is what was asked for.
	Limit []byte

	at        int    // where it is
	free, tag uint32 // the place of the index that Find has found free for its id, or 0 if it is not known, and the id's tag
	full      *Full  // what Room has found out of the set; nil for nothing
}

// Place tells an entry where Add is to put it. unknown is what Find has made of an entry when it has found nothing about the same id in the
// same set.
func (e *Entry) Place(unknown *Entry) { e.free, e.tag = unknown.free, unknown.tag }

// Settled reports whether the hold has been committed or cancelled.
func (e *Entry) Settled() bool { return e.Status == Committed || e.Status == Cancelled }

// Live reports whether the estimate is held at now.
func (e *Entry) Live(now int64) bool { return e.Status <= Returning && e.Until > now }

// Taken returns when the estimate was taken, of one that is not settled.
func (e *Entry) Taken() int64 { return e.Until - e.Rest }

// Forgotten returns when the id is forgotten.
func (e *Entry) Forgotten() int64 {
	forgotten := e.Until + e.Rest
	if e.Rest > 0 && forgotten < e.Until {
		forgotten = math.MaxInt64
	}
	if e.Status == Returning { // it must still go back
		forgotten = max(forgotten, e.Back)
	}
	return forgotten
}

const (
	// MaxID is the largest length of an id, MaxLimit that of an encoded limit, in bytes.
	MaxID, MaxLimit = 128, 255
	// MaxTTL is the longest time of a hold, in ns: 39 hours.
	MaxTTL = 1<<47 - 1
	// MaxLive is the largest number of holds of one key that are live. A key always has
	// room for MaxKnown ids. It may know more, up to most, because forgotten ids are removed many at a time.
	MaxLive, MaxKnown = 1 << 16, 7 << 14

	headSize = 12 // expires and revision
	setSize  = 46 // of a long set without index, heap and entries
	minLog   = 4
	maxLog   = 18
	most     = 1 << 17 // entries, of which some may be forgotten

	entrySize                                                        = 33
	formAt, countAt, liveAt, queuedAt, logAt, roomAt, voidAt, seedAt = 12, 13, 17, 21, 25, 26, 30, 38
	statusAt, idAt, untilAt, restAt, backAt, amountAt, limitLenAt    = 0, 1, 2, 10, 16, 24, 32

	brief                = 0x80 | byte(Once) // the status of a brief entry
	briefAmountAt        = 10
	briefSize, briefOnly = 11, 8                 // of a brief entry without its id and limit, and of the limit
	leastEntry           = briefSize + briefOnly // bytes of the shortest entry
)

// Valid reports whether the set is one that can be read: its parts lie within it. The entries are looked at
// when they are read.
func (s Set) Valid() bool {
	if s.compact() {
		return len(s) >= compactHead(s)
	}
	return len(s) >= setSize && s[formAt] == 0 && s[logAt] >= minLog && s[logAt] <= maxLog && s.room() <= most &&
		s.entries() <= len(s) && s.queued() <= s.room()
}

// Check returns an error if a set, or an entry of it, cannot be read.
func (s Set) Check() error {
	if !s.Valid() {
		return errDamaged
	}
	var e Entry
	for w := s.walk(); ; {
		switch {
		case w.next(&e):
		case w.at == len(s):
			return nil
		default:
			return errDamaged
		}
	}
}

var errDamaged = errors.New("hold: the set is damaged")

func (s Set) expires() int64 { return int64(binary.LittleEndian.Uint64(s)) }
func (s Set) count() int     { return int(binary.LittleEndian.Uint32(s[countAt:])) }
func (s Set) live() int      { return int(binary.LittleEndian.Uint32(s[liveAt:])) }
func (s Set) queued() int    { return int(binary.LittleEndian.Uint32(s[queuedAt:])) }
func (s Set) places() int    { return 1 << s[logAt] }
func (s Set) room() int      { return int(binary.LittleEndian.Uint32(s[roomAt:])) }
func (s Set) heap() int      { return setSize + 4*s.places() }
func (s Set) entries() int   { return s.heap() + 4*s.room() }

// Void returns the time of Voided, or the least int64.
func (s Set) Void() int64 {
	switch {
	case !s.Valid():
		return never
	case !s.compact():
		return int64(binary.LittleEndian.Uint64(s[voidAt:]))
	case s[formAt]&hasVoid != 0:
		return int64(binary.LittleEndian.Uint64(s[compactHead(s)-8:]))
	}
	return never
}

// never is a time before all others.
const never = math.MinInt64

func (s Set) hash(id []byte) uint64 { return xxh3.HashSeed(id, binary.LittleEndian.Uint64(s[seedAt:])) }

// read reads the entry at an offset; its size is 0 if there is none.
func (s Set) read(at int, e *Entry) (size int) {
	if at < headSize || len(s)-at < leastEntry {
		return 0
	}
	b := s[at:]
	if b[statusAt] == brief {
		id := briefSize + int(b[idAt])
		if size = id + briefOnly; len(b) < size || b[idAt] > MaxID {
			return 0
		}
		*e = Entry{
			ID: b[briefSize:id:id], Limit: b[id:size:size], Status: Once, Until: int64(binary.LittleEndian.Uint64(b[untilAt:])), Amount: int64(b[briefAmountAt]), at: at,
		}
		return size
	}
	if len(b) < entrySize {
		return 0
	}
	size = entrySize + int(b[idAt]) + int(b[limitLenAt])
	if len(b) < size || Status(b[statusAt]) >= statuses || b[idAt] > MaxID {
		return 0
	}
	id := entrySize + int(b[idAt])
	*e = Entry{
		ID: b[entrySize:id:id], Limit: b[id:size:size], Status: Status(b[statusAt]), Until: int64(binary.LittleEndian.Uint64(b[untilAt:])),
		Rest: int64(binary.LittleEndian.Uint64(b[restAt:])) << 16 >> 16, Back: int64(binary.LittleEndian.Uint64(b[backAt:])), Amount: int64(binary.LittleEndian.Uint64(b[amountAt:])), at: at,
	}
	return size
}

// appendEntry appends an entry to b.
func appendEntry(b []byte, e *Entry) []byte {
	if e.Status == Once && e.Back|e.Rest == 0 && uint64(e.Amount) < 1<<8 && len(e.Limit) == briefOnly {
		b = append(b, brief, byte(len(e.ID)))
		b = append(binary.LittleEndian.AppendUint64(b, uint64(e.Until)), byte(e.Amount))
		return append(append(b, e.ID...), e.Limit...)
	}
	b = append(b, byte(e.Status), byte(len(e.ID)))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.Until))
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Rest))
	b = binary.LittleEndian.AppendUint16(b, uint16(e.Rest>>32))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.Back))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.Amount))
	b = append(b, byte(len(e.Limit)))
	return append(append(b, e.ID...), e.Limit...)
}

// A walk goes over the entries of a set that is Valid, in the order in which they came.
type walk struct {
	s      Set
	at     int
	size   int    // of the entry that nextKnown has found
	status Status // of it
}

func (s Set) walk() walk {
	if s.compact() {
		return walk{s: s, at: compactHead(s)}
	}
	return walk{s: s, at: s.entries()}
}

// next reads the next entry. It returns false at the end, and before an entry that is damaged.
func (w *walk) next(e *Entry) bool {
	size := w.s.read(w.at, e)
	w.at += size
	return size > 0
}

// nextKnown finds the next entry that is known at now, and reads it unless e is nil.
func (w *walk) nextKnown(now int64, e *Entry) bool {
	for len(w.s)-w.at >= leastEntry {
		at := w.at
		w.size, w.status = sizeAt(w.s, at), Status(w.s[at+statusAt])
		w.at += w.size
		if forgottenAt(w.s, at) > now {
			return w.at <= len(w.s) && (e == nil || w.s.read(at, e) > 0)
		}
	}
	return false
}

// Each yields the entries that are known at now, in the order in which they came.
func (s Set) Each(now int64, yield func(e *Entry) bool) {
	if !s.Valid() {
		return
	}
	var e Entry
	for w := s.walk(); w.next(&e); {
		if e.Forgotten() > now && !yield(&e) {
			return
		}
	}
}

// Find finds what is known of an id at now.
func (s Set) Find(now int64, id []byte, e *Entry) (ok bool) {
	switch {
	case s.compact():
		return findCompact(s, id, e) && e.Forgotten() > now
	case !s.Valid():
		return false
	}
	at := s.place(id, e)
	return at > 0 && binary.LittleEndian.Uint32(s[at:]) != 0 && e.Forgotten() > now
}

// place returns where the index has an id, and reads its entry, or the free place where it would be. It is 0
// if the set is damaged.
func (s Set) place(id []byte, e *Entry) (at int) {
	h := s.hash(id)
	tag := tagOf(h)
	e.free = 0
	mask := s.places() - 1
	for i, n := int(h)&mask, 0; n <= mask; i, n = (i+1)&mask, n+1 {
		at = setSize + 4*i
		entry := binary.LittleEndian.Uint32(s[at:])
		if entry == 0 {
			e.free, e.tag = uint32(at), tag
			return at
		}
		if entry&tagBits != tag {
			continue
		}
		if s.read(int(entry&^tagBits), e) == 0 {
			return 0
		}
		if bytes.Equal(e.ID, id) {
			return at
		}
	}
	return 0
}

// tagBits are the bits of a place of the index that are those of the hash. The offsets of entries are less.
const tagBits = 0xfc000000

func tagOf(h uint64) uint32 { return uint32(h>>32) & tagBits }
