package engine

import (
	"bytes"
	"math"
	"slices"

	"limitdb/limit"
)

// take decides on a state, as limit.Take and limit.TakeLease do, and returns
// how much was granted.
func (r *Request) take(state []byte, now int64, dst []byte, d *limit.Decision) (next []byte, granted int64, err error) {
	if r.Lease != nil {
		next, err = limit.TakeLease(r.Lease, state, now, dst, d)
		return next, 0, err
	}
	part, err := r.part(state, now)
	if err != nil {
		return nil, 0, err
	}
	next, err = limit.Take(&r.Limit, state, now, part, dst, d)
	if err != nil || d.Limited {
		part = 0
	}
	return next, part, err
}

// takes reports whether the request, if granted, takes something. Such a
// request must let those that wait go first.
func (r *Request) takes(state []byte, now int64) bool {
	if r.Lease != nil {
		return !r.Lease.Renews(state, now)
	}
	return r.Cost > 0
}

// waitModel is waiting in plain slow Go: it looks at every queue at every
// nanosecond, and decides every waiter that can be decided. A denial may move a
// key to a faster pace. For that, a waiter is denied when it comes and when
// something happens to its key, not at every nanosecond.
type waitModel struct {
	keys map[string]*waitModelKey
	log  []outcome
	// Decisions, as Stats has them.
	allowed, limited uint64
}

// count counts a decision.
func (m *waitModel) count(limited bool, err error) {
	switch {
	case err != nil:
	case limited:
		m.limited++
	default:
		m.allowed++
	}
}

type waitModelKey struct {
	state []byte
	kind  limit.Kind
	queue []modelWaiter
	turns []modelTurn // in the order in which they were given
	head  int         // the id of the head, −1 if there is none
}

type modelWaiter struct {
	id    int
	until int64
	r     Request
}

// modelTurn is a turn of a QUEUE.
type modelTurn struct {
	id         int
	due        int64 // when it is
	from, full int64 // how long the line was before it and behind it
	granted    int64
	l          limit.Limit
	d          limit.Decision
	hole       bool // nobody waits for it any more
}

// outcome says how the wait of a request has ended.
type outcome struct {
	key     string
	id      int
	at      int64
	limited bool
	granted int64
	err     error
	left    limit.Decision // of a granted request
}

func (m *waitModel) clone() *waitModel {
	c := &waitModel{keys: map[string]*waitModelKey{}}
	for name, k := range m.keys {
		c.keys[name] = &waitModelKey{bytes.Clone(k.state), k.kind, slices.Clone(k.queue), slices.Clone(k.turns), k.head}
	}
	return c
}

func (m *waitModel) key(name string) *waitModelKey {
	k := m.keys[name]
	if k == nil {
		k = &waitModelKey{head: -1}
		m.keys[name] = k
	}
	return k
}

// live drops a state that has expired.
func (k *waitModelKey) live(now int64) {
	if k.state != nil && limit.Expires(k.kind, k.state) <= now {
		k.state = nil
	}
}

// forget forgets the state, except for the turns that somebody waits for.
func (k *waitModelKey) forget(now int64) {
	k.state = nil
	if n := len(k.turns); n > 0 {
		t := &k.turns[n-1]
		state, err := limit.Take(&t.l, nil, now, 1, nil, new(limit.Decision))
		if err != nil {
			panic(err)
		}
		limit.Prolong(state, t.full)
		k.keep(now, limit.QUEUE.Kind(), state)
	}
}

// try decides r if it can be granted or never will be. Otherwise it returns false
// and changes nothing, except that the key may move to a faster pace.
func (k *waitModelKey) try(now int64, r *Request, d *limit.Decision) (decided bool, granted int64, err error) {
	k.live(now)
	if k.state != nil && !limit.SameFamily(k.kind, r.kind()) {
		return true, 0, ErrWrongType
	}
	if err := r.peek(bytes.Clone(k.state), now, d); err == nil && d.Limited && d.Wait != limit.Never {
		k.move(now, r)
		return false, 0, nil
	}
	next, granted, err := r.take(bytes.Clone(k.state), now, nil, d)
	if err != nil {
		return true, 0, err
	}
	k.keep(now, r.kind(), next)
	return true, granted, nil
}

// move keeps the faster pace that a denial of r moves the key to.
func (k *waitModelKey) move(now int64, r *Request) {
	if k.live(now); k.state == nil || !limit.SameFamily(k.kind, r.kind()) {
		return
	}
	if r.Lease != nil {
		return
	}
	var d limit.Decision
	plain := *r
	plain.Limit.CountDenied = false
	next, _, err := plain.take(bytes.Clone(k.state), now, nil, &d)
	if err == nil && d.Limited {
		k.keep(now, r.kind(), next)
	}
}

func (k *waitModelKey) keep(now int64, kind limit.Kind, next []byte) {
	if next != nil {
		k.state, k.kind = next, kind
		k.live(now)
	}
}

