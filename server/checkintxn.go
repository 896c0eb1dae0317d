package server

import (
	"limitdb/engine"
	"limitdb/limit"
	"limitdb/rules"
	"limitdb/server/handler"
)

// A check in a transaction or a script. Its keys come from the rules, not from its words. EXEC resolves its checks
// before it locks their shards. A script that checks locks all of them.

// resolved is a check whose rules have been found.
type resolved struct {
	checking
	text string // the reply, if it cannot be decided
}

// resolve finds the rules of the check. A transaction may have thousands, so what it keeps of each is small.
func (c *call) resolve() *resolved {
	from := c.srv.checking()
	defer c.srv.doneChecking(from)
	r := &resolved{text: from.parse(c.srv, c.Args[1:])}
	if r.text != "" {
		return r
	}
	if err := from.Match(from.cost); err != nil {
		r.text = checkError(err, c.Args[1])
		return r
	}
	r.checking = from.found()
	r.ds = make([]limit.Decision, len(r.Charges))
	return r
}

// found returns a copy of a check whose rules have been found, which stays valid and holds no more memory than it needs.
func (k *checking) found() checking {
	return checking{Query: k.Found(), force: k.force, ns: k.ns, how: k.how, cost: k.cost, explain: k.explain, wait: k.wait}
}

// resolving collects the keys of checks.
type resolving struct {
	keys    [][]byte
	there   map[string]bool
	charges int
}

// resolve resolves the check c. It returns nil if the checks have so many charges that they are an error.
func (a *resolving) resolve(c *call) *resolved {
	if a.charges > engine.MaxTxn {
		return nil
	}
	if a.there == nil {
		a.there = map[string]bool{}
	}
	r := c.resolve()
	a.charges += len(r.Charges)
	for i := range r.Charges {
		if key := r.Charges[i].Key; !a.there[string(key)] {
			a.there[string(key)] = true
			a.keys = append(a.keys, key)
		}
	}
	return r
}

// rlCheckIn is rlCheck in a transaction or a script.
func (c *call) rlCheckIn(t *handler.Txn) {
	r := c.resolved
	if r == nil {
		r = c.resolve()
	}
	if r.text != "" {
		c.Fail(r.text)
		return
	}
	if err := r.decideIn(t, c); err != nil {
		if err = t.Note(err); err != nil {
			c.FailState(checkError(err, c.Args[1]))
		}
		return
	}
	c.checked(&r.checking)
}

// decideIn is decide in a transaction, for a check whose rules have been found. The outcome is counted once the
// transaction is stored.
func (k *checking) decideIn(t *handler.Txn, c *call) error {
	if k.how == checkRefunds {
		for i := range k.Charges {
			if err := t.Refund(k.Charges[i].Key, k.Charges[i].Limit, k.Charges[i].Cost, &k.ds[i]); err != nil {
				return err
			}
		}
		return nil
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
	if k.how == checkPeeks {
		return nil
	}
	srv, lane, now := c.srv, c.lane(), t.Now()
	there := t.Then(len(k.Charges)*countSize, func() {
		k.count(lane, denied)
		k.log(srv, now)
	})
	if !there {
		return engine.ErrTooMany
	}
	return nil
}

// countSize is about how many bytes a charge takes until the transaction is stored.
const countSize = 64
