// Package limit is the domain: a [Limit] is a value with one spelling, a
// [Decision] is what an algorithm answers, and each algorithm is a pure function
// from (limit, state, now, cost) to (state', decision). No locks, no I/O, no
// clock; the standard library and package state only.
//
// # A limit has one spelling
//
//	GCRA limit period [BURST n]
//	TOKEN limit period [BURST n] [INTERVAL]
//	LEAKY limit period [BURST n]
//	QUEUE limit period [BURST n]
//	WARMUP limit period [WARM t] [COLD f]
//	FIXED limit period [FIRST] [COUNTDENIED]
//	FIXED limit CALENDAR unit [TZ zone] [COUNTDENIED]
//	SLIDING limit period [COUNTDENIED]
//	SEGMENTED limit period SEGMENTS n [COUNTDENIED]
//	LOG limit period [COUNTDENIED]
//
// and each of them with [BLOCK t [UPTO t]].
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
// [Take], [Peek], [Refund] and [Reserve] decide. The caller keeps the state, a few bytes
// that mean nothing to it, and says what time it is:
//
//	next, err := limit.Take(&l, state, now, 1, buf[:], &d)
//	if next != nil {
//		state = append(state[:0], next...)
//	}
//
// No state means a key never seen. From the time that [state.Expires] returns, a state
// behaves like no state, so it can be forgotten.
//
// All times are int64 nanoseconds since the Unix epoch and all arithmetic is in
// integers. What does not fit is [ErrOverflow], never a wrap.
package limit

import "time"

// Limit says how much is allowed. It is a plain value: compare it with ==, and
// mind that two time zones are the same only if they were loaded at once (see
// Zones).
type Limit struct {
	Algorithm Algorithm

	// Interval, of TOKEN: all Max tokens arrive together, once a Period.
	Interval bool
	// First, of FIXED: windows begin with a key's first request.
	First bool
	// CountDenied, of FIXED, SLIDING, SEGMENTED and LOG: denied requests count
	// as well.
	CountDenied bool
	// Calendar, of FIXED: windows are calendar units, in Zone.
	Calendar Unit

	// Max is how many are allowed in each Period; 0 denies everything.
	Max int64
	// Period is in nanoseconds, 1 or more; 0 with a Calendar.
	Period int64
	// Burst is the most that can be taken at once; for QUEUE, how many may wait.
	// For an algorithm without that option it is Max.
	Burst int64

	// Zone, with a Calendar: where its units begin; nil is UTC.
	Zone *time.Location
	// Segments, of SEGMENTED: how many sub-windows there are in a Period, 2 to
	// MaxSegments.
	Segments int64
	// Warm, of WARMUP: how long it takes from cold to full speed, in ns.
	Warm int64
	// Cold, of WARMUP: how many times slower it is when it is cold, 1 to MaxCold.
	Cold int64

	// Block is for how long a denial blocks the key, in ns; 0: it does not.
	Block int64
	// BlockMost, with Block: a denial soon after a block blocks for twice as long, up to
	// this, in ns; 0: each block is of the same length. See block.go.
	BlockMost int64
}

// The ranges of options.
const (
	MaxSegments = 1024
	MaxCold     = 1000
	// MaxSpan is the longest that it may take in a bucket (GCRA, TOKEN, LEAKY, QUEUE)
	// until the whole burst is back, in ns: 200 years. Until the year 2062 all that
	// can be granted ends before int64 does, in 2262; after that, what ends later is
	// ErrOverflow.
	MaxSpan int64 = 200 * 8766 * 3600 * 1_000_000_000
	// MaxPeriod is the longest Period of the counters (FIXED, SLIDING, SEGMENTED,
	// LOG), which count for two of them at most, and what MaxSpan is for WARMUP, in
	// ns: 30 years. int64 has room for two of them until the year 2202.
	MaxPeriod int64 = 30 * 8766 * 3600 * 1_000_000_000
	// MaxLog is the largest limit of LOG.
	MaxLog = 65_536
)

// MaxState is the largest number of bytes of a state of fixed size, of the first
// state of any key, and of a short log. A buffer of that capacity holds next.
const MaxState = 64

// Never is the Wait of a decision with nothing to wait for.
const Never int64 = -1

// Decision is an algorithm's answer. Times are in nanoseconds.
type Decision struct {
	// Limited is true when the request is denied.
	Limited bool
	// Limit is the most that can be taken at once.
	Limit int64
	// Remaining is how much is left now, 0 or more.
	Remaining int64
	// Wait says how long to wait: for a denial, the time after which the same
	// request succeeds if nobody else asks; for a grant of QUEUE and Reserve, the
	// time before going ahead. Never means that the request never succeeds or
	// need not wait.
	Wait int64
	// Reset is the time until the key is as if it had never been used.
	Reset int64
}

// interval returns the emission interval ⌈Period/Max⌉ in ns, 1 or more. Period and
// Max are positive, so their sum fits in uint64.
func interval(l *Limit) int64 {
	if l.Max == 1 {
		return l.Period
	}
	m := uint64(l.Max)
	return int64((uint64(l.Period) + m - 1) / m)
}
