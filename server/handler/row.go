package handler

import (
	"limitdb/limit"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// A Row is a row of the command table: what describes a command, and its work, which is written once. C is the call that a
// handler receives. The runner decides how a command runs: by itself, in EXEC, in a script, over HTTP or for another node. No handler asks which.
//
// A row has exactly one of Run, Do and Walk, or subcommands.
type Row[C any] struct {
	spec.Command
	// Run does what touches no key. In EXEC it comes after the step.
	Run func(c *C)
	// Do does its work on keys in one step: its own, or that of EXEC or a script. It may run twice, so whatever else it does is an
	// Effect, which it gives to Call.Then.
	Do func(c *C, t *Txn)
	// Walk does what needs no step of its own, as on all keys: by itself it locks nothing between two of them, and so it may run in steps. In EXEC
	// and in scripts, keys are those of the step.
	Walk func(c *C, keys Keyspace)
	// Prepare parses the words before Do locks anything, and finds the keys that they do not name. It returns the text of the error, or "".
	// nil: Do does that, and the words name the keys.
	Prepare func(c *C) (p Prepared, text string)
	Plan    Plan     // parses a command that only decides on its one key; nil: it does not
	Rows    []Row[C] // its subcommands
}

// InStep reports whether the command can be part of a step, with others.
func (r *Row[C]) InStep() bool { return r.Do != nil || r.Walk != nil }

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

// Uses returns the row with what it does with its keys: see spec.Command.KeyFlags.
func (r Row[C]) Uses(keyFlags ...string) Row[C] {
	r.KeyFlags = keyFlags
	return r
}

// Container makes the row of a command that has only subcommands. To these it adds HELP.
func Container[C any](name, group, summary string, subs ...Row[C]) Row[C] {
	row := Rows[C](group, "O(1)", 0)
	c := row(name, -2, 0, summary, nil).Takes("Depends on subcommand.")
	c.Rows = append(subs, row("HELP", 2, spec.Loading|spec.Stale, "Lists the subcommands.", nil))
	return c
}
