package limit

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// Parser reads a limit from the arguments of a command, where it stands among
// the command's own options:
//
//	var p limit.Parser
//	n, err := p.Head(args)
//	for err == nil && n < len(args) {
//		used, err = p.Option(args[n:])
//		if used == 0 { … the command's own options, or a syntax error … }
//		n += used
//	}
//	l, err := p.Finish()
//
// The zero value is ready, Head starts it again, and nothing is allocated but
// for an error. The errors are those of Limit.Validate and ErrSyntax, with the
// argument at fault.
type Parser struct {
	limit Limit
	seen  option // the options that have been given
}

// Head reads "ALGORITHM limit period" from the start of words and tells how
// many words that were: 3, or 2 if limit and period are one word.
func (p *Parser) Head(words [][]byte) (n int, err error) {
	*p = Parser{}
	if len(words) == 0 {
		return 0, fmt.Errorf("%w: a limit is ALGORITHM limit period", ErrSyntax)
	}
	a, ok := Lookup(words[0])
	if !ok {
		return 0, at(ErrAlgorithm, words[0])
	}
	p.limit.Algorithm = a
	if len(words) == 1 {
		return 0, fmt.Errorf("%w: limit and period are missing after %s", ErrSyntax, quote(words[0]))
	}
	if slash := bytes.IndexByte(words[1], '/'); slash >= 0 {
		return 2, p.rate(words[1][:slash], words[1][slash+1:], true)
	}
	if len(words) == 2 {
		if _, err := parseInt(words[1], ErrMax); err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("%w: period is missing after %s", ErrSyntax, quote(words[1]))
	}
	return 3, p.rate(words[1], words[2], false)
}

// rate reads the limit and the period.
func (p *Parser) rate(count, period []byte, oneWord bool) (err error) {
	if p.limit.Max, err = parseInt(count, ErrMax); err != nil {
		return err
	}
	p.limit.Period, err = parsePeriod(period, oneWord)
	return err
}

// Option reads one option of the algorithm from the start of words and tells
// how many words that were; 0 if the first word is no option of the algorithm.
// An option given twice is an error.
func (p *Parser) Option(words [][]byte) (n int, err error) {
	if len(words) == 0 {
		return 0, nil
	}
	allowed := table[p.limit.Algorithm].options
	switch {
	case allowed&optBurst != 0 && equalFold(words[0], "BURST"):
		if err := p.once(optBurst, words); err != nil {
			return 0, err
		}
		if p.limit.Burst, err = parseInt(words[1], ErrBurst); err != nil {
			return 0, err
		}
		if p.limit.Burst == 0 && p.limit.Max > 0 {
			return 0, at(ErrBurst, words[1])
		}
		return 2, nil
	}
	return 0, nil
}

// once notes that an option with a value is given: words are its name and what
// follows.
func (p *Parser) once(o option, words [][]byte) error {
	if p.seen&o != 0 {
		return fmt.Errorf("%w: %s is given twice", ErrSyntax, quote(words[0]))
	}
	if len(words) < 2 {
		return fmt.Errorf("%w: a value is missing after %s", ErrSyntax, quote(words[0]))
	}
	p.seen |= o
	return nil
}

// Finish fills in the defaults, of options that were not given, and returns the
// limit if it is valid.
func (p *Parser) Finish() (Limit, error) {
	if p.seen&optBurst == 0 {
		p.limit.Burst = p.limit.Max
	}
	if err := p.limit.Validate(); err != nil {
		return Limit{}, err
	}
	return p.limit, nil
}

// Parse reads a limit from its spelling, words apart by blanks.
func Parse(s string) (Limit, error) {
	var words [][]byte
	for f := range strings.FieldsFuncSeq(s, isBlank) {
		words = append(words, []byte(f))
	}
	var p Parser
	n, err := p.Head(words)
	if err != nil {
		return Limit{}, err
	}
	for words = words[n:]; len(words) > 0; words = words[n:] {
		if n, err = p.Option(words); err != nil {
			return Limit{}, err
		}
		if n == 0 {
			return Limit{}, fmt.Errorf("%w: %s has no option %s", ErrSyntax, p.limit.Algorithm, quote(words[0]))
		}
	}
	return p.Finish()
}

func isBlank(r rune) bool {
	return r == ' ' || r == '\t' || r == '\n' || r == '\r'
}

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
		return 0, at(ErrPeriod, word)
	}
	n := int64(1)
	if digits > 0 {
		var fits bool
		if n, fits = decimal(word[:digits]); !fits {
			return 0, at(ErrOverflow, word)
		}
	}
	if n == 0 {
		return 0, at(ErrPeriod, word)
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
