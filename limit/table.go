package limit

import (
	"strconv"
	"strings"
)

// Algorithm names one rate-limiting algorithm. The numbers are written to
// disk, so they never change; None is no algorithm.
type Algorithm uint8

// The algorithms, in the order of the table.
const (
	None Algorithm = iota
	GCRA
	TOKEN
	LEAKY
	QUEUE
	WARMUP
	FIXED
	SLIDING
	SEGMENTED
	LOG
)

// family is a set of algorithms that read each other's state.
type family uint8

const (
	// bucket keeps the time at which the bucket is full again, see bucket.go.
	bucket family = iota + 1
	// fixed, sliding and segmented are each alone in their families: their
	// states are counts.
	fixed
	sliding
	segmented
	// warmup keeps how warm a key is, see warmup.go.
	warmup
	// logbook keeps each unit with its time; see logstate.go.
	logbook
)

// row is what the package knows about an algorithm besides its functions.
type row struct {
	name, lower string
	family      family
	options     option
}

// table has a row for each algorithm, at its number. Parsing, printing, the
// contract tests, the fuzz targets and the benchmarks range over it.
//
// The functions are not in it but in the switches of contract.go: a call
// through a func value would move the caller's Limit and buffers to the heap.
// A test makes sure that each row has its cases.
var table = [...]row{
	GCRA:      {"GCRA", "gcra", bucket, optBurst},
	TOKEN:     {"TOKEN", "token", bucket, optBurst | optInterval},
	LEAKY:     {"LEAKY", "leaky", bucket, optBurst},
	QUEUE:     {"QUEUE", "queue", bucket, optBurst},
	WARMUP:    {"WARMUP", "warmup", warmup, optWarm | optCold},
	FIXED:     {"FIXED", "fixed", fixed, optFirst | optCalendar | optZone | optCountDenied},
	SLIDING:   {"SLIDING", "sliding", sliding, optCountDenied},
	SEGMENTED: {"SEGMENTED", "segmented", segmented, optSegments | optCountDenied},
	LOG:       {"LOG", "log", logbook, optCountDenied},
}

// Algorithms returns every algorithm of limits, in the order of their numbers.
func Algorithms() []Algorithm {
	all := make([]Algorithm, 0, len(table))
	for a := range Algorithm(len(table)) {
		if a.Valid() {
			all = append(all, a)
		}
	}
	return all
}

// names lists the algorithms of limits.
func names() string {
	var all []string
	for _, a := range Algorithms() {
		all = append(all, a.String())
	}
	return strings.Join(all, ", ")
}

// Lookup finds an algorithm of limits by its name, in any case.
func Lookup(name []byte) (Algorithm, bool) {
	for a := range Algorithm(len(table)) {
		if a.Valid() && equalFold(name, table[a].name) {
			return a, true
		}
	}
	return None, false
}

// Valid reports whether a is an algorithm.
func (a Algorithm) Valid() bool {
	return int(a) < len(table) && table[a].name != ""
}

// String is the algorithm's name in upper case, as in a limit's spelling.
func (a Algorithm) String() string {
	if !a.Valid() {
		return "Algorithm(" + strconv.Itoa(int(a)) + ")"
	}
	return table[a].name
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
