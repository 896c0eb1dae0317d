package handler

import (
	"limitdb/limit"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// A Row is a row of the command table: what describes a command, and its handlers. C is the call that they receive.
type Row[C any] struct {
	spec.Command
	Run    func(c *C)         // nil: Atomic, in a step of its own; if that is nil, too, HELP or a command that has only subcommands
	Atomic func(c *C, t *Txn) // in one step with other commands, and maybe twice; nil: it cannot be part of a transaction
	Plan   Plan               // nil: the command does not only decide on its one key
	// Resolve returns the keys of a command that does not name them, and what its Atomic needs of that as Call.Resolved. EXEC
	// calls it before it locks the keys. nil: the command names its keys.
	Resolve func(c *C) (resolved any, keys [][]byte)
	Rows    []Row[C] // its subcommands
}

// Plan parses a command that decides on its one key. It returns the text of the error, or "".
type Plan func(zones *limit.Zones, args [][]byte, p *request.Plan) (text string)

// A Maker makes the row of a command without keys.
type Maker[C any] func(name string, arity int, f spec.Flags, summary string, run func(*C), args ...spec.Argument) Row[C]

// Rows returns what makes rows of one group and complexity, and with flags in common.
func Rows[C any](group, complexity string, common spec.Flags) Maker[C] {
	return func(name string, arity int, f spec.Flags, summary string, run func(*C), args ...spec.Argument) Row[C] {
		return Row[C]{
			Command: spec.Command{
				Name: name, Arity: arity, Flags: common | f, Group: group, Complexity: complexity, Summary: summary, Args: args,
			},
			Run: run,
		}
	}
}

// Takes returns the row with another complexity.
func (r Row[C]) Takes(complexity string) Row[C] {
	r.Complexity = complexity
	return r
}

// Container makes the row of a command that has only subcommands. To these it adds HELP.
func Container[C any](name, group, summary string, subs ...Row[C]) Row[C] {
	row := Rows[C](group, "O(1)", 0)
	c := row(name, -2, 0, summary, nil).Takes("Depends on subcommand.")
	c.Rows = append(subs, row("HELP", 2, spec.Loading|spec.Stale, "Lists the subcommands.", nil))
	return c
}
