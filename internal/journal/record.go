// Package journal is the encoding of one change of state, as it is written to disk. What holds state appends
// records and what saves it parses them, and neither needs to know the other.
//
// The record of a change is the new state, or what is new in it, not the request. So the last record wins, and
// replay needs neither a clock nor an algorithm.
package journal

import (
	"encoding/binary"
	"errors"
	"math"

	"limitdb/state"
)

// Op says what a record does. The numbers are written to disk, so they never change.
type Op uint8

// The operations of records.
const (
	// Set gives a key a state, whatever it had before.
	Set Op = iota + 1
	// Delete removes a key.
	Delete
	// Flush removes every key of the table whose version is below that of the Flush.
	Flush
	// Change changes a part of a key's state: see Edit. On disk it is op 0, and 1 behind it.
	Change
)

// A record, other than a Change:
//
//	┌───────────────┬────────────┬──────────────┬─────────┬───────┬─────┐
//	│ kind × 4 + op │ key length │ state length │ version │ state │ key │
//	│ varint        │ varint     │ varint       │ varint  │       │     │
//	└───────────────┴────────────┴──────────────┴─────────┴───────┴─────┘
//
// A Delete has neither a state nor its length, and a Flush has no key either. Numbers are unsigned varints
// (of encoding/binary) in as few bytes as possible. The state of a Timed kind begins with its expiry: 8
// bytes, int64, little-endian, Unix ns.
//
// Most records have about 7 bytes before a state of 8 and a key of 17: the shorter the log, the faster it is.
const (
	// MinSize is the minimum size of a record, in bytes.
	MinSize = 2
	// MaxKey is the maximum length of a key, in bytes, on disk and in memory. max-key-len cannot be above it.
	MaxKey = 8 << 10
	// Foreign is the first kind of state that is not in the table of keys, such as rules. Flush does not
	// remove it, and its states have no expiry.
	Foreign = byte(state.Foreign)

	opBits     = 2
	expirySize = 8
	// short is the first number that needs two bytes.
	short = 0x80
)

// Errors of Parse.
var (
	// ErrRecord is returned for bytes that are not a record.
	ErrRecord = errors.New("journal: not a record")
	// ErrNewer is returned for bytes that only a newer version can have written.
	ErrNewer = errors.New("journal: a record of a newer version")
)

// Timed reports whether the states of a kind begin with their expiry.
func Timed(kind byte) bool { return state.Kind(kind).Timed() }

// Record is one change. Key and State are slices of the bytes that it was parsed from.
type Record struct {
	Op   Op
	Kind byte
	// Version orders the changes of one key: a later one has a higher one.
	Version    uint64
	Key, State []byte
}

// Buffer gathers records, and figures that their writer needs.
type Buffer struct {
	// Bytes has the records, one after the other. The bytes before the first belong to the owner.
	Bytes []byte
	// Records is the number of records.
	Records int
	// Flushed is the highest version of a Flush among them, or 0.
	Flushed uint64
}

// Set adds a record of key's new state.
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

// Delete adds a record that removes key.
func (b *Buffer) Delete(version uint64, kind byte, key []byte) {
	buf := appendHead(b.Bytes, Delete, kind)
	buf = binary.AppendUvarint(buf, uint64(len(key)))
	buf = binary.AppendUvarint(buf, version)
	b.Bytes = append(buf, key...)
	b.Records++
}

// Flush adds a record that removes all keys with lower versions.
func (b *Buffer) Flush(version uint64) {
	b.Bytes = binary.AppendUvarint(appendHead(b.Bytes, Flush, 0), version)
	b.Records++
	b.Flushed = max(b.Flushed, version)
}

// Add adds all records of other.
func (b *Buffer) Add(other *Buffer) {
	b.Bytes = append(b.Bytes, other.Bytes...)
	b.Records += other.Records
	b.Flushed = max(b.Flushed, other.Flushed)
}

// Cut removes one record, which must not be a Flush: n bytes of Bytes from an offset.
func (b *Buffer) Cut(at, n int) {
	b.Bytes = append(b.Bytes[:at], b.Bytes[at+n:]...)
	b.Records--
}

// Reset empties the buffer, and leaves room for n bytes of the owner before the first record.
func (b *Buffer) Reset(n int) {
	if cap(b.Bytes) < n {
		b.Bytes = make([]byte, n)
	}
	b.Bytes, b.Records, b.Flushed = b.Bytes[:n], 0, 0
}

func appendHead(b []byte, op Op, kind byte) []byte {
	return binary.AppendUvarint(b, uint64(kind)<<opBits|uint64(op))
}

// Parse parses the record at the start of b and returns the bytes after it. Errors: ErrRecord, ErrNewer.
func Parse(b []byte) (r Record, rest []byte, err error) {
	var klen, slen uint64
	ok := true
	if len(b) > 3 && b[0]&(short|1<<opBits-1) == byte(Set) && b[1]|b[2] < short {
		r.Op, r.Kind, klen, slen = Set, b[0]>>opBits, uint64(b[1]), uint64(b[2])
		b = b[3:]
	} else {
		klen, slen, b, ok = r.parseHead(b)
	}
	if ok && r.Op == 0 {
		return Record{}, nil, ErrNewer
	}
	if ok {
		r.Version, b, ok = number(b)
	}
	n := uint64(len(b))
	if !ok || slen > n || klen > n-slen || r.Op != Change && !r.plausible(slen) {
		return Record{}, nil, ErrRecord
	}
	r.State, r.Key = b[:slen:slen], b[slen:slen+klen:slen+klen]
	if r.Op == Change {
		if !InParts(r.Kind) {
			return Record{}, nil, ErrNewer
		}
		if _, ok := parseEdit(r.Kind, r.State); !ok {
			return Record{}, nil, ErrRecord
		}
	}
	return r, b[slen+klen:], nil
}

// parseHead parses the part before the version.
func (r *Record) parseHead(b []byte) (klen, slen uint64, rest []byte, ok bool) {
	head, b, ok := number(b)
	if !ok || head>>opBits > math.MaxUint8 {
		return 0, 0, nil, false
	}
	r.Op, r.Kind = Op(head&(1<<opBits-1)), byte(head>>opBits)
	if r.Op == 0 {
		var further uint64
		if further, b, ok = number(b); !ok || further != partOfState {
			return 0, 0, b, ok
		}
		r.Op = Change
	}
	if r.Op != Flush {
		klen, b, ok = number(b)
	}
	if ok && (r.Op == Set || r.Op == Change) {
		slen, b, ok = number(b)
	}
	return klen, slen, b, ok && klen <= MaxKey
}

// number parses a varint, which must be as short as possible.
func number(b []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 || n > 1 && b[n-1] == 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}

// plausible reports whether a record of this op and kind can have a state of this length.
func (r *Record) plausible(slen uint64) bool {
	switch r.Op {
	case Set:
		return slen >= uint64(HeadSize(r.Kind)) && (!Timed(r.Kind) || slen >= expirySize)
	case Delete:
		return true
	case Flush:
		return r.Kind == 0
	}
	return false
}

// Expires returns when the state of a Set, or the new one of a Change, expires, in Unix ns, or the highest int64 if the kind is not Timed.
func (r *Record) Expires() int64 {
	if !Timed(r.Kind) {
		return math.MaxInt64
	}
	return int64(binary.LittleEndian.Uint64(r.State))
}
