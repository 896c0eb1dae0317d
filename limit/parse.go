package limit

import (
	"bytes"
	"fmt"
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
	if optionsOf[a]&optCalendar != 0 && equalFold(words[2], "CALENDAR") {
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
	allowed := optionsOf[p.limit.Algorithm]
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
	for missing := optionsOf[p.limit.Algorithm] & optNeeded &^ p.seen; missing != 0; {
		if p.limit, err = missing.next().fill(p.limit); err != nil {
			return Limit{}, err
		}
	}
	if p.limit.BlockMost == p.limit.Block { // which says nothing
		p.limit.BlockMost = 0
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
