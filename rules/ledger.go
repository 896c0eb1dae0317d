package rules

import "limitdb/limit"

// Ledger decides checks by itself, without a server: with the same rules, the same functions and the same
// answers. It serves tests of a file and simulations. It is not safe for use by several goroutines. The zero
// value is ready.
type Ledger struct {
	states map[string]entry
	leases uint64 // that have been asked for: each has an id of its own
	sweep  int    // checks until expired states are forgotten
	ds     []limit.Decision
	due    map[string][]*HeldPart // that go back when their time is over, by key, in the order in which they were taken

	// Returned is told how much of what a rule has held goes back because its time is over. Nil for nobody.
	Returned func(r *Rule, amount int64)

	// Of Judge:
	lookup   Lookup
	statuses []Status
}

type entry struct {
	kind  limit.Kind
	state []byte
}

// Answer is the decision on a check.
type Answer struct {
	// Decision is the decision of the rule that decides; see Query.Deciding. Its Limit is -1 if no rule
	// does.
	limit.Decision
	// Rule is the name of that rule, of the first that does not limit the caller if no rule does, or "".
	Rule string
	// Parts has the decisions of Query.Charges. They are valid until the next call.
	Parts []limit.Decision
}

// Decide decides q, which has been matched, at now. If a rule denies, nothing is taken.
func (l *Ledger) Decide(now int64, q *Query) (Answer, error) {
	if l.sweep--; l.sweep <= 0 {
		l.forget(now)
	}
	l.ds = append(l.ds[:0], make([]limit.Decision, len(q.Charges))...)
	l.leases++
	for i := range q.Charges {
		c := &q.Charges[i]
		if len(l.due) > 0 {
			if err := l.giveBack(c.Key, now); err != nil {
				return Answer{}, err
			}
		}
		if c.InFlight != nil {
			if err := limit.PeekLease(l.lease(c), l.leasesOf(c, now), now, &l.ds[i]); err != nil {
				return Answer{}, err
			}
			continue
		}
		if err := l.peek(c, now, c.Cost, &l.ds[i]); err != nil {
			return Answer{}, err
		}
	}
	at := q.Deciding(l.ds)
	denied := at >= 0 && l.ds[at].Limited
	for i := range q.Charges {
		if err := l.apply(now, &q.Charges[i], &l.ds[i], denied); err != nil {
			return Answer{}, err
		}
	}
	a := Answer{Decision: limit.Decision{Limit: -1, Remaining: -1, Wait: limit.Never}, Parts: l.ds}
	switch {
	case at >= 0:
		a.Decision, a.Rule = l.ds[at], q.Charges[at].Rule.Name
	case len(q.Unlimited) > 0:
		a.Rule = q.Unlimited[0].Name
	}
	return a, nil
}

// apply takes from a limit that grants, unless the check is denied. A denial moves the key to the pace of a
// limit that was raised, and counts with COUNTDENIED, also where it stops nobody.
func (l *Ledger) apply(now int64, c *Charge, d *limit.Decision, denied bool) error {
	if c.InFlight != nil {
		return l.fly(now, c, l.leasesOf(c, now), d, denied)
	}
	if denied && !d.Limited {
		return l.peek(c, now, 0, d)
	}
	kind, state := l.kindOf(c.Key, now)
	next, as, err := limit.TakeBlock(c.Limit, kind, state, now, c.Cost, nil, d)
	l.keep(c.Key, as, next)
	return err
}

// lease returns the lease that a check asks for.
func (l *Ledger) lease(c *Charge) *limit.Lease {
	return &limit.Lease{Limit: c.InFlight.Max, TTL: c.InFlight.Lease, Weight: 1, ID: l.leaseID()}
}

// fly takes a lease, unless the check is denied. It ends when its time is over: nobody gives it back.
func (l *Ledger) fly(now int64, c *Charge, state []byte, d *limit.Decision, denied bool) error {
	if denied {
		if !d.Limited {
			d.Remaining++ // it has not been taken
		}
		return nil
	}
	next, err := limit.TakeLease(l.lease(c), state, now, nil, d)
	if next != nil {
		l.keep(c.Key, limit.LEASE, next)
	}
	return err
}

// keep keeps the next state of a key, if there is one.
func (l *Ledger) keep(key []byte, as limit.Kind, next []byte) {
	if next == nil {
		return
	}
	if l.states == nil {
		l.states = map[string]entry{}
	}
	l.states[string(key)] = entry{as, next}
}

// peek answers as a take would, and changes nothing.
func (l *Ledger) peek(c *Charge, now, cost int64, d *limit.Decision) error {
	kind, state := l.kindOf(c.Key, now)
	return limit.PeekBlock(c.Limit, kind, state, now, cost, d)
}

// kindOf returns the state of a key and its kind, 0 and nil if there is none.
func (l *Ledger) kindOf(key []byte, now int64) (limit.Kind, []byte) {
	e := l.states[string(key)]
	if limit.Expires(e.kind, e.state) <= now {
		return 0, nil
	}
	return e.kind, e.state
}

// leasesOf returns the leases of a caller, nil if there are none.
func (l *Ledger) leasesOf(c *Charge, now int64) []byte {
	_, state := l.kindOf(c.Key, now)
	return state
}

// forget drops what has expired, and decides when to do so again.
func (l *Ledger) forget(now int64) {
	for key, e := range l.states {
		if limit.Expires(e.kind, e.state) <= now {
			delete(l.states, key)
		}
	}
	l.sweep = max(1000, 2*len(l.states))
}
