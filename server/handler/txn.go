package handler

import (
	"limitdb/engine"
	"limitdb/limit"
)

// Txn is one atomic step on keys. An error ends the step and drops everything that the handlers have written.
type Txn struct {
	*engine.Txn
	Err   error
	After []func() // what happens once the transaction is stored
	held  int      // bytes that they hold

	// Cancelled is why the step ended for good: it does not begin again.
	Cancelled error
}

// heldMost is the most bytes that the functions of a transaction may hold.
const heldMost = 1 << 20

// Then arranges for fn to be called once the transaction is stored. Until then fn holds the given number of bytes. Then
// returns false if all such functions together hold too much.
func (t *Txn) Then(holds int, fn func()) bool {
	if t.held += holds; t.held > heldMost {
		return false
	}
	t.After = append(t.After, fn)
	return true
}

// Note keeps an error that ends the step. It returns any other one.
func (t *Txn) Note(err error) error {
	switch err {
	case engine.ErrUndeclared, engine.ErrTooMany, engine.ErrClosed:
		t.End(err)
		return nil
	}
	return err
}

// End ends the step with an error, unless it has one already.
func (t *Txn) End(err error) {
	if t.Err == nil {
		t.Err = err
	}
}

// Cancel ends the step with an error, even if it would begin again.
func (t *Txn) Cancel(err error) { t.Err, t.Cancelled = err, err }

// Get returns what a key holds; 0 and nil if it is absent. The state is valid until the key is
// written.
func (t *Txn) Get(key []byte) (limit.Kind, []byte) {
	kind, state, err := t.Txn.Get(key)
	_ = t.Note(err)
	return kind, state
}

// Put gives a key a state.
func (t *Txn) Put(key []byte, kind limit.Kind, state []byte) { _ = t.Note(t.Txn.Put(key, kind, state)) }

// Change is Put for a state that results from the one that the key holds by splices.
func (t *Txn) Change(key []byte, kind limit.Kind, state, splices []byte) {
	_ = t.Note(t.Txn.Change(key, kind, state, splices))
}

// Splice is Change, without the state.
func (t *Txn) Splice(key []byte, kind limit.Kind, head, splices []byte) {
	if err := t.Txn.Splice(key, kind, head, splices); err != nil {
		t.End(err)
	}
}

// Touch is a change of a key that leaves it as it is.
func (t *Txn) Touch(key []byte) { _ = t.Note(t.Txn.Touch(key)) }

// Remove removes a key, and reports whether it was there.
func (t *Txn) Remove(key []byte) bool {
	was, err := t.Delete(key)
	_ = t.Note(err)
	return was
}

// Each calls fn for every key, as the transaction has made it, until fn returns false.
func (t *Txn) Each(fn func(key []byte, kind limit.Kind) bool) { _ = t.Note(t.Txn.Each(fn)) }
