package resp

// A Form is everything in a command but its key and a few other arguments: a Shape for commands that differ in more than
// their keys. The zero value is the form of no command.
type Form struct {
	fixed [][]byte // what comes before each of these arguments, and after the last
	args  int
	bulk  int // the length of the longest other argument
}

// FormHoles is the largest number of arguments that a Form leaves open.
const FormHoles = 3

// Form stores in f the form of the command that Next has just returned, and reports whether it has one: see Shape. holes are the
// indexes of the arguments that may differ, in their order; the first is that of the key.
func (r *Reader) Form(f *Form, holes ...int) bool {
	f.fixed, f.bulk = f.fixed[:0], 0
	b := r.buf[r.start-r.size : r.start]
	if len(b) == 0 || b[0] != '*' || len(holes) > FormHoles {
		return false
	}
	count, at := cutNumber(b, 1)
	if f.args = count; count > maxShapeArgs {
		return false
	}
	fixed, from := make([][]byte, 0, len(holes)+1), 0
	for i := range count {
		arg, next := argument(b, at)
		if len(fixed) < len(holes) && holes[len(fixed)] == i {
			fixed, from = append(fixed, append([]byte(nil), b[from:at]...)), next
		} else {
			f.bulk = max(f.bulk, len(arg))
		}
		at = next
	}
	size := len(b) - from
	for _, part := range fixed {
		size += len(part)
	}
	if len(fixed) < len(holes) || size > maxShape {
		return false
	}
	f.fixed = append(fixed, append([]byte(nil), b[from:]...))
	return true
}

// NextIn reads the next command if it has the form f and lies whole in the buffer, its key has at most most bytes and does not begin
// with a zero byte. Then it returns true, and in open the arguments that the form leaves open, as Next would return
// them. Otherwise Next returns the command.
func (r *Reader) NextIn(f *Form, most int, open *[FormHoles][]byte) bool {
	last := len(f.fixed) - 1
	if last < 0 || f.args > r.Limits.Args || f.bulk > r.Limits.Bulk {
		return false
	}
	b, at := r.buf[r.start:], 0
	for i, part := range f.fixed[:last] {
		from := at + len(part)
		if len(b) < from || string(b[at:from]) != string(part) {
			return false
		}
		arg, next := argument(b, from)
		if next == 0 || len(arg) > r.Limits.Bulk {
			return false
		}
		open[i], at = arg, next
	}
	tail := f.fixed[last]
	size := at + len(tail)
	if size > min(len(b), r.Limits.Query) || string(b[at:size]) != string(tail) {
		return false
	}
	if key := open[0]; len(key) > most || len(key) > 0 && key[0] == 0 {
		return false // it may be one that the caller reserves
	}
	r.start += size
	r.size = size
	return true
}
