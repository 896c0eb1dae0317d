package server

import (
	"errors"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/request"
	"limitdb/server/values"
)

// Limits and leases in a transaction or a script. Nobody waits there: a request with WAIT is
// decided at once.

// inTxn turns an error of a step into the reply to it; it is false if there is no error, or one
// that ends the transaction.
func (c *call) failedIn(t *values.Txn, err error, key []byte, wants limit.Kind) bool {
	if err = t.Note(err); err == nil {
		return t.Err != nil
	}
	text := request.ErrorText(err)
	if errors.Is(err, engine.ErrWrongType) {
		kind, _ := t.Get(key)
		text = request.WrongType(kind, wants)
	}
	c.FailState(text)
	return true
}

// decideIn carries out the plan of a command on one key.
func (c *call) decideIn(t *values.Txn) {
	p := new(request.Plan) // the transaction keeps the limit until it ends
	if text := c.cmd.plan(&c.srv.zones, c.Args, p); text != "" {
		c.Fail(text)
		return
	}
	key, kind := c.Args[1], p.Limit.Algorithm.Kind()
	var d limit.Decision
	granted, err := planIn(t, p, key, &d)
	if err == nil && (p.Op == request.Take || p.Op == request.Reserve) {
		c.logIn(t, key, p.Cost, &d)
	}
	switch {
	case err != nil && t.Note(err) != nil && p.Op == request.Reserve && err == limit.ErrReserve,
		err != nil && t.Note(err) != nil && p.Style == request.AsCell && !errors.Is(err, engine.ErrWrongType):
		c.Fail(c.planError(p, key, err))
	case c.failedIn(t, err, key, kind):
	case p.Given&request.OwnPartial != 0:
		c.decidedInPart(key, kind, &d, granted, nil)
	case p.Style == request.InMillis:
		c.decisionMillis(&d)
	default:
		c.decisionSeconds(&d)
	}
}

// logIn is log once the transaction is stored. A transaction that takes too much memory for that is dropped from the
// log, which counts that.
func (c *call) logIn(t *values.Txn, key []byte, cost int64, d *limit.Decision) {
	log := c.srv.decisions
	if log == nil || !log.Wants(key) {
		return
	}
	const size = 128 // bytes of the decision and the function
	if t.Held+size > messagesMost {
		log.Drop()
		return
	}
	t.Held += size
	own := *d
	t.After = append(t.After, func() { c.log(key, cost, &own) })
}

// planIn carries out the plan in a transaction. It returns how much was granted of a part.
func planIn(t *values.Txn, p *request.Plan, key []byte, d *limit.Decision) (granted int64, err error) {
	kind := p.Limit.Algorithm.Kind()
	switch p.Op {
	case request.Peek:
		return 0, t.Peek(key, &p.Limit, p.Cost, d)
	case request.Refund:
		return 0, t.Refund(key, &p.Limit, p.Cost, d)
	case request.Reserve:
		err := t.Step(key, kind, func(now int64, state, dst []byte) ([]byte, error) {
			return limit.Reserve(&p.Limit, state, now, p.Cost, p.MaxWait, dst, d)
		})
		return 0, err
	}
	if p.Given&request.OwnReplace != 0 {
		if held, _ := t.Get(key); held != 0 && !limit.SameFamily(held, kind) {
			if err := limit.Peek(&p.Limit, nil, t.Now(), partIn(t, p, key), d); err != nil || d.Limited {
				return 0, err
			}
			t.Remove(key)
		}
	}
	cost := partIn(t, p, key)
	if err = t.Take(key, &p.Limit, cost, d); err != nil || d.Limited {
		return 0, err
	}
	return cost, nil
}

// partIn returns how much to ask for: the cost or, with PARTIAL, as much of it as is available and
// at least 1.
func partIn(t *values.Txn, p *request.Plan, key []byte) int64 {
	if p.Given&request.OwnPartial == 0 || p.Cost <= 1 {
		return p.Cost
	}
	var there limit.Decision
	if t.Peek(key, &p.Limit, 0, &there) != nil {
		return p.Cost
	}
	return min(p.Cost, max(1, there.Remaining))
}

