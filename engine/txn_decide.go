package engine

import (
	"limitdb/engine/table"
	"limitdb/engine/wait"
	"limitdb/limit"
)

// Take decides on r and, if it is granted, takes what r asks for, and returns how much that is. It counts the
// decision; a denial counts in a limit with CountDenied, too. The errors are ErrWrongType, those of limit.Take
// and limit.TakeLease and, from the commit, ErrKey and ErrOOM.
func (t *Txn) Take(key []byte, r *Request, d *limit.Decision) (granted int64, err error) {
	it, err := t.current(key)
	if err != nil {
		return 0, err
	}
	return it.take(r, nil, d)
}

// take is Take for a request that may wait, unless a is nil.
func (it *item) take(r *Request, a *asking, d *limit.Decision) (granted int64, err error) {
	if r.Hold != nil {
		if r.Hold.Once != nil {
			return takeOnce(it, r, a, d)
		}
		return it.hold(r, a, d)
	}
	if r.Replace && it.s.table.Besides() > 0 { // replace must not move the items
		t, at := it.t, it.t.index(&it.Change)
		if _, err := besideOf(t, at); err != nil {
			return 0, err
		}
		it = &t.items[at]
	}
	return it.takeNow(r, a, d)
}

// takeOnce is take for a request that counts once.
func takeOnce(it *item, r *Request, a *asking, d *limit.Decision) (granted int64, err error) {
	t, at := it.t, it.t.index(&it.Change)
	o := r.Hold.Once
	var m remembered
	if err := o.find(t, at, &m); err != nil {
		return 0, err
	}
	it = &t.items[at]
	if m.known {
		if err := tellAgain(it, &r.Limit, &m, d); err != nil {
			return 0, err
		}
		t.Count(Granted)
		return m.Amount, nil
	}
	granted, err = it.takeNow(r, a, d)
	if err != nil || d.Limited || granted == 0 {
		return granted, err
	}
	return granted, o.add(t, granted, d.Wait, &m)
}

// tellAgain makes *d the decision on a request that was granted before: what is left now and, in a QUEUE, how long it is
// until its turn.
func tellAgain(it *item, l *limit.Limit, m *remembered, d *limit.Decision) error {
	if err := it.peek(l, 0, d); err != nil {
		return err
	}
	if d.Limited, d.Wait = false, limit.Never; m.Back > it.t.now {
		d.Wait = m.Back - it.t.now
	}
	return nil
}

// takeNow is take for a request that is not held.
func (it *item) takeNow(r *Request, a *asking, d *limit.Decision) (granted int64, err error) {
	t := it.t
	l := &r.Limit
	part, err := it.decideOn(r, a.most(t.now), d)
	if err != nil {
		return 0, err
	}
	if a != nil {
		if a.leaves && !d.Limited {
			if err := it.deny(r, d); err != nil {
				return 0, err
			}
		}
		stays := a.stays(t.now, l, d)
		if a.uncount(it, l); stays {
			return 0, nil
		}
	}
	if d.Limited && l.CountDenied && r.Lease == nil {
		if err := it.countDenial(l, part, d); err != nil {
			return 0, err
		}
	}
	t.Count(OutcomeOf(d.Limited))
	if d.Limited {
		part = 0
	}
	return part, nil
}

// decideOn decides on a request, and returns how much it asked for: its cost, or a part of it.
func (it *item) decideOn(r *Request, most int64, d *limit.Decision) (part int64, err error) {
	t := it.t
	if r.Lease != nil {
		return 0, it.lease(r.Lease, d)
	}
	state, err := it.stateAsked(r)
	if err != nil {
		return 0, err
	}
	if part, err = r.part(state, t.now); err != nil {
		return 0, err
	}
	if state == nil && it.kind != 0 {
		return part, it.replace(&r.Limit, part, d)
	}
	return part, it.decide(&r.Limit, part, most, d)
}

// stateAsked is stateFor for a request. A key that the request replaces has none.
func (it *item) stateAsked(r *Request) ([]byte, error) {
	state, err := it.stateFor(&r.Limit)
	if err == ErrWrongType && r.Replace {
		return nil, nil
	}
	return state, err
}

