package engine

import "limitdb/limit"

// Decide decides whether cost may be taken from key, and writes the answer to
// *d. If so, the transaction takes it. A denial writes nothing, except that it
// moves the key to the pace of a limit that was raised; a limit with
// CountDenied counts nothing either. It does not end the transaction: see
// retract. The errors are those of Take, except for ErrKey and ErrOOM, which
// come from the commit.
func (t *Txn) Decide(key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	it, err := t.current(key)
	if err != nil {
		return err
	}
	return t.decide(it, l, cost, d)
}

// Take is Decide for a request that does not depend on the transaction's other
// decisions. So it is counted, and a denial counts if l has CountDenied, as
// Engine.Take counts it.
func (t *Txn) Take(key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	err := t.TakePart(key, l, cost, false, d)
	if err == nil {
		t.Count(OutcomeOf(d.Limited))
	}
	return err
}

// TakePart is Take for one of the limits of a request, which is counted as a whole.
// A soft limit cannot deny the request.
func (t *Txn) TakePart(key []byte, l *limit.Limit, cost int64, soft bool, d *limit.Decision) error {
	it, err := t.current(key)
	if err != nil {
		return err
	}
	if err := t.decide(it, l, cost, d); err != nil || !d.Limited {
		return err
	}
	if l.CountDenied {
		err = t.countDenial(it, l, cost, d)
	}
	if err == nil && soft {
		it.soften()
	}
	return err
}

// countDenial counts a denial in a limit with CountDenied. d is the decision, and
// becomes one that includes what is counted.
func (t *Txn) countDenial(it *item, l *limit.Limit, cost int64, d *limit.Decision) error {
	if err := t.takeLate(it); err != nil {
		return err
	}
	state, err := it.stateFor(l)
	if err != nil {
		return err
	}
	var own limit.Decision
	if err := limit.Peek(l, state, t.now, cost, &own); err != nil || !own.Limited {
		return err // others wait for the key: that is no denial
	}
	buf := t.e.buffers.get()
	next, err := limit.Take(l, state, t.now, cost, *buf, d)
	defer func() { t.e.buffers.put(buf, next) }()
	if err == nil && next != nil {
		err = t.write(it, it.Mark(l, cost, d), next)
		it.Must = true
	}
	if q := it.s.waits.find(it.Key); err == nil && q.holds() {
		err = it.s.behind(t.now, q, nil, &Request{Limit: *l, Cost: cost}, d)
	}
	return err
}

func (t *Txn) decide(it *item, l *limit.Limit, cost int64, d *limit.Decision) error {
	state, err := it.stateFor(l)
	if err != nil {
		return err
	}
	asked := l
	if l.CountDenied { // a denial of one is not to be counted by another
		t.uncounted = *l
		t.uncounted.CountDenied = false
		l = &t.uncounted
	}
	q, held := t.held(it)
	held = held && cost > 0
	late := !it.written && it.kind != 0 && it.Boxed()
	if late || held {
		if err := limit.Peek(l, state, t.now, cost, d); err != nil {
			return err
		}
	}
	var next []byte
	if !late && (!held || d.Limited) {
		it.buf = append(it.buf[:0], state...)
		if next, err = limit.Take(l, it.buf, t.now, cost, it.buf[:0], d); err != nil {
			return err
		}
	}
	limited := d.Limited
	if held {
		if err := it.s.behind(t.now, q, state, &Request{Limit: *l, Cost: cost}, d); err != nil {
			return err
		}
	}
	it.limit, it.cost = asked, cost
	if d.Limited {
		it.denied++
	} else {
		it.allowed++
	}
	switch {
	case late && (limited || cost > 0 && !held):
		it.written, it.Grow, it.mark = true, true, it.Mark(asked, cost, d)
	case next != nil:
		must := it.kind != 0 && !it.written && len(next) <= len(it.State) || limited
		if err := t.write(it, it.Mark(asked, cost, d), next); err != nil {
			return err
		}
		it.Must = must
	}
	return nil
}

// Peek answers as Decide would, and takes nothing.
func (t *Txn) Peek(key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	it, err := t.current(key)
	if err == nil {
		err = t.peek(it, l, cost, d)
	}
	return err
}

func (t *Txn) peek(it *item, l *limit.Limit, cost int64, d *limit.Decision) error {
	state, err := it.stateFor(l)
	if err != nil {
		return err
	}
	if err := limit.Peek(l, state, t.now, cost, d); err != nil {
		return err
	}
	if q, held := t.held(it); held && cost > 0 {
		return it.s.behind(t.now, q, state, &Request{Limit: *l, Cost: cost}, d)
	}
	return nil
}

// Refund gives cost back to key, as Engine.Refund does. Its errors are
// ErrWrongType and those of limit.Refund.
func (t *Txn) Refund(key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	it, err := t.current(key)
	if err != nil {
		return err
	}
	state, err := it.stateFor(l)
	if err != nil {
		return err
	}
	before := limit.Expires(l.Algorithm.Kind(), state)
	buf := t.e.buffers.get()
	next, err := limit.Refund(l, state, t.now, cost, *buf, d)
	defer func() { t.e.buffers.put(buf, next) }()
	if err == nil && next != nil {
		if err = it.s.holdTurns(t.now, before, key, l, next, d); err == nil {
			there := it.kind != 0
			err = t.write(it, it.Mark(l, 1, d), next)
			it.Must, it.other = there, true
		}
	}
	return err
}

// retract takes back all that the transaction has written, because one of its
// decisions is a denial. Only the keys of denials still move to a faster pace,
// so that their waits are true.
func (t *Txn) retract() error {
	for i := range t.items {
		it := &t.items[i]
		again := it.denied > 0 && it.allowed > 0
		if it.denied == 0 || again {
			it.revert()
		}
		it.allowed = 0
		if !again {
			continue
		}
		// One of the granted requests may have taken what it lacked.
		var d limit.Decision
		denied := it.denied
		if err := t.decide(it, it.limit, it.cost, &d); err != nil {
			return err
		}
		if it.allowed, it.denied = 0, denied; !d.Limited {
			it.revert()
		}
	}
	return nil
}

// held reports whether an earlier request waits for the item's key.
func (t *Txn) held(it *item) (q *queue, held bool) {
	q = it.s.waits.find(it.Key)
	if !q.holds() {
		return q, false
	}
	return q, t.asker == nil || t.asker.number == 0 || q.head.number < t.asker.number
}
