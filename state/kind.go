// Package state says what kinds of states keys have: their numbers, names and expiry. It knows nothing of
// what is inside.
package state

import "strconv"

// Kind says what a key holds: the state of an algorithm of limits, leases, or a value. The numbers
// are written to disk, so they never change.
type Kind uint8

// None is the kind of nothing.
const None Kind = 0

// The kinds of algorithms' states, and of leases. The numbers between them are for more algorithms.
const (
	GCRA      Kind = 1
	TOKEN     Kind = 2
	LEAKY     Kind = 3
	QUEUE     Kind = 4
	WARMUP    Kind = 5
	FIXED     Kind = 6
	SLIDING   Kind = 7
	SEGMENTED Kind = 8
	LOG       Kind = 9
	// BLOCK is for the state of a limit whose key is blocked, or was lately.
	BLOCK Kind = 15
	LEASE Kind = 16
	// HOLDS is for what is known of the ids of a key: a record beside that of the key.
	HOLDS Kind = 18
)

// The kinds of values that expire. Their states begin with their expiry. Values of the same form that
// never expire have the next number.
const (
	STRING Kind = 64
	// LONGSTRING is for strings whose body has 256 bytes or more, which change in parts. The body counts,
	// not the state: a STRING may have a longer state and no head.
	LONGSTRING Kind = 66
	SORTEDSET  Kind = 96
	HASH       Kind = 98
	LIST       Kind = 100
	SET        Kind = 102
	// NUMBERS is for long lists of numbers, which have another form than other lists.
	NUMBERS Kind = 104
)

// The kinds that only records have.
const (
	// LongLeases and LongLog are given to states of LEASE and LOG that have a revision.
	LongLeases Kind = 17
	LongLog    Kind = 25
	// Foreign is the first kind of states that are not in the table of keys. They have no expiry.
	Foreign Kind = 128
	// UsedUp is for the time from which everything counts as used up.
	UsedUp Kind = 128
	// Rules is for what rules keep with the data.
	Rules Kind = 129
)

// row describes a kind that keys have.
type row struct {
	name, lower string // lower is the reply of TYPE
	family      uint8  // kinds of one family read each other's states; 0: only the same kind does
}

// bucket is the family of algorithms that keep the time at which a bucket is full again.
const bucket = 1

// table has a row for each kind that keys have; values that never expire have that of those that do.
var table = [...]row{
	GCRA:       {"GCRA", "gcra", bucket},
	TOKEN:      {"TOKEN", "token", bucket},
	LEAKY:      {"LEAKY", "leaky", bucket},
	QUEUE:      {"QUEUE", "queue", bucket},
	WARMUP:     {"WARMUP", "warmup", 0},
	FIXED:      {"FIXED", "fixed", 0},
	SLIDING:    {"SLIDING", "sliding", 0},
	SEGMENTED:  {"SEGMENTED", "segmented", 0},
	LOG:        {"LOG", "log", 0},
	BLOCK:      {"BLOCK", "block", 0},
	LEASE:      {"LEASE", "lease", 0},
	HOLDS:      {"HOLDS", "holds", 0},
	STRING:     {"STRING", "string", 0},
	LONGSTRING: {"STRING", "string", 0},
	SORTEDSET:  {"ZSET", "zset", 0},
	HASH:       {"HASH", "hash", 0},
	LIST:       {"LIST", "list", 0},
	SET:        {"SET", "set", 0},
	NUMBERS:    {"LIST", "list", 0},
}

// row returns the row of k, the zero value if keys have no such kind.
func (k Kind) row() *row {
	if k >= STRING {
		k &^= 1
	}
	if int(k) >= len(table) {
		k = None
	}
	return &table[k]
}

// Known reports whether keys have states of kind k.
func (k Kind) Known() bool { return k.row().name != "" }

// OfLimit reports whether k is the kind of an algorithm of limits.
func (k Kind) OfLimit() bool { return k < BLOCK && table[k].name != "" }

// Written reports whether this version writes records of kind k.
func (k Kind) Written() bool {
	return k.Known() || k == LongLeases || k == LongLog || k == UsedUp || k == Rules
}

// Value returns the kind of values of the same form that expire, and whether values of kind k
// expire. ok is false if k is not a kind of values.
func (k Kind) Value() (of Kind, timed, ok bool) {
	of = k &^ 1
	return of, k == of, k >= STRING && k.Known()
}

// Lasting returns the kind of values of the same form as k that never expire.
func (k Kind) Lasting() Kind { return k | 1 }

// Name returns the kind's name in upper case, "" if keys have no such kind.
func (k Kind) Name() string { return k.row().name }

// String returns the kind's name in upper case.
func (k Kind) String() string {
	if !k.Known() {
		return "Kind(" + strconv.Itoa(int(k)) + ")"
	}
	return k.Name()
}

// TypeName returns the kind's name in lower case, which is the reply of the TYPE command; "none" if keys have
// no such kind.
func (k Kind) TypeName() string {
	if !k.Known() {
		return "none"
	}
	return k.row().lower
}

// SameFamily reports whether states of one kind can be read as the other. Only then can a key that holds
// a be used as b.
func SameFamily(a, b Kind) bool {
	return a.Known() && (a == b || a.row().family != 0 && a.row().family == b.row().family)
}
