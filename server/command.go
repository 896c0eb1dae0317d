package server

import (
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// A command is one row of the command table: what describes it, and its handlers. The table is the only
// description of the commands.
type command struct {
	spec.Command

	run func(c *call)
	// atomic is what a command does in one step with others. A command on values has only this, and its run is atomically.
	atomic   func(c *call, t *handler.Txn)
	resolves func(c *call) (resolved any, keys [][]byte) // see handler.Row
	plan     handler.Plan
	subs     []command
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