// serve decides the waiters that can be decided at now.
func (m *waitModel) serve(now int64, name string) {
	k := m.key(name)
	m.comeTurns(now, name)
	end := func(i int, o outcome) {
		o.key, o.id, o.at = name, k.queue[i].id, now
		m.log = append(m.log, o)
		m.count(o.limited, o.err)
		k.queue = slices.Delete(k.queue, i, i+1)
	}
	giveUp := func(by int64) bool {
		i := -1
		for j, w := range k.queue {
			if w.until <= by && (i < 0 || w.until < k.queue[i].until) {
				i = j
			}
		}
		if i >= 0 {
			end(i, m.denial(now, k, &k.queue[i].r))
		}
		return i >= 0
	}
	for giveUp(now - 1) {
	}
	for again := true; again; again = again || giveUp(now) {
		again = false
		for i := 0; i < len(k.queue) && !again; i++ {
			var d limit.Decision
			w, before := k.queue[i], bytes.Clone(k.state)
			decided, granted, err := k.try(now, &w.r, &d)
			switch {
			case decided:
				end(i, outcome{limited: d.Limited, granted: granted, err: err, left: d})
				again = true
			case !bytes.Equal(k.state, before):
				again = true
			case !w.isTooLate(now, d.Wait):
				i = len(k.queue) // it is the head: nobody overtakes it
			}
		}
	}
	k.findHead(now)
}

// findHead finds the first waiter that can be granted in time.
func (k *waitModelKey) findHead(now int64) {
	k.head = -1
	for _, w := range k.queue {
		var d limit.Decision
		if err := w.r.peek(bytes.Clone(k.state), now, &d); err != nil || !d.Limited || !w.isTooLate(now, d.Wait) {
			k.head = w.id
			return
		}
	}
}

// tick lets time pass. Nothing happens to a key unless a turn comes, a waiter
// gives up, or the head can be decided.
func (m *waitModel) tick(now int64, name string) {
	k := m.key(name)
	k.live(now)
	due := slices.ContainsFunc(k.turns, func(t modelTurn) bool { return !t.hole && t.due <= now })
	for _, w := range k.queue {
		var d limit.Decision
		due = due || w.until <= now || w.id == k.head &&
			(w.r.peek(bytes.Clone(k.state), now, &d) != nil || !d.Limited || d.Wait == limit.Never)
	}
	if due {
		m.serve(now, name)
	}
}

// isTooLate reports whether w, which can be granted after a wait, cannot be in time.
func (w *modelWaiter) isTooLate(now, wait int64) bool {
	return w.until <= now || w.r.Lease == nil && now+wait > w.until
}

// holds reports whether a waiter can be granted in time.
func (k *waitModelKey) holds(now int64) bool {
	return slices.ContainsFunc(k.queue, func(w modelWaiter) bool {
		var d limit.Decision
		err := w.r.peek(bytes.Clone(k.state), now, &d)
		return err != nil || !d.Limited || !w.isTooLate(now, d.Wait)
	})
}

// comeTurns ends the waits of those whose turns have come.
func (m *waitModel) comeTurns(now int64, name string) {
	k := m.key(name)
	for i := 0; i < len(k.turns); i++ {
		t := &k.turns[i]
		if t.hole || t.due > now {
			continue
		}
		t.d.Wait = 0
		m.log = append(m.log, outcome{key: name + " turn", id: t.id, at: now, granted: t.granted, left: t.d})
		for k.turns = slices.Delete(k.turns, i, i+1); i > 0 && k.turns[i-1].hole; i-- {
			k.turns = slices.Delete(k.turns, i-1, i) // it has passed
		}
		k.forgetHoles()
		i = -1
	}
}

// forgetHoles forgets the holes once nobody waits for a turn.
func (k *waitModelKey) forgetHoles() {
	if !slices.ContainsFunc(k.turns, func(t modelTurn) bool { return !t.hole }) {
		k.turns = nil
	}
}

// askTurn is ask for a request of a QUEUE.
func (m *waitModel) askTurn(now int64, name string, id int, r Request, until int64) (waiting bool, o outcome) {
	k := m.key(name)
	state := bytes.Clone(k.state)
	part, err := r.part(state, now)
	if err != nil {
		return false, outcome{err: err}
	}
	var d limit.Decision
	next, err := limit.Reserve(&r.Limit, state, now, part, max(0, until-now), nil, &d)
	if err != nil {
		return false, outcome{err: err}
	}
	from, full := limit.Expires(limit.QUEUE.Kind(), state), limit.Expires(limit.QUEUE.Kind(), next)
	k.keep(now, limit.QUEUE.Kind(), next)
	m.count(d.Limited, nil)
	switch {
	case d.Limited:
		return false, outcome{limited: true}
	case d.Wait == limit.Never || part == 0:
		o = outcome{granted: part, left: d}
	default:
		k.turns = append(k.turns, modelTurn{id: id, due: now + d.Wait, from: from, full: full, granted: part, l: r.Limit, d: d})
		waiting = true
	}
	m.serve(now, name)
	return waiting, o
}

