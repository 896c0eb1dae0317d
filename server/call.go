package server

import (
	"limitdb/known"
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/values"
)

// A call is one run of a command: everything that a handler receives, and the reply that it
// writes. A session reuses one call. A call may also belong to no client, as in a transaction
// or a script: see runAlone. Handlers of the packages below get only its inner part.
type call struct {
	srv    *Server
	client *session // the client that sent the command; nil: no client
	cmd    *command
	values.Call

	txn     handler.Txn // of a command on values
	since   int64       // when the last command of several ended, from which the next one's time counts; 0: it is by itself
	started int64       // when something long began in a command that is SelfTimed; 0: nothing did
	script  *known.Run  // of the known scripts that the client has run; nil: none yet
	called  []byte      // lines of MONITOR about what a script has called
}

// newCall returns a call at a time, which replies in a version of the protocol.
func (srv *Server) newCall(now int64, proto resp.Proto, args [][]byte) call {
	c := call{srv: srv}
	c.Parts, c.Reply.Proto, c.Args, c.Now = &srv.parts, proto, args, now
	return c
}

// inner is what the handlers of the packages below get of a call.
func (c *call) inner() *handler.Call { return &c.Call.Call }
