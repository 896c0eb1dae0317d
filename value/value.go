// Package value keeps what a key holds besides limits: strings, sorted sets,
// hashes, lists and sets, each in plain bytes without pointers. It follows
// Redis 7 in what a change does, and knows no clock, no lock and no client.
//
// The bytes of a value are its body. A change of a part of it is a list of splices:
// a few bytes in the place of a few others. So what a change writes to a log depends
// on the size of the change, not on that of the value. A collection is opened on its
// body, and never touches it.
package value

import (
	"encoding/binary"
	"errors"
)

const (
	// MaxString is the most bytes of a string.
	MaxString = 64 << 10
	// MaxCollection is the most bytes of a collection's body.
	MaxCollection = 1 << 20
)

// Errors of changes. After one, the value is as it was.
var (
	// ErrTooLong is returned for a string that would become longer than MaxString.
	ErrTooLong = errors.New("value: a string may have at most 65536 bytes")
	// ErrTooLarge is returned for a collection that would become larger than
	// MaxCollection.
	ErrTooLarge = errors.New("value: a collection may have at most 1048576 bytes")
	// ErrNotInt is returned for a number that is not an int64.
	ErrNotInt = errors.New("value: not an integer")
	// ErrNotFloat is returned for a number that is not a float.
	ErrNotFloat = errors.New("value: not a float")
	// ErrOverflow is returned for an integer that would overflow.
	ErrOverflow = errors.New("value: integer overflow")
	// ErrNaN is returned for a sum that is infinite or no number.
	ErrNaN = errors.New("value: not a finite number")
)

// Type is the type of a value.
type Type uint8

// The types of values. Their numbers are written to disk: FORMAT.md lists them.
const (
	None Type = iota
	String
	SortedSet
	Hash
	List
	Set
)

// String returns the name that the TYPE command returns.
func (t Type) String() string {
	return [...]string{"none", "string", "zset", "hash", "list", "set"}[t]
}

// Splice is one change of a body: Ins replaces the Del bytes from At on.
type Splice struct {
	At, Del int
	Ins     []byte
}

// edit is a body that is being changed.
type edit struct {
	b       []byte
	splices []Splice
	err     error

	few   [2]Splice // room for the splices of most changes
	ins   []byte    // what they insert, one piece after the other
	space [48]byte  // room for that, in most changes
}

// Body returns the body after all changes; nil if the collection is empty.
func (e *edit) Body() []byte {
	if e.Len() == 0 {
		return nil
	}
	return e.b
}

// Splices returns the changes, in order. Each applies to the body that the ones
// before it have left.
func (e *edit) Splices() []Splice { return e.splices }

// Late reports whether the splices have not been applied to the body, which is then the one that was opened.
func (e *edit) Late() bool { return false }

// Changed reports whether there were changes.
func (e *edit) Changed() bool { return len(e.splices) > 0 }

// Err returns ErrTooLarge if a change did not fit. The body is then of no use.
func (e *edit) Err() error { return e.err }

// room returns what the splices insert, to append the next piece to it.
func (e *edit) room() []byte {
	if e.ins == nil {
		e.ins = e.space[:0]
	}
	return e.ins
}

// piece returns what was appended to room, which made b of it.
func (e *edit) piece(b []byte) []byte {
	from := len(e.ins)
	e.ins = b
	return b[from:len(b):len(b)]
}

// change applies splices in one pass, after which there are n elements. The offsets are
// those of the body as it is; they ascend, and no splice reaches into the next one.
func (e *edit) change(n int, all ...Splice) {
	had := len(e.splices)
	if had == 0 {
		e.splices = e.few[:0]
	}
	if n != e.Len() {
		count := binary.LittleEndian.AppendUint32(e.room(), uint32(n))
		e.splices = append(e.splices, Splice{Del: min(headSize, len(e.b)), Ins: e.piece(count)})
	}
	for _, s := range all {
		if s.Del+len(s.Ins) > 0 {
			e.splices = append(e.splices, s)
		}
	}
	size := len(e.b)
	for _, s := range e.splices[had:] {
		size += len(s.Ins) - s.Del
	}
	switch {
	case e.err != nil || size > MaxCollection && size > len(e.b):
		e.err = ErrTooLarge
		return
	case len(e.splices) == had:
		return
	}
	b, from, kept := make([]byte, 0, size), 0, e.splices[:had]
	for _, s := range e.splices[had:] {
		b = append(b, e.b[from:s.At]...)
		from, s.At = s.At+s.Del, len(b)
		b = append(b, s.Ins...)
		if last := len(kept) - 1; last >= had && kept[last].At == s.At && len(kept[last].Ins)+len(s.Ins) == 0 {
			kept[last].Del += s.Del
			continue
		}
		kept = append(kept, s)
	}
	e.b, e.splices = append(b, e.b[from:]...), kept
}
