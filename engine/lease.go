package engine

import "limitdb/limit"

// Lease asks for a lease of key at now and writes the answer to *d, as
// limit.TakeLease does. The errors are ErrWrongType, those of limit.TakeLease,
// and for a new key ErrKey and ErrOOM. After an error nothing has changed.
func (e OneKey) Lease(now int64, key []byte, l *limit.Lease, d *limit.Decision) error {
	_, err := e.ask(now, key, &Request{Lease: l}, nil, d)
	return err
}
