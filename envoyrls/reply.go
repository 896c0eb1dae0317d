package envoyrls

import (
	"bytes"

	"limitdb/resp"
)

// A replyReader reads a reply. It is read from its bytes, which have one shape. After what does not fit it, bad is set and the rest is empty.
type replyReader struct {
	rest []byte
	bad  bool
}

func (r *replyReader) fail() { r.rest, r.bad = nil, true }

// line returns the rest of a line that begins with kind.
func (r *replyReader) line(kind byte) []byte {
	end := bytes.IndexByte(r.rest, '\n')
	if end < 2 || r.rest[0] != kind || r.rest[end-1] != '\r' {
		r.fail()
		return nil
	}
	line := r.rest[1 : end-1]
	r.rest = r.rest[end+1:]
	return line
}

func (r *replyReader) number(kind byte) int64 {
	n, ok := resp.ParseInt(r.line(kind))
	if !ok {
		r.fail()
	}
	return n
}

// int returns an integer.
func (r *replyReader) int() int64 { return r.number(':') }

// array returns the length of an array. No element has less than three bytes.
func (r *replyReader) array() int {
	n := r.number('*')
	if n < 0 || n > int64(len(r.rest)/3) {
		r.fail()
		return 0
	}
	return int(n)
}

// text returns a string.
func (r *replyReader) text() []byte {
	n := r.number('$')
	if n < 0 || n > int64(len(r.rest)-2) {
		r.fail()
		return nil
	}
	text := r.rest[:n]
	r.rest = r.rest[n+2:]
	return text
}
