package rules

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"limitdb/limit"
)

// A Ledger holds what checks estimate, and settles it once their costs are known, as RL.CHECK with HOLD and COMMIT do.

// Held is what a check holds.
type Held struct {
	// Parts has what it holds of the rules that enforce, in the order of the file.
	Parts []*HeldPart
	// Leases are the keys of its leases.
	leases [][]byte
	lease  []byte // their id
}

// HeldPart is what a check holds of one rule.
type HeldPart struct {
	// Rule is the rule, and Field the field that its estimate was of, "" if none.
	Rule  *Rule
	Field string
	// Estimate is what was taken.
	Estimate int64

	taken  limit.Estimate
	key    []byte
	weight int64
}

// Hold holds what the check q has taken, which Decide has just granted at now with the answer a. It is for a time in ns; returns has the
// estimates go back when that is over. The error is that of limit.Peek.
func (l *Ledger) Hold(now int64, q *Query, a *Answer, ttl int64, returns bool) (*Held, error) {
	h := &Held{lease: l.leaseID()}
	for i := range q.Charges {
		c := &q.Charges[i]
		if c.InFlight != nil && !a.Parts[i].Limited {
			h.leases = append(h.leases, bytes.Clone(c.Key))
		}
		if c.InFlight != nil || c.Role != Enforced {
			continue
		}
		p := &HeldPart{Rule: c.Rule, Field: q.CostField(c.Rule), Estimate: c.Cost, key: bytes.Clone(c.Key), weight: q.Weight(c.Rule)}
		kind, state := l.kindOf(p.key, now)
		if err := p.taken.Hold(c.Limit, kind, state, now, c.Cost, ttl, &a.Parts[i]); err != nil {
			return nil, err
		}
		h.Parts = append(h.Parts, p)
		if returns {
			if l.due == nil {
				l.due = map[string][]*HeldPart{}
			}
			l.due[string(p.key)] = append(l.due[string(p.key)], p)
		}
	}
	return h, nil
}

// Commit settles what a check holds at now, and gives its leases back. cost returns what one unit of a part has cost before it is
// weighed; less than 0 means the estimate. done is told of each part how much more was taken than had been, or less than 0
// for what went back, and how much of that was beyond the limit. The errors are ErrFieldWeight and those of limit.
func (l *Ledger) Commit(now int64, h *Held, cost func(*HeldPart) int64, done func(p *HeldPart, changed, over int64)) error {
	costs := make([]int64, len(h.Parts))
	for i, p := range h.Parts {
		switch n := cost(p); {
		case n < 0:
			costs[i] = p.Estimate
		case p.weight > 0 && n > (1<<63-1)/p.weight:
			return ErrFieldWeight
		default:
			costs[i] = n * p.weight
		}
	}
	for i, p := range h.Parts {
		if err := l.giveBack(p.key, now); err != nil {
			return err
		}
		kind, state := l.kindOf(p.key, now)
		next, as, changed, over, err := p.taken.Change(kind, state, now, costs[i])
		if err != nil {
			return err
		}
		l.keep(p.key, as, next)
		l.drop(p.key, func(other *HeldPart) bool { return other == p })
		done(p, changed, over)
	}
	for _, key := range h.leases {
		_, state := l.kindOf(key, now)
		next, _, err := limit.ReleaseLease(h.lease, state, now, nil)
		if err != nil && !errors.Is(err, limit.ErrNoLease) {
			return err
		}
		l.keep(key, limit.LEASE, next)
	}
	return nil
}

// GiveBack gives back all that still goes back when its time is over, at that time. It is for the end of a simulation.
func (l *Ledger) GiveBack() error {
	for key, all := range l.due {
		for ; len(all) > 0; all = l.due[key] {
			if err := l.giveBack([]byte(key), all[0].taken.Until); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveBack gives back what is due of a key at now.
func (l *Ledger) giveBack(key []byte, now int64) (err error) {
	if len(l.due) == 0 {
		return nil
	}
	l.drop(key, func(p *HeldPart) bool {
		if p.taken.Until > now || err != nil {
			return false
		}
		var next []byte
		var as limit.Kind
		var returned int64
		kind, state := l.kindOf(key, now)
		if next, as, returned, err = p.taken.GiveBack(kind, state, now); err != nil {
			return true
		}
		if l.keep(key, as, next); l.Returned != nil {
			l.Returned(p.Rule, returned)
		}
		return true
	})
	return err
}

// drop drops what a function says of what is due of a key.
func (l *Ledger) drop(key []byte, fn func(*HeldPart) bool) {
	if kept := slices.DeleteFunc(l.due[string(key)], fn); len(kept) > 0 {
		l.due[string(key)] = kept
	} else {
		delete(l.due, string(key))
	}
}

// leaseID returns the id of the leases of the last check.
func (l *Ledger) leaseID() []byte { return binary.BigEndian.AppendUint64(nil, l.leases) }
