package rules

import (
	"math"

	"limitdb/limit"
)

// Judge decides the descriptors of a request in a domain at now, and returns the answer for each. The statuses are valid until the next
// call. The errors are those of Lookup.Find and of the algorithms.
func (l *Ledger) Judge(now int64, d *Domain, request []Descriptor) ([]Status, error) {
	if l.sweep--; l.sweep <= 0 {
		l.forget(now)
	}
	if err := l.lookup.Find(d, request); err != nil {
		return nil, err
	}
	matches := l.lookup.Matches
	l.ds = append(l.ds[:0], make([]limit.Decision, len(matches))...)
	denied := false
	if d.AllOrNone() {
		var err error
		if denied, err = l.together(now, matches); err != nil {
			return nil, err
		}
	}
	l.statuses = l.statuses[:0]
	for i := range matches {
		m := &matches[i]
		if err := l.judge(now, d, m, &l.ds[i], denied); err != nil {
			return nil, err
		}
		l.statuses = append(l.statuses, m.Status(&l.ds[i], now))
	}
	return l.statuses, nil
}

// judge decides one descriptor, unless it is decided together with others.
func (l *Ledger) judge(now int64, domain *Domain, m *Match, d *limit.Decision, denied bool) (err error) {
	c := Charge{Limit: m.Limit, Cost: m.Cost, Key: m.Key}
	switch {
	case m.Limit == nil, domain.AllOrNone() && !m.Negative:
		return nil
	case m.Negative && denied:
		return l.peek(&c, now, 0, d)
	case m.Negative:
		return l.refund(now, &c, d)
	}
	return l.apply(now, &c, d, false)
}

// refund gives back to a limit. A block stays.
func (l *Ledger) refund(now int64, c *Charge, d *limit.Decision) (err error) {
	var b limit.Block
	kind, state := l.kindOf(c.Key, now)
	if kind == limit.BLOCK {
		if _, state, err = b.Open(state, now); err != nil {
			return err
		}
	}
	as := c.Limit.Algorithm.Kind()
	next, err := limit.Refund(c.Limit, state, now, c.Cost, nil, d)
	if err == nil && next != nil && b.Remembered(now) {
		if limit.Expires(as, next) <= now {
			next = nil
		}
		next, as = b.Put(nil, as, next), limit.BLOCK
	}
	l.keep(c.Key, as, next)
	return err
}

// together takes from all limits, or from none, and reports whether one denies. The costs of one key are added.
func (l *Ledger) together(now int64, matches []Match) (denied bool, err error) {
	at, charges, soft := map[string]int{}, []Charge(nil), []bool(nil)
	part := make([]int, len(matches))
	for i := range matches {
		m := &matches[i]
		if part[i] = -1; m.Limit == nil || m.Negative {
			continue
		}
		j, ok := at[string(m.Key)]
		if !ok {
			j = len(charges)
			at[string(m.Key)] = j
			charges, soft = append(charges, Charge{Limit: m.Limit, Key: m.Key}), append(soft, m.Soft())
		} else if m.Binds(charges[j].Limit, soft[j]) {
			charges[j].Limit = m.Limit
		}
		charges[j].Cost += min(m.Cost, math.MaxInt64-charges[j].Cost)
		soft[j] = soft[j] && m.Soft()
		part[i] = j
	}
	ds := make([]limit.Decision, len(charges))
	for j := range charges {
		c := &charges[j]
		if err := l.peek(c, now, c.Cost, &ds[j]); err != nil {
			return false, err
		}
		denied = denied || ds[j].Limited && !soft[j]
	}
	for j := range charges {
		if err := l.apply(now, &charges[j], &ds[j], denied); err != nil {
			return false, err
		}
	}
	for i, j := range part {
		if j >= 0 {
			l.ds[i] = ds[j]
		}
	}
	return denied, nil
}
