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
//	 0    1      2            4              8           16      16+s
//	┌────┬──────┬────────────┬──────────────┬───────────┬───────┬─────┐
//	│ op │ kind │ key length │ state length │  version  │ state │ key │
//	│ 1  │  1   │     2      │     4 (s)    │     8     │   s   │     │
//	└────┴──────┴────────────┴──────────────┴───────────┴───────┴─────┘
//
// Numbers are little-endian. The state of a kind below Foreign begins with its
// expiry: 8 bytes, int64, Unix nanoseconds.
const (
	// HeaderSize is how many bytes a record has before its state.
	HeaderSize = 16
	// MaxKey is the most bytes of a key.
	MaxKey = math.MaxUint16
	// Foreign is the first kind that is no algorithm: what is kept beside the
	// table's keys, such as rules. Flush does not reach it, and its states
	// have no expiry.
	Foreign = 128

	expirySize = 8
)

// ErrRecord is returned for bytes that are no record.
var ErrRecord = errors.New("journal: not a record")

// Record is one change. Key and State are slices of what it was parsed from.
type Record struct {
	Op   Op
	Kind byte
	// Version orders the changes of one key: a later one has a higher one.
	Version    uint64
	Key, State []byte
}

// AppendSet appends the record of key's new state.
func AppendSet(b []byte, version uint64, kind byte, key, state []byte) []byte {
	b = appendHeader(b, Set, version, kind, len(key), len(state))
	b = append(b, state...)
	return append(b, key...)
}

// AppendDelete appends the record of key having gone.
func AppendDelete(b []byte, version uint64, kind byte, key []byte) []byte {
	b = appendHeader(b, Delete, version, kind, len(key), 0)
	return append(b, key...)
}

// AppendFlush appends the record of all keys with lower versions having gone.
func AppendFlush(b []byte, version uint64) []byte {
	return appendHeader(b, Flush, version, 0, 0, 0)
}

func appendHeader(b []byte, op Op, version uint64, kind byte, key, state int) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(op)|uint64(kind)<<8|uint64(uint16(key))<<16|uint64(uint32(state))<<32)
	return binary.LittleEndian.AppendUint64(b, version)
}

// Parse reads the record at the start of b and returns what follows it. The
// error is ErrRecord.
func Parse(b []byte) (r Record, rest []byte, err error) {
	if len(b) < HeaderSize {
		return Record{}, nil, ErrRecord
	}
	head := binary.LittleEndian.Uint64(b)
	r.Op, r.Kind = Op(head), byte(head>>8)
	klen, slen := uint64(uint16(head>>16)), head>>32
	r.Version = binary.LittleEndian.Uint64(b[8:])
	b = b[HeaderSize:]
	if klen+slen > uint64(len(b)) || !r.plausible(klen, slen) {
		return Record{}, nil, ErrRecord
	}
	r.State, r.Key = b[:slen:slen], b[slen:slen+klen:slen+klen]
	return r, b[slen+klen:], nil
}

// plausible tells whether a record of this op and kind can have such lengths.
func (r *Record) plausible(klen, slen uint64) bool {
	switch r.Op {
	case Set:
		return r.Kind >= Foreign || slen >= expirySize
	case Delete:
		return slen == 0
	case Flush:
		return r.Kind == 0 && klen == 0 && slen == 0
	}
	return false
}

// Expires is when the state of a Set no longer matters, in Unix nanoseconds;
// never (the highest number) for a kind from Foreign on.
func (r *Record) Expires() int64 {
	if r.Kind >= Foreign {
		return math.MaxInt64
	}
	return int64(binary.LittleEndian.Uint64(r.State))
}
