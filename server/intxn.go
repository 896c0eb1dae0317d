package server

import (
	"errors"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/resp"
)

// Limits and leases in a transaction or a script. Nobody waits there: a request with WAIT is
// decided at once.

// inTxn turns an error of a step into the reply to it; it is false if there is no error, or one
// that ends the transaction.
func (c *call) failedIn(t *txn, err error, key []byte, wants limit.Kind) bool {
	if err = t.note(err); err == nil {
		return t.err != nil
	}
	text := limitError(err)
	if errors.Is(err, engine.ErrWrongType) {
		kind, _ := t.get(key)
		text = wrongType(kind, wants)
	}
	c.failState(text)
	return true
}

// decideIn carries out the plan of a command on one key.
func (c *call) decideIn(t *txn) {
	p := new(plan) // the transaction keeps the limit until it ends
	if text := c.cmd.plan(c.srv, c.args, p); text != "" {
		c.fail(text)
		return
	}
	key, kind := c.args[1], p.limit.Algorithm.Kind()
	var d limit.Decision
	granted, err := p.in(t, key, &d)
	if err == nil && (p.op == opTake || p.op == opReserve) {
		c.logIn(t, key, p.cost, &d)
	}
	switch {
	case err != nil && t.note(err) != nil && p.op == opReserve && err == limit.ErrReserve,
		err != nil && t.note(err) != nil && p.style == asCell && !errors.Is(err, engine.ErrWrongType):
		c.fail(c.planError(p, key, err))
	case c.failedIn(t, err, key, kind):
	case p.given&ownPartial != 0:
		c.decidedInPart(key, kind, &d, granted, nil)
	case p.style == inMillis:
		c.decisionMillis(&d)
	default:
		c.decisionSeconds(&d)
	}
}

// logIn is log once the transaction is stored. A transaction that takes too much memory for that is dropped from the
// log, which counts that.
func (c *call) logIn(t *txn, key []byte, cost int64, d *limit.Decision) {
	log := c.srv.decisions
	if log == nil || !log.Wants(key) {
		return
	}
	const size = 128 // bytes of the decision and the function
	if t.held+size > messagesMost {
		log.Drop()
		return
	}
	t.held += size
	own := *d
	t.after = append(t.after, func() { c.log(key, cost, &own) })
}

// in carries out the plan in a transaction. It returns how much was granted of a part.
func (p *plan) in(t *txn, key []byte, d *limit.Decision) (granted int64, err error) {
	kind := p.limit.Algorithm.Kind()
	switch p.op {
	case opPeek:
		return 0, t.Peek(key, &p.limit, p.cost, d)
	case opRefund:
		return 0, t.Refund(key, &p.limit, p.cost, d)
	case opReserve:
		err := t.Step(key, kind, func(now int64, state, dst []byte) ([]byte, error) {
			return limit.Reserve(&p.limit, state, now, p.cost, p.maxWait, dst, d)
		})
		return 0, err
	}
	if p.given&ownReplace != 0 {
		if held, _ := t.get(key); held != 0 && !limit.SameFamily(held, kind) {
			if err := limit.Peek(&p.limit, nil, t.Now(), p.part(t, key), d); err != nil || d.Limited {
				return 0, err
			}
			t.remove(key)
		}
	}
	cost := p.part(t, key)
	if err = t.Decide(key, &p.limit, cost, d); err != nil || d.Limited {
		return 0, err
	}
	return cost, nil
}

// part returns how much to ask for: the cost or, with PARTIAL, as much of it as is available and
// at least 1.
func (p *plan) part(t *txn, key []byte) int64 {
	if p.given&ownPartial == 0 || p.cost <= 1 {
		return p.cost
	}
	var there limit.Decision
	if t.Peek(key, &p.limit, 0, &there) != nil {
		return p.cost
	}
	return min(p.cost, max(1, there.Remaining))
}

