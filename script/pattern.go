package script

import "errors"

// matcher matches a pattern of Lua 5.1 (Reference Manual, 5.4.1) against a string. The library's own matcher cannot be
// stopped, and a pattern such as a*a*a*a*b takes time that grows with a power of the string's length; this one counts its
// steps.
type matcher struct {
	subject, pattern string
	level            int
	captures         [maxCaptures]capture
	depth            int
	step             func(n int)     // counts n steps, and ends the run when there are none left
	fail             func(err error) // raises what the pattern has wrong
}

type capture struct{ start, length int }

const (
	maxCaptures = 32
	// The length of a capture that has not ended yet, and of one that is a position.
	captureOpen     = -1
	capturePosition = -2
	// maxMatchDepth bounds the recursion of one match.
	maxMatchDepth = 200
)

// What a pattern can have wrong.
var (
	errPatternEnd      = errors.New("malformed pattern (ends with '%')")
	errPatternBracket  = errors.New("malformed pattern (missing ']')")
	errPatternFrontier = errors.New("missing '[' after '%f' in pattern")
	errPatternBalance  = errors.New("unbalanced pattern")
	errPatternCapture  = errors.New("invalid pattern capture")
	errCaptureIndex    = errors.New("invalid capture index")
	errCaptures        = errors.New("too many captures")
	errCaptureOpen     = errors.New("unfinished capture")
	errTooComplex      = errors.New("pattern too complex")
)

// match matches the pattern from p on with the subject from s on, and returns where the match ends, or -1.
func (m *matcher) match(s, p int) int {
	m.depth++
	if m.depth > maxMatchDepth {
		m.fail(errTooComplex)
	}
	end := m.rest(s, p)
	m.depth--
	return end
}

func (m *matcher) rest(s, p int) int {
	for p < len(m.pattern) {
		m.step(1)
		switch c := m.pattern[p]; {
		case c == '(':
			if p+1 < len(m.pattern) && m.pattern[p+1] == ')' {
				return m.open(s, p+2, capturePosition)
			}
			return m.open(s, p+1, captureOpen)
		case c == ')':
			return m.close(s, p+1)
		case c == '$' && p+1 == len(m.pattern):
			if s == len(m.subject) {
				return s
			}
			return -1
		case c == '%' && p+1 < len(m.pattern) && m.pattern[p+1] == 'b':
			if s = m.balance(s, p+2); s < 0 {
				return -1
			}
			p += 4
			continue
		case c == '%' && p+1 < len(m.pattern) && m.pattern[p+1] == 'f':
			end, ok := m.frontier(s, p+2)
			if !ok {
				return -1
			}
			p = end
			continue
		case c == '%' && p+1 < len(m.pattern) && isDigit(m.pattern[p+1]):
			if s = m.backReference(s, m.pattern[p+1]); s < 0 {
				return -1
			}
			p += 2
			continue
		}
		end := m.classEnd(p)
		var suffix byte
		if end < len(m.pattern) {
			suffix = m.pattern[end]
		}
		switch suffix {
		case '?':
			if m.one(s, p, end) {
				if e := m.match(s+1, end+1); e >= 0 {
					return e
				}
			}
			p = end + 1
		case '*':
			return m.expandMost(s, p, end)
		case '+':
			if !m.one(s, p, end) {
				return -1
			}
			return m.expandMost(s+1, p, end)
		case '-':
			return m.expandLeast(s, p, end)
		default:
			if !m.one(s, p, end) {
				return -1
			}
			s, p = s+1, end
		}
	}
	return s
}

// frontier reports whether the subject enters the set at p at s, and returns where the set ends in the pattern. Both
// ends of the subject count as a byte 0.
func (m *matcher) frontier(s, p int) (end int, ok bool) {
	if p >= len(m.pattern) || m.pattern[p] != '[' {
		m.fail(errPatternFrontier)
	}
	end = m.classEnd(p)
	var before, after byte
	if s > 0 {
		before = m.subject[s-1]
	}
	if s < len(m.subject) {
		after = m.subject[s]
	}
	return end, !m.inSet(before, p, end-1) && m.inSet(after, p, end-1)
}

// expandMost matches as many of the class at p as it can.
func (m *matcher) expandMost(s, p, end int) int {
	n := 0
	for m.one(s+n, p, end) {
		m.step(1)
		n++
	}
	for ; n >= 0; n-- {
		if e := m.match(s+n, end+1); e >= 0 {
			return e
		}
	}
	return -1
}

