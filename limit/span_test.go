package limit

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestSpanSize(t *testing.T) {
	tests := []struct {
		ns   int64
		size int
	}{
		{1, 1},
		{30, 1},
		{31, 2},
		{1000, 1},
		{500e6, 6},
		{1e9, 1},
		{30e9, 1},
		{60e9, 1},
		{90e9, 7},
		{3600e9, 1},
		{24 * 3600e9, 1},
		{30 * 24 * 3600e9, 1},
		{7 * 24 * 3600e9, 1},
		{math.MaxInt64, 10},
	}
	for _, tt := range tests {
		if b := appendSpan(nil, uint64(tt.ns)); len(b) != tt.size || b[0] == 0 {
			t.Errorf("%d ns are %x, want %d bytes", tt.ns, b, tt.size)
		}
	}
}

// What is written is read back, whatever follows.
func TestSpanRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Uint64Range(1, math.MaxUint64).Draw(t, "ns")
		if rapid.Bool().Draw(t, "of a unit") {
			ns = uint64(rapid.SampledFrom(units[:]).Draw(t, "unit").ns) * rapid.Uint64Range(1, 32).Draw(t, "n")
		}
		b := appendSpan([]byte("state"), ns)[5:]
		if len(b) > maxSpanSize {
			t.Fatalf("%d ns have %d bytes", ns, len(b))
		}
		if got, n := readSpan(append(b, 1, 2, 3)); got != ns || n != len(b) {
			t.Fatalf("%d ns are %x, which is %d in %d bytes", ns, b, got, n)
		}
		if _, n := readSpan(b[:len(b)-1]); n != 0 {
			t.Fatalf("%x without its end has %d bytes", b, n)
		}
	})
	for _, b := range [][]byte{nil, {0}, {241}, {254}, {255}, {255, 0}, {255, 0x80}} {
		if ns, n := readSpan(b); n != 0 {
			t.Errorf("%x is %d ns", b, ns)
		}
	}
}