func (c *call) rlTakeAllIn(t *txn) {
	n, text := numKeys(c.args[1:])
	if text != "" {
		c.fail(text)
		return
	}
	keys, words := c.args[2:2+n], c.args[2+n:]
	all := new(together) // the transaction keeps the limits until it ends
	if text := all.parse(&c.srv.zones, n, words); text != "" {
		c.fail(text)
		return
	}
	at, longest := -1, int64(-1)
	for i, key := range keys {
		for _, before := range keys[:i] {
			if string(before) == string(key) {
				c.fail("ERR a key is given twice: " + quoted(key))
				return
			}
		}
		d := &all.ds[i]
		if c.failedIn(t, t.Peek(key, &all.limits[i], all.costs[i], d), key, all.limits[i].Algorithm.Kind()) {
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
		d := &all.ds[i]
		switch {
		case at < 0:
			if c.failedIn(t, t.Decide(key, &all.limits[i], all.costs[i], d), key, all.limits[i].Algorithm.Kind()) {
				return
			}
		case !d.Limited:
			_ = t.note(t.Peek(key, &all.limits[i], 0, d))
		}
	}
	c.array(2 + n)
	c.yes(at >= 0)
	c.int(int64(at))
	for i := range n {
		c.logIn(t, keys[i], all.costs[i], &all.ds[i])
		c.decisionMillis(&all.ds[i])
	}
}

func (c *call) rlInfoIn(t *txn) {
	kind, state := t.get(c.args[1])
	if kind == 0 {
		c.null()
		return
	}
	info := engine.Info{Kind: kind, Expires: limit.Expires(kind, state), Level: limit.Level(kind, state, t.Now()), Bytes: int64(len(c.args[1]) + len(state))}
	c.keyInfo(&info)
}

func (c *call) rlLeaseIn(t *txn) {
	var a leaseArgs
	if text := parseLease(c.args[2:], &a); text != "" {
		c.fail(text)
		return
	}
	var d limit.Decision
	err := t.Step(c.args[1], limit.LEASE, func(now int64, state, dst []byte) ([]byte, error) {
		return limit.TakeLease(&a.Lease, state, now, dst, &d)
	})
	if !c.failedIn(t, err, c.args[1], limit.LEASE) {
		c.decisionMillis(&d)
	}
}

func (c *call) rlRenewIn(t *txn) {
	id, ok := c.idWord(c.args[2:])
	if !ok {
		return
	}
	ttl, text := parseTTL(c.args[4])
	if text != "" {
		c.fail(text)
		return
	}
	c.weightIn(t, func(now int64, state, dst []byte) ([]byte, int64, error) {
		return limit.RenewLease(id, ttl, state, now, dst)
	})
}

func (c *call) rlReleaseIn(t *txn) {
	if id, ok := c.idWord(c.args[2:]); ok {
		c.weightIn(t, func(now int64, state, dst []byte) ([]byte, int64, error) {
			return limit.ReleaseLease(id, state, now, dst)
		})
	}
}

// weightIn runs a step on a lease and replies with its weight.
func (c *call) weightIn(t *txn, step func(now int64, state, dst []byte) ([]byte, int64, error)) {
	weight := int64(0)
	err := t.Step(c.args[1], limit.LEASE, func(now int64, state, dst []byte) (next []byte, err error) {
		next, weight, err = step(now, state, dst)
		return next, err
	})
	if !c.failedIn(t, err, c.args[1], limit.LEASE) {
		c.int(weight)
	}
}

func (c *call) rlHoldersIn(t *txn) {
	kind, state := t.get(c.args[1])
	if kind != 0 && kind != limit.LEASE {
		c.failState(wrongType(kind, limit.LEASE))
		return
	}
	var found []byte
	n := 0
	for h := range limit.Holders(state, t.Now()) {
		found = resp.AppendArray(found, 3)
		found = resp.AppendBulk(found, h.ID)
		found = resp.AppendInt(found, h.Weight)
		found = resp.AppendInt(found, limit.Milliseconds(h.End-c.now))
		n++
	}
	c.array(n)
	c.out = append(c.out, found...)
}
