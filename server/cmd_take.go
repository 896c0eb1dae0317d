package server

import (
	"math"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// takeCommands are the limiter's own commands. Every call states its limit, always in the same form.
func takeCommands() []command {
	cost := request.CostWord()
	return []command{
		{
			Command: spec.Command{
				Name: "RL.TAKE", Example: "RL.TAKE user:17 GCRA 100/m", Arity: -4, Flags: spec.Write | spec.Fast | spec.Blocking | spec.Ahead, FirstKey: 1, LastKey: 1, Step: 1,
				Group: "limiter", Complexity: "O(1)",
				Summary: "Takes from a limit, or is denied; with WAIT, waits for it.",
				Args: request.KeyAndWords(cost, request.WaitWord(), spec.Argument{Name: "partial", Kind: "pure-token", Token: "PARTIAL", Optional: true},
					spec.Argument{Name: "replace", Kind: "pure-token", Token: "REPLACE", Optional: true}),
			},
			run: (*call).rlTake, plan: request.ParseTake, atomic: (*call).decideIn,
		},
		{
			Command: spec.Command{
				Name: "RL.PEEK", Example: "RL.PEEK user:17 GCRA 100/m", Arity: -4, Flags: spec.Readonly | spec.Fast | spec.Ahead, FirstKey: 1, LastKey: 1, Step: 1,
				Group: "limiter", Complexity: "O(1)",
				Summary: "Answers as RL.TAKE would, and changes nothing.",
				Args:    request.KeyAndWords(cost),
			},
			run: (*call).rlPeek, plan: request.ParsePeek,
		},
		{
			Command: spec.Command{
				Name: "RL.REFUND", Example: "RL.REFUND user:17 GCRA 100/m", Arity: -4, Flags: spec.Write | spec.Fast | spec.Ahead, FirstKey: 1, LastKey: 1, Step: 1,
				Group: "limiter", Complexity: "O(1)",
				Summary: "Gives back what was taken; never fills above the limit.",
				Args:    request.KeyAndWords(cost),
			},
			run: (*call).rlRefund, plan: request.ParseRefund,
		},
		{
			Command: spec.Command{
				Name: "RL.RESERVE", Example: "RL.RESERVE user:17 GCRA 100/m", Arity: -4, Flags: spec.Write | spec.Fast | spec.Ahead, FirstKey: 1, LastKey: 1, Step: 1,
				Group: "limiter", Complexity: "O(1)",
				Summary: "Takes now and pays later: grants more than is left, and returns how long to wait.",
				Args:    request.KeyAndWords(cost, spec.Argument{Name: "maxwait", Kind: "string", Token: "MAXWAIT", Optional: true}),
			},
			run: (*call).rlReserve, plan: request.ParseReserve,
		},
		{
			Command: spec.Command{
				Name: "RL.RESET", Example: "RL.RESET user:17", Arity: -2, Flags: spec.Write | spec.Fast | spec.Wide, FirstKey: 1, LastKey: -1, Step: 1, KeyFlags: []string{"RM", "delete"},
				Group: "limiter", Complexity: "O(n) for n keys",
				Summary: "Forgets keys; returns how many existed.",
				Args:    []spec.Argument{{Name: "key", Kind: "key", Multiple: true}},
			},
			run: (*call).del, atomic: (*call).delIn,
		},
		{
			Command: spec.Command{
				Name: "RL.INFO", Example: "RL.INFO user:17", Arity: 2, Flags: spec.Readonly | spec.StaleRead | spec.Fast | spec.Ahead, FirstKey: 1, LastKey: 1, Step: 1,
				Group: "limiter", Complexity: "O(1)",
				Summary: "Returns a key's algorithm, state, level, time to reset and memory; null if there is none.",
				Args:    []spec.Argument{{Name: "key", Kind: "key"}},
			},
			run: (*call).rlInfo, atomic: (*call).rlInfoIn,
		},
	}
}

func (c *call) rlTake() {
	var p request.Plan
	c.planned(request.ParseTake(&c.srv.zones, c.Args, &p), &p)
}

func (c *call) rlPeek() {
	var p request.Plan
	c.planned(request.ParsePeek(&c.srv.zones, c.Args, &p), &p)
}

func (c *call) rlRefund() {
	var p request.Plan
	c.planned(request.ParseRefund(&c.srv.zones, c.Args, &p), &p)
}

func (c *call) rlReserve() {
	var p request.Plan
	c.planned(request.ParseReserve(&c.srv.zones, c.Args, &p), &p)
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
