package config

import (
	"errors"
	"strconv"
	"strings"
)

// maxShown is how many bytes of what came from outside an error repeats.
const maxShown = 128

// quote makes s fit for an error: cut, on one line, in double quotes.
func quote(s string) string { return `"` + escape(s) + `"` }

// single is quote with single quotes, as Redis' errors have them.
func single(s string) string { return "'" + escape(s) + "'" }

// escape is quote without the quotes around.
func escape(s string) string {
	more := ""
	if len(s) > maxShown {
		s, more = s[:maxShown], "..."
	}
	q := strconv.Quote(s)
	return q[1:len(q)-1] + more
}

// quoteWord spells a word of a directive's line so that splitLine reads it
// back: as it is if it can be, else in double quotes.
func quoteWord(s string) string {
	plain := s != ""
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || c == '"' || c == '\'' || c == '\\' {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	const hex = "0123456789abcdef"
	b := make([]byte, 0, len(s)+2)
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

var errQuotes = errors.New("unbalanced quotes")

// splitLine takes a line of the file apart into words, as Redis does: words
// are separated by spaces; in "…" the escapes \n \r \t \b \a \xHH are known and
// any other escaped character is itself; in '…' only \' is. A closing quote
// must be followed by a space or the end.
func splitLine(line string) ([]string, error) {
	var words []string
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return words, nil
		}
		word, n, err := splitWord(line[i:])
		if err != nil {
			return nil, err
		}
		words = append(words, word)
		i += n
	}
}

// splitWord reads one word at the start of s and returns it and its length in
// s.
func splitWord(s string) (word string, n int, err error) {
	var b strings.Builder
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case isSpace(c):
			return b.String(), i, nil
		case c == '"' || c == '\'':
			n, ok := unquote(&b, s[i:])
			if !ok || i+n < len(s) && !isSpace(s[i+n]) {
				return "", 0, errQuotes
			}
			i += n
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String(), len(s), nil
}

// unquote writes to b what the quotes at the start of s hold and returns their
// length in s; ok is false if they do not end.
func unquote(b *strings.Builder, s string) (n int, ok bool) {
	end := s[0]
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == end:
			return i + 1, true
		case c == '\\' && end == '\'' && i+1 < len(s) && s[i+1] == '\'':
			b.WriteByte('\'')
			i++
		case c == '\\' && end == '"' && i+1 < len(s):
			i += escaped(b, s[i+1:])
		default:
			b.WriteByte(c)
		}
	}
	return 0, false
}

// escaped writes the character that stands after a backslash at the start of s
// and returns its length in s.
func escaped(b *strings.Builder, s string) int {
	if s[0] == 'x' && len(s) >= 3 {
		if v, err := strconv.ParseUint(s[1:3], 16, 8); err == nil {
			b.WriteByte(byte(v))
			return 3
		}
	}
	c := s[0]
	switch c {
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'b':
		c = '\b'
	case 'a':
		c = '\a'
	}
	b.WriteByte(c)
	return 1
}

func isSpace(c byte) bool {
	return c == ' ' || '\t' <= c && c <= '\r'
}
