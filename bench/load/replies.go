package load

import (
	"errors"
	"fmt"

	"limitdb/resp"
)

// maxReplyNumber bounds lengths in replies; no measured reply comes near it.
const maxReplyNumber = 512 << 20

// replies counts complete replies in a stream of RESP2 or RESP3, and keeps none of them. It takes input in
// pieces of any size.
type replies struct {
	// done, errors and limited count complete replies: all of them, errors, and denials (arrays of five
	// elements or more, the first of which is the integer 1).
	done, errors, limited uint64
	// firstError is the text of the first error.
	firstError string

	pending int    // values until the reply is complete; 0 means between replies
	skip    int    // bytes of a bulk still to be skipped
	line    []byte // the beginning of a line that was cut off
	shape   shape
}

// shape follows one reply far enough to recognise a decision.
type shape struct {
	elements, seen int
	deny, failed   bool
}

// feed takes the next piece of the stream. An error is final.
func (r *replies) feed(b []byte) error {
	for len(b) > 0 {
		if r.skip > 0 {
			n := min(r.skip, len(b))
			r.skip -= n
			b = b[n:]
			if r.skip == 0 {
				r.value()
			}
			continue
		}
		// Lines of decisions are a few bytes long: a call would cost more than this loop.
		end := 0
		for end < len(b) && b[end] != '\n' {
			end++
		}
		if end == len(b) {
			if len(r.line)+len(b) > writeBufferSize {
				return errors.New("a reply with a line of more than 64 kB")
			}
			r.line = append(r.line, b...)
			return nil
		}
		line := b[:end]
		if len(r.line) > 0 {
			r.line = append(r.line, line...)
			line = r.line
		}
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		if err := r.header(line); err != nil {
			return err
		}
		r.line = r.line[:0]
		b = b[end+1:]
	}
	return nil
}

// header parses one line: a scalar, or the header of what follows.
func (r *replies) header(line []byte) error {
	if len(line) == 0 {
		return errors.New("a reply that begins with an empty line")
	}
	top := r.pending == 0
	if top {
		r.pending, r.shape = 1, shape{}
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+', '_', '#', ',', '(':
		r.value()
	case ':':
		if r.shape.elements >= 5 && r.shape.seen == 0 && len(rest) == 1 && rest[0] == '1' {
			r.shape.deny = true
		}
		r.value()
	case '-':
		if top {
			r.fail(rest)
		}
		r.value()
	case '$', '=', '!':
		n, null, err := length(line)
		if err != nil {
			return err
		}
		if top && kind == '!' {
			r.fail(nil)
		}
		if null {
			r.value()
			return nil
		}
		r.skip = n + len("\r\n")
	case '*', '~', '%':
		n, _, err := length(line)
		if err != nil {
			return err
		}
		if kind == '%' {
			n *= 2
		}
		if top && kind == '*' {
			r.shape.elements = n
		} else {
			r.shape.seen++
		}
		r.pending += n
		r.complete()
	case '|':
		// Attributes come before a value and are not values themselves.
		n, _, err := length(line)
		if err != nil {
			return err
		}
		r.pending += 2 * n
	default:
		return fmt.Errorf("a reply that is not RESP: %s", resp.Quote(line))
	}
	return nil
}

// value ends one value that is not an aggregate.
func (r *replies) value() {
	r.shape.seen++
	r.complete()
}

func (r *replies) complete() {
	if r.pending--; r.pending == 0 {
		r.done++
		if r.shape.deny {
			r.limited++
		}
		if r.shape.failed {
			r.errors++
		}
	}
}

// fail notes that the reply is an error, which counts when the reply is complete.
func (r *replies) fail(text []byte) {
	if r.errors == 0 {
		r.firstError = resp.Quote(text)
	}
	r.shape.failed = true
}

// length parses the number in a header; −1 is null.
func length(line []byte) (n int, null bool, err error) {
	v, ok := resp.ParseInt(line[1:])
	if !ok || v < -1 || v > maxReplyNumber {
		return 0, false, fmt.Errorf("a reply of an impossible length: %s", resp.Quote(line))
	}
	if v < 0 {
		return 0, true, nil
	}
	return int(v), false, nil
}
