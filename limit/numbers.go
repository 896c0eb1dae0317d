package limit

import (
	"bytes"
	"math"
	"math/bits"
	"strconv"
)

// Numbers and times, as they are written.

// unit is a unit of time by its name in a period.
type unit struct {
	name  string
	upper string
	ns    int64
}

// units has the longest first, so that the first that divides a period prints
// it shortest. us and ns are there so that every period has a spelling.
var units = [...]unit{
	{"w", "W", 7 * 24 * 3600e9},
	{"d", "D", 24 * 3600e9},
	{"h", "H", 3600e9},
	{"m", "M", 60e9},
	{"s", "S", 1e9},
	{"ms", "MS", 1e6},
	{"us", "US", 1e3},
	{"ns", "NS", 1},
}

// parsePeriod reads a period in ns: an integer of milliseconds, or with a unit.
// A unit alone is one of it, if bare.
func parsePeriod(word []byte, bare bool) (int64, error) {
	return parseTime(word, bare, ErrPeriod)
}

// parseTime is parsePeriod with another error for a time that is not positive.
func parseTime(word []byte, bare bool, bad error) (int64, error) {
	ns, err := parseSpan(word, bare, bad)
	if err == nil && ns == 0 {
		err = at(bad, word)
	}
	return ns, err
}

// ParseTime reads a time in ns as a period is written, milliseconds or with a
// unit, but that it may be 0. The errors are ErrTime and ErrOverflow, with the
// word.
func ParseTime(word []byte) (ns int64, err error) {
	return parseSpan(word, false, ErrTime)
}

// ParseRate reads how many are allowed and the period, in ns, of a rate in one word: 100/m, 5/10s. The errors are ErrMax, ErrPeriod and ErrOverflow, with
// what is wrong of the word.
func ParseRate(word []byte) (most, period int64, err error) {
	count, rest, _ := bytes.Cut(word, []byte("/"))
	if most, err = parseInt(count, ErrMax); err == nil {
		period, err = parsePeriod(rest, true)
	}
	return most, period, err
}

// parseSpan reads a time of 0 or more.
func parseSpan(word []byte, bare bool, bad error) (int64, error) {
	digits := 0
	for digits < len(word) && isDigit(word[digits]) {
		digits++
	}
	scale := int64(0)
	if digits == len(word) {
		scale = 1e6
	}
	for i := range units {
		if equalFold(word[digits:], units[i].upper) {
			scale = units[i].ns
		}
	}
	if scale == 0 || digits == 0 && (!bare || len(word) == 0) {
		return 0, at(bad, word)
	}
	n := int64(1)
	if digits > 0 {
		var fits bool
		if n, fits = decimal(word[:digits]); !fits {
			return 0, at(ErrOverflow, word)
		}
	}
	over, ns := mul(n, scale)
	if over != 0 || ns < 0 {
		return 0, at(ErrOverflow, word)
	}
	return ns, nil
}

// parseInt reads an int64 of 0 or more, digits alone. The error for anything
// else is bad.
func parseInt(word []byte, bad error) (int64, error) {
	for _, c := range word {
		if !isDigit(c) {
			return 0, at(bad, word)
		}
	}
	n, fits := decimal(word)
	if len(word) == 0 || !fits {
		return 0, at(bad, word)
	}
	return n, nil
}

// parseRange reads an integer from least to most.
func parseRange(word []byte, least, most int64, bad error) (int64, error) {
	n, err := parseInt(word, bad)
	if err == nil && (n < least || n > most) {
		err = at(bad, word)
	}
	return n, err
}

