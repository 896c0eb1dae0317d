package value

import (
	"bytes"
	"math"
	"math/big"
	"strconv"
)

// INCRBYFLOAT adds as the C compiler does for Redis on x86: numbers of 64 bits of
// mantissa, printed with 17 digits behind the point. big.Float rounds as that
// hardware does, so the texts are the same.
const (
	mantissa = 64
	decimals = 17
	// longestFloat is the longest text that Redis takes for a number.
	longestFloat = 5*1024 - 1
	// mostExponent is beyond what the longest text can make up for: a number with a
	// larger exponent overflows, or is 0.
	mostExponent = 20000
	// highest and lowest are the exponents of two of the numbers that the hardware
	// has.
	highest = 16384
	lowest  = -16445
)

// floatText is a number as C writes it, in parts.
type floatText struct {
	hex       bool
	inf       bool
	negative  bool
	zero      bool   // every digit is 0
	mantissa  []byte // with its point
	exponent  int64  // bounded by mostExponent
	wasBeyond bool   // the exponent was not
}

// splitFloat reads what strtod of C reads: decimal and hexadecimal numbers, and
// infinity. It returns false for anything else, also for blanks and NaN.
func splitFloat(b []byte) (f floatText, ok bool) {
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		f.negative = b[0] == '-'
		b = b[1:]
	}
	if bytes.EqualFold(b, []byte("inf")) || bytes.EqualFold(b, []byte("infinity")) {
		f.inf = true
		return f, true
	}
	if len(b) > 2 && b[0] == '0' && b[1]|0x20 == 'x' {
		f.hex, b = true, b[2:]
	}
	n, digits, points := 0, 0, 0
	f.zero = true
	for ; n < len(b); n++ {
		c := b[n]
		switch {
		case c == '.' && points == 0:
			points++
		case c >= '0' && c <= '9' || f.hex && (c|0x20 >= 'a' && c|0x20 <= 'f'):
			digits++
			f.zero = f.zero && c == '0'
		default:
			f.mantissa = b[:n]
			ok = f.readExponent(b[n:])
			return f, ok && digits > 0
		}
	}
	f.mantissa = b
	return f, digits > 0
}

// readExponent reads the letter and the exponent behind a mantissa.
func (f *floatText) readExponent(b []byte) bool {
	letter := byte('e')
	if f.hex {
		letter = 'p'
	}
	if b[0]|0x20 != letter || len(b) < 2 {
		return false
	}
	b = b[1:]
	negative := b[0] == '-'
	if negative || b[0] == '+' {
		b = b[1:]
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
		if f.exponent = f.exponent*10 + int64(c-'0'); f.exponent > mostExponent*5 {
			f.exponent, f.wasBeyond = mostExponent*5, true
		}
	}
	if negative {
		f.exponent = -f.exponent
	}
	return len(b) > 0
}

// text returns the number in a form that Go's parsers know.
func (f *floatText) text() string {
	b := make([]byte, 0, len(f.mantissa)+16)
	if f.negative {
		b = append(b, '-')
	}
	letter := byte('e')
	if f.hex {
		b, letter = append(b, "0x"...), 'p'
	}
	b = append(append(b, f.mantissa...), letter)
	return string(strconv.AppendInt(b, f.exponent, 10))
}

// ParseScore parses a number as Redis parses the score of a sorted set: a
// float64, also infinite. The error is ErrNotFloat.
func ParseScore(b []byte) (float64, error) {
	f, ok := splitFloat(b)
	switch {
	case !ok:
		return 0, ErrNotFloat
	case f.inf && f.negative:
		return math.Inf(-1), nil
	case f.inf:
		return math.Inf(1), nil
	case f.zero && f.negative:
		return math.Copysign(0, -1), nil
	case f.zero:
		return 0, nil
	}
	x, err := strconv.ParseFloat(f.text(), 64)
	if err != nil || x == 0 {
		return 0, ErrNotFloat // too large, or too small
	}
	return x, nil
}

// AppendScore appends a score as Redis 7.0 writes it: 17 digits at most.
func AppendScore(dst []byte, x float64) []byte {
	switch {
	case math.IsInf(x, 1):
		return append(dst, "inf"...)
	case math.IsInf(x, -1):
		return append(dst, "-inf"...)
	}
	return strconv.AppendFloat(dst, x, 'g', 17, 64)
}

// Float is a number of INCRBYFLOAT.
type Float struct {
	x   *big.Float
	inf bool
}

// ParseFloat parses a number as Redis parses those of INCRBYFLOAT. The error is
// ErrNotFloat.
func ParseFloat(b []byte) (Float, error) {
	if len(b) > longestFloat {
		return Float{}, ErrNotFloat
	}
	f, ok := splitFloat(b)
	switch {
	case !ok:
		return Float{}, ErrNotFloat
	case f.inf:
		return Float{inf: true}, nil
	case f.zero:
		return Float{x: new(big.Float).SetPrec(mantissa)}, nil
	case f.wasBeyond:
		return Float{}, ErrNotFloat
	}
	x, _, err := big.ParseFloat(f.text(), 0, mantissa, big.ToNearestEven)
	if err != nil || x.IsInf() || x.Sign() == 0 || !inRange(x) {
		return Float{}, ErrNotFloat
	}
	return Float{x: x}, nil
}

// inRange reports whether the hardware has a number of this size.
func inRange(x *big.Float) bool {
	e := x.MantExp(nil)
	return e <= highest && e > lowest
}

// Plus returns the sum. The error is ErrNaN if it is not finite.
func (f Float) Plus(g Float) (Float, error) {
	if f.inf || g.inf {
		return Float{}, ErrNaN
	}
	sum := new(big.Float).SetPrec(mantissa).Add(f.x, g.x)
	if sum.Sign() != 0 && sum.MantExp(nil) > highest {
		return Float{}, ErrNaN
	}
	return Float{x: sum}, nil
}

// Cmp compares two finite numbers: it returns -1, 0 or +1.
func (f Float) Cmp(g Float) int { return f.x.Cmp(g.x) }

// Finite reports whether the number is not infinite.
func (f Float) Finite() bool { return !f.inf }

// Append appends a finite number as Redis writes it: without zeros at the end.
func (f Float) Append(dst []byte) []byte {
	from := len(dst)
	dst = f.x.Append(dst, 'f', decimals)
	dst = bytes.TrimRight(dst, "0")
	dst = bytes.TrimRight(dst, ".")
	if string(dst[from:]) == "-0" {
		dst = append(dst[:from], '0')
	}
	return dst
}

// Minus returns the difference of two finite numbers.
func (f Float) Minus(g Float) Float {
	return Float{x: new(big.Float).SetPrec(mantissa).Sub(f.x, g.x)}
}

// ParseBound parses a bound of a range of scores as Redis does: a text that begins
// with a parenthesis leaves the bound itself out. It takes all that strtod of C
// takes up to a zero byte, also nothing and blanks before the number. The error is
// ErrNotFloat.
func ParseBound(b []byte) (x float64, open bool, err error) {
	if len(b) > 0 && b[0] == '(' {
		b, open = b[1:], true
	}
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	if len(b) == 0 {
		return 0, open, nil
	}
	f, ok := splitFloat(bytes.TrimLeft(b, " \t\n\v\f\r"))
	switch {
	case !ok:
		return 0, open, ErrNotFloat
	case f.inf || f.zero:
		x = 0
		if f.inf {
			x = math.Inf(1)
		}
		if f.negative {
			x = -x
		}
		return x, open, nil
	}
	x, _ = strconv.ParseFloat(f.text(), 64) // out of range is infinite or 0
	return x, open, nil
}
