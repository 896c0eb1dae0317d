// Package limits has the commands that decide on limits, leases and holds. A handler parses what the client asks, asks the engine
// or a transaction, and replies.
package limits

import (
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/keys"
	"limitdb/server/request"
	"limitdb/server/spec"
)

type (
	call = handler.Call
	txn  = handler.Txn
	row  = handler.Row[call]
)

// Families returns the commands of the package, in the order of the reference.
func Families() [][]row {
	return [][]row{cellRows(), takeRows(), takeAllRows(), importRows(), leaseRows(), holdRows(), holdAllRows(), topRows(), denialRows()}
}

// onKey makes the row of a command on one key, its first argument. words are what follows the key in an example.
func onKey(name, words string, arity int, f spec.Flags, complexity, summary string, do func(*call, *txn), args ...spec.Argument) row {
	r := handler.Rows[call]("limiter", complexity, spec.Fast)(name, arity, f, summary, nil, append([]spec.Argument{spec.Key("key")}, args...)...)
	r.Example, r.FirstKey, r.LastKey, r.Step, r.Do = name+" "+words, 1, 1, 1, do
	return r
}

// decides makes the row of a command that has a plan.
func decides(name, words string, arity int, f spec.Flags, summary string, plan handler.Plan, args ...spec.Argument) row {
	r := onKey(name, words, arity, f|spec.Ahead|spec.Decides, "O(1)", summary, decide, args...)
	r.Plan, r.Prepare = plan, prepare(plan)
	return r
}

// cellRows are the commands of redis-cell, and Redis' own GCRA command.
func cellRows() []row {
	throttle := decides("CL.THROTTLE", "user:17 15 30 60", -5, spec.Write, "Takes from a GCRA limit with redis-cell's arguments and reply.", request.ParseThrottle,
		spec.Integer("max_burst"), spec.Integer("count_per_period"), spec.Integer("period"), spec.Optional(spec.Integer("quantity")))
	throttle.Usage = request.CellUsage
	return []row{
		throttle,
		decides("GCRA", "user:17 15 30 60", -5, spec.Write, "Takes from a GCRA limit with the arguments of Redis' GCRA command.", request.ParseGCRA,
			spec.Integer("max_burst"), spec.Integer("tokens_per_period"), spec.Argument{Name: "period", Kind: "double"},
			spec.Argument{Name: "tokens", Kind: "integer", Token: "TOKENS", Optional: true}),
	}
}

// takeRows are the limiter's own commands. Every call states its limit, always in the same form.
func takeRows() []row {
	const user, example = "user:17", "user:17 GCRA 100/m"
	cost := request.CostWord()
	forget := onKey("RL.RESET", user, -2, spec.Write|spec.Wide, "O(n) for n keys", "Forgets keys; returns how many existed.", nil)
	forget.Walk, forget.Args, forget.LastKey, forget.KeyFlags = keys.Delete, []spec.Argument{spec.Several(spec.Key("key"))}, -1, []string{"RM delete"}
	info := onKey("RL.INFO", user, 2, spec.Readonly|spec.StaleRead|spec.Ahead|spec.Decides, "O(1)", "Returns a key's algorithm, state, level, time to reset and memory; null if there is none.", nil)
	info.Walk = keys.Info
	return []row{
		decides("RL.TAKE", example, -4, spec.Write|spec.Blocking, "Takes from a limit or is denied; with WAIT, waits until it is granted.", request.Parser(request.Take, request.OwnCost|request.OwnPartial|request.OwnWait|request.OwnReplace|request.OwnOnce),
			request.Words(cost, request.WaitWord(), spec.Optional(spec.Word("PARTIAL")), spec.Optional(spec.Word("REPLACE")), request.OnceWords())...),
		decides("RL.PEEK", example, -4, spec.Readonly, "Answers as RL.TAKE would, and changes nothing.", request.Parser(request.Peek, request.OwnCost), request.Words(cost)...),
		decides("RL.REFUND", example, -4, spec.Write, "Gives back what was taken; never fills above the limit.", request.Parser(request.Refund, request.OwnCost), request.Words(cost)...),
		decides("RL.RESERVE", example, -4, spec.Write, "Takes now and pays later: grants more than is left, and returns how long to wait.", request.Parser(request.Reserve, request.OwnCost|request.OwnMaxWait|request.OwnOnce),
			request.Words(cost, spec.Argument{Name: "maxwait", Kind: "string", Token: "MAXWAIT", Optional: true}, request.OnceWords())...),
		forget,
		info,
	}
}

// importRows have what copies limiters from elsewhere.
func importRows() []row {
	return []row{onKey("RL.IMPORT", "user:17 GCRA 1500000000", 4, spec.Write, "O(1)", "Makes a limiter that is full again after some nanoseconds, if the key does not exist.",
		importKey, spec.Argument{Name: "algorithm", Kind: "pure-token", Token: "GCRA"}, spec.Integer("nanoseconds"))}
}

// importKey stores the time at which a bucket is full again, without a pace. As in redis-cell, the limit of the next
// call says how many tokens that time stands for.
func importKey(c *call, t *txn) {
	if !resp.EqualFold(c.Args[2], "GCRA") {
		c.Fail("ERR syntax error: GCRA is expected, not " + resp.Quote(c.Args[2]))
		return
	}
	left, ok := resp.ParseInt(c.Args[3])
	if !ok || left < 0 || left > limit.MaxSpan {
		c.Fail("ERR out of range: nanoseconds must be between 0 and 200 years")
		return
	}
	if held, _ := t.Get(c.Args[1]); held != 0 || left == 0 {
		c.Int(0)
		return
	}
	t.Put(c.Args[1], limit.GCRA.Kind(), limit.FullAt(t.Now()+left))
	c.Int(1)
}