// leaveTurn gives up a turn, and gives back the holes at the end of the line.
func (m *waitModel) leaveTurn(now int64, name string, id int) {
	k := m.key(name)
	for i := range k.turns {
		k.turns[i].hole = k.turns[i].hole || k.turns[i].id == id
	}
	for i := 0; i+1 < len(k.turns); i++ {
		if k.turns[i].hole && k.turns[i].full != k.turns[i+1].from { // somebody went in between
			k.turns = slices.Delete(k.turns, i, i+1)
			i--
		}
	}
	for n := len(k.turns); n > 0 && k.turns[n-1].hole; n = len(k.turns) {
		t := k.turns[n-1]
		k.live(now)
		full := limit.Expires(limit.QUEUE.Kind(), k.state)
		if full > t.full {
			k.turns = k.turns[:n-1]
			break
		}
		if full == t.full {
			next, err := limit.Refund(&t.l, bytes.Clone(k.state), now, t.granted, nil, new(limit.Decision))
			if err != nil {
				panic(err)
			}
			k.keep(now, limit.QUEUE.Kind(), next)
		}
		k.turns = k.turns[:n-1]
		m.serve(now, name)
	}
	k.forgetHoles()
}

// denial returns the answer to a request that has waited in vain. With algorithms
// that count denials, it counts if the request would be denied without the
// others.
func (m *waitModel) denial(now int64, k *waitModelKey, r *Request) outcome {
	k.live(now)
	var d limit.Decision
	if k.state != nil && !limit.SameFamily(k.kind, r.kind()) {
		return outcome{err: ErrWrongType}
	}
	state := bytes.Clone(k.state)
	if err := r.peek(state, now, &d); err != nil || !d.Limited || !r.Limit.CountDenied {
		return outcome{limited: err == nil, err: err}
	}
	next, _, err := r.take(state, now, nil, &d)
	k.keep(now, r.kind(), next)
	return outcome{limited: true, err: err}
}

// ask is Ask or, without an until, Take and Lease.
func (m *waitModel) ask(now int64, name string, id int, r Request, until int64) (waiting bool, o outcome) {
	m.serve(now, name)
	k := m.key(name)
	k.live(now)
	var d limit.Decision
	if k.state != nil && !limit.SameFamily(k.kind, r.kind()) {
		return false, outcome{err: ErrWrongType}
	}
	if err := r.peek(bytes.Clone(k.state), now, &d); err != nil {
		return false, outcome{err: err}
	}
	if d.Limited {
		k.move(now, &r)
		m.serve(now, name)
		if err := r.peek(bytes.Clone(k.state), now, &d); err != nil {
			return false, outcome{err: err}
		}
	}
	held := k.holds(now)
	free := !held || !r.takes(k.state, now)
	switch {
	case until > math.MinInt64 && r.hasTurns() && !held:
		return m.askTurn(now, name, id, r, until)
	case !d.Limited && free, d.Limited && d.Wait == limit.Never:
		_, granted, err := k.try(now, &r, &d)
		o = outcome{limited: d.Limited, granted: granted, err: err, left: d}
		m.count(o.limited, err)
		m.serve(now, name)
		return false, o
	case until > now && !r.hasTurns():
		k.queue = append(k.queue, modelWaiter{id, until, r})
		k.findHead(now)
		return true, o
	}
	o = m.denial(now, k, &r)
	m.count(o.limited, o.err)
	m.serve(now, name)
	return false, o
}

// granted reports whether a plain request would be granted after a wait in which
// nothing else happens.
func (m *waitModel) granted(now, wait int64, name string, r Request) bool {
	c := m.clone()
	c.serve(now, name)
	c.key(name).move(now, &r)
	c.serve(now, name)
	for t := now; t <= now+wait; t++ {
		c.tick(t, name)
	}
	_, o := c.ask(now+wait, name, 0, r, math.MinInt64)
	return o.err == nil && !o.limited
}

// behind returns how long a plain request is told to wait if it must let others go first. Otherwise held is false.
func (m *waitModel) behind(now int64, name string, r Request) (wait int64, held bool) {
	c := m.clone()
	c.serve(now, name)
	c.key(name).move(now, &r)
	c.serve(now, name)
	k := c.key(name)
	k.findHead(now)
	var own, head limit.Decision
	if k.head < 0 || r.peek(bytes.Clone(k.state), now, &own) != nil {
		return 0, false
	}
	wait = leastBehind
	if i := slices.IndexFunc(k.queue, func(w modelWaiter) bool { return w.id == k.head }); k.queue[i].r.peek(bytes.Clone(k.state), now, &head) == nil && head.Limited {
		wait = max(wait, head.Wait)
	}
	if own.Limited {
		wait = max(wait, own.Wait)
	}
	return wait, true
}
