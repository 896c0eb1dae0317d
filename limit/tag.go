package limit

import "encoding/binary"

// A counter's state has a tag that says which windows it counts in, so that a limit
// with other windows recognises it. The tag is one byte for the usual windows, from
// a second to a month:
//
//	 7       6  5    4 3 2 1 0
//	┌───────┬──────┬───────────┐
//	│ FIRST │ unit │  number   │   a period of number (1 to 30) seconds, minutes,
//	└───────┴──────┴───────────┘   hours or days
//	┌───────┬──────┬───────────┐
//	│ FIRST │  0   │     0     │   the period follows, in ns, as a uvarint
//	└───────┴──────┴───────────┘
//	┌──────────────┬───────────┐
//	│ calendar unit│    31     │   Second is 0
//	└──────────────┴───────────┘
//	┌──────────────┬───────────┐
//	│      1       │     0     │   no windows: the empty tag, see fixed.go
//	└──────────────┴───────────┘

// windowTag says which windows a counter counts in. The zero value is the empty tag.
type windowTag struct {
	period int64 // 0 with a calendar, and in the empty tag
	first  bool
	unit   Unit
}

const (
	tagFirst    = 0x80
	tagNumber   = 0x1f // the bits of the number
	tagUnit     = 5    // the shift of a unit
	tagCalendar = 31
	tagEmpty    = 1 << tagUnit
	tagMost     = 30 // the largest number of units
	maxTag      = 1 + binary.MaxVarintLen64
)

// tagUnits are the units of time in a tag.
var tagUnits = [4]int64{1e9, 60e9, 3600e9, 24 * 3600e9}

// tagOf is the tag of l's windows.
func tagOf(l *Limit) windowTag {
	if l.Calendar != NoUnit {
		return windowTag{unit: l.Calendar}
	}
	return windowTag{period: l.Period, first: l.First}
}

// appendTag appends t to b.
func appendTag(b []byte, t windowTag) []byte {
	if t.unit != NoUnit {
		return append(b, byte(t.unit-Second)<<tagUnit|tagCalendar)
	}
	if t.period == 0 {
		return append(b, tagEmpty)
	}
	flag := byte(0)
	if t.first {
		flag = tagFirst
	}
	for i := len(tagUnits) - 1; i >= 0; i-- {
		if n := t.period / tagUnits[i]; n <= tagMost && n*tagUnits[i] == t.period {
			return append(b, flag|byte(i)<<tagUnit|byte(n))
		}
	}
	return binary.AppendUvarint(append(b, flag), uint64(t.period))
}

// readTag reads the tag at the start of b and returns how many bytes it has, 0 if
// there is none.
func readTag(b []byte) (t windowTag, n int) {
	if len(b) == 0 {
		return t, 0
	}
	c := b[0]
	switch number := c & tagNumber; number {
	case tagCalendar:
		return windowTag{unit: Unit(c>>tagUnit) + Second}, 1
	case 0:
		if c == tagEmpty {
			return t, 1
		}
		period, n := readCount(b[1:])
		if c&^tagFirst != 0 || n == 0 || period == 0 {
			return t, 0
		}
		return windowTag{period: period, first: c&tagFirst != 0}, 1 + n
	default:
		return windowTag{period: int64(number) * tagUnits[c>>tagUnit&3], first: c&tagFirst != 0}, 1
	}
}

// readCount reads the uvarint at the start of b, of an int64 of 0 or more, and
// returns how many bytes it has, 0 if there is none.
func readCount(b []byte) (count int64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int64(b[0]), 1
	}
	c, n := binary.Uvarint(b)
	if n <= 0 || int64(c) < 0 {
		return 0, 0
	}
	return int64(c), n
}
