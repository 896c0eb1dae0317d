package value

import "encoding/binary"

// The body of a collection is the number of its elements, in 4 bytes,
// little-endian, and then the elements one after the other. An element is its
// parts: a score of 8 bytes, or a text behind its length as a uvarint.

// headSize is the size of the number of elements.
const headSize = 4

// Len returns the number of elements.
func (e *edit) Len() int {
	if len(e.b) < headSize {
		return 0
	}
	return int(binary.LittleEndian.Uint32(e.b))
}

// text returns the text that begins at an offset, and the offset behind it.
// A body that is damaged has no text there: it ends.
func (e *edit) text(at int) (text []byte, next int) {
	if at < len(e.b) && e.b[at] < 1<<7 { // a length of one byte, as nearly always
		from := at + 1
		if next = from + int(e.b[at]); next <= len(e.b) {
			return e.b[from:next:next], next
		}
	}
	return e.longText(at)
}

// longText is text for a text of any length.
func (e *edit) longText(at int) (text []byte, next int) {
	if at >= len(e.b) {
		return nil, len(e.b)
	}
	n, size := binary.Uvarint(e.b[at:])
	if size <= 0 || n > uint64(len(e.b)-at-size) {
		return nil, len(e.b)
	}
	next = at + size + int(n)
	return e.b[at+size : next : next], next
}

// appendText appends a text behind its length.
func appendText(dst, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// same reports whether a and b are equal. Most texts of a collection differ in their last byte.
func same(a, b []byte) bool {
	n := len(a)
	return n == len(b) && (n == 0 || a[n-1] == b[n-1] && string(a) == string(b))
}

// bounds turns two indexes as LRANGE and ZRANGE take them, negative ones counted
// from the end, into a range of a collection of n elements. It is empty if from is
// not below to.
func bounds(n int, start, stop int64) (from, to int) {
	if start < 0 {
		start = max(0, int64(n)+start)
	}
	if stop < 0 {
		stop = int64(n) + stop
	}
	stop = min(stop, int64(n)-1)
	if start > stop {
		return 0, 0
	}
	return int(start), int(stop) + 1
}
