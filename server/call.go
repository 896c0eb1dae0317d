package server

import (
	"limitdb/config"
	"limitdb/engine"
	"limitdb/known"
	"limitdb/resp"
)

// A call is one run of a command: everything that a handler receives, and the reply that it
// writes. A session reuses one call. A call may also belong to no client, as in a transaction
// or a script: see Server.run.
type call struct {
	srv    *Server
	client *session // the client that sent the command; nil: no client
	cmd    *command
	Args   [][]byte       // the command's name first; valid in the call's first turn only
	Now    int64          // the clock at the start of the batch, ns of Unix time
	place  engine.Place   // where the engine found the key; zero if it was not asked
	holds  int64          // bytes that the handler holds between two steps
	table  *engine.Engine // of a read after READONLY; else nil
	whole  bool           // the command must not yield
	resp.Reply
	Failed  bool // the command has replied with an error
	Reveals bool // that error depends on state

	resolved    *resolved  // of a check in EXEC
	declared    [][]byte   // of a command on values
	txn         Txn        // of a command on values
	body, state []byte     // room for what a command on values writes
	script      *known.Run // of the known scripts that the client has run; nil: none yet
}

// states returns the engine that a read is served from.
func (c *call) states() *engine.Engine {
	if c.table != nil {
		return c.table
	}
	return c.srv.states()
}

// outputLimit returns the most bytes that a reply may have.
func (c *call) outputLimit() int64 {
	if c.client == nil {
		return c.srv.outputLimit(config.NormalClient)
	}
	return c.client.outputLimit()
}

// fail replies with an error and marks the command as failed. It counts the error by its
// prefix, for INFO errorstats.
func (c *call) Fail(text string) {
	c.Failed = true
	c.worked(failWork)
	c.srv.errors.Count(text)
	c.Out = resp.AppendError(c.Out, text)
}
