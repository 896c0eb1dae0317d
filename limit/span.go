package limit

import "encoding/binary"

// A span is a length of time of 1 ns or more in a state, in as few bytes as may
// be: most periods are a few of a unit.
//
//	first byte
//	0          never
//	1 … 240    n of a unit, n from 1 to 30: 30·(the unit's place in units) + n
//	255        the nanoseconds follow as a uvarint
const (
	spanUnits   = 30
	spanEscape  = 255
	maxSpanSize = 1 + binary.MaxVarintLen64
)

// appendSpan appends a span.
func appendSpan(b []byte, ns uint64) []byte {
	for i := range units {
		u := uint64(units[i].ns)
		if ns < u {
			continue
		}
		if n := ns / u; n <= spanUnits && n*u == ns {
			return append(b, byte(i*spanUnits)+byte(n))
		}
	}
	return binary.AppendUvarint(append(b, spanEscape), ns)
}

// readSpan reads a span from the start of b, and tells how many bytes it has; 0
// if there is none.
func readSpan(b []byte) (ns uint64, size int) {
	switch {
	case len(b) == 0 || b[0] == 0:
		return 0, 0
	case b[0] <= byte(len(units)*spanUnits):
		code := int(b[0]) - 1
		return uint64(units[code/spanUnits].ns) * uint64(code%spanUnits+1), 1
	case b[0] != spanEscape:
		return 0, 0
	}
	ns, size = binary.Uvarint(b[1:])
	if size <= 0 || ns == 0 {
		return 0, 0
	}
	return ns, 1 + size
}
