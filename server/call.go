package server

import (
	"limitdb/config"
	"limitdb/engine"
	"limitdb/resp"
)

// A call is one run of a command: all that a handler is given, and where it replies.
// A session uses one call again and again. A call may also be nobody's, as one in a
// transaction or a script is: see Server.run.
type call struct {
	srv    *Server
	client *session // whose command it is; nil: nobody's
	cmd    *command
	args   [][]byte     // the command's name first; valid in the call's first turn only
	now    int64        // the clock at the start of the batch, ns of Unix time
	place  engine.Place // where the engine has found the key; zero if it was not asked
	holds  int64        // bytes that the handler holds between two steps
	reply
}

// outputLimit bounds the bytes of a reply.
func (c *call) outputLimit() int64 {
	if c.client == nil {
		return c.srv.outputLimit(config.NormalClient)
	}
	return c.client.outputLimit()
}

// fail replies with an error and marks the command as failed. The counters by
// prefix are what INFO errorstats shows.
func (c *call) fail(text string) {
	c.failed = true
	c.srv.errors.Count(text)
	c.out = resp.AppendError(c.out, text)
}
