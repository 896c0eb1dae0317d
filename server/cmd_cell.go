package server

import (
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// cellCommands are the commands of redis-cell, and Redis' own GCRA command.
func cellCommands() []command {
	return []command{
		{
			Command: spec.Command{
				Name: "CL.THROTTLE", Example: "CL.THROTTLE user:17 15 30 60", Arity: -5, Usage: request.CellUsage, Flags: spec.Write | spec.Fast | spec.Ahead, FirstKey: 1, LastKey: 1, Step: 1,
				Group: "limiter", Complexity: "O(1)",
				Summary: "Takes from a GCRA limit with redis-cell's arguments and reply.",
				Args: []spec.Argument{
					{Name: "key", Kind: "key"},
					{Name: "max_burst", Kind: "integer"},
					{Name: "count_per_period", Kind: "integer"},
					{Name: "period", Kind: "integer"},
					{Name: "quantity", Kind: "integer", Optional: true},
				},
			},
			run: (*call).clThrottle, plan: request.ParseThrottle, atomic: (*call).decideIn,
		},
		{
			Command: spec.Command{
				Name: "GCRA", Example: "GCRA user:17 15 30 60", Arity: -5, Flags: spec.Write | spec.Fast | spec.Ahead, FirstKey: 1, LastKey: 1, Step: 1,
				Group: "limiter", Complexity: "O(1)",
				Summary: "Takes from a GCRA limit with the arguments of Redis' GCRA command.",
				Args: []spec.Argument{
					{Name: "key", Kind: "key"},
					{Name: "max_burst", Kind: "integer"},
					{Name: "tokens_per_period", Kind: "integer"},
					{Name: "period", Kind: "double"},
					{Name: "tokens", Kind: "integer", Token: "TOKENS", Optional: true},
				},
			},
			run: (*call).gcra, plan: request.ParseGCRA, atomic: (*call).decideIn,
		},
	}
}

func (c *call) clThrottle() {
	var p request.Plan
	c.planned(request.ParseThrottle(&c.srv.zones, c.Args, &p), &p)
}

func (c *call) gcra() {
	var p request.Plan
	c.planned(request.ParseGCRA(&c.srv.zones, c.Args, &p), &p)
}

// decisionSeconds replies with five integers, times in whole seconds rounded up.
func (c *call) decisionSeconds(d *limit.Decision) {
	c.decision(d, limit.Seconds(d.Wait), limit.Seconds(d.Reset))
}

// decisionMillis replies with five integers, times in milliseconds rounded up.
func (c *call) decisionMillis(d *limit.Decision) {
	c.decision(d, limit.Milliseconds(d.Wait), limit.Milliseconds(d.Reset))
}

func (c *call) decision(d *limit.Decision, wait, reset int64) {
	c.Array(5)
	c.five(d, wait, reset)
}

// fiveMillis is decisionMillis without the array around it.
func (c *call) fiveMillis(d *limit.Decision) {
	c.five(d, limit.Milliseconds(d.Wait), limit.Milliseconds(d.Reset))
}

// five appends the five integers of a decision.
func (c *call) five(d *limit.Decision, wait, reset int64) {
	limited := int64(0)
	if d.Limited {
		limited = 1
	}
	b := resp.AppendInt(c.Out, limited)
	b = resp.AppendInt(b, d.Limit)
	b = resp.AppendInt(b, d.Remaining)
	b = resp.AppendInt(b, wait)
	c.Out = resp.AppendInt(b, reset)
}
