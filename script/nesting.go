package script

import "strings"

// nestedTooDeep returns the line at which a source is nested more deeply than maxDepth; 0 if it is not. The parser keeps
// what it has not finished on a stack of its own and cannot be interrupted, so this looks before it. It counts the brackets
// and blocks that are open, and the operators whose right operand comes first: 2^2^2, 'a'..'b'..'c', not not x.
func nestedTooDeep(source string) (line int) {
	var n nesting
	for n.rest = source; n.rest != ""; {
		n.token()
		if n.total > maxDepth {
			return 1 + strings.Count(source[:len(source)-len(n.rest)], "\n")
		}
	}
	return 0
}

type nesting struct {
	rest  string
	outer []int // the operators in what encloses the brackets and blocks that are open
	here  int   // and in the innermost
	total int
}

func (n *nesting) open() {
	n.outer = append(n.outer, n.here)
	n.here = 0
	n.total++
}

func (n *nesting) close() {
	if last := len(n.outer) - 1; last >= 0 {
		n.total -= n.here + 1
		n.here = n.outer[last]
		n.outer = n.outer[:last]
	}
}

func (n *nesting) operator() { n.here, n.total = n.here+1, n.total+1 }

// separate begins another expression.
func (n *nesting) separate() { n.here, n.total = 0, n.total-n.here }

// token takes one token, or a part of one.
func (n *nesting) token() {
	s := n.rest
	taken := 1
	switch c := s[0]; {
	case isAlpha(c), c == '_', isDigit(c):
		for taken < len(s) && (isAlpha(s[taken]) || isDigit(s[taken]) || s[taken] == '_') {
			taken++
		}
		n.word(s[:taken])
	case c == '"', c == '\'':
		taken = quoted(s)
	case strings.HasPrefix(s, "--"):
		taken = comment(s)
	case c == '[' && longBracket(s) > 0:
		taken = longBracket(s)
	case c == '(', c == '[', c == '{':
		n.open()
	case c == ')', c == ']', c == '}':
		n.close()
	case c == ',', c == ';':
		n.separate()
	case strings.IndexByte("=~<>", c) >= 0:
		if len(s) > 1 && s[1] == '=' {
			taken = 2
		} else if c == '=' {
			n.separate()
		}
	case strings.HasPrefix(s, ".."):
		taken = 2
		n.operator()
	case c == '^', c == '-', c == '#':
		n.operator()
	}
	n.rest = s[taken:]
}

func (n *nesting) word(word string) {
	switch word {
	case "function":
		n.open()
	case "do", "if", "repeat":
		n.separate()
		n.open()
	case "end", "until":
		n.close()
	case "local", "return", "then", "while", "for":
		n.separate()
	case "not":
		n.operator()
	}
}

// quoted returns the length of the string that s begins with.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0], '\n':
			return i + 1
		}
	}
	return len(s)
}

// comment returns the length of the comment that s begins with.
func comment(s string) int {
	if n := longBracket(s[2:]); n > 0 {
		return 2 + n
	}
	if end := strings.IndexByte(s, '\n'); end >= 0 {
		return end + 1
	}
	return len(s)
}

// longBracket returns the length of the string in long brackets that s begins with; 0 if it does not.
func longBracket(s string) int {
	if s == "" || s[0] != '[' {
		return 0
	}
	level := 1
	for level < len(s) && s[level] == '=' {
		level++
	}
	if level == len(s) || s[level] != '[' {
		return 0
	}
	closing := "]" + s[1:level] + "]"
	if end := strings.Index(s, closing); end >= 0 {
		return end + len(closing)
	}
	return len(s)
}
