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
	err = c.States().UpdateAt(c.Place, c.Now, keys, func(et *engine.Txn) error {
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
	t.Txn, t.After, t.Cancelled = nil, nil, nil
	c.Spare()
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
	from, to, step := c.cmd.KeyRange(c.Args)
	if step == 1 {
		return c.Args[from:to:to]
	}
	keys := make([][]byte, 0, len(c.Args)/step)
	for i := from; i < to; i += step {
		keys = append(keys, c.Args[i])
	}
	return keys
}

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
