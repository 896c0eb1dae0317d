package engine

import (
	"errors"
	"math"

	"limitdb/limit"
)

// Many keys in one atomic step.
//
// TakeAll locks the keys' shards, each once and in the order of their index.
// Everything that locks more than one shard does so in this order, so there is
// no deadlock. The time of the step is the latest that any of the shards has
// seen. Three phases follow, and only the last one changes anything:
//
//  1. Decide every limit on a copy of its state or, if the state is long, by
//     peeking. If one denies, stop.
//  2. Make room for the new states. That may rewrite segments, drop expired keys
//     and, if the policy allows it, evict, as a single Take would. If that evicted
//     a key of this step, go back to phase 1; each round leaves fewer keys that
//     can be evicted. If there is no room, no key of this step has changed yet.
//  3. Store the new states, which can no longer fail.
//
// Rejected: storing one key after the other, and undoing that if the next one
// finds no room. The old state needs room, too, once the record has moved, and
// an eviction for the last key may hit the first.

// MaxAll is the largest number of keys of one TakeAll. It bounds how long the
// shards are locked.
const MaxAll = 128

// Errors of TakeAll, besides those of Take.
var (
	// ErrDuplicate is returned for a key that is given twice.
	ErrDuplicate = errors.New("engine: a key is given twice")
	// ErrTooMany is returned for more than MaxAll keys.
	ErrTooMany = errors.New("engine: too many keys at once")
)

// TakeAll takes costs[i] from keys[i] under limits[i] for all i in one atomic
// step, or nothing from any key if one limit denies. It writes the answers to
// ds. All four slices have the same length.
//
// If everything was granted, at is -1. Otherwise at is the limit that denies
// for the longest time, the first of several; a denial for ever is the longest.
// After its Wait everything is granted, if nobody else asks. A limit also
// denies if others wait for its key (see Ask). After a denial nothing has
// changed, except that denying keys have moved to the pace of a limit that was
// raised. So limits with CountDenied count nothing either. The decisions of the
// limits that would have granted say what is available.
//
// The errors are those of Take, ErrDuplicate and ErrTooMany; at is then the key
// at fault, -1 for ErrTooMany. After an error nothing has changed, and ds is
// not valid.
func (e *Engine) TakeAll(now int64, keys [][]byte, limits []limit.Limit, costs []int64, ds []limit.Decision) (at int, err error) {
	if len(keys) > MaxAll {
		return -1, ErrTooMany
	}
	p := e.plan(keys)
	defer e.done(p)
	if at := p.duplicate(keys); at >= 0 {
		return at, ErrDuplicate
	}
	r := request{keys, limits, costs, ds}
	at, err = p.take(now, &r)
	if err == errNoRoom && e.reclaim(now) {
		at, err = p.take(now, &r)
	}
	if err == errNoRoom {
		_, s := e.place(keys[at])
		err = s.refuse(err)
	}
	return at, err
}

// request is the arguments of TakeAll, including where its answers go.
type request struct {
	keys   [][]byte
	limits []limit.Limit
	costs  []int64
	ds     []limit.Decision
}

// take is TakeAll, except that it returns errNoRoom if there might be room
// elsewhere.
func (p *plan) take(now int64, r *request) (at int, err error) {
	now = p.lock(now)
	defer p.unlock()
	for again := true; again; again = p.lost(r) {
		if at, err := p.decide(now, r); err != nil {
			return at, err
		}
		if at = r.worst(); at >= 0 {
			return p.deny(now, r, at)
		}
		if at = p.tooLong(r); at >= 0 {
			return at, ErrKey
		}
		if !p.needsRoom() {
			break
		}
		if at, err = p.makeRoom(now, r); err != nil {
			return at, err
		}
	}
	return p.store(now, r)
}

// decide decides every limit and keeps the resulting states. Of several errors
// it returns that of the first key.
func (p *plan) decide(now int64, r *request) (at int, err error) {
	for i := range p.charges {
		c := &p.charges[i]
		if e := p.decideOne(c, now, r); e != nil && (err == nil || c.at < at) {
			at, err = c.at, e
		}
	}
	return at, err
}

