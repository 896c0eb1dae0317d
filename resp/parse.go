package resp

import (
	"bytes"
	"math"
)

// A command is read in one of two ways. cut reads a command that lies whole in the buffer and breaks no rule,
// as nearly every one does. If cut gives up, step goes through the command one element at a time, remembers
// how far it has come, and finds every error. When the last byte is there, cut runs again to slice up the
// arguments, so no argument is held or counted before its command is complete.

// progress is how far step has come in a command. The zero value is the start of a command.
type progress struct {
	long    bool // the command may be longer than Query
	pos     int  // where the current element begins, counted from the command's start
	scanned int  // bytes of the current line known to hold no line end
	left    int  // arguments to come; 0 means that the multibulk header is to come
	bulk    int  // the length of the current argument, if payload is set
	payload bool // the current element is an argument's bytes, not a header
	wide    bool // there are more than Limits.Args arguments, and Wide must be asked
	skip    skip // why the command is being skipped. bulk is then what is left of the argument
	skipped int  // bytes of it that were let go
}

// skip says why a command is skipped.
type skip uint8

const (
	kept skip = iota
	tooLong
	tooMany
)

// cut slices up the multibulk command at the start of b into r.args and returns its length in bytes. It
// returns 0 if the command is incomplete, wrong, unusual or above the given limits.
func (r *Reader) cut(b []byte, maxArgs, maxBulk int) int {
	count, i := cutNumber(b, 1)
	// The shortest argument is "$0\r\n\r\n", so the slice grows only with the bytes received.
	if i == 0 || count == 0 || count > maxArgs || count > (len(b)-i)/6 {
		return 0
	}
	if cap(r.args) < count {
		r.args = make([][]byte, max(count, minArgs))
	}
	args := r.args[:count]
	for k := range args {
		if len(b)-i < 6 || b[i] != '$' {
			return 0
		}
		// Nearly every argument is shorter than 100 bytes.
		d := b[i+1] - '0'
		n, from := int(d), i+4
		switch {
		case d <= 9 && b[i+2] == '\r' && b[i+3] == '\n':
		case d-1 <= 8 && b[i+2]-'0' <= 9 && b[i+3] == '\r' && b[i+4] == '\n':
			n, from = n*10+int(b[i+2]-'0'), i+5
		default:
			if n, from = cutNumber(b, i+1); from == 0 {
				return 0
			}
		}
		to := from + n
		if n > maxBulk || n > len(b)-from-2 || b[to] != '\r' || b[to+1] != '\n' {
			return 0
		}
		args[k] = b[from:to:to]
		i = to + 2
	}
	r.args = args
	return i
}

// cutNumber reads the decimal number at b[i] and the CRLF after it. It returns the number and the index after
// both; the index is 0 if this is not a plain number of at most 18 digits.
func cutNumber(b []byte, i int) (n, next int) {
	end := min(len(b)-1, i+18)
	from := i
	for i < end {
		d := b[i] - '0'
		if d > 9 {
			break
		}
		n = n*10 + int(d)
		i++
	}
	if i == from || i >= len(b)-1 || b[i] != '\r' || b[i+1] != '\n' || b[from] == '0' && i > from+1 {
		return 0, 0
	}
	return n, i + 2
}

// step continues the command that begins at b. It returns the length of the command in bytes if it is
// complete, with the arguments in r.args (none for an empty command), and 0 if more bytes are needed.
//
// It looks only at the first Limits.Query bytes. So a command that is too long gets the same answer whether
// it comes whole or byte by byte. The same holds for every other limit: what is found in some bytes does not
// depend on the bytes after them.
func (r *Reader) step(b []byte) (n int, err *ProtocolError) {
	if r.err != nil || len(b) == 0 {
		return 0, r.err
	}
	for r.at.skip == kept {
		query := r.query()
		seen := b[:min(len(b), query)]
		switch {
		case r.at.pos > len(seen): // Query was lowered meanwhile
		case b[0] == '*':
			n, err = r.stepMultibulk(seen)
		default:
			n, err = r.stepInline(seen)
		}
		switch {
		case r.at.skip != kept:
		case n > 0 || err != nil || len(b) <= query:
			return n, err
		case r.query() == query:
			return 0, &ProtocolError{errQuery}
		}
		// It has turned out to be a command that may be longer.
	}
	return r.stepSkipped(b)
}

// query returns the maximum length of the current command.
func (r *Reader) query() int {
	if r.at.long {
		return r.Limits.Query + r.Limits.LongBulk
	}
	return r.Limits.Query
}

// isLong reports whether the command at the start of b may have an argument of n bytes.
func (r *Reader) isLong(b []byte, n int64) bool {
	if r.Long == nil || n > int64(r.Limits.LongBulk) || r.Limits.Unauthenticated {
		return false
	}
	_, i := cutNumber(b, 1)
	size, from := cutNumber(b, i+1)
	return i > 0 && from > 0 && from+size <= r.at.pos && r.Long(b[from:from+size:from+size])
}

func (r *Reader) stepMultibulk(b []byte) (int, *ProtocolError) {
	at := &r.at
	if at.left == 0 {
		n, next, err := r.header(b, errArgs, errArgsHeader, errArgsEnd)
		if next == 0 || err != nil {
			return 0, err
		}
		if n <= 0 {
			r.args = r.args[:0]
			return next, nil
		}
		if err := r.checkCount(n); err != nil {
			return 0, err
		}
		at.pos, at.left = next, int(n)
	}
	for at.left > 0 && at.skip == kept {
		if more, err := r.stepArgument(b); more || err != nil {
			return 0, err
		}
	}
	if at.skip != kept {
		return 0, nil
	}
	return r.cut(b, math.MaxInt, math.MaxInt), nil
}

