package limits

import (
	"bytes"
	"errors"
	"sync"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/server/denials"
	"limitdb/server/handler"
	"limitdb/server/request"
)

// Take is the fast way of a plan that only takes: RL.TAKE and its like without options, in a pipeline, and of holds and ids. decide does the
// same in a step. It reports whether it has replied.
func Take(c *call, p *request.Plan, key []byte) bool {
	if p.Op != request.Take || p.Given&(request.OwnWait|request.OwnPartial|request.OwnReplace|request.OwnOnce) != 0 {
		return p.Given&(request.OwnWait|request.OwnPartial|request.OwnReplace) == 0 && takeHeld(c, p, key)
	}
	var d limit.Decision
	switch err := c.Group.Engine.Load().TakeAt(c.Place, c.Now, key, &p.Limit, p.Cost, &d); {
	case err != nil:
		c.Fail(planError(c.Keyspace(), p, key, err))
		return true
	case p.Style == request.InMillis:
		Millis(c, &d)
	default:
		seconds(c, &d)
	}
	if d.Limited || c.Decisions != nil {
		tell(c, key, &p.Limit, p.Cost, denials.UsedUp, &d, nil)
	}
	return true
}

// takeHeld is Take for a plan that holds, settles, or counts once.
func takeHeld(c *call, p *request.Plan, key []byte) bool {
	switch {
	case p.Settles():
		settleNow(c, p, key)
	case p.Op == request.Hold:
		if text := checkPlan(c, p); text != "" {
			c.Fail(text)
			return true
		}
		h := engine.Hold{ID: p.OnceID, TTL: p.OnceFor, Returns: p.Given&request.OwnReturn != 0}
		var d limit.Decision
		if err := c.Group.Engine.Load().HoldAt(c.Place, c.Now, key, &p.Limit, p.Cost, &h, &d); err != nil {
			c.Fail(planError(c.Keyspace(), p, key, err))
			return true
		}
		Millis(c, &d)
		if d.Limited || c.Decisions != nil && !h.Again {
			tell(c, key, &p.Limit, p.Cost, denials.UsedUp, &d, &h)
		}
	case p.Op == request.Take && p.Given&request.OwnOnce != 0:
		var once engine.Once
		h := engine.Hold{Once: p.Once(&once, p.Asked())}
		var d limit.Decision
		c.Quorum = true
		if err := c.Group.Engine.Load().HoldAt(c.Place, c.Now, key, &p.Limit, p.Cost, &h, &d); err != nil {
			c.Fail(planError(c.Keyspace(), p, key, err))
			return true
		}
		if p.Style == request.InMillis {
			Millis(c, &d)
		} else {
			seconds(c, &d)
		}
		if !once.Again && (d.Limited || c.Decisions != nil) {
			tell(c, key, &p.Limit, p.Cost, denials.UsedUp, &d, nil)
		}
	default:
		return false
	}
	return true
}

// settleNow is takeHeld for a plan that settles.
func settleNow(c *call, p *request.Plan, key []byte) {
	var s engine.Settlement
	var err error
	if e := c.Group.Engine.Load(); p.Op == request.Commit {
		err = e.SettleAt(c.Place, c.Now, key, p.OnceID, p.Cost, &s)
	} else {
		err = e.GiveUpAt(c.Place, c.Now, key, p.OnceID, &s)
	}
	if replySettled(c, p, c.Keyspace(), key, &s, err); err != nil || c.Decisions == nil {
		return
	}
	if told := settlementOf(c, key, p.OnceID, p.Op == request.Cancel, "", &s); told != nil {
		told.Happen(c)
	}
}

// replySettled replies to a plan that settles, with how the hold was settled or with the error.
func replySettled(c *call, p *request.Plan, keys handler.Keyspace, key []byte, s *engine.Settlement, err error) {
	switch {
	case err != nil:
		c.Fail(ErrorText(keys, err, key, s.Limit.Algorithm.Kind()))
	case p.Op == request.Commit:
		c.Array(5)
		FiveSettled(c, s)
	default:
		c.Int(max(0, -s.Charged))
	}
}

