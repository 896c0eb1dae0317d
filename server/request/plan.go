// Package request reads what clients ask of limits: the arguments of the commands, and the errors for those
// that are wrong. It touches no state.
package request

import (
	"limitdb/engine"
	"limitdb/hold"
	"limitdb/limit"
	"limitdb/resp"
)

// A Plan is a command on one key with all its arguments but the key parsed. It depends only
// on those, so one plan serves the same command on other keys.
type Plan struct {
	Args
	Op    Op
	Style Style
	asked uint64 // see Asked; 0 if it is not known yet
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

// Prepare prepares a plan for many ids.
func (p *Plan) Prepare() {
	if p.Given&OwnOnce != 0 {
		p.asked = p.Asked()
	}
}

// Asked returns the hash of what a plan with ONCE asks for.
func (p *Plan) Asked() uint64 {
	if p.asked != 0 {
		return p.asked
	}
	return Asked(uint64(p.Op), nil, &p.Limit, p.Cost, p.Given&OwnPartial != 0)
}

// Open returns the indexes of the arguments that differ from one command to the next of a plan that has an id: that of the id and, of a
// hold or its commit, that of the cost; 0 for none.
func (p *Plan) Open(args [][]byte) (id, cost int) {
	for i := 2; i < len(args); i++ {
		switch {
		case len(args[i]) > 0 && &args[i][0] == &p.OnceID[0]:
			id = i
		case p.Op >= Hold && i > 2 && resp.EqualFold(args[i-1], "COST") && i-1 != id:
			cost = i
		}
	}
	return id, cost
}

// Fill gives a plan the arguments that Open has found, without a cost if hasCost is not set. It reports whether they have no error.
func (p *Plan) Fill(id, cost []byte, hasCost bool) bool {
	if len(id) < 1 || len(id) > hold.MaxID {
		return false
	}
	if p.OnceID = id; !hasCost {
		return true
	}
	var ok bool
	least := int64(0)
	if p.Op == Hold {
		least = 1
	}
	p.Cost, ok = resp.ParseInt(cost)
	return ok && p.Cost >= least
}

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
		p.Op, p.Style, p.asked = op, InMillis, 0
		words := args[2:]
		n, text := ParseLimit(zones, words, allowed, &p.Args)
		if text == "" && n < len(words) {
			text = UnknownOption(words[n], &p.Args, allowed)
		}
		return text
	}
}
