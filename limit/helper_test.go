package limit

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// mustParse is the limit of a spelling that is right.
func mustParse(tb testing.TB, s string) Limit {
	tb.Helper()
	l, err := Parse(s)
	if err != nil {
		tb.Fatalf("Parse(%q): %v", s, err)
	}
	return l
}

// split makes the arguments of a command out of words.
func split(s string) [][]byte {
	return bytes.Fields([]byte(s))
}

// stateAt is a bucket's state that says it is full at tat.
func stateAt(tat int64) []byte {
	return binary.LittleEndian.AppendUint64(nil, uint64(tat))
}
