package limit

import (
	"fmt"
	"math/bits"
	"strconv"
)

// option is a set of the words that may follow "ALGORITHM limit period".
type option uint16

const (
	optBurst option = 1 << iota
	optInterval
	optWarm
	optCold
	optFirst
	optCalendar
	optZone
	optSegments
	optCountDenied
	optBlock
	optUpto
)

// optionRow is what the package knows about an option. Its functions take a Limit
// by value and return it: through a pointer, each caller's Limit would be moved to
// the heap.
type optionRow struct {
	name    string // in upper case
	value   string // the name of its value; "" for an option without one
	integer bool   // the value is an integer
	// bad is the error for a value of the option that is out of range, and for the
	// option in a limit whose algorithm does not have it.
	bad error
	// read reads the value, or for an option without one the option itself.
	read func(l Limit, word []byte, zones *Zones) (Limit, error)
	// fill sets the option's default in a limit that lacks the option. It is nil
	// unless the option is in optNeeded.
	fill func(l Limit) (Limit, error)
	// valid reports whether the option's value in a limit is in range. It is nil if
	// any value is.
	valid func(l Limit) bool
	// text appends the option as it is written, or nothing if it has its default. It
	// is nil if the option is written elsewhere.
	text func(b []byte, l Limit) []byte
}

// optAll are the options that every algorithm has.
const optAll = optBlock | optUpto

// optNeeded are the options that a limit must have if its algorithm has them.
const optNeeded = optWarm | optCold | optSegments

const (
	minSegments = 2
	minCold     = 1
	defaultCold = 3 // Guava's cold factor
)

// optionsOf has the options of each algorithm, at its number. Parsing, printing, the
// contract tests, the fuzz targets and the benchmarks range over it.
//
// The functions are not in it but in the switches of contract.go: a call
// through a func value would move the caller's Limit and buffers to the heap.
// A test makes sure that each algorithm has its cases.
var optionsOf = [...]option{
	GCRA:      optBurst | optAll,
	TOKEN:     optBurst | optInterval | optAll,
	LEAKY:     optBurst | optAll,
	QUEUE:     optBurst | optAll,
	WARMUP:    optWarm | optCold | optAll,
	FIXED:     optFirst | optCalendar | optZone | optCountDenied | optAll,
	SLIDING:   optCountDenied | optAll,
	SEGMENTED: optSegments | optCountDenied | optAll,
	LOG:       optCountDenied | optAll,
}

