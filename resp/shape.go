package resp

// A Shape is everything in a command but its key. Clients often send the same command
// for one key after the other; NextOf reads such a command without slicing it up. The zero value is the shape
// of no command.
type Shape struct {
	head, tail []byte   // what comes before and after the key, with its length and line end
	args       [][]byte // the arguments, in head and tail; nil for the key
	key, bulk  int      // the index of the key, and the length of the longest argument other than the key
}

const (
	// maxShape is the maximum size of a Shape, in bytes.
	maxShape = 256
	// maxShapeArgs is the maximum number of its arguments.
	maxShapeArgs = 16
)

// Shape stores in s the shape of the command that Next has just returned, whose argument key is the key, and reports
// whether the command has one: it is not inline, has at most 16 arguments, and has at most 256 bytes without the key.
// Otherwise it empties s, but keeps its memory.
func (r *Reader) Shape(s *Shape, key int) bool {
	s.head, s.tail, s.args, s.key, s.bulk = s.head[:0], s.tail[:0], s.args[:0], key, 0
	b := r.buf[r.start-r.size : r.start]
	if len(b) == 0 || b[0] != '*' {
		return false
	}
	count, first := cutNumber(b, 1)
	at := first
	for range key {
		_, at = argument(b, at)
	}
	_, end := argument(b, at)
	if end == 0 || count > maxShapeArgs || at+len(b)-end > maxShape {
		return false
	}
	s.head, s.tail = append(s.head, b[:at]...), append(s.tail, b[end:]...)
	for at = first; at < len(s.head); {
		at = s.add(s.head, at)
	}
	s.args = append(s.args, nil)
	for at = 0; at < len(s.tail); {
		at = s.add(s.tail, at)
	}
	return true
}

// add adds the argument at an offset of part, which is head or tail, and returns the offset behind it.
func (s *Shape) add(part []byte, at int) (next int) {
	arg, next := argument(part, at)
	s.args, s.bulk = append(s.args, arg), max(s.bulk, len(arg))
	return next
}

// With returns the arguments of a command of the shape, as Next would return them. They are valid until the next call of
// With, or of Reader.Shape for s.
func (s *Shape) With(key []byte) [][]byte {
	s.args[s.key] = key
	return s.args
}

// NextOf returns the key of the next command, as Next would return it, if the command has the shape s, its
// key has at most most bytes and does not begin with a zero byte, and it lies whole in the buffer. Otherwise NextOf returns nil, and Next returns
// the command.
func (r *Reader) NextOf(s *Shape, most int) (key []byte) {
	if r.at.left|r.at.scanned != 0 { // step has begun this command, of which the rest has come since, and goes on
		return nil
	}
	b, head := r.buf[r.start:], len(s.head)
	if head == 0 || len(b) < head+len(s.tail)+len("$0\r\n\r\n") || string(b[:head]) != string(s.head) {
		return nil
	}
	if len(s.args) > r.Limits.Args || s.bulk > r.Limits.Bulk {
		return nil
	}
	key, end := argument(b, head)
	size := end + len(s.tail)
	if end == 0 || len(key) > min(most, r.Limits.Bulk) || size > min(len(b), r.Limits.Query) || string(b[end:size]) != string(s.tail) {
		return nil
	}
	if len(key) > 0 && key[0] == 0 {
		return nil // it may be one that the caller reserves
	}
	r.start += size
	r.size = size
	return key
}

// argument returns the argument whose header is at an offset of b, and the offset behind it; 0 if it is not whole, or
// if at is 0 and b does not begin with one.
func argument(b []byte, at int) (arg []byte, next int) {
	if len(b)-at < len("$0\r\n\r\n") || b[at] != '$' {
		return nil, 0
	}
	// Nearly every argument is shorter than 100 bytes.
	d, n, from := b[at+1]-'0', 0, 0
	switch {
	case d <= 9 && b[at+2] == '\r' && b[at+3] == '\n':
		n, from = int(d), at+4
	case d-1 <= 8 && b[at+2]-'0' <= 9 && b[at+3] == '\r' && b[at+4] == '\n':
		n, from = int(d)*10+int(b[at+2]-'0'), at+5
	default:
		if n, from = cutNumber(b, at+1); from == 0 {
			return nil, 0
		}
	}
	to := from + n
	if n > len(b)-from-2 || b[to] != '\r' || b[to+1] != '\n' {
		return nil, 0
	}
	return b[from:to:to], to + 2
}
