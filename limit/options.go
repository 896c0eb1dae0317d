package limit

import (
	"math"
	"math/bits"
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
)

// optionRow is what the package knows about an option.
type optionRow struct {
	name  string // in upper case
	value string // the name of its value; "" for an option without one
	// least and most bound an option whose value is an integer; most is 0 for
	// one whose value is none.
	least, most int64
}

// options has a row for each option, in the order of the bits. The parser,
// the validation and [Options], from which the server describes its commands,
// read it.
var options = [...]optionRow{
	{name: "BURST", value: "burst", least: 1, most: math.MaxInt64},
	{name: "INTERVAL"},
	{name: "WARM", value: "time"},
	{name: "COLD", value: "factor", least: 1, most: MaxCold},
	{name: "FIRST"},
	{name: "CALENDAR", value: "unit"},
	{name: "TZ", value: "zone"},
	{name: "SEGMENTS", value: "segments", least: 2, most: MaxSegments},
	{name: "COUNTDENIED"},
}

// row returns the row of one option.
func (o option) row() *optionRow { return &options[bits.TrailingZeros16(uint16(o))] }

// allows reports whether n is in the option's range.
func (o option) allows(n int64) bool {
	r := o.row()
	return r.least <= n && n <= r.most
}

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
		all[i] = Option{Name: r.name, Value: r.value, Integer: r.most > 0}
		for _, a := range Algorithms() {
			if table[a].options&(1<<i) != 0 {
				all[i].Algorithms = append(all[i].Algorithms, a)
			}
		}
	}
	return all
}
