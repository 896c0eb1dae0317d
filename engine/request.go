package engine

import "limitdb/limit"

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
	// Hold holds what is taken, or has the request count once, unless it is nil.
	Hold *Hold
	// Block receives, unless it is nil, what a block had to do with a denial.
	Block *BlockOutcome
}

// BlockOutcome is what a block had to do with a denial.
type BlockOutcome uint8

// What a block had to do with a denial: nothing, it has denied, or the denial has begun it.
const (
	NoBlock BlockOutcome = iota
	InBlock
	BlockBegun
)

// MaxOnce is the longest time for which an id is remembered, in ns: an hour.
const MaxOnce = 3_600_000_000_000

// Once says by which id a request counts once.
type Once struct {
	ID []byte
	// For is for how long the id is remembered, in ns: at most MaxOnce.
	For int64
	// Asked is a hash of what the request asks for. It must be the same in every process.
	Asked uint64
	// Key is the key beside which the id is remembered. Nil means that of the request, or the first of several.
	Key []byte
	// Again is the engine's: whether the request was granted before, so that it has taken nothing now.
	Again bool
}

// kind returns the kind of state that the request works on.
func (r *Request) kind() limit.Kind {
	if r.Lease != nil {
		return limit.LEASE
	}
	return r.Limit.Algorithm.Kind()
}

// hasTurns reports whether the request is granted when it asks and then waits
// for its turn. One that is held, or counts once, is told its turn at once.
func (r *Request) hasTurns() bool {
	return r.Lease == nil && r.Hold == nil && r.Limit.Algorithm == limit.QUEUE
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

// stand makes *d the denial of a request under l that could be granted by itself:
// nothing is taken, and the request waits only for others, for at least 1 ns.
func stand(l *limit.Limit, state []byte, now int64, d *limit.Decision) error {
	err := limit.Peek(l, state, now, 0, d)
	d.Limited, d.Wait = true, 1
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