func (c *call) rlTakeAllIn(t *values.Txn) {
	n, text := request.NumKeys(c.Args[1:])
	if text != "" {
		c.Fail(text)
		return
	}
	keys, words := c.Args[2:2+n], c.Args[2+n:]
	all := new(request.Together) // the transaction keeps the limits until it ends
	if text := all.Parse(&c.srv.zones, n, words); text != "" {
		c.Fail(text)
		return
	}
	at, longest := -1, int64(-1)
	for i, key := range keys {
		for _, before := range keys[:i] {
			if string(before) == string(key) {
				c.Fail("ERR a key is given twice: " + resp.Quote(key))
				return
			}
		}
		d := &all.Decisions[i]
		if c.failedIn(t, t.Peek(key, &all.Limits[i], all.Costs[i], d), key, all.Limits[i].Algorithm.Kind()) {
			return
		}
		if wait := d.Wait; d.Limited {
			if wait == limit.Never {
				wait = 1<<63 - 1
			}
			if wait > longest {
				at, longest = i, wait
			}
		}
	}
	for i, key := range keys {
		d := &all.Decisions[i]
		switch {
		case at < 0:
			if c.failedIn(t, t.Decide(key, &all.Limits[i], all.Costs[i], d), key, all.Limits[i].Algorithm.Kind()) {
				return
			}
		case !d.Limited:
			_ = t.Note(t.Peek(key, &all.Limits[i], 0, d))
		}
	}
	c.Array(2 + n)
	c.Bit(at >= 0)
	c.Int(int64(at))
	for i := range n {
		c.logIn(t, keys[i], all.Costs[i], &all.Decisions[i])
		c.decisionMillis(&all.Decisions[i])
	}
}

func (c *call) rlInfoIn(t *values.Txn) {
	kind, state := t.Get(c.Args[1])
	if kind == 0 {
		c.Null()
		return
	}
	info := engine.Info{Kind: kind, Expires: limit.Expires(kind, state), Level: limit.Level(kind, state, t.Now()), Bytes: int64(len(c.Args[1]) + len(state))}
	c.keyInfo(&info)
}

func (c *call) rlLeaseIn(t *values.Txn) {
	var a request.LeaseArgs
	if text := request.ParseLease(c.Args[2:], &a); text != "" {
		c.Fail(text)
		return
	}
	var d limit.Decision
	err := t.Step(c.Args[1], limit.LEASE, func(now int64, state, dst []byte) ([]byte, error) {
		return limit.TakeLease(&a.Lease, state, now, dst, &d)
	})
	if !c.failedIn(t, err, c.Args[1], limit.LEASE) {
		c.decisionMillis(&d)
	}
}

func (c *call) rlRenewIn(t *values.Txn) {
	id, ok := c.idWord(c.Args[2:])
	if !ok {
		return
	}
	ttl, text := request.ParseTTL(c.Args[4])
	if text != "" {
		c.Fail(text)
		return
	}
	c.weightIn(t, func(now int64, state, dst []byte) ([]byte, int64, error) {
		return limit.RenewLease(id, ttl, state, now, dst)
	})
}

func (c *call) rlReleaseIn(t *values.Txn) {
	if id, ok := c.idWord(c.Args[2:]); ok {
		c.weightIn(t, func(now int64, state, dst []byte) ([]byte, int64, error) {
			return limit.ReleaseLease(id, state, now, dst)
		})
	}
}

// weightIn runs a step on a lease and replies with its weight.
func (c *call) weightIn(t *values.Txn, step func(now int64, state, dst []byte) ([]byte, int64, error)) {
	weight := int64(0)
	err := t.Step(c.Args[1], limit.LEASE, func(now int64, state, dst []byte) (next []byte, err error) {
		next, weight, err = step(now, state, dst)
		return next, err
	})
	if !c.failedIn(t, err, c.Args[1], limit.LEASE) {
		c.Int(weight)
	}
}

func (c *call) rlHoldersIn(t *values.Txn) {
	kind, state := t.Get(c.Args[1])
	if kind != 0 && kind != limit.LEASE {
		c.FailState(request.WrongType(kind, limit.LEASE))
		return
	}
	var found []byte
	n := 0
	for h := range limit.Holders(state, t.Now()) {
		found = resp.AppendArray(found, 3)
		found = resp.AppendBulk(found, h.ID)
		found = resp.AppendInt(found, h.Weight)
		found = resp.AppendInt(found, limit.Milliseconds(h.End-c.Now))
		n++
	}
	c.Array(n)
	c.Out = append(c.Out, found...)
}
