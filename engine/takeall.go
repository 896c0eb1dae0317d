package engine

import (
	"errors"
	"math"

	"limitdb/limit"
)

// MaxAll is the largest number of keys of one TakeAll. It bounds how long the
// shards are locked.
const MaxAll = 128

// ErrDuplicate is returned by TakeAll for a key that is given twice.
var ErrDuplicate = errors.New("engine: a key is given twice")

// TakeAll takes costs[i] from keys[i] under limits[i] for all i in one atomic
// step, or nothing from any key if one limit denies. It writes the answers to
// ds. All four slices have the same length.
//
// If everything was granted, at is -1. Otherwise at is the limit that denies
// for the longest time, the first of several; a denial for ever is the longest.
// After its Wait everything is granted, if nobody else asks. A limit also
// denies if others wait for its key; its Wait is then the least that they take
// (see Ask). After a denial nothing has
// changed, except that denying keys have moved to the pace of a limit that was
// raised. So limits with CountDenied count nothing either. The decisions of the
// limits that would have granted say how much is available.
//
// The errors are those of Take, ErrDuplicate and ErrTooMany; at is then the key
// at fault, -1 for ErrTooMany. After an error nothing has changed, and ds is
// not valid.
func (e *Engine) TakeAll(now int64, keys [][]byte, limits []limit.Limit, costs []int64, ds []limit.Decision) (at int, err error) {
	return e.Together(now, &Together{Keys: keys, Limits: limits, Costs: costs, Decisions: ds})
}

// Together is a TakeAll with more to say. Its slices are as those of TakeAll.
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
	// At is for AskAll: the limit that denies, as Together returns it, or -1.
	At int

	engine *Engine // that AskAll asked
}

// soft reports whether the limit at an index cannot deny.
func (r *Together) soft(at int) bool { return r.Soft != nil && r.Soft[at] }

// Together takes from all limits in one atomic step, as TakeAll does, or from
// none. The limit that denies is never a soft one.
func (e *Engine) Together(now int64, r *Together) (at int, err error) {
	if len(r.Keys) > MaxAll {
		return -1, ErrTooMany
	}
	t := e.begin(r.Keys)
	defer e.end(t)
	return t.run(now, func() (int, error) { return t.Together(r) })
}

// RefundAll gives costs[i] back to keys[i] under limits[i] for all i in one
// atomic step, each as Refund does, and counts one refund. After an error nothing
// has changed.
func (e *Engine) RefundAll(now int64, keys [][]byte, limits []limit.Limit, costs []int64, ds []limit.Decision) error {
	return e.Update(now, keys, func(t *Txn) error {
		for i := range keys {
			if err := t.Refund(keys[i], &limits[i], costs[i], &ds[i]); err != nil {
				return err
			}
		}
		t.Count(Refunded)
		return nil
	})
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
