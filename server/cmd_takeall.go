package server

import (
	"sync"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// takeAllCommands are the commands that take from several limits in one step, from all or none.
func takeAllCommands() []command {
	return []command{{
		Command: spec.Command{
			Name: "RL.TAKEALL", Example: "RL.TAKEALL 2 user:17 all GCRA 100/m GCRA 5000/m", Arity: -5, Flags: spec.Write | spec.Fast | spec.MovableKeys, NumKeys: 1,
			Group: "limiter", Complexity: "O(n log n) for n keys",
			Summary: "Takes from several limits at once, from all or from none.",
			Args: []spec.Argument{
				{Name: "numkeys", Kind: "integer"},
				{Name: "key", Kind: "key", Multiple: true},
				{Name: "limits", Kind: "block", Multiple: true, Args: request.Words(request.CostWord())},
			},
		},
		run: (*call).rlTakeAll, atomic: (*call).rlTakeAllIn,
	}}
}

// togetherPool lends a together for one command.
type togetherPool struct{ pool sync.Pool }

func (p *togetherPool) get() *request.Together {
	if t, ok := p.pool.Get().(*request.Together); ok {
		return t
	}
	return new(request.Together)
}

func (p *togetherPool) put(t *request.Together) { p.pool.Put(t) }

func (c *call) rlTakeAll() {
	n, text := request.NumKeys(c.Args[1:])
	if text != "" {
		c.Fail(text)
		return
	}
	keys, words := c.Args[2:2+n], c.Args[2+n:]
	t := c.srv.together.get()
	defer c.srv.together.put(t)
	if text := t.Parse(&c.srv.zones, n, words); text != "" {
		c.Fail(text)
		return
	}
	at, err := c.srv.states().TakeAll(c.Now, keys, t.Limits[:n], t.Costs[:n], t.Decisions[:n])
	c.worked(int64(n))
	if err != nil {
		c.Fail(c.takeAllError(err, at, keys, t.Limits[:n]))
		return
	}
	for i := range n {
		if c.srv.decisions != nil {
			c.log(keys[i], t.Costs[i], &t.Decisions[i])
		}
	}
	c.Array(2 + n)
	if at < 0 {
		c.Int(0)
	} else {
		c.Int(1)
	}
	c.Int(int64(at))
	for i := range n {
		c.decisionMillis(&t.Decisions[i])
	}
}

// takeAllError returns the reply for an error of the key or the limit at index at.
func (c *call) takeAllError(err error, at int, keys [][]byte, limits []limit.Limit) string {
	text := request.ErrorText(err)
	switch {
	case at < 0 || text == spec.ErrOOM:
		return text
	case err == engine.ErrDuplicate:
		return "ERR a key is given twice: " + resp.Quote(keys[at])
	}
	return c.limitErrorOf(err, keys[at], limits[at].Algorithm.Kind()) + ": " + resp.Quote(keys[at])
}