// checkCount checks the announced number of arguments, which is above 0.
func (r *Reader) checkCount(n int64) *ProtocolError {
	l := &r.Limits
	switch {
	case n <= int64(l.Args):
		return nil
	case l.Unauthenticated:
		return &ProtocolError{errArgsUnauth}
	case n <= int64(l.WideArgs) && r.Wide != nil:
		r.at.wide = true
	case l.Skip == 0 || n > mostSkippedArgs:
		return &ProtocolError{errArgs}
	default:
		r.at.skip = tooMany
	}
	return nil
}

// stepArgument moves past one argument, or reports that it needs more bytes. If the command turns out to be one to skip,
// it moves past no more than the argument's header.
func (r *Reader) stepArgument(b []byte) (more bool, err *ProtocolError) {
	at := &r.at
	if !at.payload {
		if more, err = r.stepLength(b); more || err != nil || at.skip != kept {
			return more, err
		}
	}
	if at.bulk > len(b)-at.pos-2 {
		return true, nil
	}
	end := at.pos + at.bulk
	if b[end] != '\r' || b[end+1] != '\n' {
		return false, &ProtocolError{errBulkEnd}
	}
	if at.wide && !r.Wide(b[at.pos:end:end]) {
		if r.Limits.Skip == 0 {
			return false, &ProtocolError{errArgs}
		}
		at.skip = tooMany
	}
	at.wide, at.payload = false, false
	at.pos = end + 2
	at.left--
	return false, nil
}

// stepLength moves past the header of an argument, or reports that it needs more bytes.
func (r *Reader) stepLength(b []byte) (more bool, err *ProtocolError) {
	at, l := &r.at, &r.Limits
	if at.pos == len(b) {
		return true, nil
	}
	if c := b[at.pos]; c != '$' {
		return false, &ProtocolError{string(append(appendEscaped([]byte(errBulkExpected), c), '\''))}
	}
	n, next, err := r.header(b, errBulk, errBulkHeader, errBulkHeaderEnd)
	if next == 0 || err != nil {
		return true, err
	}
	switch {
	case n < 0:
		return false, &ProtocolError{errBulk}
	case n <= int64(l.Bulk), at.skip != kept && n <= int64(l.Skip):
	case l.Unauthenticated:
		return false, &ProtocolError{errBulkUnauth}
	case at.skip == kept && r.isLong(b, n):
		at.long = true
	case n > int64(l.Skip):
		return false, &ProtocolError{errBulk}
	default:
		at.skip = tooLong
	}
	at.pos, at.bulk, at.payload = next, int(n), true
	return false, nil
}

const (
	// mostSkippedArgs is the most arguments of a command that is skipped, as in Redis.
	mostSkippedArgs = 1 << 20
	// mostSkipped is the most bytes of such a command. They cost no memory, but nobody means to send more.
	mostSkipped = 256 << 20
)

// stepSkipped continues a command that is skipped. It returns what step returns. It looks at each byte once.
func (r *Reader) stepSkipped(b []byte) (int, *ProtocolError) {
	at := &r.at
	for at.left > 0 {
		if !at.payload {
			if more, err := r.stepLength(b); more || err != nil {
				return r.letGo(), err
			}
		}
		n := min(at.bulk, len(b)-at.pos)
		at.pos, at.bulk, at.skipped = at.pos+n, at.bulk-n, at.skipped+n
		switch {
		case at.skipped > mostSkipped:
			return 0, &ProtocolError{errQuery}
		case at.bulk > 0 || len(b)-at.pos < 2:
			return r.letGo(), nil
		case b[at.pos] != '\r' || b[at.pos+1] != '\n':
			return 0, &ProtocolError{errBulkEnd}
		}
		at.pos, at.payload, at.left = at.pos+2, false, at.left-1
	}
	name := TooLong
	if at.skip == tooMany {
		name = TooMany
	}
	r.args = append(r.args[:0], []byte(name))
	return at.pos, nil
}

// letGo forgets what has been read of a command that is skipped. It returns 0.
func (r *Reader) letGo() int {
	r.start += r.at.pos
	r.at.pos = 0
	return 0
}

// minHeader is the length of a header line that is always accepted; every int64 fits.
const minHeader = 24

// header reads the line at r.at.pos: a type byte, a number, CRLF. It returns the number and the index after
// the line; the index is 0 if more bytes are needed. bad, long and end are the error texts for a bad number,
// a line that is too long and a wrong line end.
func (r *Reader) header(b []byte, bad, long, end string) (n int64, next int, err *ProtocolError) {
	line := b[r.at.pos:]
	i := r.at.scanned
	for i < len(line) && line[i] != '\r' && line[i] != '\n' {
		i++
	}
	if i > max(r.Limits.Inline, minHeader) {
		return 0, 0, &ProtocolError{long}
	}
	if i < len(line) && line[i] == '\n' || i+1 < len(line) && line[i+1] != '\n' {
		return 0, 0, &ProtocolError{end}
	}
	if i+1 >= len(line) {
		r.at.scanned = i
		return 0, 0, nil
	}
	r.at.scanned = 0
	n, ok := ParseInt(line[1:i])
	if !ok {
		return 0, 0, &ProtocolError{bad}
	}
	return n, r.at.pos + i + 2, nil
}

func (r *Reader) stepInline(b []byte) (int, *ProtocolError) {
	line := b[:min(len(b), r.Limits.Inline+1)]
	from := min(r.at.scanned, len(line))
	i := bytes.IndexByte(line[from:], '\n')
	if i < 0 {
		r.at.scanned = len(line)
		if len(line) > r.Limits.Inline {
			return 0, &ProtocolError{errInline}
		}
		return 0, nil
	}
	i += from
	return i + 1, r.splitInline(line[:i])
}
