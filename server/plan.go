package server

import (
	"errors"

	"limitdb/engine"
	"limitdb/internal/decisionlog"
	"limitdb/limit"
	"limitdb/resp"
)

// A plan is a command on one key with all its arguments but the key parsed. It depends only
// on those, so one plan serves the same command on other keys.
type plan struct {
	limitArgs
	op    planOp
	style planStyle
}

// planOp is the operation of a plan.
type planOp uint8

const (
	opTake planOp = iota
	opPeek
	opRefund
	opReserve
)

// planStyle is the form of a plan's reply.
type planStyle uint8

const (
	inMillis  planStyle = iota
	inSeconds           // as Redis' GCRA
	asCell              // in seconds, with redis-cell's errors
)

// planned replies with text if it is an error. Otherwise it carries the plan out on the
// command's key.
func (c *call) planned(text string, p *plan) {
	if text != "" {
		c.Fail(text)
		return
	}
	c.carryOut(p, c.Args[1])
}

// carryOut carries a plan out on key, and replies.
func (c *call) carryOut(p *plan, key []byte) {
	if p.given&(ownWait|ownPartial|ownReplace) != 0 {
		c.carryOutTake(p, key)
		return
	}
	var d limit.Decision
	var err error
	switch p.op {
	case opTake:
		err = c.srv.states().TakeAt(c.place, c.Now, key, &p.limit, p.cost, &d)
	case opPeek:
		err = c.srv.states().Peek(c.Now, key, &p.limit, p.cost, &d)
	case opRefund:
		err = c.srv.states().Refund(c.Now, key, &p.limit, p.cost, &d)
	case opReserve:
		err = c.srv.states().Reserve(c.Now, key, &p.limit, p.cost, p.maxWait, &d)
	}
	if c.srv.decisions != nil && err == nil && (p.op == opTake || p.op == opReserve) {
		c.log(key, p.cost, &d)
	}
	switch {
	case err != nil:
		c.Fail(c.planError(p, key, err))
	case p.style == inMillis:
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

// request returns the engine's request for a.
func (a *limitArgs) request() engine.Request {
	return engine.Request{
		Limit: a.limit, Cost: a.cost, Partial: a.given&ownPartial != 0, Replace: a.given&ownReplace != 0,
	}
}

// carryOutTake is carryOut for a take that may wait, take a part, or replace the key's state.
func (c *call) carryOutTake(p *plan, key []byte) {
	r := p.request()
	var d limit.Decision
	if p.given&ownWait != 0 {
		c.askFor(key, &waiting{Waiter: engine.Waiter{Request: r}}, p.maxWait)
		return
	}
	granted, err := c.srv.states().TakeFor(c.Now, key, &r, &d)
	if c.srv.decisions != nil && err == nil {
		c.log(key, p.cost, &d)
	}
	if r.Partial {
		c.decidedInPart(key, p.limit.Algorithm.Kind(), &d, granted, err)
	} else {
		c.decided(key, p.limit.Algorithm.Kind(), &d, err)
	}
}

// planError returns the reply for an error of the engine.
func (c *call) planError(p *plan, key []byte, err error) string {
	switch {
	case p.op == opReserve && err == limit.ErrReserve:
		return "ERR " + p.limit.Algorithm.String() + " does not reserve: " + err.Error()
	case p.style == asCell && !errors.Is(err, engine.ErrWrongType) && !errors.Is(err, engine.ErrOOM): // these have the server's texts
		return cellError(err)
	}
	return c.limitErrorOf(err, key, p.limit.Algorithm.Kind())
}

// remembered is the last command that had a plan. Most clients repeat one command for different
// keys. The session recognizes it by its bytes, and does not split or parse it again. A plan
// depends on nothing but these bytes, so no setting makes it out of date. Whether the client may
// run the command is checked before.
type remembered struct {
	shape resp.Shape
	cmd   *command
	plan  plan

	missed uint8 // commands in a row that were others
}

// worth reports whether to remember another command instead. Remembering costs a little, so a
// command that only comes in between is not remembered, and of a client that repeats no command
// only a few are.
func (m *remembered) worth() bool { return m.missed == 2 || m.missed == 3 || m.missed%32 == 0 }