// planned is a plan for a key.
type planned struct {
	request.Plan
	key     [1][]byte
	from    *sync.Pool
	d       limit.Decision // to tell of
	once    engine.Once
	hold    engine.Hold // that has it, or of RL.HOLD
	settled engine.Settlement
}

// holds returns how a plan is held, or counts once; nil if it does not.
func (o *planned) holds(p *request.Plan) *engine.Hold {
	switch {
	case p.Given&request.OwnOnce != 0:
		o.hold.Once = p.Once(&o.once, p.Asked())
	case p.Op == request.Hold:
		o.hold.ID, o.hold.TTL, o.hold.Returns, o.hold.Once = p.OnceID, p.OnceFor, p.Given&request.OwnReturn != 0, nil
	default:
		return nil
	}
	return &o.hold
}

// heldAs returns how what a plan has been granted is held; nil if it is not.
func (o *planned) heldAs(p *request.Plan) *engine.Hold {
	if p.Op != request.Hold {
		return nil
	}
	return &o.hold
}

// checkPlan returns the text of the error if a setting forbids a plan, or "".
func checkPlan(c *call, p *request.Plan) (text string) {
	if p.Op == request.Hold {
		return request.CheckTTL(p.OnceFor, int64(c.Settings.HoldMaxTTL.Get()))
	}
	return ""
}

// Planned returns a plan for a key.
func Planned(c *call, p *request.Plan, key []byte) handler.Prepared {
	own := room(c, key)
	own.Plan = *p
	return own
}

func room(c *call, key []byte) *planned {
	p, ok := c.Plans.Get().(*planned)
	if !ok {
		p = new(planned)
	}
	p.from, p.key[0] = &c.Plans, key
	return p
}

// prepare returns the Row.Prepare of a command that has a plan.
func prepare(plan handler.Plan) func(c *call) (handler.Prepared, string) {
	return func(c *call) (handler.Prepared, string) {
		p := room(c, c.Args[1])
		text := plan(&c.Zones, c.Args, &p.Plan)
		if text == "" {
			text = checkPlan(c, &p.Plan)
		}
		if text != "" {
			p.Free()
			return nil, text
		}
		return p, ""
	}
}

// Keys implements handler.Prepared.
func (p *planned) Keys() [][]byte { return p.key[:] }

// Keep implements handler.Prepared. The engine copies the key of a request that waits, and reads the id again when it is granted.
func (p *planned) Keep() handler.Prepared {
	if p.OnceID != nil {
		p.OnceID = bytes.Clone(p.OnceID)
	}
	return p
}

// Free implements handler.Prepared.
func (p *planned) Free() {
	if p.key[0] = nil; p.OnceID != nil {
		p.OnceID, p.once.ID, p.hold.ID = nil, nil, nil
	}
	p.from.Put(p)
}

// Waits implements handler.Prepared.
func (p *planned) Waits() int64 {
	if p.Given&request.OwnWait == 0 {
		return -1
	}
	return p.MaxWait
}

// Ask implements handler.Asks.
func (p *planned) Ask() (key []byte, w *engine.Waiter) {
	return p.key[0], &engine.Waiter{Request: p.request()}
}

// request returns the engine's request.
func (p *planned) request() engine.Request {
	r := p.Request()
	r.Hold = p.holds(&p.Plan)
	return r
}

// Size implements handler.Asks.
func (p *planned) Size() int64 { return 0 }

// Told implements handler.Asks.
func (p *planned) Told(c *call, key []byte, w *engine.Waiter) {
	d, granted, err := w.Result()
	p.tell(c, c.Keyspace(), key, &d, granted, err)
}

// decide carries out a plan in a step.
func decide(c *call, t *txn) {
	p := c.Prepared.(*planned)
	var d limit.Decision
	granted, err := p.in(t, &d)
	if err = t.Note(err); t.Err == nil {
		p.tell(c, t, p.key[0], &d, granted, err)
	}
}

