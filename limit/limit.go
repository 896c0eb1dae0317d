// Package limit is the domain: a Limit is a value with one spelling, a
// Decision is what an algorithm answers, and each algorithm is a pure function
// from (limit, state, now, cost) to (state', decision). No locks, no I/O, no
// clock; the standard library only.
package limit

// Algorithm names one rate-limiting algorithm. The numbers are written to
// disk, so they never change; None is no algorithm.
type Algorithm uint8

// The algorithms, in the order of the table in table.go.
const (
	None Algorithm = iota
	GCRA
)

// Limit says how much is allowed. It is a plain value: compare it with ==.
type Limit struct {
	Algorithm Algorithm
	// Max is how many are allowed in each Period; 0 denies everything.
	Max int64
	// Period is in nanoseconds, 1 or more.
	Period int64
	// Burst is the most that can be taken at once.
	Burst int64
}

// Never is the Wait of a decision with nothing to wait for.
const Never int64 = -1

// Decision is an algorithm's answer. Times are in nanoseconds.
type Decision struct {
	// Limited is true when the request is denied.
	Limited bool
	// Limit is the most that can be taken at once.
	Limit int64
	// Remaining is what is left now, 0 or more.
	Remaining int64
	// Wait is Never, or with Limited the time after which the same request
	// succeeds if nobody else asks.
	Wait int64
	// Reset is the time until the key is as if never used.
	Reset int64
}