// deny makes the decision on a request that leaves, and would be granted, a denial.
func (it *item) deny(r *Request, d *limit.Decision) error {
	t := it.t
	it.revert()
	it.allowed, it.denied = 0, 1
	if r.Lease != nil {
		return standLease(r.Lease, it.State, t.now, d)
	}
	state, err := it.stateAsked(r)
	if err != nil {
		return err
	}
	return stand(&r.Limit, state, t.now, d)
}

// replace is decide for a key that starts afresh if the request is granted.
func (it *item) replace(l *limit.Limit, cost int64, d *limit.Decision) error {
	t := it.t
	next, err := limit.Take(uncounted(l, &t.uncounted), nil, t.now, cost, nil, d)
	switch {
	case err != nil:
		return err
	case d.Limited:
		it.denied++
		return nil
	}
	if it.allowed++; next == nil {
		return nil
	}
	if it, err = it.reset(); err != nil {
		return err
	}
	it.other = true
	return it.write(table.Unknown(l.Algorithm.Kind()), next)
}

// Lease is Take for a lease.
func (t *Txn) Lease(key []byte, l *limit.Lease, d *limit.Decision) error {
	it, err := t.current(key)
	if err == nil {
		err = it.lease(l, d)
	}
	if err == nil {
		t.Count(OutcomeOf(d.Limited))
	}
	return err
}

// lease is decide for a lease.
func (it *item) lease(l *limit.Lease, d *limit.Decision) error {
	t := it.t
	state, err := it.stateOf(limit.LEASE)
	if err != nil {
		return err
	}
	q, held := it.held()
	if t.stopsAt(q) {
		return ErrUndeclared
	}
	if held && !l.Renews(state, t.now) {
		if err := limit.PeekLease(l, state, t.now, d); err != nil {
			return err
		}
		if !d.Limited {
			if err := standLease(l, state, t.now, d); err != nil {
				return err
			}
		}
	} else {
		buf := t.e.buffers.get()
		next, err := limit.TakeLease(l, state, t.now, *buf, d)
		if err := it.writeLent(table.Unknown(limit.LEASE), buf, next, err); err != nil {
			return err
		}
	}
	if d.Limited && held {
		behind(t.now, q, d)
	}
	it.count(d.Limited)
	it.other = true
	return nil
}

// peekLease answers as lease would, and changes nothing.
func (it *item) peekLease(l *limit.Lease, d *limit.Decision) error {
	t := it.t
	state, err := it.stateOf(limit.LEASE)
	if err != nil {
		return err
	}
	if err := limit.PeekLease(l, state, t.now, d); err != nil {
		return err
	}
	if q, held := it.held(); held && !l.Renews(state, t.now) {
		if !d.Limited {
			err = standLease(l, state, t.now, d)
		}
		behind(t.now, q, d)
	}
	return err
}

// free says how much may be leased.
func (it *item) free(l *limit.Lease, d *limit.Decision) error {
	state, err := it.stateOf(limit.LEASE)
	if err == nil {
		err = limit.DenyLease(l, state, it.t.now, d)
	}
	d.Limited, d.Wait = false, limit.Never
	return err
}

// countDenial counts a denial in a limit with CountDenied. d is the decision, and
// becomes one that includes what is counted.
func (it *item) countDenial(l *limit.Limit, cost int64, d *limit.Decision) error {
	t := it.t
	if err := it.takeLate(); err != nil {
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
		err = it.write(it.Mark(l, cost, d), next)
		it.Must = true
	}
	if q := it.s.waits.Find(it.Key); err == nil && q.Holds(nil) {
		behind(t.now, q, d)
	}
	return err
}

