package limit

import "strconv"

// Kind is what a key holds: the state of an algorithm, whose number it then has, or
// leases. The numbers are written to disk, so they never change; 0 is nothing.
type Kind uint8

// LEASE is the kind of leases, which TakeLease and the like work on. Its number
// leaves room for more algorithms.
const LEASE Kind = 16

// Kind returns the kind of the algorithm's states.
func (a Algorithm) Kind() Kind { return Kind(a) }

// Algorithm returns the algorithm whose states are of the kind, None if they are no
// algorithm's.
func (k Kind) Algorithm() Algorithm {
	if a := Algorithm(k); a.Valid() {
		return a
	}
	return None
}

// Known reports whether there is such a kind.
func (k Kind) Known() bool { return k == LEASE || Algorithm(k).Valid() }

// String returns the kind's name in upper case.
func (k Kind) String() string {
	switch {
	case k == LEASE:
		return "LEASE"
	case !k.Known():
		return "Kind(" + strconv.Itoa(int(k)) + ")"
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
	}
	return table[k].lower
}

// SameFamily reports whether states of one kind can be read as the other. Only then
// can a key that holds a be used as b.
func SameFamily(a, b Kind) bool {
	if x, y := a.Algorithm(), b.Algorithm(); x != None && y != None {
		return table[x].family == table[y].family
	}
	return a == b && a.Known()
}
