package limit

import (
	"strconv"
	"strings"

	"limitdb/state"
)

// Algorithm names one rate-limiting algorithm. Its number is that of its states' kind;
// None is no algorithm.
type Algorithm uint8

// The algorithms, in the order of their numbers.
const (
	None      = Algorithm(state.None)
	GCRA      = Algorithm(state.GCRA)
	TOKEN     = Algorithm(state.TOKEN)
	LEAKY     = Algorithm(state.LEAKY)
	QUEUE     = Algorithm(state.QUEUE)
	WARMUP    = Algorithm(state.WARMUP)
	FIXED     = Algorithm(state.FIXED)
	SLIDING   = Algorithm(state.SLIDING)
	SEGMENTED = Algorithm(state.SEGMENTED)
	LOG       = Algorithm(state.LOG)
)

// Kind is state.Kind.
type Kind = state.Kind

// The kinds of states that are no algorithm's.
const (
	BLOCK      = state.BLOCK
	LEASE      = state.LEASE
	HOLDS      = state.HOLDS
	STRING     = state.STRING
	LONGSTRING = state.LONGSTRING
	SORTEDSET  = state.SORTEDSET
	HASH       = state.HASH
	LIST       = state.LIST
	SET        = state.SET
	NUMBERS    = state.NUMBERS
)

// Kind returns the kind of the algorithm's states.
func (a Algorithm) Kind() Kind { return Kind(a) }

// Expires is state.Expires.
func Expires(k Kind, s []byte) int64 { return state.Expires(k, s) }

// Prolong is state.Prolong.
func Prolong(s []byte, until int64) { state.Prolong(s, until) }

// SameFamily is state.SameFamily.
func SameFamily(a, b Kind) bool { return state.SameFamily(a, b) }

// Algorithms returns every algorithm of limits, in the order of their numbers.
func Algorithms() []Algorithm {
	var all []Algorithm
	for a := range Algorithm(BLOCK) {
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
	for a := range Algorithm(BLOCK) {
		if is := a.Kind().Name(); is != "" && equalFold(name, is) {
			return a, true
		}
	}
	return None, false
}

// Valid reports whether a is an algorithm.
func (a Algorithm) Valid() bool {
	return a.Kind().OfLimit()
}

// String is the algorithm's name in upper case, as in a limit's spelling.
func (a Algorithm) String() string {
	if !a.Valid() {
		return "Algorithm(" + strconv.Itoa(int(a)) + ")"
	}
	return a.Kind().Name()
}