// options has a row for each option, in the order of the bits, in which options are
// also printed. A new option needs its bit, its row, its field in Limit and a line
// in given; optionsOf says which algorithms have it. The parser, the printer, the
// validation and [Options], from which the server describes its commands, read the
// table.
var options = [...]optionRow{
	{
		name: "BURST", value: "burst", integer: true, bad: ErrOption,
		read: readBurst,
		text: func(b []byte, l Limit) []byte { return appendNumber(b, " BURST ", l.Burst) },
	},
	{
		name: "INTERVAL", bad: ErrOption,
		read: func(l Limit, _ []byte, _ *Zones) (Limit, error) { l.Interval = true; return l, nil },
		text: func(b []byte, _ Limit) []byte { return append(b, " INTERVAL"...) },
	},
	{
		name: "WARM", value: "time", bad: ErrWarm,
		read: func(l Limit, word []byte, _ *Zones) (_ Limit, err error) {
			l.Warm, err = parseTime(word, false, ErrWarm)
			return l, err
		},
		fill:  func(l Limit) (Limit, error) { l.Warm = l.Period; return l, nil },
		valid: func(l Limit) bool { return l.Warm >= 1 },
		text: func(b []byte, l Limit) []byte {
			if l.Warm == l.Period {
				return b
			}
			return appendTime(append(b, " WARM "...), l.Warm)
		},
	},
	{
		name: "COLD", value: "factor", integer: true, bad: ErrCold,
		read: func(l Limit, word []byte, _ *Zones) (_ Limit, err error) {
			l.Cold, err = parseRange(word, minCold, MaxCold, ErrCold)
			return l, err
		},
		fill:  func(l Limit) (Limit, error) { l.Cold = defaultCold; return l, nil },
		valid: func(l Limit) bool { return minCold <= l.Cold && l.Cold <= MaxCold },
		text: func(b []byte, l Limit) []byte {
			if l.Cold == defaultCold {
				return b
			}
			return appendNumber(b, " COLD ", l.Cold)
		},
	},
	{
		name: "FIRST", bad: ErrOption,
		read: func(l Limit, word []byte, _ *Zones) (Limit, error) {
			if l.Calendar != NoUnit {
				return l, fmt.Errorf("%w: %s does not work with CALENDAR", ErrSyntax, quote(word))
			}
			l.First = true
			return l, nil
		},
		valid: func(l Limit) bool { return !l.First || l.Calendar == NoUnit },
		text:  func(b []byte, _ Limit) []byte { return append(b, " FIRST"...) },
	},
	{
		name: "CALENDAR", value: "unit", bad: ErrOption,
		read: func(l Limit, _ []byte, _ *Zones) (Limit, error) {
			return l, fmt.Errorf(`%w: "CALENDAR" takes the place of the period`, ErrSyntax)
		},
	},
	{
		name: "TZ", value: "zone", bad: ErrCalendar,
		read: func(l Limit, word []byte, zones *Zones) (_ Limit, err error) {
			if l.Calendar == NoUnit {
				return l, fmt.Errorf(`%w: "TZ" works only with CALENDAR`, ErrSyntax)
			}
			l.Zone, err = zones.Find(word)
			return l, err
		},
		text: func(b []byte, l Limit) []byte { return append(append(b, " TZ "...), l.Zone.String()...) },
	},
	{
		name: "SEGMENTS", value: "segments", integer: true, bad: ErrSegments,
		read: func(l Limit, word []byte, _ *Zones) (_ Limit, err error) {
			l.Segments, err = parseRange(word, minSegments, MaxSegments, ErrSegments)
			return l, err
		},
		fill: func(l Limit) (Limit, error) {
			return l, fmt.Errorf("%w: %s needs SEGMENTS n", ErrSyntax, l.Algorithm)
		},
		valid: func(l Limit) bool { return minSegments <= l.Segments && l.Segments <= MaxSegments },
		text:  func(b []byte, l Limit) []byte { return appendNumber(b, " SEGMENTS ", l.Segments) },
	},
	{
		name: "COUNTDENIED", bad: ErrOption,
		read: func(l Limit, _ []byte, _ *Zones) (Limit, error) { l.CountDenied = true; return l, nil },
		text: func(b []byte, _ Limit) []byte { return append(b, " COUNTDENIED"...) },
	},
	{
		name: "BLOCK", value: "time", bad: ErrBlock,
		read: func(l Limit, word []byte, _ *Zones) (_ Limit, err error) {
			l.Block, err = parseTime(word, false, ErrBlock)
			return l, err
		},
		valid: func(l Limit) bool { return 0 < l.Block && l.Block <= MaxPeriod },
		text:  func(b []byte, l Limit) []byte { return appendTime(append(b, " BLOCK "...), l.Block) },
	},
	{
		name: "UPTO", value: "time", bad: ErrUpto,
		read: func(l Limit, word []byte, _ *Zones) (_ Limit, err error) {
			l.BlockMost, err = parseTime(word, false, ErrUpto)
			return l, err
		},
		valid: func(l Limit) bool { return 0 < l.Block && l.Block < l.BlockMost && l.BlockMost <= MaxPeriod },
		text:  func(b []byte, l Limit) []byte { return appendTime(append(b, " UPTO "...), l.BlockMost) },
	},
}

// given returns the options that l has and that its spelling must name.
func (l *Limit) given() option {
	return optBurst.only(l.Burst != l.Max) |
		optInterval.only(l.Interval) |
		optWarm.only(l.Warm != 0) |
		optCold.only(l.Cold != 0) |
		optFirst.only(l.First) |
		optCalendar.only(l.Calendar != NoUnit) |
		optZone.only(l.Zone != nil) |
		optSegments.only(l.Segments != 0) |
		optCountDenied.only(l.CountDenied) |
		optBlock.only(l.Block != 0) |
		optUpto.only(l.BlockMost != 0)
}

// only returns the option if something is, else none.
func (o option) only(is bool) option {
	if is {
		return o
	}
	return 0
}

// readBurst reads the value of BURST.
func readBurst(l Limit, word []byte, _ *Zones) (_ Limit, err error) {
	if l.Algorithm == QUEUE {
		l.Burst, err = parseInt(word, errQueueBurst)
		return l, err
	}
	if l.Burst, err = parseInt(word, ErrBurst); err == nil && l.Burst == 0 && l.Max > 0 {
		err = at(ErrBurst, word)
	}
	return l, err
}

// appendNumber appends an option and its value.
func appendNumber(b []byte, option string, n int64) []byte {
	return strconv.AppendInt(append(b, option...), n, 10)
}

// next takes the lowest of a set of options out of it.
func (o *option) next() *optionRow {
	r := o.row()
	*o &= *o - 1
	return r
}

// row returns the row of the lowest of a set of options.
func (o option) row() *optionRow { return &options[bits.TrailingZeros16(uint16(o))] }

// Option describes one of the words that may follow "ALGORITHM limit period".
type Option struct {
	// Name is the word, in upper case.
	Name string
	// Value names what follows the word; "" if nothing does.
	Value string
	// Integer reports whether the value is an integer.
	Integer bool
	// Algorithms are those that have the option.
	Algorithms []Algorithm
}

// Options returns every option of a limit.
func Options() []Option {
	all := make([]Option, len(options))
	for i, r := range options {
		all[i] = Option{Name: r.name, Value: r.value, Integer: r.integer}
		for _, a := range Algorithms() {
			if optionsOf[a]&(1<<i) != 0 {
				all[i].Algorithms = append(all[i].Algorithms, a)
			}
		}
	}
	return all
}
