package limits

import (
	"errors"

	"limitdb/engine"
	"limitdb/internal/decisionlog"
	"limitdb/limit"
	"limitdb/resp"
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

// failed replies with an error of a step on key, and reports whether there was one, or one that ends the transaction t.
// wants is the kind of state that the step needs. t is nil outside of a transaction.
func failed(c *call, t *txn, err error, key []byte, wants limit.Kind) bool {
	if t != nil {
		if err = t.Note(err); err == nil {
			return t.Err != nil
		}
	}
	if err != nil {
		c.Fail(errorText(c, t, err, key, wants))
	}
	return err != nil
}

// errorText is request.ErrorText for an error on key. For a wrong type, it names the kind of state that the key holds and
// the kind that wants needs.
func errorText(c *call, t *txn, err error, key []byte, wants limit.Kind) string {
	if !errors.Is(err, engine.ErrWrongType) {
		return request.ErrorText(err)
	}
	var holds limit.Kind
	if t != nil {
		holds, _ = t.Get(key)
	} else if info, ok := c.States().Info(c.Now, key); ok {
		holds = info.Kind
	}
	if holds == 0 {
		return request.ErrorText(err) // it has gone meanwhile
	}
	return request.WrongType(holds, wants)
}

// log offers a decision to the log of decisions. In a transaction, it does so once that is stored; a transaction that
// takes too much memory for that is dropped from the log, which counts that.
func log(c *call, t *txn, key []byte, cost int64, d *limit.Decision) {
	to := c.Decisions
	if to == nil || t == nil {
		offer(c, key, cost, d)
		return
	}
	if !to.Wants(key) {
		return
	}
	const size = 128 // bytes of the decision and the function
	own := *d
	if !t.Then(size, func() { offer(c, key, cost, &own) }) {
		to.Drop()
	}
}

func offer(c *call, key []byte, cost int64, d *limit.Decision) {
	if c.Decisions != nil && cost > 0 {
		c.Decisions.Offer(&decisionlog.Decision{Time: c.Now, Key: key, Cost: cost, Limited: d.Limited, Limit: d.Limit, Remaining: d.Remaining})
	}
}
