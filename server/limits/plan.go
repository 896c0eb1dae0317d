package limits

import (
	"bytes"
	"errors"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/server/handler"
	"limitdb/server/request"
)

// CarryOut carries a plan out on key, and replies.
func CarryOut(c *call, p *request.Plan, key []byte) {
	if p.Given&(request.OwnWait|request.OwnPartial|request.OwnReplace) != 0 {
		take(c, p, key)
		return
	}
	var d limit.Decision
	var err error
	switch p.Op {
	case request.Take:
		err = c.Engine.Load().TakeAt(c.Place, c.Now, key, &p.Limit, p.Cost, &d)
	case request.Peek:
		err = c.Engine.Load().Peek(c.Now, key, &p.Limit, p.Cost, &d)
	case request.Refund:
		err = c.Engine.Load().Refund(c.Now, key, &p.Limit, p.Cost, &d)
	case request.Reserve:
		err = c.Engine.Load().Reserve(c.Now, key, &p.Limit, p.Cost, p.MaxWait, &d)
	}
	if c.Decisions != nil && err == nil && (p.Op == request.Take || p.Op == request.Reserve) {
		offer(c, key, p.Cost, &d)
	}
	switch {
	case err != nil:
		c.Fail(planError(c, nil, p, key, err))
	case p.Style == request.InMillis:
		Millis(c, &d)
	default:
		seconds(c, &d)
	}
}

// take is CarryOut for a take that may wait, take a part, or replace the key's state.
func take(c *call, p *request.Plan, key []byte) {
	r := p.Request()
	if p.Given&request.OwnWait != 0 {
		wait(c, key, r, p.MaxWait)
		return
	}
	var d limit.Decision
	granted, err := c.States().TakeFor(c.Now, key, &r, &d)
	if failed(c, nil, err, key, p.Limit.Algorithm.Kind()) {
		return
	}
	offer(c, key, p.Cost, &d)
	inPart(c, &d, r.Partial, granted)
}

// wait asks the engine for r, and replies when it is decided, after at most most nanoseconds.
func wait(c *call, key []byte, r engine.Request, most int64) {
	w := &engine.Waiter{Request: r}
	wants := r.Limit.Algorithm.Kind()
	var logged []byte
	if r.Lease != nil {
		wants = limit.LEASE
	} else if c.Decisions != nil && c.Decisions.Wants(key) {
		logged = bytes.Clone(key)
	}
	c.Ask(key, w, most, func(key []byte) {
		d, granted, err := w.Result()
		if failed(c, nil, err, key, wants) {
			return
		}
		if logged != nil {
			offer(c, logged, w.Cost, &d)
		}
		inPart(c, &d, w.Partial, granted)
	})
}

// planError returns the reply for an error of the engine or of a transaction, if t is not nil.
func planError(c *call, t *txn, p *request.Plan, key []byte, err error) string {
	switch {
	case p.Op == request.Reserve && err == limit.ErrReserve:
		return "ERR " + p.Limit.Algorithm.String() + " does not reserve: " + err.Error()
	case p.Style == request.AsCell && !errors.Is(err, engine.ErrWrongType) && !errors.Is(err, engine.ErrOOM): // these have the server's texts
		return request.CellError(err)
	}
	return errorText(c, t, err, key, p.Limit.Algorithm.Kind())
}

// decideIn carries out the plan of a command on one key in a transaction or a script. Nobody waits there: a request with
// WAIT is decided at once.
func decideIn(c *call, t *txn, plan handler.Plan) {
	p := new(request.Plan) // the transaction keeps the limit until it ends
	if text := plan(&c.Zones, c.Args, p); text != "" {
		c.Fail(text)
		return
	}
	key := c.Args[1]
	var d limit.Decision
	granted, err := planIn(t, p, key, &d)
	if err != nil {
		if err = t.Note(err); err != nil {
			c.Fail(planError(c, t, p, key, err))
		}
		return
	}
	if p.Op == request.Take || p.Op == request.Reserve {
		log(c, t, key, p.Cost, &d)
	}
	if p.Style != request.InMillis {
		seconds(c, &d)
		return
	}
	inPart(c, &d, p.Given&request.OwnPartial != 0, granted)
}

// planIn carries out the plan in a transaction. It returns how much was granted of a part.
func planIn(t *txn, p *request.Plan, key []byte, d *limit.Decision) (granted int64, err error) {
	switch p.Op {
	case request.Peek:
		return 0, counted(t, engine.Peeked, t.Peek(key, &p.Limit, p.Cost, d))
	case request.Refund:
		return 0, counted(t, engine.Refunded, t.Refund(key, &p.Limit, p.Cost, d))
	case request.Reserve:
		return 0, t.Reserve(key, &p.Limit, p.Cost, p.MaxWait, d)
	}
	r := p.Request()
	return t.Take(key, &r, d)
}

// counted counts a request in a transaction, unless it has an error, and returns that.
func counted(t *txn, o engine.Outcome, err error) error {
	if err == nil {
		t.Count(o)
	}
	return err
}
