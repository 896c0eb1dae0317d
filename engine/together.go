package engine

import (
	"bytes"
	"errors"
	"math"
	"slices"

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
	// Leases has the requests for leases: where one is not nil, the key has leases, and the limit and the cost are not looked at. nil means none.
	// No two keys with leases are the same. With Hold, those that are granted are in its List, and end when it is settled. With Hold or Once, an id that
	// has a lease already is another's, unless the request is known: that is ErrHeld or ErrOnce.
	Leases []*limit.Lease
	// CountDenied has each limit with that option count its own denials, as Take counts
	// them, although nothing is taken. Without it none counts.
	CountDenied bool
	// Peek decides as if everything was taken, and changes nothing.
	Peek bool
	// Free receives, of a Peek that is granted, the decisions if nothing is asked for: what is available. It is as long as the others; nil if
	// nobody asks.
	Free []limit.Decision
	// Hold holds what is taken from each limit that is not soft, unless it is nil.
	Hold *Hold
	// Once has the request count once, unless it is nil.
	Once *Once
	// Blocks receives, unless it is nil, what blocks had to do with the denials. It is as long as the others, and
	// set for limits with BLOCK that deny.
	Blocks []BlockOutcome
	// At is for Ask: the limit that denies, as Together returns it, or -1.
	At int
}

// soft reports whether the limit at an index cannot deny.
func (r *Together) soft(at int) bool { return r.Soft != nil && r.Soft[at] }

// lease returns the lease that is asked for at an index, or nil.
func (r *Together) lease(at int) *limit.Lease {
	if r.Leases == nil {
		return nil
	}
	return r.Leases[at]
}

// usedID returns the error for an id of Hold or Once that a lease of another request has.
func (r *Together) usedID() error {
	if r.Hold != nil {
		return ErrHeld
	}
	return ErrOnce
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

// Declares returns the keys to declare for the request.
func (r *Together) Declares() [][]byte {
	if r.Hold == nil || r.Hold.List == nil {
		return r.Keys
	}
	return append(slices.Clip(r.Keys), r.Hold.List)
}

// index returns the index of a key, or -1.
func (r *Together) index(key []byte) int {
	return slices.IndexFunc(r.Keys, func(k []byte) bool { return bytes.Equal(k, key) })
}