func (p *plan) decideOne(c *charge, now int64, r *request) error {
	key, l := r.keys[c.at], &r.limits[c.at]
	sp := spot{h: c.h, key: key}
	c.s.live(now, &sp)
	state, err := c.s.stateFor(&sp, l)
	if err != nil {
		return err
	}
	if l.CountDenied { // a denial of one is not to be counted by another
		p.uncounted = *l
		p.uncounted.CountDenied = false
		l = &p.uncounted
	}
	c.there, c.gone, c.moved, c.needs = sp.at != nil, false, false, 0
	c.late = sp.at != nil && sp.r.isBoxed()
	var next []byte
	if c.late {
		err = limit.Peek(l, state, now, r.costs[c.at], &r.ds[c.at])
		c.changed = !r.ds[c.at].Limited && r.costs[c.at] > 0
		c.moved = err == nil && r.ds[c.at].Limited
	} else {
		c.state = append(c.state[:0], state...)
		next, err = limit.Take(l, c.state, now, r.costs[c.at], c.state[:0], &r.ds[c.at])
		c.changed = next != nil
	}
	if err != nil {
		return err
	}
	if c.changed && r.ds[c.at].Limited {
		c.state, c.moved, c.changed = next, true, false
	}
	if q := c.s.waits.find(key); q.holds() && r.costs[c.at] > 0 {
		return c.s.behind(now, q, state, &Request{Limit: *l, Cost: r.costs[c.at]}, &r.ds[c.at])
	}
	if c.changed && !c.late {
		c.state = next
		if c.gone = limit.Expires(l.Algorithm.Kind(), next) <= now; !c.gone {
			// Segments may be rewritten before the state is stored, but a
			// record is copied unchanged, so this stays true.
			c.needs = c.s.table.needs(&sp, next)
			c.must = sp.at != nil && len(next) <= len(state)
		}
	}
	return nil
}

// takeLate takes the decided cost from a long state in its box. Copying it as
// the others are copied would take longer than all the rest. Peek has granted
// it, so this can no longer fail.
func (c *charge) takeLate(sp spot, now int64, r *request) ([]byte, error) {
	l := &r.limits[c.at]
	state, err := c.s.stateFor(&sp, l)
	if err != nil {
		return nil, err
	}
	return limit.Take(l, state, now, r.costs[c.at], state[:0], &r.ds[c.at])
}

// worst returns the limit that denies for the longest time, or -1.
func (r *request) worst() int {
	at, longest := -1, int64(-1)
	for i := range r.ds {
		if d := &r.ds[i]; d.Limited {
			wait := d.Wait
			if wait == limit.Never {
				wait = math.MaxInt64
			}
			if wait > longest {
				at, longest = i, wait
			}
		}
	}
	return at
}

// tooLong returns the first new key to be stored that is too long, or -1.
func (p *plan) tooLong(r *request) int {
	at := -1
	for i := range p.charges {
		c := &p.charges[i]
		if c.changed && !c.there && len(r.keys[c.at]) > MaxKey && (at < 0 || c.at < at) {
			at = c.at
		}
	}
	return at
}

// needsRoom reports whether anything needs room.
func (p *plan) needsRoom() bool {
	for i := range p.charges {
		if c := &p.charges[i]; c.needs > 0 || c.late && c.changed {
			return true
		}
	}
	return false
}

// deny makes the answers of the limits that would have granted say what is
// available, and counts the decisions.
func (p *plan) deny(now int64, r *request, worst int) (at int, err error) {
	for i := range p.charges {
		c := &p.charges[i]
		d, l := &r.ds[c.at], &r.limits[c.at]
		if d.Limited {
			continue
		}
		sp := c.find(r)
		state, err := c.s.stateFor(&sp, l)
		if err == nil {
			err = limit.Peek(l, state, now, 0, d)
		}
		if err != nil {
			return c.at, err
		}
	}
	for i := range p.charges {
		c := &p.charges[i]
		if d := &r.ds[c.at]; d.Limited {
			if err := p.move(c, now, r); err != nil {
				return c.at, err
			}
			c.count(now, r)
		} else {
			c.s.peeked++
		}
	}
	return worst, nil
}

// move stores the faster pace of a key whose limit denies, so that its wait is
// true.
func (p *plan) move(c *charge, now int64, r *request) error {
	if !c.moved {
		return nil
	}
	key, l, state := r.keys[c.at], &r.limits[c.at], c.state
	sp := c.find(r)
	var d limit.Decision
	if c.late {
		old, err := c.s.stateFor(&sp, l)
		if err != nil {
			return err
		}
		p.uncounted = *l
		p.uncounted.CountDenied = false
		if state, err = limit.Take(&p.uncounted, old, now, r.costs[c.at], old[:0], &d); err != nil || state == nil {
			return err
		}
	}
	if err := c.s.store(now, &sp, markOf(l, r.costs[c.at], &r.ds[c.at]), state, true); err != nil {
		return err
	}
	c.s.stirOne(key, nil)
	return nil
}

// store stores what has been decided, and counts the decisions. It forgets keys
// last, because the segments in which room was made may then shrink.
func (p *plan) store(now int64, r *request) (at int, err error) {
	for _, gone := range [...]bool{false, true} {
		for i := range p.charges {
			c := &p.charges[i]
			if !c.changed || c.gone != gone {
				continue
			}
			sp := c.find(r)
			l, state := &r.limits[c.at], c.state
			c.s.table.payFirst(r.keys[c.at])
			if c.late {
				if state, err = c.takeLate(sp, now, r); err != nil {
					return c.at, err
				}
			}
			if err := c.s.store(now, &sp, markOf(l, r.costs[c.at], &r.ds[c.at]), state, true); err != nil {
				return c.at, err
			}
			c.s.stirOne(r.keys[c.at], l)
		}
	}
	for i := range p.charges {
		p.charges[i].count(now, r)
	}
	return -1, nil
}
