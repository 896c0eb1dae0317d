package limit

import (
	"strconv"
	"strings"
)

// Kind says what a key holds: the state of an algorithm (the kind then has the
// algorithm's number), leases, or a value (see package value). The numbers are
// written to disk, so they never change. 0 means nothing.
type Kind uint8

// LEASE is the kind of leases, which TakeLease and the like work on. Its number
// leaves room for more algorithms.
const LEASE Kind = 16

// The kinds of values that expire. Their states begin with their expiry. Values
// of the same form that never expire have the next number.
const (
	STRING Kind = 64
	// LONGSTRING is for strings whose body has 256 bytes or more, which change in parts.
	// The body counts, not the state: a STRING may have a longer state and no head.
	LONGSTRING Kind = 66
	SORTEDSET  Kind = 96
	HASH       Kind = 98
	LIST       Kind = 100
	SET        Kind = 102
	// NUMBERS is for long lists of numbers, which have another form than other lists.
	NUMBERS Kind = 104
)

// Value returns the kind of values of the same form that expire, and whether
// values of kind k expire. ok is false if k is not a kind of values.
func (k Kind) Value() (of Kind, timed, ok bool) {
	of = k &^ 1
	return of, k == of, of == STRING || of == LONGSTRING || of >= SORTEDSET && of <= NUMBERS
}

// Lasting returns the kind of values of the same form as k that never expire.
func (k Kind) Lasting() Kind { return k | 1 }

// Kind returns the kind of the algorithm's states.
func (a Algorithm) Kind() Kind { return Kind(a) }

// Algorithm returns the algorithm that makes states of kind k, or None.
func (k Kind) Algorithm() Algorithm {
	if a := Algorithm(k); a.Valid() {
		return a
	}
	return None
}

// Known reports whether there is such a kind.
func (k Kind) Known() bool {
	if k == LEASE || Algorithm(k).Valid() {
		return true
	}
	_, _, value := k.Value()
	return value
}

// valueName returns the name of a value's type, as Redis' TYPE command returns it;
// "" for other kinds.
func (k Kind) valueName() string {
	of, _, ok := k.Value()
	if !ok {
		return ""
	}
	switch of {
	case STRING, LONGSTRING:
		return "string"
	case SORTEDSET:
		return "zset"
	case HASH:
		return "hash"
	case LIST, NUMBERS:
		return "list"
	}
	return "set"
}

// String returns the kind's name in upper case.
func (k Kind) String() string {
	switch {
	case k == LEASE:
		return "LEASE"
	case !k.Known():
		return "Kind(" + strconv.Itoa(int(k)) + ")"
	case k >= STRING:
		return strings.ToUpper(k.valueName())
	}
	return Algorithm(k).String()
}

// TypeName returns the kind's name in lower case, which is the reply of the TYPE
// command; "none" if there is no such kind.
func (k Kind) TypeName() string {
	switch {
	case k == LEASE:
		return "lease"
	case !k.Known():
		return "none"
	case k >= STRING:
		return k.valueName()
	}
	return table[k].lower
}

// SameFamily reports whether states of one kind can be read as the other. Only
// then can a key that holds a be used as b.
func SameFamily(a, b Kind) bool {
	if x, y := a.Algorithm(), b.Algorithm(); x != None && y != None {
		return table[x].family == table[y].family
	}
	return a == b && a.Known()
}
