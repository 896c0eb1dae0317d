package engine

import (
	"math"

	"limitdb/engine/table"
	"limitdb/engine/wait"
	"limitdb/limit"
)

// Waiting. A request that is denied but may wait is parked in the queue of its key: see package wait.
//
//  1. Ask decides as Take or Together would. If the slowest limit, which denies for the longest time, has something
//     to wait for, the request waits in that key's queue. It holds nothing: the states stay as they are, except that
//     keys move to the pace of a raised limit, as at any denial. It holds up nobody at its other keys: a caller that
//     waits an hour for its own limit must not stop those with whom it shares another.
//  2. The head of a queue is decided when it can be granted, by the same step as before. If it is denied again, it
//     waits on: in the same queue or in that of the limit that is the slowest now, at its place by the order of asking.
//     A member whose time is over is denied.
//  3. Whatever changes the key of a queue notes that, and looks at the queue when it has let go of the locks: see serve.
//     So do Wake, at the queue's deadline, and a step that takes from a key whose queue is due.
//  4. A later request does not overtake. While a queue has a head, a request that takes something is denied or parked
//     behind it. It is told when the head goes, or its own wait: see behind. A request that takes nothing (cost 0, the
//     renewal of a lease, a refund) goes through. A lease never steps aside: another lease may be released long before
//     it ends, and a request for a large share would never get it if small ones passed it.
//  5. A request of a QUEUE gets its turn when it asks, and only the answer waits. If it leaves, the turn is given back
//     as soon as no turn is behind it: see wait.Line. A QUEUE that denies is not waited for.
//
// The engine has no clock. Its owner calls Wake at the time that the last Wake returned, and when Sooner says that there
// is an earlier one. Builds with the tag selfcheck check, while nothing runs, that a head could not be granted at the time
// of the last step, and that no member that has stepped aside could be granted in time.
//
// Rejected: waiting in the queues of all keys. The first in line at a limit that all share would stop everybody while it
// waits for a limit of its own. Also rejected: taking from each limit as soon as it grants. Others could not use what was
// taken, and if the request gives up, nobody does. Also rejected: taking for the waiter at once, in the future, as Reserve
// does. When a waiter leaves, what it took cannot be handed on exactly, and windows and logs have no future to take from.

// Ask asks for w, of key or, if w.All is not nil, of all its keys. It decides as Take and Together do, and counts that.
// If w is denied at first, and there is something to wait for, it waits, once the transaction is stored, until w.Until at
// the latest. Ask then returns true, even if w has been decided since. Waiting requests of one key are granted in the order
// of asking, each at the first moment at which that is possible, if Wake is called then.
//
// A request of QUEUE gets its turn now and is granted when the turn comes. It is denied at once if that would be after
// w.Until. A transaction asks for one request at most.
//
// The errors are those of Take and Together. They may also arise when a waiting request is finally decided.
func (t *Txn) Ask(key []byte, w *Waiter) (waits bool, err error) {
	w.member.Of, w.member.Until, w.member.Patient = w, w.Until, w.Lease != nil
	t.own = asking{t: t, w: w, key: key, why: asks}
	t.asking = &t.own
	err = t.own.run()
	return t.own.waits, err
}

// Cancel gives up w's place at now. It decides w with err or, if err is nil,
// with a denial. It returns false if w had been decided before. Owner is not
// notified.
//
// A QUEUE's turn is given back as soon as no turn is behind it: at once, or
// when those behind it have been cancelled as well. Until then it may pass
// unused.
//
// A request for several limits that waits for its turn has taken from all of
// them, and gives nothing back. If err is nil, it stays granted, and its
// decisions say how long it is until the turn.
func (e Waits) Cancel(now int64, w *Waiter, err error) bool {
	return w.leave(now, &asking{w: w, why: cancels, cause: err})
}

// Withdraw is Cancel for a request for several limits that will ask again, perhaps for
// other limits. It leaves one alone that has been granted and waits for its turn.
// The decisions are not valid afterwards.
func (e Waits) Withdraw(now int64, w *Waiter) bool {
	return w.leave(now, &asking{w: w, why: withdraws, cause: errWithdrawn})
}

// leave carries out a, in the engine in which w waits.
func (w *Waiter) leave(now int64, a *asking) (decided bool) {
	if w.Done() || w.engine == nil {
		return false
	}
	decided = w.engine.decide(now, a)
	if a.from != nil {
		w.engine.serve(now, a.from)
	}
	return decided
}

