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
// for an error and for a zone that Zones has not seen. The errors are those of
// Limit.Validate, ErrSyntax and ErrZone, with the argument at fault.
type Parser struct {
	// Zones keeps the time zones; nil loads one each time it is named.
	Zones *Zones

	limit Limit
	seen  option // the options that have been given
}

// Head reads "ALGORITHM limit period" from the start of words and returns how many
// words it has read: 3, or 2 if limit and period are one word, or 4 for
// "FIXED limit CALENDAR unit".
func (p *Parser) Head(words [][]byte) (n int, err error) {
	*p = Parser{Zones: p.Zones}
	if len(words) == 0 {
		return 0, fmt.Errorf("%w: a limit is written ALGORITHM limit period", ErrSyntax)
	}
	a, ok := Lookup(words[0])
	if !ok {
		return 0, fmt.Errorf("%w: %s; there are %s", ErrAlgorithm, quote(words[0]), names())
	}
	p.limit.Algorithm = a
	if len(words) == 1 {
		return 0, fmt.Errorf("%w: limit and period are missing after %s", ErrSyntax, quote(words[0]))
	}
	if slash := bytes.IndexByte(words[1], '/'); slash >= 0 {
		return 2, p.rate(words[1][:slash], words[1][slash+1:], true)
	}
	if len(words) == 2 {
		if _, err := parseMax(words[1], a); err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("%w: period is missing after %s", ErrSyntax, quote(words[1]))
	}
	if table[a]&optCalendar != 0 && equalFold(words[2], "CALENDAR") {
		return 4, p.calendar(words[1], words[2:])
	}
	return 3, p.rate(words[1], words[2], false)
}

// calendar reads the limit and the calendar's unit.
func (p *Parser) calendar(count []byte, words [][]byte) (err error) {
	if p.limit.Max, err = parseMax(count, p.limit.Algorithm); err != nil {
		return err
	}
	if len(words) < 2 {
		return fmt.Errorf("%w: a value is missing after %s", ErrSyntax, quote(words[0]))
	}
	p.seen |= optCalendar
	p.limit.Calendar, err = parseUnit(words[1])
	return err
}

// rate reads the limit and the period.
func (p *Parser) rate(count, period []byte, oneWord bool) (err error) {
	if p.limit.Max, err = parseMax(count, p.limit.Algorithm); err != nil {
		return err
	}
	p.limit.Period, err = parsePeriod(period, oneWord)
	return err
}

// parseMax reads a limit of an algorithm.
func parseMax(word []byte, a Algorithm) (int64, error) {
	if a == LOG {
		return parseRange(word, 0, MaxLog, errLogMax)
	}
	return parseInt(word, ErrMax)
}

// Option reads one option of the algorithm from the start of words and returns how
// many words it has read; 0 if the first word is not an option of the algorithm. An
// option that is given twice is an error.
func (p *Parser) Option(words [][]byte) (n int, err error) {
	if len(words) == 0 {
		return 0, nil
	}
	o := p.known(words[0])
	if o == 0 {
		return 0, nil
	}
	if p.seen&o != 0 {
		return 0, fmt.Errorf("%w: %s is given twice", ErrSyntax, quote(words[0]))
	}
	p.seen |= o
	r := o.row()
	if n = 1; r.value != "" {
		n = 2
	}
	if len(words) < n {
		return 0, fmt.Errorf("%w: a value is missing after %s", ErrSyntax, quote(words[0]))
	}
	p.limit, err = r.read(p.limit, words[n-1], p.Zones)
	return n, err
}

// known is the option of that name, if the algorithm has it.
func (p *Parser) known(word []byte) option {
	allowed := table[p.limit.Algorithm]
	for i := range options {
		if o := option(1) << i; allowed&o != 0 && equalFold(word, options[i].name) {
			return o
		}
	}
	return 0
}

// Finish fills in the defaults of options that were not given, and returns the
// limit if it is valid.
func (p *Parser) Finish() (l Limit, err error) {
	if p.seen&optBurst == 0 {
		p.limit.Burst = p.limit.Max
	}
	for missing := table[p.limit.Algorithm] & optNeeded &^ p.seen; missing != 0; {
		if p.limit, err = missing.next().fill(p.limit); err != nil {
			return Limit{}, err
		}
	}
	if err := p.limit.Validate(); err != nil {
		return Limit{}, err
	}
	return p.limit, nil
}

// Parse reads a limit from its spelling. Blanks separate the words.
func Parse(s string) (Limit, error) {
	return new(Parser).Parse(s)
}

// Parse reads a limit from its spelling, as the function Parse does, with the
// zones of p.
func (p *Parser) Parse(s string) (Limit, error) {
	var words [][]byte
	for f := range strings.FieldsFuncSeq(s, isBlank) {
		words = append(words, []byte(f))
	}
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
