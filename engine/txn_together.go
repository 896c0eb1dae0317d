package engine

import (
	"limitdb/hold"
	"limitdb/limit"
)

// Together decides on all limits of r as one request, writes the answers to r.Decisions, and counts it.
//
// If everything was granted, at is -1. Otherwise at is the limit that denies
// for the longest time and is not soft, the first of several; a denial for ever is
// the longest. After its Wait everything is granted, if nobody else asks. A limit
// also denies if others wait for its key; its Wait is then the least that they take
// (see Ask). After a denial nothing has changed, except that denying keys have
// moved to the pace of a limit that was raised. So limits with CountDenied count
// nothing either, unless r.CountDenied is set. The decisions of the limits that
// would have granted say how much is available.
//
// The errors are those of Take, ErrDuplicate and ErrTooMany, and those of holds; at is then the key
// at fault, -1 for ErrTooMany, and nothing of r has been written. ErrOOM comes from the commit.
func (t *Txn) Together(r *Together) (at int, err error) {
	all := together{t: t, r: r}
	return all.decide()
}

// together is one decision on all limits of a request, in a transaction.
type together struct {
	t *Txn
	r *Together
	a *asking // nil: the request does not wait
}

// decide is Txn.Together.
func (all *together) decide() (at int, err error) {
	if all.r.Hold != nil {
		return all.hold()
	}
	if all.r.Once != nil {
		return all.once()
	}
	return all.decideNow()
}

// once is decide for a request that counts once.
func (all *together) once() (at int, err error) {
	t, r := all.t, all.r
	o := r.Once
	if r.Peek || len(r.Keys) == 0 {
		return all.decideNow()
	}
	key := o.Key
	if key == nil {
		key = r.Keys[0]
	}
	it, err := t.current(key)
	if err != nil {
		return -1, err
	}
	var m remembered
	if err := o.find(t, t.index(&it.Change), &m); err != nil {
		return -1, err
	}
	if m.known {
		return all.again(&m)
	}
	if at, err = all.decideNow(); err != nil || at >= 0 {
		return at, err
	}
	taken, wait := int64(0), int64(0)
	for i := range r.Decisions {
		taken = max(taken, r.Costs[i])
		if !r.soft(i) {
			wait = max(wait, r.Decisions[i].Wait)
		}
	}
	if taken == 0 {
		return at, nil
	}
	return at, o.add(t, taken, wait, &m)
}

// again is decide for a request that was granted before.
func (all *together) again(m *remembered) (at int, err error) {
	t, r := all.t, all.r
	if at, err := all.gather(); err != nil {
		return at, err
	}
	for i := range r.Keys {
		it := t.part(i)
		if err := it.takeLate(); err != nil {
			return i, err
		}
		if lease := r.lease(i); lease != nil {
			if err := leaseAgain(it, lease, r.soft(i), &r.Decisions[i]); err != nil {
				return i, err
			}
			continue
		}
		if err := tellAgain(it, &r.Limits[i], m, &r.Decisions[i]); err != nil {
			return i, err
		}
		if r.Limits[i].Algorithm != limit.QUEUE || r.soft(i) {
			r.Decisions[i].Wait = limit.Never
		}
	}
	t.Count(Granted)
	return -1, nil
}