// decide decides whether cost may be taken under a limit, and writes what that takes. most is the longest wait for a turn of a QUEUE, or
// -1 for any. A denial writes nothing, except that it moves the key to the pace of a limit that was raised; a limit with
// CountDenied counts nothing either. Nothing else in the engine takes from a limit, but for the fast way: see TakeAt.
func (it *item) decide(l *limit.Limit, cost, most int64, d *limit.Decision) error {
	t := it.t
	state, err := it.stateFor(l)
	if err != nil {
		return err
	}
	asked := l
	l = uncounted(l, &t.uncounted) // a denial of one is not to be counted by another
	var q *wait.Queue
	held := false
	if it.s.waits.Any() {
		if q, held = it.held(); cost > 0 && t.stopsAt(q) {
			return ErrUndeclared
		}
		if held { // a denial can name no turn
			most = -1
		}
	}
	late := !it.written && it.kind != 0 && it.Boxed()
	if held = held && cost > 0; late || held {
		if err := limit.Peek(l, state, t.now, cost, d); err != nil {
			return err
		}
	}
	var next []byte
	if !late && (!held || d.Limited) {
		it.buf = append(it.buf[:0], state...)
		if most >= 0 && l.Algorithm == limit.QUEUE {
			next, err = limit.Reserve(l, it.buf, t.now, cost, most, it.buf[:0], d)
		} else {
			next, err = limit.Take(l, it.buf, t.now, cost, it.buf[:0], d)
		}
		if err != nil {
			return err
		}
	}
	limited := d.Limited // by the limit itself
	if limited && next != nil && q != nil && it.moves(q, next, it.Mark(asked, cost, d)) {
		return ErrUndeclared
	}
	if held && !d.Limited {
		if err := stand(l, state, t.now, d); err != nil {
			return err
		}
	}
	if d.Limited && q.Holds(t.member()) {
		behind(t.now, q, d)
	}
	if late || q != nil {
		it.keep(asked, cost)
	}
	it.count(d.Limited)
	switch {
	case late && (limited || cost > 0 && !held):
		it.written, it.Grow, it.mark = true, true, it.Mark(asked, cost, d)
	case next != nil:
		must := it.kind != 0 && !it.written && len(next) <= len(it.State) || limited
		if err := it.write(it.Mark(asked, cost, d), next); err != nil {
			return err
		}
		it.Must = must
	case !it.written:
		it.mark, it.used = it.Mark(asked, cost, d), true
	}
	return nil
}

// Reserve takes cost from key in advance and writes the answer to *d, as limit.Reserve does, and counts the decision. If granted,
// the caller goes ahead after d.Wait, which is at most maxWait nanoseconds unless maxWait is negative. The errors are those of
// Take, and limit.ErrReserve for an algorithm that cannot reserve. A reservation
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
	if q, held := it.held(); held && cost > 0 {
		if next = nil; !d.Limited {
			if err := stand(l, state, t.now, d); err != nil {
				return err
			}
		}
		behind(t.now, q, d)
	}
	if next != nil {
		if err := it.write(it.Mark(l, cost, d), next); err != nil {
			return err
		}
	}
	it.count(d.Limited)
	t.Count(OutcomeOf(d.Limited))
	return nil
}

// ReserveOnce is Txn.Reserve for a request that counts once.
func ReserveOnce(t *Txn, key []byte, o *Once, l *limit.Limit, cost, maxWait int64, d *limit.Decision) error {
	it, err := t.current(key)
	if err != nil {
		return err
	}
	at := t.index(&it.Change)
	var m remembered
	if err := o.find(t, at, &m); err != nil {
		return err
	}
	if m.known {
		t.Count(Granted)
		return tellAgain(&t.items[at], l, &m, d)
	}
	if err := t.Reserve(key, l, cost, maxWait, d); err != nil || d.Limited || cost == 0 {
		return err
	}
	return o.add(t, cost, d.Wait, &m)
}

// Peek answers as Decide would, and takes nothing.
func (t *Txn) Peek(key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	it, err := t.current(key)
	if err == nil {
		err = it.peek(l, cost, d)
	}
	return err
}

func (it *item) peek(l *limit.Limit, cost int64, d *limit.Decision) error {
	t := it.t
	state, err := it.stateFor(l)
	if err != nil {
		return err
	}
	if err := limit.Peek(l, state, t.now, cost, d); err != nil {
		return err
	}
	if q, held := it.held(); held && cost > 0 {
		if !d.Limited {
			err = stand(l, state, t.now, d)
		}
		behind(t.now, q, d)
	}
	return err
}

