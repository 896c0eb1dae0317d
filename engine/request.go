package engine

import (
	"limitdb/engine/table"
	"limitdb/limit"
)

// Request is a request that can wait: a take from a limit or, if Lease is set,
// a lease.
type Request struct {
	Limit limit.Limit
	// Cost is the amount to take, 0 or more.
	Cost int64
	// Partial takes as much of Cost as is available, at least 1. The decision is
	// the one on that amount. If nothing is available, it is the denial of a cost
	// of 1, so its Wait is the time until something is available again.
	Partial bool
	// Replace makes a key that holds the state of another family start afresh,
	// instead of failing with ErrWrongType. If nothing is granted, the key
	// stays as it is.
	Replace bool
	// Lease asks for a lease. The fields above are then ignored.
	Lease *limit.Lease
}

// kind returns the kind of state that the request works on.
func (r *Request) kind() limit.Kind {
	if r.Lease != nil {
		return limit.LEASE
	}
	return r.Limit.Algorithm.Kind()
}

// mark returns the mark of the key after a decision on the request.
func (r *Request) mark(sp *table.Spot, d *limit.Decision) table.Mark {
	if r.Lease != nil {
		return table.Unknown(limit.LEASE)
	}
	cost := r.Cost
	if r.Partial {
		cost = 1
	}
	return sp.Mark(&r.Limit, cost, d)
}

// takes reports whether the request, if granted, takes something. Such a
// request must let those that wait go first.
func (r *Request) takes(state []byte, now int64) bool {
	if r.Lease != nil {
		return !r.Lease.Renews(state, now)
	}
	return r.Cost > 0
}

// hasTurns reports whether the request is granted when it asks and then waits
// for its turn.
func (r *Request) hasTurns() bool {
	return r.Lease == nil && r.Limit.Algorithm == limit.QUEUE
}

// peek answers as take would and changes nothing. If the limit counts denials,
// peek does not count this one: a request that waits has not been denied.
func (r *Request) peek(state []byte, now int64, d *limit.Decision) error {
	if r.Lease != nil {
		return limit.PeekLease(r.Lease, state, now, d)
	}
	part, err := r.part(state, now)
	if err != nil {
		return err
	}
	if !r.Limit.CountDenied {
		return limit.Peek(&r.Limit, state, now, part, d)
	}
	var own limit.Limit
	return limit.Peek(uncounted(&r.Limit, &own), state, now, part, d)
}

// take decides on a state, as limit.Take and limit.TakeLease do, and returns
// how much was granted.
func (r *Request) take(state []byte, now int64, dst []byte, d *limit.Decision) (next []byte, granted int64, err error) {
	if r.Lease != nil {
		next, err = limit.TakeLease(r.Lease, state, now, dst, d)
		return next, 0, err
	}
	part, err := r.part(state, now)
	if err != nil {
		return nil, 0, err
	}
	next, err = limit.Take(&r.Limit, state, now, part, dst, d)
	if err != nil || d.Limited {
		part = 0
	}
	return next, part, err
}

// part returns how much to ask for: the whole cost or, for Partial, as much of
// it as is available and at least 1.
func (r *Request) part(state []byte, now int64) (int64, error) {
	if !r.Partial || r.Cost <= 1 {
		return r.Cost, nil
	}
	var there limit.Decision
	if err := limit.Peek(&r.Limit, state, now, 0, &there); err != nil {
		return 0, err
	}
	return min(r.Cost, max(1, there.Remaining)), nil
}

// stand makes *d the denial of a request that could be granted by itself:
// nothing is taken, and the request waits only for others, for at least 1 ns.
func (r *Request) stand(state []byte, now int64, d *limit.Decision) (err error) {
	if r.Lease != nil {
		err = limit.DenyLease(r.Lease, state, now, d)
		d.Wait = max(d.Wait, 1)
	} else {
		err = limit.Peek(&r.Limit, state, now, 0, d)
		d.Limited, d.Wait = true, 1
	}
	return err
}

// uncounted returns a limit as l that does not count denials: l itself, or *own.
func uncounted(l, own *limit.Limit) *limit.Limit {
	if !l.CountDenied {
		return l
	}
	*own = *l
	own.CountDenied = false
	return own
}
