package engine

import (
	"bytes"
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
// denies if others wait for its key (see Ask). After a denial nothing has
// changed, except that denying keys have moved to the pace of a limit that was
// raised. So limits with CountDenied count nothing either. The decisions of the
// limits that would have granted say what is available.
//
// The errors are those of Take, ErrDuplicate and ErrTooMany; at is then the key
// at fault, -1 for ErrTooMany. After an error nothing has changed, and ds is
// not valid.
func (e *Engine) TakeAll(now int64, keys [][]byte, limits []limit.Limit, costs []int64, ds []limit.Decision) (at int, err error) {
	if len(keys) > MaxAll {
		return -1, ErrTooMany
	}
	t := e.begin(keys)
	defer e.end(t)
	if at := t.duplicate(); at >= 0 {
		return at, ErrDuplicate
	}
	return t.run(now, func() (int, error) { return t.takeAll(limits, costs, ds) })
}

// takeAll decides on all items.
func (t *Txn) takeAll(limits []limit.Limit, costs []int64, ds []limit.Decision) (at int, err error) {
	for i := range t.items {
		if err := t.decide(&t.items[i], &limits[i], costs[i], &ds[i]); err != nil {
			return i, err
		}
	}
	at = worst(ds)
	if at < 0 {
		return at, nil
	}
	if err := t.Retract(); err != nil {
		return at, err
	}
	for i := range t.items {
		if d := &ds[i]; !d.Limited {
			if err := t.peek(&t.items[i], &limits[i], 0, d); err != nil {
				return i, err
			}
		}
	}
	return at, nil
}

// duplicate returns the index of the first key that repeats an earlier one, or
// -1.
func (t *Txn) duplicate() int {
	at := -1
	for i, x := range t.order {
		for j := i - 1; j >= 0 && t.items[t.order[j]].h == t.items[x].h; j-- {
			if bytes.Equal(t.items[x].key, t.items[t.order[j]].key) && (at < 0 || int(x) < at) {
				at = int(x)
			}
		}
	}
	return at
}

// worst returns the decision that denies for the longest time, or -1. A denial
// for ever is the longest.
func worst(ds []limit.Decision) int {
	at, longest := -1, int64(-1)
	for i := range ds {
		if d := &ds[i]; d.Limited {
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
