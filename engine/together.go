package engine

import (
	"errors"
	"math"

	"limitdb/limit"
)

// MaxAll is the largest number of keys of one Together. It bounds how long the
// shards are locked.
const MaxAll = 128

// ErrDuplicate is returned by Together for a key that is given twice.
var ErrDuplicate = errors.New("engine: a key is given twice")

// Together is a request for several limits: to take Costs[i] from Keys[i] under
// Limits[i] for all i in one atomic step, or nothing from any key if one limit
// denies. These slices, Decisions and Soft have the same length.
type Together struct {
	Keys   [][]byte
	Limits []limit.Limit
	Costs  []int64
	// Decisions receives the answers.
	Decisions []limit.Decision
	// Soft are the limits that cannot deny: what they grant is taken if the others
	// grant. A denial of theirs shows in its decision, and moves its key to the pace of
	// a limit that was raised, so that its Wait is true. nil means none.
	Soft []bool
	// CountDenied has each limit with that option count its own denials, as Take counts
	// them, although nothing is taken. Without it none counts.
	CountDenied bool
	// Peek decides as if everything was taken, and changes nothing.
	Peek bool
	// At is for Ask: the limit that denies, as Together returns it, or -1.
	At int

	engine *core // that was asked
}

// soft reports whether the limit at an index cannot deny.
func (r *Together) soft(at int) bool { return r.Soft != nil && r.Soft[at] }

// Together decides on r, and writes the answers to r.Decisions.
//
// If everything was granted, at is -1. Otherwise at is the limit that denies
// for the longest time and is not soft, the first of several; a denial for ever is
// the longest. After its Wait everything is granted, if nobody else asks. A limit
// also denies if others wait for its key; its Wait is then the least that they take
// (see Ask). After a denial nothing has changed, except that denying keys have
// moved to the pace of a limit that was raised. So limits with CountDenied count
// nothing either, unless r.CountDenied is set. The decisions of the limits that
// would have granted say how much is available.
//
// The errors are those of Take, ErrDuplicate and ErrTooMany; at is then the key
// at fault, -1 for ErrTooMany. After an error nothing has changed, and the decisions
// are not valid.
func (e *Engine) Together(now int64, r *Together) (at int, err error) {
	if len(r.Keys) > MaxAll {
		return -1, ErrTooMany
	}
	t := e.begin(r.Keys)
	defer e.end(t)
	return t.run(now, func() (int, error) { return t.Together(r) })
}

// Worst returns the index of the decision that denies for the longest time and is
// not soft, or -1. A denial for ever is the longest.
func (r *Together) Worst() int {
	at, longest := -1, int64(-1)
	for i := range r.Decisions {
		if d := &r.Decisions[i]; d.Limited && !r.soft(i) {
			wait := d.Wait
			if wait == limit.Never {
				wait = math.MaxInt64
			}
			if wait > longest {
				at, longest = i, wait
			}
		}
	}
	return at
}
