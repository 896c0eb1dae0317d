package server

import (
	"errors"
	"math"

	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/spec"
)

// cellCommands are the commands of redis-cell, and Redis' own GCRA command.
func cellCommands() []command {
	return []command{
		{
			Command: spec.Command{
				Name: "CL.THROTTLE", Example: "CL.THROTTLE user:17 15 30 60", Arity: -5, Usage: cellUsage, Flags: spec.Write | spec.Fast | spec.Ahead, FirstKey: 1, LastKey: 1, Step: 1,
				Group: "limiter", Since: "1.0.0", Complexity: "O(1)",
				Summary: "Takes from a GCRA limit with redis-cell's arguments and reply.",
				Args: []spec.Argument{
					{Name: "key", Kind: "key"},
					{Name: "max_burst", Kind: "integer"},
					{Name: "count_per_period", Kind: "integer"},
					{Name: "period", Kind: "integer"},
					{Name: "quantity", Kind: "integer", Optional: true},
				},
			},
			run: (*call).clThrottle, plan: planThrottle, atomic: (*call).decideIn,
		},
		{
			Command: spec.Command{
				Name: "GCRA", Example: "GCRA user:17 15 30 60", Arity: -5, Flags: spec.Write | spec.Fast | spec.Ahead, FirstKey: 1, LastKey: 1, Step: 1,
				Group: "limiter", Since: "1.0.0", Complexity: "O(1)",
				Summary: "Takes from a GCRA limit with the arguments of Redis' GCRA command.",
				Args: []spec.Argument{
					{Name: "key", Kind: "key"},
					{Name: "max_burst", Kind: "integer"},
					{Name: "tokens_per_period", Kind: "integer"},
					{Name: "period", Kind: "double"},
					{Name: "tokens", Kind: "integer", Token: "TOKENS", Optional: true},
				},
			},
			run: (*call).gcra, plan: planGCRA, atomic: (*call).decideIn,
		},
	}
}

// redis-cell's error texts. They have no "ERR" prefix, so that code which compares them still works.
const (
	cellPrefix   = "Cell error: Store error: "
	cellUsage    = cellPrefix + "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
	cellNotInt   = cellPrefix + "Couldn't parse as integer: "
	cellZeroRate = cellPrefix + "Zero rates are not supported"
)

func (c *call) clThrottle() {
	var p plan
	c.planned(planThrottle(c.srv, c.Args, &p), &p)
}

func planThrottle(_ *Server, args [][]byte, p *plan) (text string) {
	if len(args) > 6 {
		return cellUsage
	}
	var n [4]int64
	n[3] = 1
	for i, a := range args[2:] {
		v, ok := parseCellInt(a)
		if !ok {
			return cellNotInt + resp.Excerpt(a)
		}
		n[i] = v
	}
	l, err := limit.Cell(n[0], n[1], n[2])
	if err != nil {
		return cellError(err)
	}
	*p = plan{limitArgs: limitArgs{limit: l, cost: n[3]}, style: asCell}
	if p.cost < 0 { // gives back
		p.op, p.cost = opRefund, -p.cost
	}
	if p.cost == math.MinInt64 {
		return cellError(limit.ErrOverflow)
	}
	return ""
}

func cellError(err error) string {
	if errors.Is(err, limit.ErrZeroRate) {
		return cellZeroRate
	}
	return cellPrefix + err.Error()
}

// parseCellInt reads an i64 as redis-cell does: a sign, also +, and digits.
func parseCellInt(b []byte) (int64, bool) {
	if len(b) > 1 && b[0] == '+' && b[1] != '-' && b[1] != '+' {
		b = b[1:]
	}
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	// Accumulate a negative number, since only that can hold the least int64.
	var n int64
	for _, c := range b {
		d := int64(c - '0')
		if c < '0' || c > '9' || n < (math.MinInt64+d)/10 {
			return 0, false
		}
		n = n*10 - d
	}
	if neg {
		return n, true
	}
	return -n, n != math.MinInt64
}

func (c *call) gcra() {
	var p plan
	c.planned(planGCRA(c.srv, c.Args, &p), &p)
}

func planGCRA(_ *Server, args [][]byte, p *plan) (text string) {
	burst, ok1 := resp.ParseInt(args[2])
	tokens, ok2 := resp.ParseInt(args[3])
	if !ok1 || !ok2 {
		return spec.ErrNotInt
	}
	l, err := limit.CellDecimal(burst, tokens, args[4])
	if err != nil {
		return limitError(err)
	}
	cost := int64(1)
	switch {
	case len(args) == 5:
	case len(args) == 7 && (resp.EqualFold(args[5], "TOKENS") || resp.EqualFold(args[5], "NUM_REQUESTS")):
		var ok bool
		if cost, ok = resp.ParseInt(args[6]); !ok || cost < 1 {
			return "ERR TOKENS must be an integer of 1 or more"
		}
	default:
		return spec.ErrSyntax
	}
	*p = plan{limitArgs: limitArgs{limit: l, cost: cost}, style: inSeconds}
	return ""
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