// decimal is the value of digits, and whether it fits.
func decimal(digits []byte) (n int64, fits bool) {
	for _, c := range digits {
		d := int64(c - '0')
		if n > (math.MaxInt64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

func isDigit(c byte) bool {
	return '0' <= c && c <= '9'
}

// appendPeriod appends a period of ns, as short as can be: one of a unit is the
// unit alone.
func appendPeriod(b []byte, ns int64) []byte {
	if u := unitOf(ns); ns == u.ns {
		return append(b, u.name...)
	}
	return appendTime(b, ns)
}

// appendTime appends a time of ns, as short as can be.
func appendTime(b []byte, ns int64) []byte {
	u := unitOf(ns)
	b = strconv.AppendInt(b, ns/u.ns, 10)
	return append(b, u.name...)
}

// unitOf is the longest unit that divides ns.
func unitOf(ns int64) unit {
	u := units[len(units)-1]
	for _, longer := range units {
		if ns != 0 && ns%longer.ns == 0 {
			u = longer
			break
		}
	}
	return u
}

// equalFold compares ASCII letters in any case; upper is in upper case.
func equalFold(word []byte, upper string) bool {
	if len(word) != len(upper) {
		return false
	}
	for i, c := range word {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != upper[i] {
			return false
		}
	}
	return true
}

// exponentCap is far above any exponent that matters, and far below any
// overflow when the digits of the longest argument are added.
const exponentCap = 1 << 40

// secondsDigits is how many digits a period below 1e12 s has before the point,
// in ns.
const secondsDigits = 12 + 9

// parseSeconds reads a decimal number of seconds above 0 and below 1e12, like
// 60, .5, 1.5e-3 or +2E1, as a 128-bit number of ns, rounded up. The digits are
// taken as they are: no float is in between, however many there be.
func parseSeconds(word []byte) (hi, lo uint64, ok bool) {
	mantissa, exponent, ok := splitExponent(word)
	if !ok {
		return 0, 0, false
	}
	// point is the place of the decimal point, in ns, counted in significant
	// digits: 0.d₁d₂d₃… × 10^point.
	point, ok := pointOf(mantissa)
	if !ok {
		return 0, 0, false
	}
	point += exponent + 9
	if point > secondsDigits {
		return 0, 0, false
	}
	rest, zeros := false, true
	for _, c := range mantissa {
		if c == '.' || zeros && c == '0' {
			continue
		}
		zeros = false
		if point > 0 {
			hi, lo = timesTenPlus(hi, lo, uint64(c-'0'))
			point--
		} else if c != '0' {
			rest = true
		}
	}
	for ; point > 0; point-- {
		hi, lo = timesTenPlus(hi, lo, 0)
	}
	if rest {
		var carry uint64
		lo, carry = bits.Add64(lo, 1, 0)
		hi += carry
	}
	return hi, lo, true
}

// splitExponent takes the sign and the exponent off a decimal number. A minus
// is not ok.
func splitExponent(word []byte) (mantissa []byte, exponent int, ok bool) {
	if len(word) > 0 && word[0] == '+' {
		word = word[1:]
	}
	for i, c := range word {
		if c == 'e' || c == 'E' {
			exponent, ok = parseExponent(word[i+1:])
			return word[:i], exponent, ok
		}
	}
	return word, 0, true
}

// parseExponent reads a signed integer, held within ±exponentCap.
func parseExponent(word []byte) (n int, ok bool) {
	sign := 1
	if len(word) > 0 && (word[0] == '+' || word[0] == '-') {
		if word[0] == '-' {
			sign = -1
		}
		word = word[1:]
	}
	for _, c := range word {
		if !isDigit(c) {
			return 0, false
		}
		n = min(n*10+int(c-'0'), exponentCap)
	}
	return sign * n, len(word) > 0
}

// pointOf is the place of the decimal point, counted from the first digit that
// is not 0: 2 for 12.5, -1 for 0.05. It is not ok without such a digit, with
// two points or with anything else in between.
func pointOf(mantissa []byte) (point int, ok bool) {
	dot, first, digits := -1, -1, 0
	for _, c := range mantissa {
		switch {
		case c == '.' && dot < 0:
			dot = digits
		case !isDigit(c):
			return 0, false
		default:
			if first < 0 && c != '0' {
				first = digits
			}
			digits++
		}
	}
	if dot < 0 {
		dot = digits
	}
	return dot - first, first >= 0
}

// timesTenPlus is 10·(hi, lo) + digit, of a number of at most 37 digits.
func timesTenPlus(hi, lo, digit uint64) (uint64, uint64) {
	carry, low := bits.Mul64(lo, 10)
	low, c := bits.Add64(low, digit, 0)
	return hi*10 + carry + c, low
}