// Wake grants the waiters that can be granted at now, denies those whose time
// is over, and returns when to call it again: math.MaxInt64 if nobody waits.
// Sooner signals when an earlier time appears meanwhile.
func (e Waits) Wake(now int64) (next int64) {
	for {
		q, next := e.alarms.Pop(now)
		if q == nil {
			return next
		}
		e.serve(now, q)
	}
}

// Sooner returns a channel that receives when Wake should be called, because
// there is an earlier deadline than the last Wake returned.
func (e Waits) Sooner() <-chan struct{} { return e.alarms.Sooner() }

// serveMost is the most waiters that serve decides. Wake decides the others.
const serveMost = 256

// serve decides the waiters of q that can be decided at now. The caller holds no lock.
func (e *core) serve(now int64, q *wait.Queue) {
	for range serveMost {
		w := e.shards[q.Shard].nextOf(now, q)
		if w == nil {
			return
		}
		e.look(now, q, w)
	}
	e.lookSoon(q)
}

// look decides w, which was found in q. It may have gone to another queue since.
func (e *core) look(now int64, q *wait.Queue, w *Waiter) {
	a := &asking{w: w, why: isReady}
	if e.decide(now, a) {
		w.Owner.Wake()
	}
	if a.from != nil && a.from != q {
		e.lookSoon(a.from)
	}
}

// lookSoon has Wake look at q.
func (e *core) lookSoon(q *wait.Queue) {
	s := &e.shards[q.Shard]
	s.mu.Lock()
	s.waits.LookSoon(q)
	s.mu.Unlock()
}

// nextOf returns the waiter of q to decide at now, or nil. Once the engine is closed, all are to be decided.
func (s *shard) nextOf(now int64, q *wait.Queue) *Waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := q.First()
	if !s.closed {
		m = s.waits.Next(s.clamp(now), q)
	}
	if m == nil {
		return nil
	}
	return m.Of.(*Waiter)
}

// decide carries out a in a step of its own, and reports whether that has ended the wait.
func (e *core) decide(now int64, a *asking) (decided bool) {
	var keys [][]byte
	var place Place
	if all := a.w.All; all != nil {
		keys = all.Declares()
	} else {
		a.key = a.w.at.Key()
		keys, place = [][]byte{a.key}, Place(a.w.at.Hash)
	}
	err := e.update(place, now, keys, func(t *Txn) error {
		a.t, t.asking = t, a
		return a.run()
	})
	switch {
	case err == errGone:
		return false
	case err != nil:
		return e.giveUp(now, keys, a, err)
	}
	return !a.waits
}

// giveUp ends the wait of a request that cannot be decided.
func (e *core) giveUp(now int64, keys [][]byte, a *asking, err error) (decided bool) {
	t := e.begin(keys)
	defer e.end(t)
	t.lock(now)
	defer t.unlock()
	w := a.w
	if w.Done() {
		return false
	}
	if q := w.member.Queue(); q != nil {
		a.from = q
	}
	e.leaveQueue(w)
	if a.cause != nil {
		err = a.cause
	}
	w.finish(-1, err)
	return true
}

// leaveQueue takes w out of its queue, if it is in one. The locks of all its keys' shards, which are held, guard that.
func (e *core) leaveQueue(w *Waiter) {
	if q := w.member.Queue(); q != nil {
		e.shards[q.Shard].waits.Leave(&w.member)
	}
}

// asking is what a step does with a request that may wait.
type asking struct {
	t     *Txn
	w     *Waiter
	key   []byte // of a request for one limit
	why   reason
	cause error // that w ends with

	from   *wait.Queue // in which w was
	leaves bool        // it does not wait any longer
	waits  bool        // it waits, or waits on
	at     int         // the limit that denies; −1: all grant
	slow   int         // the index of the item that w waits for
	away   int64       // how long it is until the turn that it has been granted; 0: it has none
	before int64       // when the state of a QUEUE expired before w took its turn
}

// reason is why a request is asked for.
type reason uint8

const (
	asks    reason = iota
	isReady        // it is the head and may be granted, its turn has come, or its time is over
	cancels
	withdraws
)

// member returns who asks, or nil.
func (t *Txn) member() *wait.Member {
	if t.asking == nil || t.asking.leaves {
		return nil
	}
	return &t.asking.w.member
}

