package limit

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// How a state of SEGMENTED is read and written; segmented.go draws it.

// segments is the state in force, if there is one, without its counts. The counts
// are a slice of the state and are passed beside the struct, because a slice that
// is stored through a pointer escapes.
type segments struct {
	end    int64  // when the newest leaves
	width  int    // bytes of a count
	period int64  // of the limit whose sub-windows these are
	n      int64  // how many sub-windows count
	length int64  // S
	since  int64  // how many sub-windows have begun since the newest
	total  uint64 // of counts, or the largest uint64
	moved  int64  // the count of the current sub-window, in place of all others
	live   bool   // there is a state in force
	other  bool   // it has other sub-windows than the limit
}

// read reads a state, with all counts that are in it.
func (s *segments) read(state []byte) (counts []byte, period, n int64, err error) {
	const shortest = 8 + 1 + 1
	if len(state) < shortest {
		return nil, 0, 0, ErrState
	}
	tag, a := readTag(state[8:])
	number, b := readCount(state[8+a:])
	n = number >> 2
	if a == 0 || b == 0 || tag.first || tag.period == 0 || n < 2 || n > MaxSegments {
		return nil, 0, 0, ErrState
	}
	s.end, s.width, counts = int64(binary.LittleEndian.Uint64(state)), 1<<(number&3), state[8+a+b:]
	if len(counts)%s.width != 0 || int64(len(counts)/s.width) > n {
		return nil, 0, 0, ErrState
	}
	return counts, tag.period, n, nil
}

// start begins a state of n counts over dst, or in a larger buffer if dst has no
// room. The first of them are counts, the others 0. dst may be the state that
// they have been read from.
func (s *segments) start(counts []byte, end int64, width, n int, dst []byte) (next, body []byte) {
	var buf [8 + 10 + 2]byte
	head := binary.LittleEndian.AppendUint64(buf[:0], uint64(end))
	head = appendTag(head, windowTag{period: s.period})
	head = binary.AppendUvarint(head, uint64(s.n)<<2|uint64(bits.TrailingZeros8(uint8(width))))
	size := len(head) + n*width
	if cap(dst) < size {
		dst = make([]byte, size)
	}
	next = dst[:size]
	// The counts first: they do not lie before the body, nor does the head reach
	// them, since no head of a state is shorter than this one.
	body = next[len(head):]
	moveCounts(body, width, counts, s.width)
	copy(next, head)
	return next, body
}

// add writes a state over dst that has added in the current sub-window, which
// leaves at end.
func (s *segments) add(counts []byte, end, added int64, dst []byte) []byte {
	counts = trimOldest(counts, s.width)
	n, width := len(counts)/s.width, s.width
	count := added
	switch {
	case n == 0:
		width = 1
		count = addUpTo(s.moved, count)
	case s.since == 0:
		count = addUpTo(count, getCount(counts, n-1, s.width))
	case s.width > 1: // some may have left that were larger
		width = widthOf(maxCount(counts, s.width))
	}
	width = max(width, widthOf(count))
	all := n + int(s.since)
	if n == 0 {
		all = 1
	}
	next, body := s.start(counts, end, width, all, dst)
	putCount(body, all-1, width, count)
	return next
}

// giveBack takes cost off the newest counts, or all there is, and writes a state
// over dst: as long expired if nothing is left.
func (s *segments) giveBack(counts []byte, cost int64, dst []byte) []byte {
	n := len(counts) / s.width
	last := int64(0) // the rest of the newest
	for n > 0 && last == 0 {
		last = getCount(counts, n-1, s.width)
		given := min(last, cost)
		last -= given
		cost -= given
		if last == 0 {
			n--
			s.end -= s.length
		}
	}
	counts = trimOldest(counts[:n*s.width], s.width)
	if s.live = n > 0; !s.live {
		s.total = 0
		next, _ := s.start(nil, math.MinInt64, 1, 0, dst)
		return next
	}
	n = len(counts) / s.width
	next, body := s.start(counts, s.end, s.width, n, dst)
	putCount(body, n-1, s.width, last)
	s.total, _ = sumCounts(body, s.width)
	return next
}

// trimOldest drops counts of 0 that are older than all others.
func trimOldest(counts []byte, width int) []byte {
	for len(counts) > 0 && getCount(counts, 0, width) == 0 {
		counts = counts[width:]
	}
	return counts
}

// moveCounts writes the counts of src, and then 0, to dst, which has room for
// them. src may lie in dst, not before its beginning.
func moveCounts(dst []byte, to int, src []byte, from int) {
	n := len(src) / from
	switch {
	case to == from:
		copy(dst, src)
	case to < from:
		for i := range n {
			putCount(dst, i, to, getCount(src, i, from))
		}
	default:
		copy(dst, src)
		for i := n - 1; i >= 0; i-- {
			putCount(dst, i, to, getCount(dst, i, from))
		}
	}
	clear(dst[n*to:])
}

// sumCounts returns the sum of counts, or the largest uint64. ok is false if one
// of them does not fit in an int64.
func sumCounts(counts []byte, width int) (sum uint64, ok bool) {
	if width == 1 {
		return sumBytes(counts), true
	}
	for i := range len(counts) / width {
		c := getCount(counts, i, width)
		if c < 0 {
			return 0, false
		}
		if sum += uint64(c); sum < uint64(c) {
			sum = math.MaxUint64
		}
	}
	return sum, true
}

// sumBytes is the sum of up to MaxSegments bytes, eight at a time: four sums of
// 16 bits each, to which every turn adds 510 at most.
func sumBytes(b []byte) uint64 {
	const low = 0x00ff00ff00ff00ff
	var sums uint64
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		sums += x&low + x>>8&low
		b = b[8:]
	}
	sum := sums&0xffff + sums>>16&0xffff + sums>>32&0xffff + sums>>48
	for _, c := range b {
		sum += uint64(c)
	}
	return sum
}

// maxCount is the largest of counts.
func maxCount(counts []byte, width int) int64 {
	most := int64(0)
	for i := range len(counts) / width {
		most = max(most, getCount(counts, i, width))
	}
	return most
}

// getCount is the i-th of counts of width bytes.
func getCount(counts []byte, i, width int) int64 {
	b := counts[i*width:]
	switch width {
	case 1:
		return int64(b[0])
	case 2:
		return int64(binary.LittleEndian.Uint16(b))
	case 4:
		return int64(binary.LittleEndian.Uint32(b))
	}
	return int64(binary.LittleEndian.Uint64(b))
}

// putCount writes the i-th of counts of width bytes.
func putCount(counts []byte, i, width int, count int64) {
	b := counts[i*width:]
	switch width {
	case 1:
		b[0] = byte(count)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(count))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(count))
	default:
		binary.LittleEndian.PutUint64(b, uint64(count))
	}
}

// widthOf is how many bytes a count needs.
func widthOf(count int64) int {
	switch {
	case count < 1<<8:
		return 1
	case count < 1<<16:
		return 2
	case count < 1<<32:
		return 4
	}
	return 8
}
