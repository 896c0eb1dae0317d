package server

import (
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/spec"
	"limitdb/server/values"
)

// importCommands have what copies limiters from elsewhere.
func importCommands() []command {
	return []command{{
		Command: spec.Command{
			Name: "RL.IMPORT", Example: "RL.IMPORT user:17 GCRA 1500000000", Arity: 4, Flags: spec.Write | spec.Fast, FirstKey: 1, LastKey: 1, Step: 1,
			Group: "limiter", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Makes a key that does not exist a limiter that is full again after some nanoseconds.",
			Args: []spec.Argument{
				{Name: "key", Kind: "key"},
				{Name: "algorithm", Kind: "pure-token", Token: "GCRA"},
				spec.Integer("nanoseconds"),
			},
		},
		run: (*call).atomically, atomic: (*call).rlImport,
	}}
}

// rlImport stores when a bucket is full again, and no pace: the next call says what that time is in tokens, as
// redis-cell has it.
func (c *call) rlImport(t *values.Txn) {
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