// in carries out the plan in a step. It returns how much was granted of a part.
func (p *planned) in(t *txn, d *limit.Decision) (granted int64, err error) {
	switch key := p.key[0]; p.Op {
	case request.Peek:
		return 0, counted(t, engine.Peeked, t.Peek(key, &p.Limit, p.Cost, d))
	case request.Refund:
		return 0, counted(t, engine.Refunded, t.Refund(key, &p.Limit, p.Cost, d))
	case request.Reserve:
		if h := p.holds(&p.Plan); h != nil {
			return 0, engine.ReserveOnce(t.Txn, key, h.Once, &p.Limit, p.Cost, p.MaxWait, d)
		}
		return 0, t.Reserve(key, &p.Limit, p.Cost, p.MaxWait, d)
	case request.Commit:
		return 0, engine.Settle(t.Txn, key, p.OnceID, p.Cost, &p.settled)
	case request.Cancel:
		return 0, engine.GiveUp(t.Txn, key, p.OnceID, &p.settled)
	default:
		r := p.request()
		return t.Take(key, &r, d)
	}
}

// counted counts a request in a step, unless it has an error, and returns that.
func counted(t *txn, o engine.Outcome, err error) error {
	if err == nil {
		t.Count(o)
	}
	return err
}

// tell replies with the decision on the key, or with the error, and notes what is to be told of it.
func (p *planned) tell(c *call, keys handler.Keyspace, key []byte, d *limit.Decision, granted int64, err error) {
	if err == nil && p.tells(&p.Plan) {
		p.key[0], p.d = key, *d // which may be a copy that the engine has made
		note(c, key, d, p)
	}
	if err == nil && p.Settles() {
		NoteSettled(c, key, p.OnceID, p.Op == request.Cancel, "", &p.settled)
	}
	p.reply(c, &p.Plan, keys, key, d, granted, err)
}

// tells reports whether the decision on a plan is told of: unless it was made before.
func (o *planned) tells(p *request.Plan) bool {
	switch {
	case p.Given&request.OwnOnce != 0 && o.once.Again, p.Op == request.Hold && o.hold.Again:
		return false
	}
	return p.Op == request.Take || p.Op == request.Hold || p.Op == request.Reserve
}

// reply replies to a plan with the decision on the key, or with the error.
func (o *planned) reply(c *call, p *request.Plan, keys handler.Keyspace, key []byte, d *limit.Decision, granted int64, err error) {
	if p.Settles() {
		replySettled(c, p, keys, key, &o.settled, err)
		return
	}
	c.Quorum = c.Quorum || p.Given&request.OwnOnce != 0
	if err != nil {
		c.Fail(planError(keys, p, key, err))
		return
	}
	switch {
	case p.Style != request.InMillis:
		seconds(c, d)
	default:
		inPart(c, d, p.Given&request.OwnPartial != 0, granted)
	}
}

// Happen implements handler.Effect.
func (p *planned) Happen(c *call) {
	why := denials.UsedUp
	if p.Op == request.Reserve && p.MaxWait >= 0 {
		why = denials.TooLate
	}
	tell(c, p.key[0], &p.Limit, p.Cost, why, &p.d, p.heldAs(&p.Plan))
}

// planError returns the reply for an error of the engine.
func planError(keys handler.Keyspace, p *request.Plan, key []byte, err error) string {
	switch {
	case p.Op == request.Reserve && err == limit.ErrReserve:
		return "ERR " + p.Limit.Algorithm.String() + " does not reserve: " + err.Error()
	case p.Style == request.AsCell && !errors.Is(err, engine.ErrWrongType) && !errors.Is(err, engine.ErrOOM): // these have the server's texts
		return request.CellError(err)
	}
	return ErrorText(keys, err, key, p.Limit.Algorithm.Kind())
}
