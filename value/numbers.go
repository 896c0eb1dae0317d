package value

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
)

// A long list of numbers has a form of its own, for limiters that keep the time of each request in
// a list. It is a list like any other for every command. Only its body differs:
//
//	0                 4
//	┌─────────────────┬─────────┬───────────┬─────────┬─   ─┬─────────┐
//	│ 2³¹ + dropped   │ dropped │  …        │ oldest  │  …  │ newest  │
//	└─────────────────┴─────────┴───────────┴─────────┴─   ─┴─────────┘
//
// An element is 8 bytes: a float64, little-endian. The body begins with the right end of the list.
// So LPUSH appends to the body, and elements that leave on the right are only counted in the first
// 4 bytes. They are cut off when they are one in dropShare. The top bit tells this form from the
// number of elements of the plain one.
//
// A change is a few splices, which the engine applies where the body is (see Late). So it costs the
// same however long the list is, and so does finding an element; but RPUSH moves the whole body. A text that is not exactly what a
// number prints as turns the list back into the plain form, if that is within MaxCollection.
//
// Rejected: differences as varints, as LOG has them. They take 4 bytes or so, but need chunks
// with a head each to find an element, and code for the tokens that such a list need not have. Also
// rejected: a state of LOG. Clients may read and change the list with every other command.
const (
	// MaxNumbers is the most elements of a list of numbers: a window of a million, and what a call adds before it
	// removes the oldest.
	MaxNumbers = 1_024_000
	// packedAt is the size in bytes at which a list of numbers gets this form. It keeps it until it
	// is empty or gets another element.
	packedAt = 8 << 10
	// unpackedMost is the most elements of one that may turn back. With more, it would be larger than
	// MaxCollection, unless they are short; then nobody counts them for nothing.
	unpackedMost = MaxCollection / 8

	packedBit  = 1 << 31
	numberSize = 8
	// dropShare: elements that have left are cut off when they are one in dropShare, and more than
	// dropFew. So cutting moves each byte dropShare times, and a record of the largest list stays
	// below what nodes can tell one another.
	dropShare = 64
	dropFew   = 64
)

// Packed reports whether a list's body has the form of a list of numbers.
func Packed(body []byte) bool {
	return len(body) >= headSize && binary.LittleEndian.Uint32(body)&packedBit != 0
}

// numbers is a list of numbers that is being changed. Its elements, from the right end of the list,
// are those of front, those from start to kept of the body, and those of add.
type numbers struct {
	packed      bool
	fresh       bool // it was not packed when it was opened: the body is nil
	unpacked    bool // it was packed when it was opened
	start, kept int
	front, add  []byte

	buf  [32]byte // the text of an element
	pair [2 * numberSize]byte
	head [headSize]byte
}

// openNumbers opens a packed body.
func (l *ListOf) openNumbers() {
	l.packed, l.kept = true, (len(l.b)-headSize)/numberSize
	l.start = min(l.kept, int(binary.LittleEndian.Uint32(l.b)&^packedBit))
}

// length returns the number of elements of a packed list.
func (n *numbers) length() int {
	return (len(n.front)+len(n.add))/numberSize + n.kept - n.start
}

// number returns the element at an index below Len.
func (l *ListOf) number(i int) float64 {
	from, at := l.front, (l.length()-1-i)*numberSize // counted from the right
	if at >= len(from) {
		from, at = l.b, at-len(from)+headSize+l.start*numberSize
		if end := headSize + l.kept*numberSize; at >= end {
			from, at = l.add, at-end
		}
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(from[at:]))
}

// numberText returns the text of the element at an index below Len, valid until the next call.
func (l *ListOf) numberText(i int) []byte { return appendNumber(l.buf[:0], l.number(i)) }

// Numbers calls fn for the elements from start to stop, as Range does. It returns false, and calls
// nothing, if the list is not known to have numbers only.
func (l *ListOf) Numbers(start, stop int64, fn func(x float64)) bool {
	if !l.packed {
		return false
	}
	for from, to := bounds(l.Len(), start, stop); from < to; from++ {
		fn(l.number(from))
	}
	return true
}

// appendNumber appends a number as scripts pass it to commands.
func appendNumber(b []byte, x float64) []byte { return strconv.AppendFloat(b, x, 'g', 17, 64) }

