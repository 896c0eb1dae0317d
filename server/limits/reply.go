package limits

import (
	"errors"

	"limitdb/engine"
	"limitdb/internal/decisionlog"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/denials"
	"limitdb/server/handler"
	"limitdb/server/request"
)

// Millis replies with a decision: five integers, times in milliseconds rounded up.
func Millis(c *call, d *limit.Decision) {
	c.Array(5)
	FiveMillis(c, d)
}

// FiveMillis is Millis without the array around it.
func FiveMillis(c *call, d *limit.Decision) {
	five(c, d, limit.Milliseconds(d.Wait), limit.Milliseconds(d.Reset))
}

// seconds is Millis with times in whole seconds rounded up.
func seconds(c *call, d *limit.Decision) {
	c.Array(5)
	five(c, d, limit.Seconds(d.Wait), limit.Seconds(d.Reset))
}

// five appends the five integers of a decision.
func five(c *call, d *limit.Decision, wait, reset int64) {
	limited := int64(0)
	if d.Limited {
		limited = 1
	}
	b := resp.AppendInt(c.Out, limited)
	b = resp.AppendInt(b, d.Limit)
	b = resp.AppendInt(b, d.Remaining)
	b = resp.AppendInt(b, wait)
	c.Out = resp.AppendInt(b, reset)
}

// inPart replies with a decision and, with PARTIAL, the amount granted.
func inPart(c *call, d *limit.Decision, partial bool, granted int64) {
	if !partial {
		Millis(c, d)
		return
	}
	c.Array(6)
	FiveMillis(c, d)
	c.Int(granted)
}

// failed replies with an error of the engine on key, and reports whether there was one. wants is the kind of state that is needed.
func failed(c *call, keys handler.Keyspace, err error, key []byte, wants limit.Kind) bool {
	if err != nil {
		c.Fail(ErrorText(keys, err, key, wants))
	}
	return err != nil
}

// ErrorText is request.ErrorText for an error on key. For a wrong type, it names the kind of state that the key holds and
// the kind that wants needs.
func ErrorText(keys handler.Keyspace, err error, key []byte, wants limit.Kind) string {
	if !errors.Is(err, engine.ErrWrongType) {
		return request.ErrorText(err)
	}
	holds, ok := keys.Info(key)
	if !ok {
		return request.ErrorText(err) // it has gone meanwhile
	}
	return request.WrongType(holds.Kind, wants)
}

// noteSize is about how many bytes a decision takes until it is told of.
const noteSize = 256

// note has e tell of a decision once it is stored, if it is a denial or the log of decisions wants it. A step that takes too much memory for
// that is dropped from the log, which counts that.
func note(c *call, key []byte, d *limit.Decision, e handler.Effect) {
	logs := c.Decisions != nil && c.Decisions.Wants(key)
	if (d.Limited || logs) && !c.Then(noteSize, e) && logs {
		c.Decisions.Drop()
	}
}

// settlement tells of a hold that was settled.
type settlement decisionlog.Settlement

// Happen implements handler.Effect.
func (s *settlement) Happen(c *call) { c.Decisions.Settle((*decisionlog.Settlement)(s)) }

// NoteSettled has the log of decisions, if there is one, told of how the hold of a key was settled. rule is that of a caller, or "".
func NoteSettled(c *call, key, id []byte, cancels bool, rule string, s *engine.Settlement) {
	if told := settlementOf(c, key, id, cancels, rule, s); told != nil && !c.Then(noteSize, told) {
		c.Decisions.Drop()
	}
}

// settlementOf returns what NoteSettled tells of; nil for nothing.
func settlementOf(c *call, key, id []byte, cancels bool, rule string, s *engine.Settlement) *settlement {
	if c.Decisions == nil || s.Again || s.Limit.Algorithm == 0 || !c.Decisions.Wants(key) { // or nothing was held
		return nil
	}
	how := decisionlog.Committed
	if cancels {
		how = decisionlog.Cancelled
	}
	return &settlement{
		Time: c.Now, Key: key, ID: id, How: how, Estimate: s.Estimate, Actual: s.Actual, Charged: s.Charged, Over: s.Over, Rule: rule,
	}
}

// NoteGoneBack tells the log of decisions, unless it is nil, of an estimate that has gone back because its time was over.
func NoteGoneBack(log *decisionlog.Log, b *engine.GoneBack) {
	if log == nil || !log.Wants(b.Key) {
		return
	}
	s := decisionlog.Settlement{Time: b.Now, Key: b.Key, ID: b.ID, How: decisionlog.GoneBack, Estimate: b.Estimate, Charged: -b.Returned}
	if of, ok := rules.ParseKey(b.Key); ok {
		s.Rule = of.Namespace + "/" + of.Rule
	}
	log.Settle(&s)
}

// tell tells of a decision that is stored: it keeps a denial, and offers the decision to the log of decisions. h is how what was granted is
// held; nil if it is not.
func tell(c *call, key []byte, l *limit.Limit, cost int64, why denials.Why, d *limit.Decision, h *engine.Hold) {
	if d.Limited {
		c.Deny(key, d, &denials.Denial{Limit: *l, Cost: cost, Why: why})
	}
	if c.Decisions != nil && cost > 0 {
		log := decisionlog.Decision{Time: c.Now, Key: key, Cost: cost, Limited: d.Limited, Limit: d.Limit, Remaining: d.Remaining}
		if h != nil && h.TTL > 0 && !d.Limited {
			log.Held, log.Until, log.Returns = h.ID, c.Now+h.TTL, h.Returns
		}
		c.Decisions.Offer(&log)
	}
}
