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

// rows returns a function that makes rows without keys: of one group and complexity, and with flags in common.
func rows(group, complexity string, common spec.Flags) func(name string, arity int, f spec.Flags, summary string, run func(*call), args ...spec.Argument) command {
	return func(name string, arity int, f spec.Flags, summary string, run func(*call), args ...spec.Argument) command {
		return command{
			Command: spec.Command{
				Name: name, Arity: arity, Flags: common | f, Group: group, Complexity: complexity, Summary: summary, Args: args,
			},
			run: run,
		}
	}
}
