package limits

import (
	"bytes"
	"slices"
	"sync"

	"limitdb/engine"
	"limitdb/resp"
	"limitdb/server/denials"
	"limitdb/server/handler"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// takeAllRows are the commands that take from several limits in one step, from all or none.
func takeAllRows() []row {
	r := handler.Rows[call]("limiter", "O(n log n) for n keys", spec.Write|spec.Fast|spec.MovableKeys|spec.Decides|spec.Across)(
		"RL.TAKEALL", -5, 0, "Takes from several limits at once, from all or from none.", nil,
		spec.Integer("numkeys"), spec.Several(spec.Key("key")),
		spec.Argument{Name: "limits", Kind: "block", Multiple: true, Args: request.Words(request.CostWord())}, request.OnceWords())
	r.Example, r.NumKeys = "RL.TAKEALL 2 user:17 all GCRA 100/m GCRA 5000/m", 1
	pool := new(sync.Pool)
	r.Prepare, r.Do = func(c *call) (handler.Prepared, string) { return prepareAll(c, pool, false) }, takeAll
	return []row{r}
}

// together is a parsed RL.TAKEALL or RL.HOLDALL.
type together struct {
	hold engine.Hold // of RL.HOLDALL
	r    engine.Together
	room *request.Together // that the slices of r are in; nil: they are their own
	pool *sync.Pool
	once engine.Once
}

// prepareAll parses RL.TAKEALL, or RL.HOLDALL if held is set.
func prepareAll(c *call, pool *sync.Pool, held bool) (handler.Prepared, string) {
	n, text := request.NumKeys(c.Args[1:])
	if text != "" {
		return nil, text
	}
	all, ok := pool.Get().(*together)
	if !ok {
		all = &together{room: new(request.Together), pool: pool}
	}
	room, r := all.room, &all.r
	if r.Hold = nil; held {
		r.Hold = &all.hold
		text = room.ParseHold(&c.Zones, n, c.Args[2+n:], int64(c.Settings.HoldMaxTTL.Get()), r.Hold)
	} else {
		text = room.Parse(&c.Zones, n, c.Args[2+n:])
	}
	if text != "" {
		pool.Put(all)
		return nil, text
	}
	r.Keys, r.Limits, r.Costs, r.Decisions = c.Args[2:2+n], room.Limits[:n], room.Costs[:n], room.Decisions[:n]
	if r.Once = nil; room.Once.Given != 0 {
		r.Once = room.Once.Once(&all.once, asked(r))
	}
	return all, ""
}

// asked returns a hash of what is asked for.
func asked(r *engine.Together) (sum uint64) {
	sum = uint64(len(r.Keys)) << 8
	for i, key := range r.Keys {
		sum = request.Asked(sum, key, &r.Limits[i], r.Costs[i], false)
	}
	return sum
}

// Keys implements handler.Prepared.
func (a *together) Keys() [][]byte { return a.r.Keys }

// Keep implements handler.Prepared.
func (a *together) Keep() handler.Prepared {
	own := &together{r: a.r, hold: a.hold}
	r := &own.r
	r.Limits, r.Costs, r.Decisions = slices.Clone(r.Limits), slices.Clone(r.Costs), slices.Clone(r.Decisions)
	if r.Hold != nil {
		own.hold.ID = bytes.Clone(a.hold.ID)
		r.Hold = &own.hold
	}
	if r.Once != nil {
		own.once = a.once
		own.once.ID = bytes.Clone(a.once.ID)
		own.r.Once = &own.once
	}
	a.Free()
	return own
}

// Free implements handler.Prepared.
func (a *together) Free() {
	if a.pool != nil {
		a.r.Keys, a.hold.ID = nil, nil
		if a.r.Once != nil {
			a.r.Once, a.once.ID, a.room.Once.OnceID = nil, nil, nil
		}
		a.pool.Put(a)
	}
}

// Waits implements handler.Prepared.
func (a *together) Waits() int64 { return -1 }

// takeAll is RL.TAKEALL in a step.
func takeAll(c *call, t *txn) {
	a := c.Prepared.(*together)
	r := &a.r
	n := len(r.Keys)
	c.Worked(int64(n))
	c.Quorum = c.Quorum || r.Once != nil
	at, err := t.Together(r)
	if err != nil {
		if t.Note(err) != nil {
			c.Fail(takeAllError(t, err, at, r))
		}
		return
	}
	a.reply(c, at)
}

// Cross implements handler.Crosses.
func (a *together) Cross() (all []handler.Asked, text string) {
	switch {
	case a.r.Once != nil:
		text = handler.ErrOneSlot("ONCE")
	case a.r.Hold != nil:
		text = handler.ErrOneSlot("RL.HOLDALL")
	}
	return []handler.Asked{{Together: &a.r}}, text
}

// Crossed implements handler.Crosses.
func (a *together) Crossed(c *call, all []handler.Answered) {
	if of := &all[0]; of.Err != nil {
		c.Fail(takeAllError(c.Keyspace(), of.Err, of.At, &a.r))
		return
	}
	a.reply(c, all[0].At)
}

// reply replies with the decisions. at is the limit that denies, or -1.
func (a *together) reply(c *call, at int) {
	r := &a.r
	n := len(r.Keys)
	c.Array(2 + n)
	c.Bit(at >= 0)
	c.Int(int64(at))
	for i := range n {
		Millis(c, &r.Decisions[i])
	}
	if r.Once != nil && r.Once.Again || r.Hold != nil && r.Hold.Again {
		return
	}
	if (at >= 0 || c.Decisions != nil) && !c.Then(n*noteSize, a) && c.Decisions != nil {
		for range n {
			c.Decisions.Drop()
		}
	}
}

// Happen implements handler.Effect.
func (a *together) Happen(c *call) {
	r := &a.r
	for i, key := range r.Keys {
		tell(c, key, &r.Limits[i], r.Costs[i], denials.UsedUp, &r.Decisions[i], r.Hold)
	}
}

// takeAllError returns the reply for an error of the key or the limit at index at.
func takeAllError(keys handler.Keyspace, err error, at int, r *engine.Together) string {
	text := request.ErrorText(err)
	switch {
	case at < 0 || text == spec.ErrOOM:
		return text
	case err == engine.ErrDuplicate:
		return "ERR a key is given twice: " + resp.Quote(r.Keys[at])
	}
	return ErrorText(keys, err, r.Keys[at], r.Limits[at].Algorithm.Kind()) + ": " + resp.Quote(r.Keys[at])
}
