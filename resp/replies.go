package resp

import (
	"bytes"
	"errors"
	"math"
)

// A ReplyScanner finds where replies end in a stream that comes in pieces. It keeps none of the bytes. A push
// and an attribute are no replies. The zero value is at the start of a stream.
type ReplyScanner struct {
	skip  int64 // bytes of a string, with its line end, that are still to come
	line  [24]byte
	n     int  // bytes of the current line; line has the first of them
	began bool // a reply or a push has begun
	depth int
	left  [maxReplyDepth + 1]int64 // elements to come, at each depth
	kind  [maxReplyDepth + 1]byte  // of the aggregate at this depth
}

var errReplyLine = errors.New("resp: a line that no reply has")

// Scan reads b up to the end of the first reply in it. It returns the number of bytes that it has read, and
// whether a reply ends there. An error is final.
func (s *ReplyScanner) Scan(b []byte) (n int, whole bool, err error) {
	if !s.began {
		if n = plainReply(b); n > 0 {
			return n, true, nil
		}
	}
	for n < len(b) {
		s.began = true
		if s.skip > 0 {
			k := min(s.skip, int64(len(b)-n))
			n += int(k)
			if s.skip -= k; s.skip > 0 {
				break
			}
			if s.ended() {
				return n, true, nil
			}
			continue
		}
		i := bytes.IndexByte(b[n:], '\n')
		part := b[n:]
		if i >= 0 {
			part = part[:i+1]
		}
		if s.n < len(s.line) {
			copy(s.line[s.n:], part)
		}
		s.n += len(part)
		n += len(part)
		if i < 0 {
			break
		}
		whole, err := s.header()
		s.n = 0
		if err != nil || whole {
			return n, whole, err
		}
	}
	return n, false, nil
}

// plainReply returns the length of the reply that b begins with, if it is one line, or an array of up to 9 such lines, as nearly all are; 0 for others,
// and if it is not whole.
func plainReply(b []byte) int {
	at, lines := 0, 1
	if len(b) > 4 && b[0] == '*' && b[1]-'1' < 9 && b[2] == '\r' && b[3] == '\n' {
		at, lines = 4, int(b[1]-'0')
	}
	for ; lines > 0; lines-- {
		if len(b)-at < len("_\r\n") || b[at] != ':' && b[at] != '+' && b[at] != '-' || b[at+1] == '\n' {
			return 0
		}
		for at += 2; b[at] != '\n'; {
			if at++; at == len(b) {
				return 0
			}
		}
		at++
	}
	return at
}

// Within reports whether a reply has begun and not ended.
func (s *ReplyScanner) Within() bool { return s.began }

// header handles a whole line.
func (s *ReplyScanner) header() (whole bool, err error) {
	if s.n < len("_\r\n") {
		return false, errReplyLine
	}
	kind := s.line[0]
	switch kind {
	case '+', '-', ',', '(', '_', '#', ':':
		return s.ended(), nil
	case '$', '!', '=', '*', '~', '>', '%', '|':
	default:
		return false, errReplyLine
	}
	if s.n > len(s.line) {
		return false, errReplyLine
	}
	count, ok := ParseInt(s.line[1 : s.n-2])
	switch {
	case !ok || count < -1 || count > math.MaxInt64/4:
		return false, errReplyLine
	case kind == '$' || kind == '!' || kind == '=':
		if count >= 0 {
			s.skip = count + 2
			return false, nil
		}
		return s.ended(), nil
	case kind == '%' || kind == '|':
		count *= 2
	}
	if s.depth == maxReplyDepth {
		return false, errReplyLine
	}
	s.depth++
	s.left[s.depth], s.kind[s.depth] = count, kind
	if count > 0 {
		return false, nil
	}
	return s.ended(), nil
}

// ended notes that an element has ended, and reports whether that ends a reply.
func (s *ReplyScanner) ended() bool {
	for s.depth > 0 {
		if s.left[s.depth]--; s.left[s.depth] > 0 {
			return false
		}
		s.depth--
		switch kind := s.kind[s.depth+1]; {
		case kind == '|':
			return false // the element that it belongs to follows
		case kind == '>' && s.depth == 0:
			s.began = false
			return false
		}
	}
	s.began = false
	return true
}
