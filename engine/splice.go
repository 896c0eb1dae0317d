package engine

import (
	"slices"

	"limitdb/engine/table"
	"limitdb/internal/journal"
	"limitdb/limit"
)

// Values that change where they are.
//
// A transaction writes to buffers of its own, and the commit copies a state from there. For a list of
// some MB that would take a thousand times longer than the change. So the change of a state in a box
// waits for the commit, which makes room in the box and then applies the splices there: that cannot
// fail. What needs the state before the commit gets a copy. The decisions on a long LOG do the same:
// see Grow in table.Change.

// Splice gives key a state that differs from the one it holds by its head and by splices of its body.
// The kind is of the same type as the one that the key holds, and changes in parts (journal.InParts).
// Splice sets the revision in the head. The errors are ErrUndeclared and ErrTooMany.
func (t *Txn) Splice(key []byte, kind limit.Kind, head, splices []byte) error {
	it, err := t.current(key)
	if err != nil {
		return err
	}
	return it.splice(kind, head, splices)
}

// splice is Splice of an item.
func (it *item) splice(kind limit.Kind, head, splices []byte) error {
	t := it.t
	n := journal.HeadSize(byte(it.kind))
	edit, ok := journal.MakeEdit(head, max(0, len(it.State)-n), splices)
	if n == 0 || len(it.State) < n || !ok {
		return errSplices
	}
	size := len(head) + edit.After
	if it.written || it.kind != kind || !it.Boxed() || 2*size < cap(it.State) || table.Expires(kind, head) <= t.now {
		buf := t.e.buffers.get()
		state := append(append(slices.Grow(*buf, len(head)+edit.Most), head...), it.State[n:]...)
		state = state[:len(head)+len(edit.Apply(state[len(head):]))]
		defer func() { t.e.buffers.put(buf, state) }()
		return it.change(kind, state, splices)
	}
	it.before, it.until = edit.Before, limit.Expires(kind, it.State)
	it.revision = journal.Revision(it.State[:n]) + 1
	it.head, it.splices = append(it.head[:0], head...), append(it.splices[:0], splices...)
	journal.SetRevision(it.head, it.revision)
	it.written, it.Grow, it.More, it.Must, it.mark = true, true, edit.Most-edit.Before, false, table.Unknown(kind)
	it.changed, it.other = true, true
	return nil
}

// spliced applies the splices of a late change to a state, in place: there is room for it.
func (it *item) spliced(state []byte) []byte {
	n := len(it.head)
	edit, _ := journal.MakeEdit(it.head, len(state)-n, it.splices)
	copy(state, it.head)
	return state[:n+len(edit.Apply(state[n:]))]
}

// spliceLate turns a late change into a written state, because more is to come.
func (it *item) spliceLate() error {
	n := len(it.head)
	edit, _ := journal.MakeEdit(it.head, len(it.State)-n, it.splices)
	state := it.spliced(append(make([]byte, 0, n+edit.Most), it.State...))
	kind, splices := it.kind, it.splices
	it.splices = nil // Change notes them again
	it.revert()
	return it.change(kind, state, splices)
}
