package config

import (
	"errors"
	"strconv"
	"strings"
)

// maxShown is how many bytes of outside input an error shows at most.
const maxShown = 128

// quote makes s safe for an error: cut, on one line, in double quotes.
func quote(s string) string { return `"` + escape(s) + `"` }

// single is quote with single quotes, as in Redis' errors.
func single(s string) string { return "'" + escape(s) + "'" }

// escape is quote without the quotes.
func escape(s string) string {
	more := ""
	if len(s) > maxShown {
		s, more = s[:maxShown], "..."
	}
	q := strconv.Quote(s)
	return q[1:len(q)-1] + more
}

// quoteWord writes a word so that splitLine reads it back: unchanged if possible, else in double quotes.
func quoteWord(s string) string {
	special := func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\'' || r == '\\' }
	if s != "" && !strings.ContainsFunc(s, special) {
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

// splitLine splits a line of the file into words, as Redis does. Words are separated by spaces. In "…" the
// escapes \n \r \t \b \a \xHH have their meaning, and any other escaped character stands for itself; in '…'
// only \' is special. A closing quote must be followed by a space or the end.
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

// splitWord parses one word at the start of s and returns it and its length in s.
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

// unquote writes the text in the quotes at the start of s to b. It returns the length in s of the quoted
// text, quotes included. ok is false if the closing quote is missing.
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

// escaped writes the character for the escape at the start of s, after the backslash, and returns the
// escape's length in s.
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
