package server

import (
	"limitdb/limit"
	"limitdb/server/request"
	"limitdb/server/spec"
	"limitdb/server/values"
)

// A command is one row of the command table: what describes it, and its handlers. The table is the only
// description of the commands.
type command struct {
	spec.Command

	run func(c *call)
	// atomic is what a command on values does in one step on its keys: see values.go. Its run is
	// atomically.
	atomic func(c *call, t *values.Txn)
	// resolves: its keys come from the rules; see resolve.
	resolves bool
	plan     func(zones *limit.Zones, args [][]byte, p *request.Plan) (text string) // of a command that decides on its one key: see plan; or nil
	subs     []command
}

// removing marks c as a command that removes its keys.
func removing(c command) command {
	c.KeyFlags = []string{"RM", "delete"}
	return c
}