// Refund gives cost back to key, but never beyond full. It forgets a key that is full
// again. Its errors are ErrWrongType and those of limit.Refund. For an absent key that counts as used up
// (see AssumeUsedUp), the commit may also return ErrKey and ErrOOM.
func (t *Txn) Refund(key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	it, err := t.current(key)
	if err != nil {
		return err
	}
	state, err := it.stateFor(l)
	if err != nil {
		return err
	}
	return it.giveBack(l, state, cost, d)
}

// giveBack is Refund of an item, which has that state.
func (it *item) giveBack(l *limit.Limit, state []byte, cost int64, d *limit.Decision) error {
	t := it.t
	before := limit.Expires(l.Algorithm.Kind(), state)
	buf := t.e.buffers.get()
	next, err := limit.Refund(l, state, t.now, cost, *buf, d)
	defer func() { t.e.buffers.put(buf, next) }()
	if err != nil || next == nil {
		return err
	}
	if err := it.s.holdTurns(t.now, before, it.Key, l, next, d); err != nil {
		return err
	}
	there := it.kind != 0
	err = it.write(it.Mark(l, 1, d), next)
	it.Must, it.other = there, true
	return err
}

// held returns the queue of the item's key, and reports whether an earlier request waits in it.
func (it *item) held() (q *wait.Queue, held bool) {
	t := it.t
	if !it.s.waits.Any() {
		return nil, false
	}
	q = it.s.waits.Find(it.Key)
	return q, q.Holds(t.member())
}

// leastBehind is the least wait of a request that comes behind a queue, 1 ms: so
// those who come back are not more than that, however fast the queue moves.
const leastBehind = 1_000_000

// behind makes *d, a denial, that of a request which must let q go first.
//
// The wait is the larger of its own and that of the head of q, and at least 1 ms.
// It may have to wait longer, for the others of q: nobody knows how long they will
// stay. A caller that comes back each time asks at most once for each grant.
func behind(now int64, q *wait.Queue, d *limit.Decision) {
	if d.Wait != limit.Never && q.Holds(nil) {
		d.Wait = max(d.Wait, leastBehind)
		if q.Due() > now {
			d.Wait = max(d.Wait, q.Due()-now)
		}
	}
}

// standLease is stand for a lease.
func standLease(l *limit.Lease, state []byte, now int64, d *limit.Decision) error {
	err := limit.DenyLease(l, state, now, d)
	d.Wait = max(d.Wait, 1)
	return err
}

// A step that meets a queue which must be looked at first, or changes the pace for those in it, stops. The queue is
// served without the locks, and the step runs again. So nobody takes what a waiter can have, and the waits that are told
// are true. maxStops bounds how often: the queue may be long, and others may come.
const maxStops = 8

// stopsAt has the transaction stop if q is due.
func (t *Txn) stopsAt(q *wait.Queue) bool {
	if q == nil || !q.IsDue(t.now) || !t.mayStop() {
		return false
	}
	t.undeclared, t.stop = true, q
	return true
}

// moves has the transaction stop if a denial gives an item of q another pace, which is in next. Only that is then stored.
// A transaction that watches keys does not stop: it would find that the key has changed.
func (it *item) moves(q *wait.Queue, next []byte, as table.Mark) bool {
	t := it.t
	if it.written || t.watches || !t.mayStop() {
		return false
	}
	it.buf = next
	t.undeclared, t.stop, t.moved, t.movedAs = true, q, it, as
	return true
}

// mayStop reports whether the transaction may stop: it does not decide a request that waits.
func (t *Txn) mayStop() bool {
	return t.stops < maxStops && (t.asking == nil || t.asking.why == asks)
}

// move stores nothing but the faster pace of an item.
func (t *Txn) move() error {
	for i := range t.items {
		it := &t.items[i]
		it.revert()
		it.hasUnder, it.allowed, it.denied, it.touched, it.used = false, 0, 0, false, false
	}
	t.counts, t.held, t.asking = [outcomes]uint32{}, [holdFigures]uint32{}, nil
	it := t.moved
	if err := it.write(t.movedAs, it.buf); err != nil {
		return err
	}
	it.Must, it.other = true, true
	_, err := t.commit()
	return err
}
