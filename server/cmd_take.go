package server

import (
	"math"
	"strings"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/server/spec"
)

// limitWords returns the arguments that describe a limit, followed by more.
func limitWords(more ...spec.Argument) []spec.Argument {
	words := []spec.Argument{
		{Name: "algorithm", Kind: "string"},
		{Name: "limit", Kind: "string"},
		{Name: "period", Kind: "string", Optional: true},
	}
	for _, o := range limit.Options() {
		a := spec.Argument{Name: o.Value, Kind: "string", Token: o.Name, Optional: true}
		switch {
		case o.Value == "":
			a.Name, a.Kind = strings.ToLower(o.Name), "pure-token"
		case o.Integer:
			a.Kind = "integer"
		}
		words = append(words, a)
	}
	return append(words, more...)
}

// limitOf returns the arguments that describe a key and its limit, followed by more.
func limitOf(more ...spec.Argument) []spec.Argument {
	return append([]spec.Argument{{Name: "key", Kind: "key"}}, limitWords(more...)...)
}

func costWord() spec.Argument {
	return spec.Argument{Name: "cost", Kind: "integer", Token: "COST", Optional: true}
}

func waitWord() spec.Argument {
	return spec.Argument{Name: "wait", Kind: "string", Token: "WAIT", Optional: true}
}

// takeCommands are the limiter's own commands. Every call states its limit, always in the same form.
func takeCommands() []command {
	cost := costWord()
	return []command{
		{
			Command: spec.Command{
				Name: "RL.TAKE", Example: "RL.TAKE user:17 GCRA 100/m", Arity: -4, Flags: spec.Write | spec.Fast | spec.Blocking | spec.Ahead, FirstKey: 1, LastKey: 1, Step: 1,
				Group: "limiter", Since: "1.0.0", Complexity: "O(1)",
				Summary: "Takes from a limit, or is denied; with WAIT, waits for it.",
				Args: limitOf(cost, waitWord(), spec.Argument{Name: "partial", Kind: "pure-token", Token: "PARTIAL", Optional: true},
					spec.Argument{Name: "replace", Kind: "pure-token", Token: "REPLACE", Optional: true}),
			},
			run: (*call).rlTake, plan: planTake, atomic: (*call).decideIn,
		},
		{
			Command: spec.Command{
				Name: "RL.PEEK", Example: "RL.PEEK user:17 GCRA 100/m", Arity: -4, Flags: spec.Readonly | spec.Fast | spec.Ahead, FirstKey: 1, LastKey: 1, Step: 1,
				Group: "limiter", Since: "1.0.0", Complexity: "O(1)",
				Summary: "Answers as RL.TAKE would, and changes nothing.",
				Args:    limitOf(cost),
			},
			run: (*call).rlPeek, plan: planPeek,
		},
		{
			Command: spec.Command{
				Name: "RL.REFUND", Example: "RL.REFUND user:17 GCRA 100/m", Arity: -4, Flags: spec.Write | spec.Fast | spec.Ahead, FirstKey: 1, LastKey: 1, Step: 1,
				Group: "limiter", Since: "1.0.0", Complexity: "O(1)",
				Summary: "Gives back what was taken; never fills above the limit.",
				Args:    limitOf(cost),
			},
			run: (*call).rlRefund, plan: planRefund,
		},
		{
			Command: spec.Command{
				Name: "RL.RESERVE", Example: "RL.RESERVE user:17 GCRA 100/m", Arity: -4, Flags: spec.Write | spec.Fast | spec.Ahead, FirstKey: 1, LastKey: 1, Step: 1,
				Group: "limiter", Since: "1.0.0", Complexity: "O(1)",
				Summary: "Takes now and pays later: grants more than is left, and returns how long to wait.",
				Args:    limitOf(cost, spec.Argument{Name: "maxwait", Kind: "string", Token: "MAXWAIT", Optional: true}),
			},
			run: (*call).rlReserve, plan: planReserve,
		},
		{
			Command: spec.Command{
				Name: "RL.RESET", Example: "RL.RESET user:17", Arity: -2, Flags: spec.Write | spec.Fast | spec.Wide, FirstKey: 1, LastKey: -1, Step: 1, KeyFlags: []string{"RM", "delete"},
				Group: "limiter", Since: "1.0.0", Complexity: "O(n) for n keys",
				Summary: "Forgets keys; returns how many existed.",
				Args:    []spec.Argument{{Name: "key", Kind: "key", Multiple: true}},
			},
			run: (*call).del, atomic: (*call).delIn,
		},
		{
			Command: spec.Command{
				Name: "RL.INFO", Example: "RL.INFO user:17", Arity: 2, Flags: spec.Readonly | spec.StaleRead | spec.Fast | spec.Ahead, FirstKey: 1, LastKey: 1, Step: 1,
				Group: "limiter", Since: "1.0.0", Complexity: "O(1)",
				Summary: "Returns a key's algorithm, state, level, time to reset and memory; null if there is none.",
				Args:    []spec.Argument{{Name: "key", Kind: "key"}},
			},
			run: (*call).rlInfo, atomic: (*call).rlInfoIn,
		},
	}
}

func (c *call) rlTake() {
	var p plan
	c.planned(planTake(c.srv, c.Args, &p), &p)
}

func planTake(srv *Server, args [][]byte, p *plan) (text string) {
	return p.parse(srv, opTake, args, ownCost|ownPartial|ownWait|ownReplace)
}

func (c *call) rlPeek() {
	var p plan
	c.planned(planPeek(c.srv, c.Args, &p), &p)
}

func planPeek(srv *Server, args [][]byte, p *plan) (text string) {
	return p.parse(srv, opPeek, args, ownCost)
}

func (c *call) rlRefund() {
	var p plan
	c.planned(planRefund(c.srv, c.Args, &p), &p)
}

func planRefund(srv *Server, args [][]byte, p *plan) (text string) {
	return p.parse(srv, opRefund, args, ownCost)
}

func (c *call) rlReserve() {
	var p plan
	c.planned(planReserve(c.srv, c.Args, &p), &p)
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
		c.Fail(c.limitErrorOf(err, key, a))
		return
	}
	c.decisionMillis(d)
}

// decidedInPart replies with a decision and the amount granted.
func (c *call) decidedInPart(key []byte, a limit.Kind, d *limit.Decision, granted int64, err error) {
	if err != nil {
		c.Fail(c.limitErrorOf(err, key, a))
		return
	}
	c.Array(6)
	c.fiveMillis(d)
	c.Int(granted)
}

func (c *call) rlInfo() {
	info, ok := c.srv.states().Info(c.Now, c.Args[1])
	if !ok {
		c.Null()
		return
	}
	c.keyInfo(&info)
}

// keyInfo replies with what is known about a key.
func (c *call) keyInfo(info *engine.Info) {
	left := limit.Milliseconds(info.Expires - c.Now)
	if info.Expires == math.MaxInt64 {
		left = -1
	}
	c.Map(5)
	c.Text("algorithm")
	c.Text(info.Kind.TypeName())
	c.Text("state")
	c.Int(info.Expires)
	c.Text("level")
	c.Int(info.Level)
	c.Text("resets_in")
	c.Int(left)
	c.Text("memory")
	c.Int(info.Bytes)
}
