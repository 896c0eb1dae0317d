package server

import (
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
	"limitdb/server/table"
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

// commands are the rows of the command table.
type commands struct {
	*table.Table
	rows []*command // by the id of a command
}

// find returns the command of that name, or nil.
func (t *commands) find(name []byte) *command {
	if c := t.Find(name); c != nil {
		return t.rows[c.ID]
	}
	return nil
}

// sub returns c's subcommand of that name, or nil.
func (c *command) sub(name []byte) *command {
	for i := range c.subs {
		if resp.EqualFold(name, c.subs[i].Name) {
			return &c.subs[i]
		}
	}
	return nil
}

// help lists the subcommands of the container that was called.
func (c *call) help() { c.srv.table.Help(c.inner()) }
