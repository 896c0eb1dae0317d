package resp

import "math"

// ParseInt parses a decimal int64 as strictly as Redis' string2ll: an optional minus, then digits without a
// leading zero. It accepts no plus, no blanks, no "-0" and no overflow.
func ParseInt(b []byte) (n int64, ok bool) {
	if len(b) == 1 && b[0]-'0' <= 9 {
		return int64(b[0] - '0'), true
	}
	digits := b
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		digits = b[1:]
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' {
		return 0, false
	}
	var u uint64 // 19 digits always fit
	for _, c := range digits {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		u = u*10 + uint64(d)
	}
	switch {
	case u <= math.MaxInt64 && negative:
		return -int64(u), true
	case u <= math.MaxInt64:
		return int64(u), true
	case u == math.MaxInt64+1 && negative:
		return math.MinInt64, true
	}
	return 0, false
}

// EqualFold reports whether b is equal to word, ignoring the case of ASCII letters. It allocates nothing.
func EqualFold(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i, c := range b {
		if c != word[i] && lower(c) != lower(word[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}