// run decides what is asked for. What becomes of the request is carried out once the transaction is stored: see stored.
func (a *asking) run() error {
	t := a.t
	w, q := a.w, a.w.member.Queue()
	if q != nil {
		a.from = q
	}
	a.at, a.leaves, a.waits, a.away = -1, a.why == cancels, false, 0
	switch {
	case w.Done():
		return errGone
	case q != nil && q.Turn != nil && (a.why == withdraws || a.why == isReady && q.Due() > t.now):
		return errGone // in the second case, another has just looked at the queue from which it has come
	case q != nil && q.Turn != nil && q.Turn.InLine && a.why == cancels:
		return a.giveTurnBack(q)
	case q != nil && q.Turn != nil:
		a.tellTurn(q.Turn)
		return nil
	case a.why == withdraws:
		a.at = 0 // it has been granted nothing
		return nil
	case a.why == isReady && w.Until < t.now:
		a.leaves = true
	case a.why == isReady && !w.member.IsHead(): // perhaps because an earlier run has taken it out
		if a.leaves = w.Until == t.now; !a.leaves {
			return errGone
		}
	}
	if a.leaves {
		t.e.leaveQueue(w) // those that stay go before it
	}
	if err := a.decide(); err != nil || a.at >= 0 {
		return err
	}
	if it, away := a.turnAway(); away > 0 {
		a.slow, a.away, a.waits = t.index(&it.Change), away, true
	}
	return nil
}

// decide decides on the request.
func (a *asking) decide() (err error) {
	t := a.t
	w := a.w
	if w.All != nil {
		all := together{t: t, r: w.All, a: a}
		a.at, err = all.decide()
		return err
	}
	it, err := t.current(a.key)
	if err != nil {
		return err
	}
	a.slow = t.index(&it.Change)
	if w.hasTurns() {
		if state, err := it.stateFor(&w.Limit); err == nil {
			a.before = limit.Expires(w.kind(), state)
		}
	}
	if w.granted, err = it.take(&w.Request, a, &w.decision); w.decision.Limited {
		a.at = 0
	}
	return err
}

// stays reports whether the request waits, or waits on, after a limit has denied it. It has not been
// denied then, so nothing is counted. A head whose time is over now lets those behind it go first.
func (a *asking) stays(now int64, l *limit.Limit, d *limit.Decision) bool {
	a.waits = d.Limited && !a.leaves && (a.w.Until > now || a.why == isReady) && d.Wait != limit.Never && l.Algorithm != limit.QUEUE
	return a.waits
}

// uncount takes back the count of a decision on it: of one who waits, or of one who leaves and has moved the key, if at
// all, while it waited.
func (a *asking) uncount(it *item, l *limit.Limit) {
	switch {
	case a.waits:
		it.other = it.other || it.denied > 0
		it.allowed, it.denied = 0, 0
	case a.leaves && it.denied > 0 && !l.CountDenied:
		it.revert()
	}
}

// most returns how long a turn may be away.
func (a *asking) most(now int64) int64 {
	if a == nil {
		return -1
	}
	return max(0, a.w.Until-now)
}

// stored carries out what run has decided, once that is stored.
func (a *asking) stored() {
	t := a.t
	if a.waits {
		a.park()
		return
	}
	t.e.leaveQueue(a.w)
	a.w.finish(a.at, a.cause)
}

// turnAway returns the item of the last of the turns that the request has taken and must wait for, and how long that is; 0
// for none.
func (a *asking) turnAway() (it *item, away int64) {
	t := a.t
	w := a.w
	if w.All == nil {
		if w.hasTurns() && w.granted > 0 { // a request that takes nothing has no turn
			return &t.items[a.slow], w.decision.Wait
		}
		return nil, 0
	}
	if w.All.Hold != nil { // it is told its turn at once
		return nil, 0
	}
	for i := range w.All.Decisions {
		if d := &w.All.Decisions[i]; d.Wait > away && !w.All.soft(i) {
			it, away = t.part(i), d.Wait
		}
	}
	return it, away
}

