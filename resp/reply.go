package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// Value is one reply of RESP2 or RESP3.
type Value struct {
	// Kind is the reply's first byte: + - : $ * of RESP2; _ , # ( ! = % ~ > of RESP3.
	Kind byte
	// Null is true for _, $-1 and *-1.
	Null bool
	// Int is the value of : and, as 1 or 0, of #.
	Int int64
	// Text is the value of + - $ ! , ( and =, for the last without its format.
	Text string
	// Elems are the elements of * ~ and >, and the keys and values of %, in turn.
	Elems []Value
}

// Err returns the reply as an error if it is one, else nil.
func (v Value) Err() error {
	if v.Kind == '-' || v.Kind == '!' {
		return errors.New(v.Text)
	}
	return nil
}

// maxReplyDepth is how deeply arrays may be nested.
const maxReplyDepth = 32

// ReadReply reads one reply of at most maxBytes bytes, RESP2 or RESP3, for tools and tests. An error reply is
// a Value; see Value.Err. An attribute before the reply is dropped. ReadReply returns io.EOF if the stream
// ends before the reply begins, or an error that says why the stream cannot be read any further. Memory grows
// with the bytes received.
func ReadReply(r *bufio.Reader, maxBytes int) (Value, error) {
	if _, err := r.Peek(1); err != nil {
		return Value{}, err
	}
	rr := replyReader{r: r, left: maxBytes}
	v, err := rr.value(0)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return v, err
}

var errReplySize = errors.New("resp: the reply is too big")

type replyReader struct {
	r    *bufio.Reader
	left int // bytes that may still be read
}

func (r *replyReader) value(depth int) (Value, error) {
	if depth > maxReplyDepth {
		return Value{}, errors.New("resp: the reply is nested too deeply")
	}
	for {
		line, err := r.line()
		if err != nil {
			return Value{}, err
		}
		if line == "" {
			return Value{}, errors.New("resp: an empty line where a reply should begin")
		}
		v, attribute, err := r.body(line[0], line[1:], depth)
		if err != nil || !attribute {
			return v, err
		}
	}
}

// body reads what follows the first byte of a reply. line is the rest of its first line.
func (r *replyReader) body(kind byte, line string, depth int) (v Value, attribute bool, err error) {
	v.Kind = kind
	switch kind {
	case '+', '-', ',', '(':
		v.Text = line
	case '_':
		v.Null = true
		err = expect(line == "", kind, line)
	case '#':
		if line == "t" {
			v.Int = 1
		}
		err = expect(line == "t" || line == "f", kind, line)
	case ':':
		var ok bool
		v.Int, ok = ParseInt([]byte(line))
		err = expect(ok, kind, line)
	case '$', '!', '=':
		err = r.bulk(&v, line)
	case '*', '~', '>', '%', '|':
		err = r.elems(&v, line, depth)
	default:
		err = fmt.Errorf("resp: a reply cannot begin with %s", Quote([]byte{kind}))
	}
	return v, kind == '|', err
}

func expect(ok bool, kind byte, line string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("resp: a reply of kind %c cannot be %s", kind, Quote([]byte(line)))
}

// line reads a line and returns it without its CRLF.
func (r *replyReader) line() (string, error) {
	var line []byte
	for {
		part, err := r.r.ReadSlice('\n')
		if len(part) > r.left {
			return "", errReplySize
		}
		r.left -= len(part)
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return "", err
		case len(line) < 2 || line[len(line)-2] != '\r':
			return "", errors.New("resp: a line of a reply does not end in CRLF")
		}
		return string(line[:len(line)-2]), nil
	}
}

func (r *replyReader) bulk(v *Value, line string) error {
	n, ok := ParseInt([]byte(line))
	if n == -1 && v.Kind == '$' {
		v.Null = true
		return nil
	}
	if err := expect(ok && n >= 0, v.Kind, line); err != nil {
		return err
	}
	if n > int64(r.left)-2 {
		return errReplySize
	}
	r.left -= int(n) + 2
	var text strings.Builder
	if _, err := io.CopyN(&text, r.r, n+2); err != nil {
		return err
	}
	s, ok := strings.CutSuffix(text.String(), "\r\n")
	if !ok {
		return errors.New("resp: a bulk string of a reply does not end in CRLF")
	}
	if v.Kind == '=' {
		if len(s) < 4 || s[3] != ':' {
			return expect(false, v.Kind, s)
		}
		s = s[4:]
	}
	v.Text = s
	return nil
}

func (r *replyReader) elems(v *Value, line string, depth int) error {
	n, ok := ParseInt([]byte(line))
	if n == -1 && v.Kind == '*' {
		v.Null = true
		return nil
	}
	if err := expect(ok && n >= 0 && n <= math.MaxInt64/2, v.Kind, line); err != nil {
		return err
	}
	if v.Kind == '%' || v.Kind == '|' {
		n *= 2
	}
	if n > int64(r.left)/3 { // the shortest element is "_\r\n"
		return errReplySize
	}
	for ; n > 0; n-- {
		e, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		v.Elems = append(v.Elems, e)
	}
	return nil
}
