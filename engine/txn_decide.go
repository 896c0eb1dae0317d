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
	if r.Replace && mayKnowIDs(it) { // replace must not move the items
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
	grantedBefore(&m.Entry, it.t.now, d)
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
	if d.Limited && l.Block > 0 && r.Lease == nil {
		as, err := punish(it, l, part, nil, d)
		if err != nil {
			return 0, err
		}
		if r.Block != nil {
			*r.Block = as
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
	if state == nil && starts(it, &r.Limit) {
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

// hasLease reports whether the id of a lease has one, on the key of an item.
func hasLease(it *item, l *limit.Lease) (bool, error) {
	state, err := it.stateOf(limit.LEASE)
	return err == nil && l.Renews(state, it.t.now), err
}

// leaseAgain makes *d the answer to a request for a lease that was granted before, or, if it is soft, may not have been. The lease
// may be over by now.
func leaseAgain(it *item, l *limit.Lease, soft bool, d *limit.Decision) error {
	has, err := hasLease(it, l)
	if err == nil {
		err = it.free(l, d)
	}
	d.Limited = soft && !has
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
	b, err := blockOf(it)
	if err != nil || b.Left(l, t.now) > 0 {
		return err // which counts nothing
	}
	var own limit.Decision
	if err := limit.Peek(l, state, t.now, cost, &own); err != nil || !own.Limited {
		return err // others wait for the key: that is no denial
	}
	buf := t.e.buffers.get()
	next, err := limit.Take(l, state, t.now, cost, *buf, d)
	defer func() { t.e.buffers.put(buf, next) }()
	if err == nil && b.Remembered(t.now) {
		b.Prolong(t.now, d)
	}
	if err == nil && next != nil {
		err = writeFor(it, l, cost, d, next)
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
	if it.kind == limit.BLOCK {
		return decideBlock(it, l, cost, most, d)
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
	b, err := blockOf(it)
	if err != nil {
		return err
	}
	left := b.Left(l, t.now)
	buf := t.e.buffers.get()
	var next []byte
	if left == 0 {
		next, err = limit.Reserve(l, state, t.now, cost, maxWait, *buf, d)
	} else if _, err = limit.Reserve(l, state, t.now, 0, maxWait, nil, d); err == nil { // it can be reserved
		if next, err = limit.PeekMoved(l, state, t.now, cost, *buf, d); err == nil {
			b.Deny(t.now, left, d)
		}
	}
	defer func() { t.e.buffers.put(buf, next) }()
	if err != nil {
		return err
	}
	own := *d
	if q, held := it.held(); held && cost > 0 {
		if next = nil; !d.Limited {
			if err := stand(l, state, t.now, d); err != nil {
				return err
			}
		}
		behind(t.now, q, d)
	}
	if next != nil {
		if err := writeFor(it, l, cost, d, next); err != nil {
			return err
		}
	}
	if own.Limited && l.Block > 0 {
		if _, err := punish(it, l, cost, &own, d); err != nil {
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
	if it.kind == limit.BLOCK {
		err = peekBlock(it, l, state, cost, d)
	} else {
		err = limit.Peek(l, state, t.now, cost, d)
	}
	if err != nil {
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
	err = writeFor(it, l, 1, d, next)
	it.Must, it.other = there, true
	return err
}

// decideBlock is decide for a key that has a block.
func decideBlock(it *item, asked *limit.Limit, cost, most int64, d *limit.Decision) error {
	t := it.t
	state, err := it.stateFor(asked)
	if err != nil {
		return err
	}
	b, err := blockOf(it)
	if err != nil {
		return err
	}
	l := uncounted(asked, &t.uncounted)
	q, held := it.held()
	if cost > 0 && t.stopsAt(q) {
		return ErrUndeclared
	}
	left := b.Left(l, t.now)
	held = held && cost > 0
	buf := t.e.buffers.get()
	var next []byte
	defer func() { t.e.buffers.put(buf, next) }()
	switch {
	case left > 0 || held:
		next, err = limit.PeekMoved(l, state, t.now, cost, *buf, d)
	case most >= 0 && l.Algorithm == limit.QUEUE:
		next, err = limit.Reserve(l, state, t.now, cost, most, *buf, d)
	default:
		work := append((*buf)[:0], state...) // a step may change it in place
		next, err = limit.Take(l, work, t.now, cost, work[:0], d)
	}
	if err != nil {
		return err
	}
	if held && !d.Limited {
		if err := stand(l, state, t.now, d); err != nil {
			return err
		}
	}
	if left > 0 {
		b.Deny(t.now, left, d)
	} else if b.Remembered(t.now) {
		b.Prolong(t.now, d)
	}
	if next != nil && d.Limited && q != nil && !it.written {
		it.buf = b.Put(it.buf, l.Algorithm.Kind(), next)
		if it.moves(q, it.buf, table.BlockMark(asked, cost, d)) {
			return ErrUndeclared
		}
	}
	if d.Limited && q.Holds(t.member()) {
		behind(t.now, q, d)
	}
	if q != nil {
		it.keep(asked, cost)
	}
	it.count(d.Limited)
	switch {
	case next != nil:
		must := it.kind != 0 && !it.written
		if err := writeFor(it, asked, cost, d, next); err != nil {
			return err
		}
		it.Must = must
	case !it.written:
		it.mark, it.used = table.BlockMark(asked, cost, d), true
	}
	return nil
}

// peekBlock is limit.PeekBlock of an item, under l, which has the state.
func peekBlock(it *item, l *limit.Limit, state []byte, cost int64, d *limit.Decision) error {
	t := it.t
	b, err := blockOf(it)
	if err != nil {
		return err
	}
	left := b.Left(l, t.now)
	if left > 0 {
		l = uncounted(l, &t.uncounted)
	}
	if err := limit.Peek(l, state, t.now, cost, d); err != nil {
		return err
	}
	switch {
	case left > 0:
		b.Deny(t.now, left, d)
	case b.Remembered(t.now):
		b.Prolong(t.now, d)
	}
	return nil
}

// punish begins a block after a denial under l, which has BLOCK, unless the key is blocked or the denial was not the limit's. own is the
// limit's decision; nil for what a take would get. d is the decision, and becomes one that includes the block. It says what a block had to do
// with it.
func punish(it *item, l *limit.Limit, cost int64, own, d *limit.Decision) (BlockOutcome, error) {
	t := it.t
	if cost == 0 {
		return NoBlock, nil
	}
	if err := it.takeLate(); err != nil {
		return NoBlock, err
	}
	state, err := it.stateFor(l)
	if err == ErrWrongType {
		return NoBlock, nil // the request would have replaced it
	}
	if err != nil {
		return NoBlock, err
	}
	b, err := blockOf(it)
	if err != nil {
		return NoBlock, err
	}
	if b.Left(l, t.now) > 0 {
		return InBlock, nil
	}
	if own == nil {
		own = new(limit.Decision)
		if err := limit.Peek(uncounted(l, &t.uncounted), state, t.now, cost, own); err != nil || !own.Limited { // the denial is counted already
			return NoBlock, err // others wait for the key: that is no denial
		}
	}
	if err := b.Begin(l, t.now); err != nil {
		return NoBlock, err
	}
	kind, there := it.kind, it.kind != 0
	switch {
	case it.kind == limit.BLOCK:
		var was limit.Block
		if kind, _, err = was.Open(it.State, t.now); err != nil {
			return NoBlock, err
		}
	case !there:
		kind = l.Algorithm.Kind() // of what emptied has made
	}
	d.Reset = own.Reset // d may have that of the block before
	b.Deny(t.now, b.Length, d)
	buf := t.e.buffers.get()
	inner := append((*buf)[:0], state...)
	err = writeAround(it, &b, l, cost, d, kind, inner)
	t.e.buffers.put(buf, inner)
	if it.Must = there; err != nil {
		return NoBlock, err
	}
	t.tallies.count(blocksBegun)
	if q := it.s.waits.Find(it.Key); q.Holds(nil) {
		behind(t.now, q, d)
	}
	return BlockBegun, nil
}

// starts reports whether a request under l that replaces the key's state, and finds none of its own, starts afresh. It does not
// while the key is blocked.
func starts(it *item, l *limit.Limit) bool {
	if it.kind != limit.BLOCK {
		return it.kind != 0
	}
	b, err := blockOf(it)
	return err == nil && b.Left(l, it.t.now) == 0 && !isFor(it, l)
}
