// Package request reads what clients ask of limits: the arguments of the commands, and the errors for those
// that are wrong. It touches no state.
package request

import (
	"limitdb/engine"
	"limitdb/limit"
)

// A Plan is a command on one key with all its arguments but the key parsed. It depends only
// on those, so one plan serves the same command on other keys.
type Plan struct {
	Args
	Op    Op
	Style Style
}

// Op is the operation of a plan.
type Op uint8

// The operations.
const (
	Take Op = iota
	Peek
	Refund
	Reserve
	Hold
	Commit
	Cancel
)

// Settles reports whether the plan settles a hold, under a limit that it does not name.
func (p *Plan) Settles() bool { return p.Op >= Commit }

// Style is the form of a plan's reply.
type Style uint8

// The forms.
const (
	InMillis  Style = iota
	InSeconds       // as Redis' GCRA
	AsCell          // in seconds, with redis-cell's errors
)

// Request returns the engine's request for a.
func (a *Args) Request() engine.Request {
	return engine.Request{
		Limit: a.Limit, Cost: a.Cost, Partial: a.Given&OwnPartial != 0, Replace: a.Given&OwnReplace != 0,
	}
}

// Parser returns a function that parses the arguments of a command: a key, a limit, and those of the command's own options
// that are allowed, in any order after the limit's first words. It returns the text of the error, or "".
func Parser(op Op, allowed Own) func(zones *limit.Zones, args [][]byte, p *Plan) (text string) {
	return func(zones *limit.Zones, args [][]byte, p *Plan) (text string) {
		p.Op, p.Style = op, InMillis
		words := args[2:]
		n, text := ParseLimit(zones, words, allowed, &p.Args)
		if text == "" && n < len(words) {
			text = UnknownOption(words[n], &p.Args, allowed)
		}
		return text
	}
}
