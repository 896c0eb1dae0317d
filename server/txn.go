package server

import (
	"errors"

	"limitdb/engine"
	"limitdb/server/handler"
	"limitdb/server/request"
)

// Commands on values are atomic steps of the engine: a command by itself is one, and so is EXEC,
// or a script, with all commands in it.

// inTransaction runs fn in a transaction of the engine on keys. If fn returns false, nothing is
// written. It may run twice.
func (c *call) inTransaction(keys [][]byte, fn func(t *handler.Txn) bool) (ok bool, err error) {
	t := &c.txn
	err = c.States().Update(c.Now, keys, func(et *engine.Txn) error {
		*t = handler.Txn{Txn: et, Cancelled: t.Cancelled}
		if t.Cancelled != nil {
			return t.Cancelled
		}
		if ok = fn(t); t.Err != nil {
			return t.Err
		}
		if !ok {
			return errAborted
		}
		return nil
	})
	after := t.After
	*t = handler.Txn{}
	c.Spare()
	c.spareKeys()
	if err == errAborted {
		return false, nil
	}
	if err == nil {
		for _, then := range after {
			then()
		}
	}
	return ok, err
}

// errAborted ends a transaction that writes nothing.
var errAborted = errors.New("server: the transaction is aborted")

// commandKeys returns the keys of the command.
func (c *call) commandKeys() [][]byte {
	c.declared = c.declared[:0]
	c.cmd.Keys(c.Args, func(i int) { c.declared = append(c.declared, c.Args[i]) })
	return c.declared
}

// spareKeys forgets the keys, and lets go of a long list of them.
func (c *call) spareKeys() {
	if clear(c.declared); cap(c.declared) > spareKeys {
		c.declared = nil
	}
}

// spareKeys is the most keys that an idle client has room for.
const spareKeys = 21

// atomically runs a command on values in one step of the engine.
func (c *call) atomically() {
	mark := len(c.Out)
	_, err := c.inTransaction(c.commandKeys(), func(t *handler.Txn) bool {
		c.Out, c.Failed = c.Out[:mark], false
		c.cmd.Atomic(c, t)
		return true
	})
	if err != nil {
		c.Out = c.Out[:mark]
		c.Fail(request.ErrorText(err))
	}
}
