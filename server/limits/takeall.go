package limits

import (
	"sync"

	"limitdb/engine"
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// takeAllRows are the commands that take from several limits in one step, from all or none.
func takeAllRows() []row {
	pool := &sync.Pool{New: func() any { return new(request.Together) }}
	r := handler.Rows[call]("limiter", "O(n log n) for n keys", spec.Write|spec.Fast|spec.MovableKeys)(
		"RL.TAKEALL", -5, 0, "Takes from several limits at once, from all or from none.", func(c *call) {
			all := pool.Get().(*request.Together)
			defer pool.Put(all)
			takeAll(c, nil, all)
		},
		spec.Integer("numkeys"), spec.Several(spec.Key("key")),
		spec.Argument{Name: "limits", Kind: "block", Multiple: true, Args: request.Words(request.CostWord())})
	r.Example, r.NumKeys = "RL.TAKEALL 2 user:17 all GCRA 100/m GCRA 5000/m", 1
	r.Atomic = func(c *call, t *txn) { takeAll(c, t, new(request.Together)) } // the transaction keeps the limits until it ends
	return []row{r}
}

// takeAll is RL.TAKEALL. t is nil outside of a transaction.
func takeAll(c *call, t *txn, all *request.Together) {
	n, text := request.NumKeys(c.Args[1:])
	if text != "" {
		c.Fail(text)
		return
	}
	keys, words := c.Args[2:2+n], c.Args[2+n:]
	if text := all.Parse(&c.Zones, n, words); text != "" {
		c.Fail(text)
		return
	}
	var at int
	var err error
	r := &engine.Together{Keys: keys, Limits: all.Limits[:n], Costs: all.Costs[:n], Decisions: all.Decisions[:n]}
	if t != nil {
		at, err = t.Together(r)
	} else {
		at, err = c.States().Together(c.Now, r)
		c.Worked(int64(n))
	}
	if err != nil {
		if t == nil || t.Note(err) != nil {
			c.Fail(takeAllError(c, t, err, at, keys, all))
		}
		return
	}
	c.Array(2 + n)
	c.Bit(at >= 0)
	c.Int(int64(at))
	for i := range n {
		log(c, t, keys[i], all.Costs[i], &all.Decisions[i])
		Millis(c, &all.Decisions[i])
	}
}

// takeAllError returns the reply for an error of the key or the limit at index at.
func takeAllError(c *call, t *txn, err error, at int, keys [][]byte, all *request.Together) string {
	text := request.ErrorText(err)
	switch {
	case at < 0 || text == spec.ErrOOM:
		return text
	case err == engine.ErrDuplicate:
		return "ERR a key is given twice: " + resp.Quote(keys[at])
	}
	return errorText(c, t, err, keys[at], all.Limits[at].Algorithm.Kind()) + ": " + resp.Quote(keys[at])
}
