package server

import (
	"math"
	"strings"

	"limitdb/engine"
	"limitdb/limit"
)

// limitWords returns the arguments that describe a limit, followed by more.
func limitWords(more ...argument) []argument {
	words := []argument{
		{name: "algorithm", kind: "string"},
		{name: "limit", kind: "string"},
		{name: "period", kind: "string", optional: true},
	}
	for _, o := range limit.Options() {
		a := argument{name: o.Value, kind: "string", token: o.Name, optional: true}
		switch {
		case o.Value == "":
			a.name, a.kind = strings.ToLower(o.Name), "pure-token"
		case o.Integer:
			a.kind = "integer"
		}
		words = append(words, a)
	}
	return append(words, more...)
}

// limitOf returns the arguments that describe a key and its limit, followed by more.
func limitOf(more ...argument) []argument {
	return append([]argument{{name: "key", kind: "key"}}, limitWords(more...)...)
}

func costWord() argument {
	return argument{name: "cost", kind: "integer", token: "COST", optional: true}
}

func waitWord() argument {
	return argument{name: "wait", kind: "string", token: "WAIT", optional: true}
}

// takeCommands are the limiter's own commands. Every call states its limit, always in the same form.
func takeCommands() []command {
	cost := costWord()
	return []command{
		{
			name: "RL.TAKE", example: "RL.TAKE user:17 GCRA 100/m", arity: -4, flags: flagWrite | flagFast | flagBlocking | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Takes from a limit, or is denied; with WAIT, waits for it.",
			args: limitOf(cost, waitWord(), argument{name: "partial", kind: "pure-token", token: "PARTIAL", optional: true},
				argument{name: "replace", kind: "pure-token", token: "REPLACE", optional: true}),
			run: (*call).rlTake, plan: planTake, atomic: (*call).decideIn,
		},
		{
			name: "RL.PEEK", example: "RL.PEEK user:17 GCRA 100/m", arity: -4, flags: flagReadonly | flagFast | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Answers as RL.TAKE would, and changes nothing.",
			args:    limitOf(cost),
			run:     (*call).rlPeek, plan: planPeek,
		},
		{
			name: "RL.REFUND", example: "RL.REFUND user:17 GCRA 100/m", arity: -4, flags: flagWrite | flagFast | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Gives back what was taken; never fills above the limit.",
			args:    limitOf(cost),
			run:     (*call).rlRefund, plan: planRefund,
		},
		{
			name: "RL.RESERVE", example: "RL.RESERVE user:17 GCRA 100/m", arity: -4, flags: flagWrite | flagFast | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Takes now and pays later: grants more than is left, and returns how long to wait.",
			args:    limitOf(cost, argument{name: "maxwait", kind: "string", token: "MAXWAIT", optional: true}),
			run:     (*call).rlReserve, plan: planReserve,
		},
		{
			name: "RL.RESET", example: "RL.RESET user:17", arity: -2, flags: flagWrite | flagFast | flagWide, firstKey: 1, lastKey: -1, step: 1, keyFlags: []string{"RM", "delete"},
			group: "limiter", since: "1.0.0", complexity: "O(n) for n keys",
			summary: "Forgets keys; returns how many existed.",
			args:    []argument{{name: "key", kind: "key", multiple: true}},
			run:     (*call).del, atomic: (*call).delIn,
		},
		{
			name: "RL.INFO", example: "RL.INFO user:17", arity: 2, flags: flagReadonly | flagStaleRead | flagFast | flagAhead, firstKey: 1, lastKey: 1, step: 1,
			group: "limiter", since: "1.0.0", complexity: "O(1)",
			summary: "Returns a key's algorithm, state, level, time to reset and memory; null if there is none.",
			args:    []argument{{name: "key", kind: "key"}},
			run:     (*call).rlInfo, atomic: (*call).rlInfoIn,
		},
	}
}

func (c *call) rlTake() {
	var p plan
	c.planned(planTake(c.srv, c.args, &p), &p)
}

func planTake(srv *Server, args [][]byte, p *plan) (text string) {
	return p.parse(srv, opTake, args, ownCost|ownPartial|ownWait|ownReplace)
}

func (c *call) rlPeek() {
	var p plan
	c.planned(planPeek(c.srv, c.args, &p), &p)
}

func planPeek(srv *Server, args [][]byte, p *plan) (text string) {
	return p.parse(srv, opPeek, args, ownCost)
}

func (c *call) rlRefund() {
	var p plan
	c.planned(planRefund(c.srv, c.args, &p), &p)
}

func planRefund(srv *Server, args [][]byte, p *plan) (text string) {
	return p.parse(srv, opRefund, args, ownCost)
}

func (c *call) rlReserve() {
	var p plan
	c.planned(planReserve(c.srv, c.args, &p), &p)
}

func planReserve(srv *Server, args [][]byte, p *plan) (text string) {
	return p.parse(srv, opReserve, args, ownCost|ownMaxWait)
}

// parse parses the limit after a key, and those of the command's own options that are allowed,
// in any order after the limit's first words. It returns the text of the error, or "".
func (p *plan) parse(srv *Server, op planOp, args [][]byte, allowed ownOptions) (text string) {
	p.op, p.style = op, inMillis
	words := args[2:]
	n, text := parseLimit(&srv.zones, words, allowed, &p.limitArgs)
	if text == "" && n < len(words) {
		text = errUnknownOption(words[n], &p.limitArgs, allowed)
	}
	return text
}

// decided replies with a decision on a key, or with err if it is not nil.
func (c *call) decided(key []byte, a limit.Kind, d *limit.Decision, err error) {
	if err != nil {
		c.fail(c.limitErrorOf(err, key, a))
		return
	}
	c.decisionMillis(d)
}

// decidedInPart replies with a decision and the amount granted.
func (c *call) decidedInPart(key []byte, a limit.Kind, d *limit.Decision, granted int64, err error) {
	if err != nil {
		c.fail(c.limitErrorOf(err, key, a))
		return
	}
	c.array(6)
	c.fiveMillis(d)
	c.int(granted)
}

func (c *call) rlInfo() {
	info, ok := c.srv.states().Info(c.now, c.args[1])
	if !ok {
		c.null()
		return
	}
	c.keyInfo(&info)
}

// keyInfo replies with what is known about a key.
func (c *call) keyInfo(info *engine.Info) {
	left := limit.Milliseconds(info.Expires - c.now)
	if info.Expires == math.MaxInt64 {
		left = -1
	}
	c.mapOf(5)
	c.text("algorithm")
	c.text(info.Kind.TypeName())
	c.text("state")
	c.int(info.Expires)
	c.text("level")
	c.int(info.Level)
	c.text("resets_in")
	c.int(left)
	c.text("memory")
	c.int(info.Bytes)
}
