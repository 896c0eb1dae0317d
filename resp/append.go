package resp

import (
	"math"
	"strconv"

	"github.com/tidwall/redcon"
)

// Proto is the version of the protocol that a client speaks; HELLO changes it. Any value below RESP3,
// including zero, means RESP2.
type Proto uint8

// The versions of the protocol.
const (
	RESP2 Proto = 2
	RESP3 Proto = 3
)

// AppendInt appends an integer.
func AppendInt(b []byte, n int64) []byte { return appendLine(b, ':', n) }

// appendLine appends a line of a type byte and a number.
func appendLine(b []byte, kind byte, n int64) []byte {
	switch u := uint64(n); {
	case u < 10:
		return append(b, kind, '0'+byte(u), '\r', '\n')
	case u < 100:
		return append(b, kind, pairs[2*u], pairs[2*u+1], '\r', '\n')
	case u < 1000:
		rest := u % 100 * 2
		return append(b, kind, '0'+byte(u/100), pairs[rest], pairs[rest+1], '\r', '\n')
	case n == -1:
		return append(b, kind, '-', '1', '\r', '\n')
	}
	return appendLongLine(b, kind, n)
}

// appendLongLine is appendLine for a number with more digits.
func appendLongLine(b []byte, kind byte, n int64) []byte {
	u := uint64(n)
	if n < 0 {
		u = -u
	}
	line := [24]byte{22: '\r', 23: '\n'}
	i := uint(22)
	for u >= 10 && i >= 2 {
		two := u % 100 * 2
		u /= 100
		i -= 2
		line[i], line[i+1] = pairs[two], pairs[two+1]
	}
	if u > 0 {
		i--
		line[i] = '0' + byte(u)
	}
	if n < 0 {
		i--
		line[i] = '-'
	}
	i--
	line[i] = kind
	return append(b, line[i:]...)
}

// pairs has the digits of 0 to 99: most integers in replies are small.
const pairs = "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849" +
	"5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"

// AppendString appends a simple string; a CR or LF in it becomes a space.
func AppendString(b []byte, s string) []byte { return redcon.AppendString(b, s) }

// AppendError appends an error. The text begins with its prefix ("ERR …"); a CR or LF in it becomes a space.
// Quote what a client sent with AppendQuoted or Quote.
func AppendError(b []byte, text string) []byte { return redcon.AppendError(b, text) }

// AppendBulk appends a bulk string.
func AppendBulk(b, bulk []byte) []byte { return redcon.AppendBulk(b, bulk) }

// AppendBulkString appends a bulk string.
func AppendBulkString(b []byte, bulk string) []byte { return redcon.AppendBulkString(b, bulk) }

// AppendBulkInt appends an integer as a bulk string.
func AppendBulkInt(b []byte, n int64) []byte {
	var digits [20]byte
	return redcon.AppendBulk(b, strconv.AppendInt(digits[:0], n, 10))
}

// AppendArray appends the header of an array; n elements follow.
func AppendArray(b []byte, n int) []byte { return appendLine(b, '*', int64(n)) }

// AppendCommand appends a command: an array of its words as bulk strings.
func AppendCommand[W string | []byte](b []byte, words ...W) []byte {
	b = AppendArray(b, len(words))
	for _, w := range words {
		b = append(append(appendLine(b, '$', int64(len(w))), w...), '\r', '\n')
	}
	return b
}

// AppendNull appends a null; in RESP2 a null bulk string.
func AppendNull(b []byte, p Proto) []byte {
	if p >= RESP3 {
		return append(b, "_\r\n"...)
	}
	return redcon.AppendNull(b)
}

// AppendNullArray appends the null that stands for an array. RESP3 has only one null.
func AppendNullArray(b []byte, p Proto) []byte {
	if p >= RESP3 {
		return AppendNull(b, p)
	}
	return appendLine(b, '*', -1)
}

// AppendDouble appends a floating-point number in as few digits as identify it; in RESP2 as a bulk string.
// Infinities are inf and -inf, and not-a-number is nan.
func AppendDouble(b []byte, p Proto, f float64) []byte {
	var digits [32]byte
	text := digits[:0]
	switch abs := math.Abs(f); {
	case math.IsInf(f, 1):
		text = append(text, "inf"...)
	case math.IsInf(f, -1):
		text = append(text, "-inf"...)
	case math.IsNaN(f):
		text = append(text, "nan"...)
	case abs == 0 || abs >= 1e-4 && abs < 1e17: // where C's %.17g has no exponent
		text = strconv.AppendFloat(text, f, 'f', -1, 64)
	default:
		text = strconv.AppendFloat(text, f, 'e', -1, 64)
	}
	if p < RESP3 {
		return redcon.AppendBulk(b, text)
	}
	b = append(b, ',')
	b = append(b, text...)
	return append(b, '\r', '\n')
}

// AppendMap appends the header of a map; n pairs of a key and a value follow. In RESP2 it is an array of 2n
// elements.
func AppendMap(b []byte, p Proto, n int) []byte {
	if p >= RESP3 {
		return appendLine(b, '%', int64(n))
	}
	return appendLine(b, '*', int64(2*n))
}

// AppendSet appends the header of a set; n elements follow. In RESP2 it is an array.
func AppendSet(b []byte, p Proto, n int) []byte { return appendArrayLike(b, p, '~', n) }

// AppendPush appends the header of a push, which is not the reply to a command. n elements follow; the first
// names its kind. In RESP2 it is an array.
func AppendPush(b []byte, p Proto, n int) []byte { return appendArrayLike(b, p, '>', n) }

// AppendVerbatim appends a text that is to be shown unchanged; in RESP2 as a bulk string. The format has
// three bytes, "txt" or "mkd"; with any other length it counts as "txt".
func AppendVerbatim(b []byte, p Proto, format, text string) []byte {
	if p < RESP3 {
		return redcon.AppendBulkString(b, text)
	}
	if len(format) != 3 {
		format = "txt"
	}
	b = appendLine(b, '=', int64(len(format)+1+len(text)))
	b = append(b, format...)
	b = append(b, ':')
	b = append(b, text...)
	return append(b, '\r', '\n')
}

func appendArrayLike(b []byte, p Proto, kind byte, n int) []byte {
	if p >= RESP3 {
		return appendLine(b, kind, int64(n))
	}
	return appendLine(b, '*', int64(n))
}
