package engine

import (
	"limitdb/engine/table"
	"limitdb/limit"
)

// Get returns the kind of what key holds, and its state. The kind is 0 if the
// key is absent.
func (t *Txn) Get(key []byte) (kind limit.Kind, state []byte, err error) {
	it, err := t.current(key)
	if err != nil {
		return 0, nil, err
	}
	return it.kind, it.State, nil
}

// Put gives key a state, whatever it held before. A state that has expired
// means that the key goes.
func (t *Txn) Put(key []byte, kind limit.Kind, state []byte) error {
	it, err := t.item(key)
	if err != nil {
		return err
	}
	it.other = true
	return t.write(it, table.Unknown(kind), state)
}

// Delete removes key and reports whether it was there.
func (t *Txn) Delete(key []byte) (was bool, err error) {
	it, err := t.item(key)
	if err != nil {
		return false, err
	}
	if was = it.kind != 0; !was {
		return false, nil
	}
	it.other = true
	return true, t.write(it, table.Unknown(it.kind), nil)
}

// Step runs step on the state of key, which has the given kind, as Apply does.
func (t *Txn) Step(key []byte, kind limit.Kind, step Step) error {
	it, err := t.current(key)
	if err != nil {
		return err
	}
	state, err := it.stateOf(kind)
	if err != nil {
		return err
	}
	buf := t.e.buffers.get()
	next, err := step(t.now, state, *buf)
	defer func() { t.e.buffers.put(buf, next) }()
	if err != nil || next == nil {
		return err
	}
	it.other = true
	return t.write(it, table.Unknown(kind), next)
}
