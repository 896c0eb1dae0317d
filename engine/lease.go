package engine

import "limitdb/limit"

// Lease asks for a lease of key at now and writes the answer to *d, as
// limit.TakeLease does. The errors are ErrWrongType, those of limit.TakeLease,
// and for a new key ErrKey and ErrOOM. After an error nothing has changed.
func (e *Engine) Lease(now int64, key []byte, l *limit.Lease, d *limit.Decision) error {
	h, s := e.place(key)
	_, err := e.ask(now, h, s, key, &Request{Lease: l}, nil, d)
	return err
}

// Renew makes the lease of id end ttl nanoseconds after now, and returns its
// weight, and the bytes of the key's state, which the time it took is
// proportional to. The errors are ErrWrongType and those of limit.RenewLease.
func (e *Engine) Renew(now int64, key, id []byte, ttl int64) (weight int64, size int, err error) {
	return e.changeLeases(now, key, func(now int64, state, dst []byte) ([]byte, int64, error) {
		return limit.RenewLease(id, ttl, state, now, dst)
	})
}

// Release ends the lease of id, and returns the weight that it had, and the
// bytes of the key's state as Renew does. The errors are ErrWrongType and those
// of limit.ReleaseLease.
func (e *Engine) Release(now int64, key, id []byte) (weight int64, size int, err error) {
	return e.changeLeases(now, key, func(now int64, state, dst []byte) ([]byte, int64, error) {
		return limit.ReleaseLease(id, state, now, dst)
	})
}

// changeLeases runs step on the leases of key, and returns the weight that it
// returns, and the bytes of the state.
func (e *Engine) changeLeases(now int64, key []byte, step func(now int64, state, dst []byte) ([]byte, int64, error)) (weight int64, size int, err error) {
	err = e.Apply(now, key, limit.LEASE, func(now int64, state, dst []byte) (next []byte, err error) {
		size = len(state)
		next, weight, err = step(now, state, dst)
		return next, err
	})
	return weight, size, err
}

// Holders calls fn for each lease of key at now, in the order in which they
// end. A holder's id is valid only during the call. fn must not call the
// engine. The error is ErrWrongType.
func (e *Engine) Holders(now int64, key []byte, fn func(h limit.Holder)) error {
	return e.Apply(now, key, limit.LEASE, func(now int64, state, _ []byte) ([]byte, error) {
		for h := range limit.Holders(state, now) {
			fn(h)
		}
		return nil, nil
	})
}
