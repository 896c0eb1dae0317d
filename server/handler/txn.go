package handler

import (
	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/limit"
)

// Txn is one atomic step on keys. An error ends the step and drops everything that the handlers have written.
type Txn struct {
	*engine.Txn
	Err   error
	after []Effect // of the commands in it
	held  int      // bytes that they hold
	spent int      // see Spend
	// Counted is what the commands in it have counted, nil if none ever has. It begins again with the step, and the one who runs the step
	// flushes it when that is over, stored or not.
	Counted *stats.Step

	// Cancelled is why the step ended for good: it does not begin again.
	Cancelled error
}

// An Effect is what a command does beside its changes of keys, such as to count or to send. It happens once, when these are stored: a step may
// begin again, or end in an error.
type Effect interface {
	Happen(c *Call)
}

// heldMost is the most bytes that the effects of a step may hold.
const heldMost = 1 << 20

// Then has an effect happen once what the command changes is stored: now, unless it is in a step. Until then it holds the given number of
// bytes. Then returns false if the effects of a step hold too much.
func (c *Call) Then(holds int, e Effect) bool {
	t := c.Step
	if t == nil {
		e.Happen(c)
		return true
	}
	if t.held += holds; t.held > heldMost {
		return false
	}
	t.after = append(t.after, e)
	return true
}

// Begin begins the step in et, once more if it began before.
func (t *Txn) Begin(et *engine.Txn) {
	t.Txn, t.Err = et, nil
	if len(t.after)|t.held|t.spent != 0 {
		clear(t.after)
		t.after, t.held, t.spent = t.after[:0], 0, 0
	}
	if t.Counted != nil {
		t.Counted.Reset()
	}
}

// counts returns what the step counts in.
func (t *Txn) counts() *stats.Step {
	if t.Counted == nil {
		t.Counted = new(stats.Step)
	}
	return t.Counted
}

// Ran counts a command that a script has run in the step. It took ns nanoseconds.
func (t *Txn) Ran(id int, ns int64, failed bool) { t.counts().Call(id, ns, failed) }

// keptEffects is the most effects for which an idle client keeps room.
const keptEffects = 4

// Over ends the use of a step. If it is stored, its effects happen.
func (t *Txn) Over(c *Call, stored bool) {
	t.Txn, t.Cancelled = nil, nil
	if len(t.after) > 0 {
		t.happen(c, stored)
	}
}

// happen has the effects happen, if they are stored, and forgets them.
func (t *Txn) happen(c *Call, stored bool) {
	after := t.after
	t.after = nil
	if stored {
		for _, e := range after {
			e.Happen(c)
		}
	}
	if clear(after); cap(after) <= keptEffects {
		t.after = after[:0]
	}
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
