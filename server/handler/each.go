package handler

import (
	"errors"

	"limitdb/engine"
	"limitdb/limit"
)

// Each is what every group does with its part of a request, whatever the others do.
type Each struct {
	How How
	ID  []byte // of the leases that Releases gives back
}

// How says what a group does with its part of a request.
type How uint8

// What a group does with its part: it takes, if all groups do; it gives back what it is asked for; it gives back the leases with an id; it decides
// on each limit by itself, one after the other; or it takes from all limits or none, since they are the whole request.
const (
	All How = iota
	Refunds
	Releases
	Singly
	Whole
	hows
)

// Valid reports whether h is one of these.
func (h How) Valid() bool { return h < hows }

// Do does it in a step, and returns the limit of Whole that denies, or that an error is about, -1 for none, and how many leases were given back. r has the
// part. Of Singly, Soft are the limits that are given back to, and Free receives, unless it is nil, what Single has found.
func (e Each) Do(t *engine.Txn, r *engine.Together) (at int, n int64, err error) {
	switch e.How {
	case Refunds:
		return -1, 0, t.RefundAll(r)
	case Releases:
		n, err = release(t, r.Keys, e.ID)
		return -1, n, err
	case Whole:
		at, err = t.Together(r)
		return at, 0, err
	}
	for i := range r.Keys {
		var before *limit.Decision
		if r.Free != nil {
			before = &r.Free[i]
		}
		var block *engine.BlockOutcome
		if r.Blocks != nil {
			block = &r.Blocks[i]
		}
		if err := Single(t, r.Keys[i], &r.Limits[i], r.Costs[i], r.Soft[i], &r.Decisions[i], before, block); err != nil {
			return -1, 0, err
		}
	}
	return -1, 0, nil
}

// Single decides on one limit by itself, or gives back to it. before receives, unless it is nil, what there was before, of several hits on a limit that
// counts what it denies: one hit is over the limit or is not; of several, some may be. block receives, unless it is nil, what a block had to do with a denial.
func Single(t *engine.Txn, key []byte, l *limit.Limit, cost int64, back bool, d, before *limit.Decision, block *engine.BlockOutcome) (err error) {
	if back {
		return t.Refund(key, l, cost, d)
	}
	if before != nil && cost > 1 && l.CountDenied {
		if err = t.Peek(key, l, 0, before); err != nil {
			return err
		}
	}
	_, err = t.Take(key, &engine.Request{Limit: *l, Cost: cost, Block: block}, d)
	return err
}

// release gives the leases of keys with an id back. Those that are over, or have been given back, are no error.
func release(t *engine.Txn, keys [][]byte, id []byte) (n int64, err error) {
	for _, key := range keys {
		err := t.Step(key, limit.LEASE, func(now int64, state, dst []byte) ([]byte, error) {
			next, _, err := limit.ReleaseLease(id, state, now, dst)
			if errors.Is(err, limit.ErrNoLease) {
				return nil, nil
			}
			if err == nil {
				n++
			}
			return next, err
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}
