package server

import (
	"errors"

	"limitdb/engine"
	"limitdb/internal/decisionlog"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/request"
)

// planned replies with text if it is an error. Otherwise it carries the plan out on the
// command's key.
func (c *call) planned(text string, p *request.Plan) {
	if text != "" {
		c.Fail(text)
		return
	}
	c.carryOut(p, c.Args[1])
}

// carryOut carries a plan out on key, and replies.
func (c *call) carryOut(p *request.Plan, key []byte) {
	if p.Given&(request.OwnWait|request.OwnPartial|request.OwnReplace) != 0 {
		c.carryOutTake(p, key)
		return
	}
	var d limit.Decision
	var err error
	switch p.Op {
	case request.Take:
		err = c.srv.states().TakeAt(c.place, c.Now, key, &p.Limit, p.Cost, &d)
	case request.Peek:
		err = c.srv.states().Peek(c.Now, key, &p.Limit, p.Cost, &d)
	case request.Refund:
		err = c.srv.states().Refund(c.Now, key, &p.Limit, p.Cost, &d)
	case request.Reserve:
		err = c.srv.states().Reserve(c.Now, key, &p.Limit, p.Cost, p.MaxWait, &d)
	}
	if c.srv.decisions != nil && err == nil && (p.Op == request.Take || p.Op == request.Reserve) {
		c.log(key, p.Cost, &d)
	}
	switch {
	case err != nil:
		c.Fail(c.planError(p, key, err))
	case p.Style == request.InMillis:
		c.decisionMillis(&d)
	default:
		c.decisionSeconds(&d)
	}
}

// log offers a decision to the log of decisions.
func (c *call) log(key []byte, cost int64, d *limit.Decision) {
	if cost > 0 {
		c.srv.decisions.Offer(&decisionlog.Decision{Time: c.Now, Key: key, Cost: cost, Limited: d.Limited, Limit: d.Limit, Remaining: d.Remaining})
	}
}

// carryOutTake is carryOut for a take that may wait, take a part, or replace the key's state.
func (c *call) carryOutTake(p *request.Plan, key []byte) {
	r := p.Request()
	var d limit.Decision
	if p.Given&request.OwnWait != 0 {
		c.askFor(key, &waiting{Waiter: engine.Waiter{Request: r}}, p.MaxWait)
		return
	}
	granted, err := c.srv.states().TakeFor(c.Now, key, &r, &d)
	if c.srv.decisions != nil && err == nil {
		c.log(key, p.Cost, &d)
	}
	if r.Partial {
		c.decidedInPart(key, p.Limit.Algorithm.Kind(), &d, granted, err)
	} else {
		c.decided(key, p.Limit.Algorithm.Kind(), &d, err)
	}
}

// planError returns the reply for an error of the engine.
func (c *call) planError(p *request.Plan, key []byte, err error) string {
	switch {
	case p.Op == request.Reserve && err == limit.ErrReserve:
		return "ERR " + p.Limit.Algorithm.String() + " does not reserve: " + err.Error()
	case p.Style == request.AsCell && !errors.Is(err, engine.ErrWrongType) && !errors.Is(err, engine.ErrOOM): // these have the server's texts
		return request.CellError(err)
	}
	return c.limitErrorOf(err, key, p.Limit.Algorithm.Kind())
}

// remembered is the last command that had a plan. Most clients repeat one command for different
// keys. The session recognizes it by its bytes, and does not split or parse it again. A plan
// depends on nothing but these bytes, so no setting makes it out of date. Whether the client may
// run the command is checked before.
type remembered struct {
	shape resp.Shape
	cmd   *command
	plan  request.Plan

	missed uint8 // commands in a row that were others
}

// worth reports whether to remember another command instead. Remembering costs a little, so a
// command that only comes in between is not remembered, and of a client that repeats no command
// only a few are.
func (m *remembered) worth() bool { return m.missed == 2 || m.missed == 3 || m.missed%32 == 0 }