// decideNow is decide for a request of which nothing is remembered.
func (all *together) decideNow() (at int, err error) {
	t, r, a := all.t, all.r, all.a
	if at, err := all.gather(); err != nil {
		return at, err
	}
	limited, earlier, long := false, false, false // whether any limit, any item, any key is so
	for i, key := range r.Keys {
		it := t.part(i)
		if err := all.decidePart(it, i); err != nil {
			all.undo(i)
			return i, err
		}
		limited, earlier, long = limited || r.Decisions[i].Limited, earlier || it.earlier, long || len(key) > MaxKey
	}
	if at = -1; limited {
		at = r.Worst()
	}
	if a != nil && a.leaves && at < 0 { // it would be granted
		at = max(0, r.index(a.w.Key()))
		if err := t.part(at).deny(&Request{Limit: r.Limits[at], Lease: r.lease(at)}, &r.Decisions[at]); err != nil {
			return at, err
		}
		limited = true
	}
	if long && at < 0 {
		if at := all.tooLong(); at >= 0 {
			all.undo(len(r.Keys))
			return at, ErrKey
		}
	}
	if limited || earlier {
		if at, err = all.conclude(at); err != nil {
			return at, err
		}
	}
	if a != nil && at >= 0 {
		stays := a.stays(t.now, &r.Limits[at], &r.Decisions[at])
		for i := range r.Keys {
			a.uncount(t.part(i), &r.Limits[i])
		}
		if stays {
			a.slow = int(t.parts[at])
			return at, nil
		}
	}
	if r.CountDenied && limited {
		if at, err = all.countDenials(at); err != nil {
			return at, err
		}
	}
	if limited && !r.Peek {
		if at, err = all.punish(at); err != nil {
			return at, err
		}
	}
	if r.Free != nil && r.Peek && at < 0 {
		if at, err := all.tellFree(); err != nil {
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
func (all *together) gather() (at int, err error) {
	t, keys := all.t, all.r.Keys
	switch {
	case len(keys) > MaxAll:
		return -1, ErrTooMany
	case all.declared(): // nearly always
		for i := len(t.natural); i < len(keys); i++ {
			t.natural = append(t.natural, uint16(i))
		}
		t.parts = t.natural[:len(keys)]
		return -1, nil
	}
	t.round++
	t.found = t.found[:0]
	for i, key := range keys {
		n, err := t.find(i, key)
		if err != nil {
			return i, err
		}
		it := &t.items[n]
		if it.round == t.round {
			return i, ErrDuplicate
		}
		it.round = t.round
		t.found = append(t.found, uint16(n))
	}
	t.parts = t.found
	return -1, nil
}

// declared reports whether the keys are those that the transaction was begun with, and differ: its first items are
// theirs, in their order.
func (all *together) declared() bool {
	t, keys := all.t, all.r.Keys
	if len(keys) != t.declared || t.twins || t.undeclared {
		return false
	}
	for i := range keys {
		if !sameSlice(keys[i], t.items[i].Key) {
			return false
		}
	}
	return true
}

// part returns the item of the limit at an index.
func (t *Txn) part(i int) *item { return &t.items[t.parts[i]] }

// decidePart decides on one limit, whose item is it. What the transaction has written before stays as
// it is, because it could not be restored: conclude takes from it.
func (all *together) decidePart(it *item, i int) error {
	r := all.r
	if it.Grow {
		if err := it.takeLate(); err != nil {
			return err
		}
	}
	it.earlier = it.written
	l, d := &r.Limits[i], &r.Decisions[i]
	if lease := r.lease(i); lease != nil {
		if r.Peek {
			return it.peekLease(lease, d)
		}
		if r.Hold != nil || r.Once != nil {
			has, err := hasLease(it, lease)
			if err == nil && has {
				err = r.usedID()
			}
			if err != nil {
				return err
			}
		}
		if it.earlier {
			return it.peekLease(lease, d)
		}
		return it.lease(lease, d)
	}
	if r.Peek || it.earlier {
		return it.peek(uncounted(l, &all.t.uncounted), r.Costs[i], d)
	}
	return it.decide(l, r.Costs[i], all.most(i), d)
}

// most returns how long the turn of a limit may be away.
func (all *together) most(i int) int64 {
	if all.a == nil || all.r.soft(i) {
		return -1
	}
	return all.a.most(all.t.now)
}

// tooLong returns the index of a new key that is too long to be stored, or -1.
func (all *together) tooLong() int {
	for i, key := range all.r.Keys {
		if len(key) <= MaxKey {
			continue
		}
		if it := all.t.part(i); it.written && (!it.Found() || it.expired) {
			return i
		}
	}
	return -1
}

// undo takes back what the first n limits have granted or moved.
func (all *together) undo(n int) {
	for i := range n {
		if it := all.t.part(i); !all.r.Peek && !it.earlier {
			it.retract(all.r.Decisions[i].Limited)
		}
	}
}

// conclude keeps the decisions if at, the limit that denies, is -1. Otherwise it
// takes back what was granted. The keys of denials keep a faster pace.
func (all *together) conclude(at int) (int, error) {
	t, r := all.t, all.r
	for i := range r.Keys {
		it, l, d := t.part(i), &r.Limits[i], &r.Decisions[i]
		var err error
		switch {
		case at >= 0 && !d.Limited:
			if !r.Peek && !it.earlier {
				it.retract(false)
			}
			if lease := r.lease(i); lease != nil {
				err = it.free(lease, d)
			} else {
				err = it.peek(l, 0, d)
			}
		case it.earlier && !r.Peek && r.lease(i) != nil:
			err = it.lease(r.lease(i), d)
		case it.earlier && !r.Peek:
			err = it.decide(l, r.Costs[i], all.most(i), d)
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

// tellFree says what is available, as conclude does if another limit denies.
func (all *together) tellFree() (at int, err error) {
	t, r := all.t, all.r
	for i := range r.Keys {
		it, d := t.part(i), &r.Free[i]
		if lease := r.lease(i); lease != nil {
			err = it.free(lease, d)
		} else {
			err = it.peek(&r.Limits[i], 0, d)
		}
		if err != nil {
			return i, err
		}
	}
	return -1, nil
}

// countDenials counts the denials of limits that count their own. at is the limit that
// denies, or -1.
func (all *together) countDenials(at int) (int, error) {
	t, r, counted := all.t, all.r, false
	for i := range r.Keys {
		l := &r.Limits[i]
		if !l.CountDenied || !r.Decisions[i].Limited {
			continue
		}
		it, d := t.part(i), &r.Decisions[i]
		var err error
		if counted = true; r.Peek {
			err = it.peek(l, r.Costs[i], d)
		} else {
			err = it.countDenial(l, r.Costs[i], d)
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

// punish begins the blocks of the limits that deny, each of its own key only. at is the limit that denies, or -1.
func (all *together) punish(at int) (int, error) {
	t, r, begun := all.t, all.r, false
	for i := range r.Keys {
		l := &r.Limits[i]
		if l.Block == 0 || !r.Decisions[i].Limited {
			continue
		}
		as, err := punish(t.part(i), l, r.Costs[i], nil, &r.Decisions[i])
		if err != nil {
			return i, err
		}
		if begun = begun || as == BlockBegun; r.Blocks != nil {
			r.Blocks[i] = as
		}
	}
	if begun && at >= 0 {
		at = r.Worst()
	}
	return at, nil
}

// RefundAll gives r.Costs[i] back to r.Keys[i] under r.Limits[i] for all i, each as
// Refund does, and counts one refund. Leases stay as they are.
func (t *Txn) RefundAll(r *Together) error {
	for i, key := range r.Keys {
		if lease := r.lease(i); lease != nil {
			it, err := t.current(key)
			if err == nil {
				err = it.free(lease, &r.Decisions[i])
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := t.Refund(key, &r.Limits[i], r.Costs[i], &r.Decisions[i]); err != nil {
			return err
		}
	}
	t.Count(Refunded)
	return nil
}

// hold is Together for a request that is held. What is refused on one key is held on none.
func (all *together) hold() (at int, err error) {
	t, r := all.t, all.r
	known, at, err := all.heldBefore()
	if r.Hold.Again = known; known || err != nil {
		return at, err
	}
	at, err = all.decideNow()
	if err != nil || at >= 0 {
		return at, err
	}
	for i := range r.Keys {
		if r.soft(i) || r.lease(i) != nil {
			continue
		}
		set, beside, err := setOf(t, int(t.parts[i]))
		if err != nil {
			return i, err
		}
		e, err := entryOf(t, beside, set, r.Hold, &r.Limits[i])
		if err == nil {
			err = r.Hold.grantedIn(t, int(t.parts[i]), &e, &r.Limits[i], r.Costs[i], &r.Decisions[i])
		}
		if err == nil {
			err = note(t, set, beside, &e)
		}
		if err != nil { // of the whole step, since heldBefore has found room
			return i, err
		}
	}
	if r.Hold.List != nil {
		err = keepList(t, r)
	}
	return -1, err
}

// heldBefore answers a request whose id is known of one of the keys. If the same request is held already, it is granted again and
// takes nothing. It is an error if something stands in the way of holding it; the index is that of the key.
func (all *together) heldBefore() (known bool, at int, err error) {
	t, r := all.t, all.r
	if r.Hold.List != nil {
		known, err := listed(t, r)
		if err == nil && known {
			at, err = all.grantAgain()
			return true, at, err
		}
		if err != nil {
			return false, -1, err
		}
	}
	n, held, first := 0, 0, 0
	for i, key := range r.Keys {
		if r.soft(i) || r.lease(i) != nil {
			continue
		}
		held++
		var e hold.Entry
		set, beside, err := setFor(t, i, key)
		switch {
		case err != nil:
		case !set.Find(t.now, r.Hold.ID, &e):
			_, err = entryOf(t, beside, set, r.Hold, &r.Limits[i])
		default:
			if n++; n == 1 {
				first = i
			}
			err = again(t, &e, r.Hold, &r.Limits[i], r.Costs[i])
		}
		if err != nil {
			return false, i, err
		}
	}
	switch {
	case n == 0:
		return false, -1, nil
	case n < held || r.Hold.List != nil: // by another request
		return false, first, ErrHeld
	}
	at, err = all.grantAgain()
	return true, at, err
}

// grantAgain answers a request that is granted again.
func (all *together) grantAgain() (at int, err error) {
	t, r := all.t, all.r
	if at, err := all.gather(); err != nil {
		return at, err
	}
	for i := range r.Keys {
		it := t.part(i)
		lease := r.lease(i)
		if err = it.takeLate(); err == nil && lease != nil {
			err = leaseAgain(it, lease, r.soft(i), &r.Decisions[i])
		} else if err == nil {
			err = grantAgain(it, &r.Limits[i], &r.Decisions[i])
		}
		if err != nil {
			return i, err
		}
	}
	t.Count(Granted)
	return -1, nil
}
