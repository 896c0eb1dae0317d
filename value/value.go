// Package value keeps what a key holds besides limits: strings, sorted sets,
// hashes, lists and sets, each in plain bytes without pointers. It follows
// Redis 7 in what a change does, and knows no clock, no lock and no client.
//
// The bytes of a value are its body. A change of a part of it is a list of splices:
// a few bytes in the place of a few others. So what a change writes to a log depends
// on the size of the change, not on that of the value. A collection is opened on its
// body, and never touches it.
package value

import "errors"

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

// Apply appends the body with the splice applied to dst, which must not overlap
// body. It returns ErrTooLarge for a splice that is not of this body.
func (s Splice) Apply(dst, body []byte) ([]byte, error) {
	if s.At < 0 || s.Del < 0 || s.At > len(body) || s.Del > len(body)-s.At {
		return dst, ErrTooLarge
	}
	dst = append(dst, body[:s.At]...)
	dst = append(dst, s.Ins...)
	return append(dst, body[s.At+s.Del:]...), nil
}

// edit is a body that is being changed.
type edit struct {
	b       []byte
	own     bool // b is a copy
	splices []Splice
	err     error

	few   [3]Splice // room for the splices of most changes
	ins   []byte    // empty, with the room that is left for what they insert
	space [48]byte  // that room, for most changes
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

// Changed reports whether there were changes.
func (e *edit) Changed() bool { return len(e.splices) > 0 }

// Err returns ErrTooLarge if a change did not fit. The body is then of no use.
func (e *edit) Err() error { return e.err }

// room returns an empty slice to append to what the next splice inserts.
func (e *edit) room() []byte {
	if e.ins == nil {
		e.ins = e.space[:0]
	}
	return e.ins
}

// splice replaces bytes of the body. ins is nil, or was appended to room.
func (e *edit) splice(at, del int, ins []byte) {
	n := len(ins)
	if e.err != nil || len(e.b)+n-del > MaxCollection && n > del {
		e.err = ErrTooLarge
		return
	}
	if n > 0 {
		e.ins = ins[n:]
	}
	s := Splice{At: at, Del: del, Ins: ins[:n:n]}
	if !e.own {
		b := make([]byte, len(e.b), len(e.b)+max(n-del, 0)+64)
		copy(b, e.b)
		e.b, e.own = b, true
	}
	e.b = spliced(e.b, s)
	if e.splices == nil {
		e.splices = e.few[:0]
	}
	e.splices = append(e.splices, s)
}

// spliced applies a splice in place.
func spliced(b []byte, s Splice) []byte {
	switch tail := len(b) - s.At - s.Del; {
	case len(s.Ins) <= s.Del:
		copy(b[s.At+len(s.Ins):], b[s.At+s.Del:])
		b = b[:s.At+len(s.Ins)+tail]
	default:
		b = append(b, s.Ins[s.Del:]...) // of any content: only the length counts
		copy(b[s.At+len(s.Ins):], b[s.At+s.Del:s.At+s.Del+tail])
	}
	copy(b[s.At:], s.Ins)
	return b
}
