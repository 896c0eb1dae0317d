package resp

// splitInline splits a line, without its LF, into r.args as Redis does (its sdssplitargs). Words are
// separated by blanks. "…" and '…' may begin inside a word, and end it. In "…" a backslash begins \n \r \t \b
// \a \xHH or stands for the byte after it; in '…' only \' is special. A NUL is a byte like any other.
//
// Words without quotes are slices of the line. The others are written to a buffer of their own, because the
// line belongs to the caller.
func (r *Reader) splitInline(line []byte) *ProtocolError {
	r.args = r.args[:0]
	limit := r.Limits.Args
	var decoded []byte
	for i := 0; ; {
		for i < len(line) && blank(line[i]) {
			i++
		}
		if i == len(line) {
			return nil
		}
		if len(r.args) == limit {
			l := &r.Limits
			if limit >= l.WideArgs || l.Unauthenticated || r.Wide == nil || !r.Wide(r.args[0]) {
				return &ProtocolError{errInline}
			}
			limit = l.WideArgs
		}
		from := i
		for i < len(line) && plain(line[i]) {
			i++
		}
		word := line[from:i:i]
		if i < len(line) && (line[i] == '"' || line[i] == '\'') {
			if decoded == nil {
				decoded = make([]byte, 0, len(line)-from) // never longer than its source
			}
			n := len(decoded)
			decoded, i = appendWord(decoded, line, from)
			if i < 0 {
				return &ProtocolError{errQuotes}
			}
			word = decoded[n:len(decoded):len(decoded)]
		}
		r.args = append(r.args, word)
	}
}

// blank reports whether c separates words, like C's isspace.
func blank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// plain reports whether c continues a word outside quotes. As in Redis, a vertical tab and a form feed do,
// although they are skipped between words.
func plain(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\r', '"', '\'':
		return false
	}
	return true
}

// appendWord appends the word at line[i], which has quotes, to b. It returns the index after the word, or -1
// if the quotes are unbalanced.
func appendWord(b, line []byte, i int) ([]byte, int) {
	for i < len(line) && plain(line[i]) {
		b = append(b, line[i])
		i++
	}
	if i == len(line) || line[i] != '"' && line[i] != '\'' {
		return b, i
	}
	quote := line[i]
	i++
	for i < len(line) && line[i] != quote {
		c, n := line[i], 1
		if c == '\\' {
			c, n = unescape(line[i:], quote)
		}
		b = append(b, c)
		i += n
	}
	i++ // the closing quote; a blank or the end must follow it
	if i > len(line) || i < len(line) && !blank(line[i]) {
		return b, -1
	}
	return b, i
}

// unescape returns the byte for the escape sequence at the start of s, and the length of the sequence. If
// there is no such sequence, the byte is a backslash.
func unescape(s []byte, quote byte) (c byte, n int) {
	if len(s) < 2 || quote == '\'' && s[1] != '\'' {
		return '\\', 1
	}
	switch s[1] {
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'b':
		return '\b', 2
	case 'a':
		return '\a', 2
	case 'x':
		if len(s) >= 4 {
			hi, ok1 := hexDigit(s[2])
			lo, ok2 := hexDigit(s[3])
			if ok1 && ok2 {
				return hi<<4 | lo, 4
			}
		}
	}
	return s[1], 2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}