// park has the request wait for the key of its slowest limit or, once it is granted, for its turn.
func (a *asking) park() {
	t := a.t
	it, w := &t.items[a.slow], a.w
	waits := &it.s.waits
	switch q := w.member.Queue(); {
	case a.away > 0:
		t.e.leaveQueue(w)
		turn := wait.Turn{Given: t.now}
		if w.All == nil {
			turn.Limit, turn.Amount, turn.InLine = &w.Limit, w.granted, true
			turn.From, turn.Full = a.before, fullAt(it, &w.Limit)
		}
		waits.WaitForTurn(&w.member, it.Hash, it.Key, later(t.now, a.away), turn)
	case q != nil && q == waits.Find(it.Key) && it.written:
		return // its denial has changed the key: the queue is looked at again
	default:
		d := &w.decision
		if w.All != nil {
			d = &w.All.Decisions[a.at]
			w.Request = Request{Limit: w.All.Limits[a.at], Cost: w.All.Costs[a.at]}
		}
		if q != waits.Find(it.Key) {
			t.e.leaveQueue(w)
		}
		waits.Wait(t.now, &w.member, it.Hash, it.Key, min(later(t.now, d.Wait), it.nextReturn()))
	}
	w.isIn(t.e)
}

// tellTurn makes the decisions those of a request whose turn has come or, if it leaves, say how long it is until then.
func (a *asking) tellTurn(turn *wait.Turn) {
	t := a.t
	w := a.w
	tell := func(key []byte, l *limit.Limit, d *limit.Decision) {
		left := limit.Never
		if elapsed := t.now - turn.Given; d.Wait > elapsed {
			left = d.Wait - elapsed
		}
		d.Wait = left
		var there limit.Decision
		if t.Peek(key, l, 0, &there) == nil {
			d.Remaining, d.Reset = there.Remaining, there.Reset
		}
	}
	if w.All == nil {
		tell(a.key, &w.Limit, &w.decision)
		return
	}
	for i, key := range w.All.Keys {
		tell(key, &w.All.Limits[i], &w.All.Decisions[i])
	}
}

// giveTurnBack gives up the turn of a QUEUE's request, together with the holes
// before it that are then at the end of the line. A request that did not
// wait may be behind a turn, so a turn is at the end only if the state is the
// one that the turn left. If the state has been forgotten, there is nothing to
// give back.
func (a *asking) giveTurnBack(q *wait.Queue) error {
	t := a.t
	w := a.w
	it, err := t.current(a.key)
	if err != nil {
		return err
	}
	waits := &it.s.waits
	if a.at = 0; !q.Turn.IsHole() {
		waits.GiveUp(q.Turn)
	}
	for last := waits.LastTurn(it.Key); last != nil && last.IsHole(); last = waits.LastTurn(it.Key) {
		state, err := it.stateFor(last.Limit)
		if err != nil {
			return err
		}
		waits.Pass(last)
		full := limit.Expires(limit.QUEUE.Kind(), state)
		if full > last.Full {
			break // another request is behind it
		}
		if full == last.Full {
			if err := it.giveBack(last.Limit, state, last.Amount, &w.decision); err != nil {
				return err
			}
		}
	}
	state, err := it.stateAsked(&w.Request)
	if err == nil {
		err = stand(&w.Request.Limit, state, t.now, &w.decision)
	}
	w.granted = 0
	return err
}

// keepTurns gives a forgotten key a state that keeps the next request behind
// the turns of its line, the last of which is t.
func (s *shard) keepTurns(now int64, t *wait.Turn) {
	var d limit.Decision
	next, err := limit.Take(t.Limit, nil, now, 1, s.next[:0], &d)
	if err != nil {
		return // impossible, since it was granted before
	}
	limit.Prolong(next, t.Full)
	sp := table.Spot{Hash: t.Hash(), Key: t.Key()}
	s.table.Live(now, &sp)
	// The error is one of the system. The turns are then forgotten.
	_ = s.store(now, &sp, table.Unknown(limit.QUEUE.Kind()), next, true)
}

// holdTurns limits a refund, whose new state is next, to what lies behind the
// turns of those that wait. Otherwise the next request would go at the same
// time as one of them. before is when the state expired before the refund.
func (s *shard) holdTurns(now, before int64, key []byte, l *limit.Limit, next []byte, d *limit.Decision) error {
	last := s.waits.LastTurn(key)
	if last == nil || limit.Expires(l.Algorithm.Kind(), next) >= min(before, last.Full) {
		return nil
	}
	limit.Prolong(next, min(before, last.Full))
	err := limit.Peek(l, next, now, 0, d)
	d.Wait = limit.Never
	return err
}

// later returns t + d, or math.MaxInt64 if that overflows.
func later(t, d int64) int64 {
	if d > math.MaxInt64-t && t > 0 {
		return math.MaxInt64
	}
	return t + d
}
