package value

import (
	"encoding/binary"
	"math/bits"
	"strconv"

	"limitdb/resp"
)

// The body of a string is a tag and what it says:
//
//	tagInt   up to 8 bytes, little-endian, two's complement: a counter
//	tagText  the text
//	tagRaw   the text; APPEND or SETRANGE has changed it
//
// Redis tells clients which of them it is, as OBJECT ENCODING.
const (
	tagInt byte = iota
	tagText
	tagRaw
)

// longestEmbedded is the longest text that Redis keeps in one piece with its header.
const longestEmbedded = 44

// AppendString appends the body of a string with the text. A text that is the
// canonical form of an int64 is kept as a number.
func AppendString(dst, text []byte) []byte {
	if n, ok := resp.ParseInt(text); ok {
		return AppendCounter(dst, n)
	}
	return AppendText(dst, text)
}

// AppendText is AppendString for a text that is kept as it is.
func AppendText(dst, text []byte) []byte { return append(append(dst, tagText), text...) }

// AppendRaw is AppendString for a text that a client has changed in part.
func AppendRaw(dst, text []byte) []byte { return append(append(dst, tagRaw), text...) }

// AppendCounter appends the body of a string that is the number n in decimal.
func AppendCounter(dst []byte, n int64) []byte {
	width := (bits.Len64(uint64(n^n>>63)) + 8) / 8 // with a bit for the sign
	if n == 0 {
		width = 0
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	return append(append(dst, tagInt), b[:width]...)
}

// counter returns the number that a body with tagInt holds.
func counter(body []byte) int64 {
	var b [8]byte
	n := copy(b[:], body[1:])
	if n == 0 {
		return 0
	}
	shift := 64 - 8*n
	return int64(binary.LittleEndian.Uint64(b[:])<<shift) >> shift
}

// StringText appends the text of a string to dst. A nil body is an absent key,
// whose text is empty.
func StringText(dst, body []byte) []byte {
	switch {
	case len(body) == 0:
		return dst
	case body[0] == tagInt:
		return strconv.AppendInt(dst, counter(body), 10)
	}
	return append(dst, body[1:]...)
}

// Text returns the text of a string: a part of body, or a number written over buf.
func Text(body, buf []byte) []byte {
	if len(body) > 0 && body[0] != tagInt {
		return body[1:]
	}
	return StringText(buf[:0], body)
}

// StringLen returns the length of a string's text in bytes.
func StringLen(body []byte) int {
	if len(body) > 0 && body[0] == tagInt {
		var b [20]byte
		return len(StringText(b[:0], body))
	}
	return max(0, len(body)-1)
}

// StringInt returns a string as a number, 0 for an absent key. The error is
// ErrNotInt.
func StringInt(body []byte) (int64, error) {
	switch {
	case len(body) == 0:
		return 0, nil
	case body[0] == tagInt:
		return counter(body), nil
	}
	n, ok := resp.ParseInt(body[1:])
	if !ok {
		return 0, ErrNotInt
	}
	return n, nil
}

// Add returns the sum. The error is ErrOverflow.
func Add(a, b int64) (int64, error) {
	sum := a + b
	if (sum > a) != (b > 0) && b != 0 {
		return 0, ErrOverflow
	}
	return sum, nil
}

// StringEncoding returns what OBJECT ENCODING says of a string.
func StringEncoding(body []byte) string {
	switch {
	case body[0] == tagInt:
		return "int"
	case body[0] == tagText && len(body)-1 <= longestEmbedded:
		return "embstr"
	}
	return "raw"
}

// Range returns the part of text from start to end, both counted from the end if
// they are negative, as GETRANGE does.
func Range(text []byte, start, end int64) []byte {
	n := int64(len(text))
	if start < 0 && end < 0 && start > end {
		return nil
	}
	if start < 0 {
		start = max(0, n+start)
	}
	if end < 0 {
		end = max(0, n+end)
	}
	end = min(end, n-1)
	if start > end || n == 0 {
		return nil
	}
	return text[start : end+1]
}

// Overwrite returns the body of a string, written over buf, once part is written over
// its text from at on, with zeros before it if the text is shorter. It appends to
// splices what leads there from body.
func Overwrite(buf, body []byte, at int, part []byte, splices []Splice) ([]byte, []Splice) {
	now := StringText(AppendRaw(buf[:0], nil), body)
	had, at := len(now), 1+at
	end := at + len(part)
	now = append(now, make([]byte, max(0, end-had))...)
	copy(now[at:], part)
	if len(body) == 0 || body[0] == tagInt {
		return now, append(splices, Splice{Del: len(body), Ins: now})
	}
	if body[0] != tagRaw {
		splices = append(splices, Splice{Del: 1, Ins: now[:1]})
	}
	at = min(at, had)
	return now, append(splices, Splice{At: at, Del: min(end, had) - at, Ins: now[at:end]})
}
