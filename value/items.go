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

// begin returns where the first element is. It makes the head of an empty body.
func (e *edit) begin() int {
	if len(e.b) == 0 {
		e.splice(0, 0, make([]byte, headSize))
	}
	return headSize
}

// setLen changes the number of elements.
func (e *edit) setLen(n int) {
	if n != e.Len() {
		var b [headSize]byte
		binary.LittleEndian.PutUint32(b[:], uint32(n))
		e.splice(0, headSize, b[:])
	}
}

// text returns the text that begins at an offset, and the offset behind it.
// A body that is damaged has no text there: it ends.
func (e *edit) text(at int) (text []byte, next int) {
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

// prefix returns what goes before a text of n bytes.
func prefix(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }

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