// expandLeast matches as few of the class at p as it can.
func (m *matcher) expandLeast(s, p, end int) int {
	for {
		if e := m.match(s, end+1); e >= 0 {
			return e
		}
		if !m.one(s, p, end) {
			return -1
		}
		s++
	}
}

func (m *matcher) open(s, p, length int) int {
	if m.level >= maxCaptures {
		m.fail(errCaptures)
	}
	m.captures[m.level] = capture{s, length}
	m.level++
	e := m.match(s, p)
	if e < 0 {
		m.level--
	}
	return e
}

func (m *matcher) close(s, p int) int {
	l := m.level - 1
	for ; l >= 0 && m.captures[l].length != captureOpen; l-- {
	}
	if l < 0 {
		m.fail(errPatternCapture)
	}
	m.captures[l].length = s - m.captures[l].start
	e := m.match(s, p)
	if e < 0 {
		m.captures[l].length = captureOpen
	}
	return e
}

// balance matches %bxy.
func (m *matcher) balance(s, p int) int {
	if p+1 >= len(m.pattern) {
		m.fail(errPatternBalance)
	}
	if s >= len(m.subject) || m.subject[s] != m.pattern[p] {
		return -1
	}
	open, shut, depth := m.pattern[p], m.pattern[p+1], 1
	for s++; s < len(m.subject); s++ {
		m.step(1)
		switch m.subject[s] {
		case shut:
			if depth--; depth == 0 {
				return s + 1
			}
		case open:
			depth++
		}
	}
	return -1
}

// backReference matches %1 to %9.
func (m *matcher) backReference(s int, digit byte) int {
	l := int(digit) - '1'
	if l < 0 || l >= m.level || m.captures[l].length == captureOpen {
		m.fail(errCaptureIndex)
	}
	c := m.captures[l]
	if c.length < 0 {
		return -1
	}
	m.step(c.length / 64)
	want := m.subject[c.start : c.start+c.length]
	if len(m.subject)-s < len(want) || m.subject[s:s+len(want)] != want {
		return -1
	}
	return s + len(want)
}

// classEnd returns where the class of one character at p ends.
func (m *matcher) classEnd(p int) int {
	c := m.pattern[p]
	p++
	switch c {
	case '%':
		if p >= len(m.pattern) {
			m.fail(errPatternEnd)
		}
		return p + 1
	case '[':
		if p < len(m.pattern) && m.pattern[p] == '^' {
			p++
		}
		for first := true; ; first = false {
			if p >= len(m.pattern) {
				m.fail(errPatternBracket)
			}
			m.step(1)
			c := m.pattern[p]
			p++
			if c == ']' && !first {
				return p
			}
			if c == '%' {
				if p >= len(m.pattern) {
					m.fail(errPatternBracket)
				}
				p++
			}
		}
	}
	return p
}

// one reports whether the character at s is of the class from p to end.
func (m *matcher) one(s, p, end int) bool {
	if s >= len(m.subject) {
		return false
	}
	c := m.subject[s]
	switch m.pattern[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pattern[p+1])
	case '[':
		return m.inSet(c, p, end-1)
	}
	return m.pattern[p] == c
}

// inSet reports whether c is of the set from the [ at p to the ] at last.
func (m *matcher) inSet(c byte, p, last int) bool {
	p++
	negated := m.pattern[p] == '^'
	if negated {
		p++
	}
	for ; p < last; p++ {
		m.step(1)
		switch {
		case m.pattern[p] == '%' && p+1 < last:
			p++
			if inClass(c, m.pattern[p]) {
				return !negated
			}
		case p+2 < last && m.pattern[p+1] == '-':
			if m.pattern[p] <= c && c <= m.pattern[p+2] {
				return !negated
			}
			p += 2
		case m.pattern[p] == c:
			return !negated
		}
	}
	return negated
}

// inClass reports whether c is of the class with the letter class, or is that character if it is no letter.
func inClass(c, class byte) bool {
	var in bool
	switch class | 0x20 {
	case 'a':
		in = isAlpha(c)
	case 'c':
		in = c < 32 || c == 127
	case 'd':
		in = isDigit(c)
	case 'l':
		in = 'a' <= c && c <= 'z'
	case 'p':
		in = c > 32 && c < 127 && !isAlpha(c) && !isDigit(c)
	case 's':
		in = c == ' ' || 9 <= c && c <= 13
	case 'u':
		in = 'A' <= c && c <= 'Z'
	case 'w':
		in = isAlpha(c) || isDigit(c)
	case 'x':
		in = isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f'
	case 'z':
		in = c == 0
	default:
		return class == c
	}
	if !isAlpha(class) {
		return class == c
	}
	return in == (class&0x20 != 0)
}

func isAlpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
