package server

import (
	"limitdb/config"
	"limitdb/engine"
	"limitdb/known"
	"limitdb/resp"
	"limitdb/server/values"
)

// A call is one run of a command: everything that a handler receives, and the reply that it
// writes. A session reuses one call. A call may also belong to no client, as in a transaction
// or a script: see Server.run.
type call struct {
	srv    *Server
	client *session // the client that sent the command; nil: no client
	cmd    *command
	place  engine.Place   // where the engine found the key; zero if it was not asked
	holds  int64          // bytes that the handler holds between two steps
	table  *engine.Engine // of a read after READONLY; else nil
	whole  bool           // the command must not yield
	values.Call

	resolved *resolved  // of a check in EXEC
	declared [][]byte   // of a command on values
	txn      values.Txn // of a command on values
	started  int64      // when something long began in a command that is SelfTimed; 0: nothing did
	script   *known.Run // of the known scripts that the client has run; nil: none yet
}

// newCall returns a call at a time, which replies in a version of the protocol.
func (srv *Server) newCall(now int64, proto resp.Proto, args [][]byte) call {
	return call{srv: srv, Call: values.Call{
		Reply: resp.Reply{Proto: proto}, Args: args, Now: now, Settings: srv.set, Errors: &srv.errors,
	}}
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

// Fail is values.Call's. It notes how long an error takes.
func (c *call) Fail(text string) {
	c.worked(failWork)
	c.Call.Fail(text)
}
