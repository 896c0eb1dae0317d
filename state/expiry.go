package state

import (
	"encoding/binary"
	"math"
)

const expirySize = 8

// Timed reports whether the states of kind k begin with their expiry: 8 bytes, int64, little-endian, Unix ns.
// Those of limits and leases do; among values, those of even kinds do.
func (k Kind) Timed() bool { return k < STRING || k < Foreign && k&1 == 0 }

// Expires returns the time, in Unix nanoseconds, from which a state of kind k behaves like no state: the
// greatest int64 for a value that never expires, and the least one for bytes that are not a state of k.
func Expires(k Kind, state []byte) int64 {
	if k >= STRING && k&1 == 1 && k.Known() && len(state) > 0 {
		return math.MaxInt64
	}
	if !k.Known() || len(state) < expirySize {
		return math.MinInt64
	}
	return int64(binary.LittleEndian.Uint64(state))
}

// Prolong makes a state that expires do so at until, which must not be sooner than before.
func Prolong(state []byte, until int64) {
	binary.LittleEndian.PutUint64(state, uint64(until))
}