// parseNumber returns the number that prints as a text.
func parseNumber(text []byte) (x float64, ok bool) {
	var buf [32]byte
	if len(text) == 0 || len(text) > len(buf) || text[0] > '9' {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsInf(x, 0) {
		return 0, false
	}
	return x, string(appendNumber(buf[:0], x)) == string(text)
}

// appendNumbers appends the elements that texts stand for. It returns false if one is no number.
func appendNumbers(b []byte, texts [][]byte) (_ []byte, ok bool) {
	for i, text := range texts {
		if i > 0 && sameSlice(text, texts[i-1]) { // some scripts push one time for each unit
			b = append(b, b[len(b)-numberSize:]...)
			continue
		}
		x, ok := parseNumber(text)
		if !ok {
			return b, false
		}
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b, true
}

// sameSlice reports whether a and b are the same bytes in memory.
func sameSlice(a, b []byte) bool { return len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] }

// reverse reverses the order of elements.
func reverse(b []byte) {
	for i, j := 0, len(b)-numberSize; i < j; i, j = i+numberSize, j-numberSize {
		x := binary.LittleEndian.Uint64(b[i:])
		copy(b[i:i+numberSize], b[j:])
		binary.LittleEndian.PutUint64(b[j:], x)
	}
}

// push adds elements if the list is one of numbers, or becomes one. It returns false if the list is a plain one.
func (l *ListOf) push(texts [][]byte, left bool) bool {
	if !l.packed && !l.mayPack(texts) {
		return false
	}
	was := l.packed
	var more []byte
	if left && was {
		if more = l.add; more == nil {
			more = l.pair[:0]
		}
	}
	more, ok := appendNumbers(more, texts)
	if !ok || !was && !l.pack() {
		return was && !l.unpack()
	}
	switch {
	case !left:
		reverse(more)
		l.front = append(more, l.front...)
	case was:
		l.add = more
	default:
		l.add = append(l.add, more...)
	}
	if l.length() > MaxNumbers {
		l.err = ErrTooLarge
	}
	return true
}

// mayPack reports whether the list is to be packed before it gets more texts: they bring it to packedAt, or above
// MaxCollection.
func (l *ListOf) mayPack(texts [][]byte) bool {
	now, more := len(l.b), 0
	for _, t := range texts {
		more += len(t) + 1
	}
	return l.err == nil && (now < packedAt && now+more >= packedAt || now+more > MaxCollection)
}

// pack makes a plain list a packed one. It returns false if not all elements are numbers.
func (l *ListOf) pack() bool {
	all := make([]byte, 0, (l.Len()+1)*numberSize)
	for at := headSize; at < len(l.b); {
		text, next := l.text(at)
		x, ok := parseNumber(text)
		if !ok {
			return false
		}
		all, at = binary.LittleEndian.AppendUint64(all, math.Float64bits(x)), next
	}
	reverse(all)
	l.edit = edit{}
	l.numbers = numbers{packed: true, fresh: true, add: all}
	return true
}

// unpack makes the list a plain one. It returns false if that would be too large.
func (l *ListOf) unpack() bool {
	n := l.length()
	if n > unpackedMost {
		l.err = ErrTooLarge
		return false
	}
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, headSize+n*20), uint32(n))
	for i := range n {
		if b = appendText(b, l.numberText(i)); len(b) > MaxCollection {
			l.err = ErrTooLarge
			return false
		}
	}
	l.edit, l.numbers = edit{b: b}, numbers{unpacked: true}
	return true
}

// trimNumbers removes the elements that are not between two indexes, the second excluded.
func (l *ListOf) trimNumbers(from, to int) {
	newest, oldest := from, l.length()-to
	n := min(newest, len(l.add)/numberSize)
	l.add = l.add[:len(l.add)-n*numberSize]
	newest -= n
	n = min(newest, l.kept-l.start)
	l.kept -= n
	l.front = l.front[:len(l.front)-(newest-n)*numberSize]

	n = min(oldest, len(l.front)/numberSize)
	l.front = l.front[n*numberSize:]
	oldest -= n
	n = min(oldest, l.kept-l.start)
	l.start += n
	l.add = l.add[(oldest-n)*numberSize:]
}

// Late reports whether the splices have not been applied to the body: it is the one that was opened. To copy the body
// of a long list would take far longer than the change.
func (l *ListOf) Late() bool { return l.packed && !l.fresh }

// numberBody returns the body of a packed list, or nil if the list is empty. See Late.
func (l *ListOf) numberBody() []byte {
	switch {
	case l.length() == 0:
		return nil
	case !l.fresh:
		return l.b
	}
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, headSize+len(l.front)+len(l.add)), packedBit)
	return append(append(b, l.front...), l.add...)
}

// numbersChanged reports whether there were changes of a packed list.
func (l *ListOf) numbersChanged() bool {
	return l.fresh || len(l.front)+len(l.add) > 0 || l.kept != (len(l.b)-headSize)/numberSize ||
		l.start != int(binary.LittleEndian.Uint32(l.b)&^packedBit)
}

// numberSplices returns the changes of a packed list.
func (l *ListOf) numberSplices() []Splice {
	if l.fresh || !l.numbersChanged() {
		return nil
	}
	start, cut := l.start, 0
	if start > dropFew && start > l.length()/dropShare || start == l.kept {
		start, cut = 0, start*numberSize
	}
	all := make([]Splice, 0, 3)
	binary.LittleEndian.PutUint32(l.head[:], packedBit|uint32(start))
	for i := range l.head {
		if l.head[i] != l.b[i] {
			end := headSize
			for l.head[end-1] == l.b[end-1] {
				end--
			}
			all = append(all, Splice{At: i, Del: end - i, Ins: l.head[i:end]})
			break
		}
	}
	at := headSize + start*numberSize
	if cut+len(l.front) > 0 {
		all = append(all, Splice{At: at, Del: cut, Ins: l.front})
	}
	at += len(l.front) + l.kept*numberSize - start*numberSize - cut
	if gone := len(l.b) - headSize - l.kept*numberSize; gone+len(l.add) > 0 {
		all = append(all, Splice{At: at, Del: gone, Ins: l.add})
	}
	return all
}

// Apply returns the body that splices make of one.
func Apply(body []byte, splices []Splice) []byte {
	for _, s := range splices {
		body = slices.Concat(body[:s.At], s.Ins, body[s.At+s.Del:])
	}
	return body
}
