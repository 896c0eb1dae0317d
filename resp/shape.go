package resp

// A Shape is everything in a command but its second argument, the key. Clients often send the same command
// for one key after the other; NextOf reads such a command without slicing it up. The zero value is the shape
// of no command.
type Shape struct {
	head, tail []byte // what comes before and after the key, with its length and line end
	args, bulk int    // the number of arguments, and the length of the longest other than the key
}

// maxShape is the maximum size of a Shape, in bytes.
const maxShape = 256

// Shape stores in s the shape of the command that Next has just returned, and reports whether the command has
// one: it is not inline, has a second argument, and has at most 256 bytes without that argument. Otherwise it
// empties s, but keeps its memory.
func (r *Reader) Shape(s *Shape) bool {
	s.head, s.tail = s.head[:0], s.tail[:0]
	b := r.buf[r.start-r.size : r.start]
	if len(b) == 0 || b[0] != '*' {
		return false
	}
	count, i := cutNumber(b, 1)
	if i == 0 || count < 2 {
		return false
	}
	s.args, s.bulk = count, 0
	keyAt, tailAt := 0, 0
	for k := range count {
		n, from := cutNumber(b, i+1)
		if from == 0 {
			return false
		}
		if k == 1 {
			keyAt, tailAt = i, from+n+2
		} else {
			s.bulk = max(s.bulk, n)
		}
		i = from + n + 2
	}
	if keyAt+len(b)-tailAt > maxShape {
		return false
	}
	s.head, s.tail = append(s.head, b[:keyAt]...), append(s.tail, b[tailAt:]...)
	return true
}

// NextOf returns the key of the next command, as Next would return it, if the command has the shape s, its
// key has at most most bytes and does not begin with a zero byte, and it lies whole in the buffer. Otherwise NextOf returns nil, and Next returns
// the command.
func (r *Reader) NextOf(s *Shape, most int) (key []byte) {
	b, head := r.buf[r.start:], len(s.head)
	if head == 0 || len(b) < head+len(s.tail)+len("$0\r\n\r\n") || string(b[:head]) != string(s.head) {
		return nil
	}
	// step has not begun this command, since it lies whole in the buffer.
	if s.args > r.Limits.Args || s.bulk > r.Limits.Bulk {
		return nil
	}
	n, from := cutNumber(b, head+1)
	size := from + n + 2 + len(s.tail)
	if b[head] != '$' || from == 0 || n > min(most, r.Limits.Bulk) || size > min(len(b), r.Limits.Query) {
		return nil
	}
	end := from + n
	if b[end] != '\r' || b[end+1] != '\n' || string(b[end+2:size]) != string(s.tail) {
		return nil
	}
	if n > 0 && b[from] == 0 {
		return nil // it may be one that the caller reserves
	}
	r.start += size
	r.size = size
	r.alike.left = 0
	return b[from:end:end]
}
