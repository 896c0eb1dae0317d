package server

import (
	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/limit"
	"limitdb/rules"
)

// rlCheckIn is rlCheck in a transaction or a script.
func (c *call) rlCheckIn(t *txn) {
	k := &checking{} // the transaction keeps its keys until it ends
	k.Secret = c.srv.rules.secret.Load()[:]
	explain, text := k.parse(c.srv, c.args[1:])
	if text != "" {
		c.fail(text)
		return
	}
	if err := k.decideIn(t, c.lane()); err != nil {
		if err = t.note(err); err != nil {
			c.failState(checkError(err, c.args[1]))
		}
		return
	}
	c.checked(k, explain)
}

// decideIn is decide in a transaction. The outcome is counted once that is stored.
func (k *checking) decideIn(t *txn, lane int) error {
	if err := k.Match(k.cost); err != nil {
		return err
	}
	if k.how == checkRefunds {
		return k.refundIn(t)
	}
	denied := false
	for i := range k.Charges {
		c := &k.Charges[i]
		if err := t.Peek(c.Key, c.Limit, c.Cost, &k.ds[i]); err != nil {
			return err
		}
		denied = denied || k.ds[i].Limited && c.Role == rules.Enforced
	}
	for i := range k.Charges {
		var err error
		switch c, d := &k.Charges[i], &k.ds[i]; {
		case denied && !d.Limited:
			err = t.Peek(c.Key, c.Limit, 0, d)
		case k.how == checkPeeks, d.Limited && c.Role != rules.Enforced:
		default:
			err = t.Decide(c.Key, c.Limit, c.Cost, d)
		}
		if err != nil {
			return err
		}
	}
	if k.how == checkTakes {
		return k.countIn(t, lane, denied)
	}
	return nil
}

func (k *checking) refundIn(t *txn) error {
	for i := range k.Charges {
		c, d := &k.Charges[i], &k.ds[i]
		err := t.Step(c.Key, c.Limit.Algorithm.Kind(), func(now int64, state, dst []byte) ([]byte, error) {
			return limit.Refund(c.Limit, state, now, c.Cost, dst, d)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// countSize is about how many bytes a count takes until the transaction is stored.
const countSize = 64

// countIn counts what a check was for each rule, once the transaction is stored.
func (k *checking) countIn(t *txn, lane int, denied bool) error {
	type count struct {
		of *stats.RuleCounters
		as stats.RuleOutcome
	}
	var all []count
	if k.Unlimited != nil {
		all = append(all, count{k.force.counters[k.Unlimited.Index], stats.RuleAllowed})
	}
	for i := range k.Charges {
		if as, ok := k.outcome(i, denied); ok && k.cost > 0 {
			all = append(all, count{k.force.counters[k.Charges[i].Rule.Index], as})
		}
	}
	if t.held += len(all) * countSize; t.held > messagesMost {
		return engine.ErrTooMany
	}
	t.after = append(t.after, func() {
		for _, n := range all {
			n.of.Add(lane, n.as)
		}
	})
	return nil
}
