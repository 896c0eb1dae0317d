// Package limit is the domain: a [Limit] is a value with one spelling, a
// [Decision] is what an algorithm answers, and each algorithm is a pure function
// from (limit, state, now, cost) to (state', decision). No locks, no I/O, no
// clock; the standard library only.
//
// # A limit has one spelling
//
//	ALGORITHM limit period [BURST n]
//
//	GCRA 100 60000 BURST 20      100 in 60 000 ms, at most 20 at once
//	gcra 100 1m burst 20         the same
//	GCRA 100/m BURST 20          the same, as [Limit.String] prints it
//
// Words are in any case and options in any order. The period is in
// milliseconds, or has a unit: ns us ms s m h d w. "limit period" may be one
// word, as in 100/m or 5/10s. [Parse] reads it from a string; a [Parser] reads
// it from the arguments of a command, among the command's own options, and
// allocates nothing.
//
// # An algorithm is a function
//
// [Take], [Peek] and [Refund] decide. The caller keeps the state, a few bytes
// that mean nothing to it, and says what time it is:
//
//	next, d, err := limit.Take(&l, state, now, 1, buf[:])
//	if next != nil {
//		state = append(state[:0], next...)
//	}
//
// No state is a key never seen. From the time that [Expires] tells, a state
// behaves as none, so it can then be forgotten.
//
// All times are int64 nanoseconds since the Unix epoch and all arithmetic is in
// integers. What does not fit is [ErrOverflow], never a wrap.
package limit

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

// Validate tells whether Take can work with l: ErrAlgorithm, ErrMax, ErrPeriod
// or ErrBurst for a field out of its range, ErrOverflow if taking the whole
// burst cannot be represented. A parsed Limit is valid.
func (l *Limit) Validate() error {
	switch {
	case !l.Algorithm.Valid():
		return ErrAlgorithm
	case l.Max < 0:
		return ErrMax
	case l.Period < 1:
		return ErrPeriod
	case l.Burst < 0, l.Burst == 0 && l.Max > 0:
		return ErrBurst
	case l.Max == 0:
		return nil
	}
	if over, dvt := mul(interval(l), l.Burst); over != 0 || dvt < 0 {
		return ErrOverflow
	}
	return nil
}
