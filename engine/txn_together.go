package engine

// Together decides on all limits of r as one request, and counts it: it takes from
// all of them or, if one that is not soft denies, from none. It returns that limit,
// as Engine.Together does, or -1. A denial moves its key to the pace of a limit that was
// raised, and counts if r says so.
//
// The errors are those of Engine.Together, except for ErrKey and ErrOOM, which come from
// the commit. After an error, nothing of r has been written.
func (t *Txn) Together(r *Together) (at int, err error) { return t.together(r, nil) }

// together is Together for a request that may wait, unless s is nil.
func (t *Txn) together(r *Together, s *settlement) (at int, err error) {
	if at, err := t.gather(r); err != nil {
		return at, err
	}
	for i := range r.Keys {
		if err := t.decidePart(r, i); err != nil {
			t.undo(r, i)
			return i, err
		}
	}
	if at = r.Worst(); s != nil {
		if at, err = s.judge(); err != nil {
			return at, err
		}
	}
	if at, err = t.conclude(r, at); err != nil {
		return at, err
	}
	if s != nil && s.stays(at) {
		return at, nil
	}
	if r.CountDenied {
		if at, err = t.countDenials(r, at); err != nil {
			return at, err
		}
	}
	if r.Peek {
		t.Count(Peeked)
	} else {
		t.Count(OutcomeOf(at >= 0))
	}
	return at, nil
}

// gather finds the items of r. After an error, the index is that of the key at fault.
func (t *Txn) gather(r *Together) (at int, err error) {
	if len(r.Keys) > MaxAll {
		return -1, ErrTooMany
	}
	t.round++
	t.parts = t.parts[:0]
	for i, key := range r.Keys {
		n, err := t.find(i, key)
		if err != nil {
			return i, err
		}
		it := &t.items[n]
		if it.round == t.round {
			return i, ErrDuplicate
		}
		it.round = t.round
		t.parts = append(t.parts, uint16(n))
	}
	for i := range r.Keys {
		it := t.part(i)
		if err := t.takeLate(it); err != nil {
			return i, err
		}
		it.earlier = it.written
	}
	return -1, nil
}

// part returns the item of the limit at an index.
func (t *Txn) part(i int) *item { return &t.items[t.parts[i]] }

// decidePart decides on one limit. What the transaction has written before stays as
// it is, because it could not be restored: conclude takes from it.
func (t *Txn) decidePart(r *Together, i int) error {
	it, l, d := t.part(i), &r.Limits[i], &r.Decisions[i]
	if r.Peek || it.earlier {
		return t.peek(it, uncounted(l, &t.uncounted), r.Costs[i], d)
	}
	return t.decide(it, l, r.Costs[i], d)
}

// undo takes back what the first n limits have granted or moved.
func (t *Txn) undo(r *Together, n int) {
	for i := range n {
		if it := t.part(i); !r.Peek && !it.earlier {
			it.retract(r.Decisions[i].Limited)
		}
	}
}

// conclude keeps the decisions if at, the limit that denies, is -1. Otherwise it
// takes back what was granted. The keys of denials keep a faster pace.
func (t *Txn) conclude(r *Together, at int) (int, error) {
	for i := range r.Keys {
		it, l, d := t.part(i), &r.Limits[i], &r.Decisions[i]
		var err error
		switch {
		case at >= 0 && !d.Limited:
			if !r.Peek && !it.earlier {
				it.retract(false)
			}
			err = t.peek(it, l, 0, d)
		case it.earlier && !r.Peek:
			err = t.decide(it, l, r.Costs[i], d)
		}
		if err != nil {
			return i, err
		}
		if d.Limited && !r.Peek && r.soft(i) {
			it.soften()
		}
	}
	return at, nil
}

// countDenials counts the denials of limits that count their own. at is the limit that
// denies, or -1.
func (t *Txn) countDenials(r *Together, at int) (int, error) {
	counted := false
	for i := range r.Keys {
		it, l, d := t.part(i), &r.Limits[i], &r.Decisions[i]
		if !l.CountDenied || !d.Limited {
			continue
		}
		var err error
		if counted = true; r.Peek {
			err = t.peek(it, l, r.Costs[i], d)
		} else {
			err = t.countDenial(it, l, r.Costs[i], d)
		}
		if err != nil {
			return i, err
		}
	}
	if counted && at >= 0 {
		at = r.Worst() // they wait for longer now
	}
	return at, nil
}

// RefundAll gives r.Costs[i] back to r.Keys[i] under r.Limits[i] for all i, each as
// Refund does, and counts one refund.
func (t *Txn) RefundAll(r *Together) error {
	for i, key := range r.Keys {
		if err := t.Refund(key, &r.Limits[i], r.Costs[i], &r.Decisions[i]); err != nil {
			return err
		}
	}
	t.Count(Refunded)
	return nil
}
