package resp

import "strings"

// maxQuoted is how many bytes of a client's input an error or a log shows at most.
const maxQuoted = 128

// AppendQuoted appends what a client sent, for an error or a log: in double quotes, with unprintable bytes
// and quotes escaped as in Redis. After 128 bytes it is cut, and three dots follow the closing quote.
func AppendQuoted(b, untrusted []byte) []byte {
	b = append(b, '"')
	for _, c := range untrusted[:min(len(untrusted), maxQuoted)] {
		if c == '"' || c == '\\' {
			b = append(b, '\\', c)
			continue
		}
		b = appendEscaped(b, c)
	}
	b = append(b, '"')
	if len(untrusted) > maxQuoted {
		b = append(b, "..."...)
	}
	return b
}

// Quote returns what AppendQuoted appends, as a string.
func Quote(untrusted []byte) string { return string(AppendQuoted(nil, untrusted)) }

// appendEscaped appends c, escaped if it is not a printable ASCII character.
func appendEscaped(b []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch {
	case c >= ' ' && c <= '~':
		return append(b, c)
	case c == '\n':
		return append(b, '\\', 'n')
	case c == '\r':
		return append(b, '\\', 'r')
	case c == '\t':
		return append(b, '\\', 't')
	case c == '\a':
		return append(b, '\\', 'a')
	case c == '\b':
		return append(b, '\\', 'b')
	}
	return append(b, '\\', 'x', hex[c>>4], hex[c&15])
}

// Excerpt returns untrusted bytes in a form fit for single quotes: escaped and cut as AppendQuoted does.
func Excerpt(untrusted []byte) string {
	q := Quote(untrusted)
	if len(q) >= 2 && q[0] == '"' {
		i := strings.LastIndexByte(q, '"')
		return q[1:i] + q[i+1:]
	}
	return q
}
