package engine

import (
	"limitdb/engine/table"
	"limitdb/limit"
)

// Decide decides whether cost may be taken from key, and writes the answer to
// *d. If so, the transaction takes it. A denial writes nothing, except that it
// moves the key to the pace of a limit that was raised; a limit with
// CountDenied counts nothing either. It does not end the transaction. The errors are those of Take, except for ErrKey and ErrOOM, which
// come from the commit.
func (t *Txn) Decide(key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	it, err := t.current(key)
	if err != nil {
		return err
	}
	return t.decide(it, l, cost, d)
}

// Take decides on r and, if it is granted, takes what r asks for. It counts the
// decision; a denial counts if the limit has CountDenied. So it is as
// Engine.TakeFor, for a request that is not a lease.
func (t *Txn) Take(key []byte, r *Request, d *limit.Decision) (granted int64, err error) {
	it, err := t.current(key)
	if err != nil {
		return 0, err
	}
	l := &r.Limit
	state, err := it.stateFor(l)
	anew := err == ErrWrongType && r.Replace
	if err != nil && !anew {
		return 0, err
	}
	part, err := r.part(state, t.now)
	if err != nil {
		return 0, err
	}
	if anew {
		err = t.replace(it, l, part, d)
	} else if err = t.decide(it, l, part, d); err == nil && d.Limited && l.CountDenied {
		err = t.countDenial(it, l, part, d)
	}
	if err != nil {
		return 0, err
	}
	t.Count(OutcomeOf(d.Limited))
	if d.Limited {
		part = 0
	}
	return part, nil
}

// replace is decide for a key that starts afresh if the request is granted.
func (t *Txn) replace(it *item, l *limit.Limit, cost int64, d *limit.Decision) error {
	next, err := limit.Take(uncounted(l, &t.uncounted), nil, t.now, cost, nil, d)
	switch {
	case err != nil:
		return err
	case d.Limited:
		it.denied++
		return nil
	}
	it.limit, it.cost = l, cost
	if it.allowed++; next == nil {
		return nil
	}
	it.other = true
	return t.write(it, table.Unknown(l.Algorithm.Kind()), next)
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
	l = uncounted(l, &t.uncounted) // a denial of one is not to be counted by another
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

// Reserve decides as Engine.Reserve does, and counts the decision. A reservation
// would take from those that wait, so it is denied while they do.
func (t *Txn) Reserve(key []byte, l *limit.Limit, cost, maxWait int64, d *limit.Decision) error {
	it, err := t.current(key)
	if err != nil {
		return err
	}
	state, err := it.stateFor(l)
	if err != nil {
		return err
	}
	buf := t.e.buffers.get()
	next, err := limit.Reserve(l, state, t.now, cost, maxWait, *buf, d)
	defer func() { t.e.buffers.put(buf, next) }()
	if err != nil {
		return err
	}
	if q, held := t.held(it); held && cost > 0 {
		next = nil
		if err := it.s.behind(t.now, q, state, &Request{Limit: *l, Cost: cost}, d); err != nil {
			return err
		}
	}
	if next != nil {
		if err := t.write(it, it.Mark(l, cost, d), next); err != nil {
			return err
		}
	}
	it.limit, it.cost = l, cost
	if d.Limited {
		it.denied++
	} else {
		it.allowed++
	}
	t.Count(OutcomeOf(d.Limited))
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

// held reports whether an earlier request waits for the item's key.
func (t *Txn) held(it *item) (q *queue, held bool) {
	q = it.s.waits.find(it.Key)
	if !q.holds() {
		return q, false
	}
	return q, t.asker == nil || t.asker.number == 0 || q.head.number < t.asker.number
}
