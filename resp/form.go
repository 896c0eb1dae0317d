package resp

// A Form is everything in a command but its key and a few other arguments: a Shape for commands that differ in more than
// their keys. The zero value is the form of no command.
type Form struct {
	holes [FormHoles]hole
	open  int    // how many holes there are; 0 for no command
	tail  []byte // what comes behind the last hole
	args  int
	bulk  int // the length of the longest other argument
}

// hole is an argument that a Form leaves open. The next command mostly has one that is as long, so what comes before it
// includes its header, and begins with the line end of the hole before.
type hole struct {
	before []byte
	fixed  int // bytes of before without the header
	size   int // the length that the header states
	from   int // where the argument begins in the last command of the form
}

// FormHoles is the largest number of arguments that a Form leaves open.
const FormHoles = 3

// Form stores in f the form of the command that Next has just returned, and reports whether it has one: see Shape. holes are the
// indexes of the arguments that may differ, in their order; the first is that of the key.
func (r *Reader) Form(f *Form, holes ...int) bool {
	*f = Form{}
	b := r.buf[r.start-r.size : r.start]
	if len(b) == 0 || b[0] != '*' || len(holes) > FormHoles {
		return false
	}
	count, at := cutNumber(b, 1)
	if count > maxShapeArgs {
		return false
	}
	next := Form{args: count}
	from, size := 0, len(b)
	for i := range count {
		arg, end := argument(b, at)
		if next.open < len(holes) && holes[next.open] == i {
			h := &next.holes[next.open]
			next.open++
			h.fixed, h.size = at-from, len(arg)
			h.before = append([]byte(nil), b[from:end-2-len(arg)]...)
			from, size = end-2, size-(end-at)
		}
		next.bulk = max(next.bulk, len(arg))
		at = end
	}
	if next.open < len(holes) || size > maxShape {
		return false
	}
	next.tail = append([]byte(nil), b[from:]...)
	*f = next
	return true
}

// NextIn reads the next command if it has the form f and lies whole in the buffer, its key has at most most bytes and does not begin
// with a zero byte. Then it returns true, and Open what the form leaves open. Otherwise Next returns the command.
func (r *Reader) NextIn(f *Form, most int) bool {
	if f.open == 0 || r.at.left|r.at.scanned != 0 || f.args > r.Limits.Args || f.bulk > r.Limits.Bulk {
		return false
	}
	b, at := r.buf[r.start:], 0
	for i := range f.holes[:f.open] {
		h := &f.holes[i]
		from := at + len(h.before)
		to := from + h.size
		if to > len(b) || string(b[at:from]) != string(h.before) {
			if from, to = h.other(b, at); to == 0 {
				return false
			}
			if f.bulk = max(f.bulk, h.size); f.bulk > r.Limits.Bulk {
				return false
			}
		}
		h.from, at = from, to
	}
	size := at + len(f.tail)
	if size > min(len(b), r.Limits.Query) || string(b[at:size]) != string(f.tail) {
		return false
	}
	if key := &f.holes[0]; key.size > most || key.size > 0 && b[key.from] == 0 {
		return false // it may be one that the caller reserves
	}
	r.start += size
	r.size = size
	return true
}

// Open returns the argument that f leaves open at an index of its holes, as Next would have returned it, of the command that NextIn
// has just read.
func (r *Reader) Open(f *Form, i int) []byte {
	h := &f.holes[i]
	from := r.start - r.size + h.from
	return r.buf[from : from+h.size : from+h.size]
}

// other finds the argument behind what comes before h, at an offset of b, if it is of another length, and expects that of the
// next command. to is 0 if there is none.
func (h *hole) other(b []byte, at int) (from, to int) {
	begin := at + h.fixed
	if len(b) < begin || string(b[at:begin]) != string(h.before[:h.fixed]) {
		return 0, 0
	}
	arg, end := argument(b, begin)
	if end == 0 {
		return 0, 0
	}
	to = end - 2
	from = to - len(arg)
	h.before, h.size = append(h.before[:h.fixed], b[begin:from]...), len(arg)
	return from, to
}
