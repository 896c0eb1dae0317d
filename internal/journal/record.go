// Package journal is the encoding of one change of state, as it is written to
// disk: who holds states appends records, who keeps them parses them, and the
// two need not know one another.
//
// The record of a change is the new state, not the request: it is idempotent,
// the last writer wins, and replay needs no clock and no algorithm.
package journal

import (
	"encoding/binary"
	"errors"
	"math"
)

// Op says what a record does. The numbers are written to disk, so they never change.
type Op uint8

// What a record can do.
const (
	// Set gives a key a state, whatever it had before.
	Set Op = iota + 1
	// Delete forgets a key.
	Delete
	// Flush forgets every key of the table whose version is below its own.
	Flush
)

// A record:
//
//	┌───────────────┬────────────┬──────────────┬─────────┬───────┬─────┐
//	│ kind × 4 + op │ key length │ state length │ version │ state │ key │
//	│ varint        │ varint     │ varint       │ varint  │       │     │
//	└───────────────┴────────────┴──────────────┴─────────┴───────┴─────┘
//
// A Delete has no state and no length of it, a Flush no key either. Numbers are
// unsigned varints (of encoding/binary) in as few bytes as they need. The state of a
// kind that is Timed begins with its expiry: 8 bytes, int64, little-endian, Unix nanoseconds.
//
// Most records have some 7 bytes before a state of 8 and a key of 17: a log is
// as fast as it is short.
const (
	// MinSize is how many bytes a record has at least.
	MinSize = 2
	// MaxKey is the most bytes of a key, on the disk and in memory; max-key-len
	// cannot be more.
	MaxKey = 8 << 10
	// Strings is the first kind that is not of limits, see Timed.
	Strings = 64
	// Foreign is the first kind of what is kept beside the table's keys, such as
	// rules. Flush does not reach it, and its states have no expiry.
	Foreign = 128

	opBits     = 2
	expirySize = 8
	// short is the first number that takes two bytes.
	short = 0x80
)

// What Parse can have wrong.
var (
	// ErrRecord is returned for bytes that are no record.
	ErrRecord = errors.New("journal: not a record")
	// ErrNewer is returned for what only a newer version can have written.
	ErrNewer = errors.New("journal: a record of a newer version")
)

// Timed reports whether the states of a kind begin with their expiry. Those of limits do; of strings
// and collections, those of even kinds.
func Timed(kind byte) bool { return kind < Strings || kind < Foreign && kind%2 == 0 }

// Record is one change. Key and State are slices of what it was parsed from.
type Record struct {
	Op   Op
	Kind byte
	// Version orders the changes of one key: a later one has a higher one.
	Version    uint64
	Key, State []byte
}

// Buffer gathers records, and what their writer would have to read them again for.
type Buffer struct {
	// Bytes has the records, behind one another; what stands before the first is the owner's.
	Bytes []byte
	// Records is how many were added.
	Records int
	// Flushed is the highest version of a Flush among them, 0 without one.
	Flushed uint64
}

// Set adds the record of key's new state.
func (b *Buffer) Set(version uint64, kind byte, key, state []byte) {
	buf := b.Bytes
	if kind < short>>opBits && len(key) < short && len(state) < short {
		buf = append(buf, kind<<opBits|byte(Set), byte(len(key)), byte(len(state)))
	} else {
		buf = appendHead(buf, Set, kind)
		buf = binary.AppendUvarint(buf, uint64(len(key)))
		buf = binary.AppendUvarint(buf, uint64(len(state)))
	}
	buf = binary.AppendUvarint(buf, version)
	buf = append(buf, state...)
	b.Bytes = append(buf, key...)
	b.Records++
}

// Delete adds the record of key having gone.
func (b *Buffer) Delete(version uint64, kind byte, key []byte) {
	buf := appendHead(b.Bytes, Delete, kind)
	buf = binary.AppendUvarint(buf, uint64(len(key)))
	buf = binary.AppendUvarint(buf, version)
	b.Bytes = append(buf, key...)
	b.Records++
}

// Flush adds the record of all keys with lower versions having gone.
func (b *Buffer) Flush(version uint64) {
	b.Bytes = binary.AppendUvarint(appendHead(b.Bytes, Flush, 0), version)
	b.Records++
	b.Flushed = max(b.Flushed, version)
}

// Add adds all that another has.
func (b *Buffer) Add(other *Buffer) {
	b.Bytes = append(b.Bytes, other.Bytes...)
	b.Records += other.Records
	b.Flushed = max(b.Flushed, other.Flushed)
}

// Cut takes back one record, n bytes from an offset in Bytes on, that is no Flush.
func (b *Buffer) Cut(at, n int) {
	b.Bytes = append(b.Bytes[:at], b.Bytes[at+n:]...)
	b.Records--
}

// Reset makes it empty, with room for the owner's n bytes before the first record.
func (b *Buffer) Reset(n int) {
	if cap(b.Bytes) < n {
		b.Bytes = make([]byte, n)
	}
	b.Bytes, b.Records, b.Flushed = b.Bytes[:n], 0, 0
}

func appendHead(b []byte, op Op, kind byte) []byte {
	return binary.AppendUvarint(b, uint64(kind)<<opBits|uint64(op))
}

// Parse reads the record at the start of b and returns what follows it. The
// errors are ErrRecord and ErrNewer.
func Parse(b []byte) (r Record, rest []byte, err error) {
	var klen, slen uint64
	ok := true
	if len(b) > 3 && b[0]&(short|1<<opBits-1) == byte(Set) && b[1]|b[2] < short {
		r.Op, r.Kind, klen, slen = Set, b[0]>>opBits, uint64(b[1]), uint64(b[2])
		b = b[3:]
	} else {
		klen, slen, b, ok = r.parseHead(b)
	}
	if ok {
		r.Version, b, ok = number(b)
	}
	if ok && r.Op == 0 {
		return Record{}, nil, ErrNewer
	}
	if n := uint64(len(b)); !ok || slen > n || klen > n-slen || !r.plausible(slen) {
		return Record{}, nil, ErrRecord
	}
	r.State, r.Key = b[:slen:slen], b[slen:slen+klen:slen+klen]
	return r, b[slen+klen:], nil
}

// parseHead reads what stands before the version.
func (r *Record) parseHead(b []byte) (klen, slen uint64, rest []byte, ok bool) {
	head, b, ok := number(b)
	if !ok || head>>opBits > math.MaxUint8 {
		return 0, 0, nil, false
	}
	r.Op, r.Kind = Op(head&(1<<opBits-1)), byte(head>>opBits)
	if r.Op == Set || r.Op == Delete {
		klen, b, ok = number(b)
	}
	if ok && r.Op == Set {
		slen, b, ok = number(b)
	}
	return klen, slen, b, ok && klen <= MaxKey
}

// number reads a varint, which must be as short as it can be.
func number(b []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 || n > 1 && b[n-1] == 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}

// plausible tells whether a record of this op and kind can have a state of such a length.
func (r *Record) plausible(slen uint64) bool {
	switch r.Op {
	case Set:
		return !Timed(r.Kind) || slen >= expirySize
	case Delete:
		return true
	case Flush:
		return r.Kind == 0
	}
	return false
}

// Expires is when the state of a Set no longer matters, in Unix nanoseconds;
// never (the highest number) for a kind that is not Timed.
func (r *Record) Expires() int64 {
	if !Timed(r.Kind) {
		return math.MaxInt64
	}
	return int64(binary.LittleEndian.Uint64(r.State))
}
