package rulebook

import (
	"limitdb/engine"
	"limitdb/limit"
)

// A check in a transaction or a script. Its keys come from the rules, not from its words. EXEC resolves its checks
// before it locks their shards. A script that checks locks all of them.

// resolved is a check whose rules have been found.
type resolved struct {
	check
	text string // the reply, if it cannot be decided
}

// resolve finds the rules of the check, and the keys of their callers. A transaction may have thousands of checks, so
// it keeps little of each.
func (b *Book) resolve(c *call) (_ any, keys [][]byte) {
	r := b.resolved(c)
	for i := range r.Charges {
		keys = append(keys, r.Charges[i].Key)
	}
	return r, keys
}

func (b *Book) resolved(c *call) *resolved {
	from := b.check()
	defer b.done(from)
	r := &resolved{text: from.parse(b, c.Args[1:])}
	if r.text != "" {
		return r
	}
	if err := from.Match(from.cost); err != nil {
		r.text = errorText(err, c.Args[1])
		return r
	}
	r.check = from.found()
	r.ds = make([]limit.Decision, len(r.Charges))
	return r
}

// found returns a copy of a check whose rules have been found, which stays valid and holds no more memory than it needs.
func (k *check) found() check {
	return check{Query: k.Found(), force: k.force, ns: k.ns, how: k.how, cost: k.cost, explain: k.explain, wait: k.wait}
}

// checkIn is runCheck in a transaction or a script.
func (b *Book) checkIn(c *call, t *txn) {
	r, ok := c.Resolved.(*resolved)
	if !ok {
		r = b.resolved(c)
	}
	if r.text != "" {
		c.Fail(r.text)
		return
	}
	r.timed(c)
	if err := r.decideIn(t, c); err != nil {
		if err = t.Note(err); err != nil {
			c.Fail(errorText(err, c.Args[1]))
		}
		return
	}
	r.reply(c)
}

// decideIn is decide in a transaction, for a check whose rules have been found. The outcome is counted once the
// transaction is stored.
func (k *check) decideIn(t *txn, c *call) error {
	if k.charge(); k.how == refunds {
		return t.RefundAll(&k.all)
	}
	if len(k.Charges) == 0 { // Book.Free has it
		return k.counted(t, c, false)
	}
	at, err := t.Together(&k.all)
	if err != nil || k.how == peeks {
		return err
	}
	return k.counted(t, c, at >= 0)
}

// counted counts a check, and offers it to the log of decisions, once the transaction is stored.
func (k *check) counted(t *txn, c *call, denied bool) error {
	now := t.Now()
	there := t.Then(len(k.Charges)*countSize, func() {
		k.count(c.Lane, denied)
		k.log(c, now)
	})
	if !there {
		return engine.ErrTooMany
	}
	return nil
}

// countSize is about how many bytes a charge takes until the transaction is stored.
const countSize = 64
