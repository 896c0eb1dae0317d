package engine

import (
	"limitdb/engine/table"
	"limitdb/engine/wait"
	"limitdb/limit"
)

// What a step does at a key for which others wait.

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
	t.asking = nil
	t.tallies.forget()
	it := t.moved
	if err := it.write(t.movedAs, it.buf); err != nil {
		return err
	}
	it.Must, it.other = true, true
	_, err := t.commit()
	return err
}
