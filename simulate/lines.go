package simulate

import (
	"bytes"
	"errors"
	"io"
)

// maxLine is the maximum length of a line, in bytes.
const maxLine = 1 << 20

var errLongLine = errors.New("the line is longer than 1 MB")

// lines cuts a stream into lines. A line is valid until the next call.
type lines struct {
	r     io.Reader
	buf   []byte
	begin int // the unread bytes are buf[begin:end]
	end   int
	err   error // of r, returned after everything before it
}

func newLines(r io.Reader) *lines {
	return &lines{r: r, buf: make([]byte, 256<<10)}
}

// next returns a line without its end, \n or \r\n. The error is errLongLine for a line that is too long,
// which is skipped, io.EOF at the end, or the reader's.
func (l *lines) next() ([]byte, error) {
	seen := 0 // how many of the unread bytes are known to have no \n
	for {
		unread := l.buf[l.begin:l.end]
		if i := bytes.IndexByte(unread[seen:], '\n'); i >= 0 {
			l.begin += seen + i + 1
			return trim(unread[:seen+i])
		}
		if l.err != nil {
			l.begin = l.end
			if len(unread) == 0 || l.err != io.EOF {
				return nil, l.err
			}
			return trim(unread)
		}
		seen = len(unread)
		if seen > maxLine+1 {
			return nil, l.skip()
		}
		l.fill()
	}
}

// trim removes the \r of a \r\n.
func trim(line []byte) ([]byte, error) {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) > maxLine {
		return nil, errLongLine
	}
	return line, nil
}

// skip skips the rest of a line that is too long.
func (l *lines) skip() error {
	for {
		if i := bytes.IndexByte(l.buf[l.begin:l.end], '\n'); i >= 0 {
			l.begin += i + 1
			return errLongLine
		}
		l.begin = l.end
		if l.err != nil {
			return errLongLine
		}
		l.fill()
	}
}

// fill reads more. First it moves the unread bytes to the front or, if they fill the buffer, doubles the
// buffer.
func (l *lines) fill() {
	if l.begin > 0 {
		l.end = copy(l.buf, l.buf[l.begin:l.end])
		l.begin = 0
	}
	if l.end == len(l.buf) {
		l.buf = append(l.buf, make([]byte, len(l.buf))...)
	}
	const patience = 100 // with a reader that returns nothing, as in package bufio
	for range patience {
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		l.err = err
		if n > 0 || err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}

// peek returns the next n bytes, or fewer if there are no more.
func (l *lines) peek(n int) []byte {
	for l.end-l.begin < n && l.err == nil {
		l.fill()
	}
	return l.buf[l.begin:min(l.end, l.begin+n)]
}
