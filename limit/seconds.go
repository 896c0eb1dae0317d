package limit

import "math/bits"

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
