package engine

import (
	"errors"
	"math"

	"limitdb/limit"
)

// Many keys in one atomic step.
//
// The keys' shards are locked, each once and in the order of their index. So do
// all who lock more than one, hence none waits for another in a circle. The time
// is then the latest that any of the shards has seen. Three phases follow, and
// only the last one changes anything:
//
//  1. Decide every limit, on a copy of its state, or by peeking if that is long. If
//     one denies, this is the end.
//  2. Make room for what has to be stored. That may rewrite segments, drop what
//     has expired and, if the policy says so, evict, as a single Take would.
//     If a key of ours was evicted, it is back to phase 1: each turn leaves fewer
//     that can be. If there is no room, nothing of ours has changed yet.
//  3. Store the new states, which cannot fail any more.
//
// Rejected: to store one key after the other and undo what was stored if the
// next one finds no room. The old state needs room, too, once the record has
// moved, and an eviction for the last key may hit the first.

// MaxAll is the most keys of one TakeAll: what it locks must be released soon.
const MaxAll = 128

// What TakeAll can have wrong, besides what Take can.
var (
	// ErrDuplicate is returned for a key that is given twice.
	ErrDuplicate = errors.New("engine: a key is given twice")
	// ErrTooMany is returned for more than MaxAll keys.
	ErrTooMany = errors.New("engine: too many keys at once")
)

// TakeAll takes costs[i] from keys[i] under limits[i] for all i, or nothing from
// any if one of them denies, in one atomic step, and writes the answers to ds.
// All four have the same length.
//
// at is -1 if all was granted. If not, it is the limit that denies for the
// longest time, the first of several; a denial for ever is the longest. After
// its Wait all is granted, if nobody else asks. A limit denies, too, if others
// wait for its key (see Ask). Nothing has changed then, but
// that keys which deny have moved to the pace of a limit that was raised;
// so limits with CountDenied count nothing either, and the decisions of those
// limits that would have granted tell what there is.
//
// The errors are those of Take, ErrDuplicate and ErrTooMany, with the key at
// fault in at, -1 for ErrTooMany. After an error nothing has changed, and ds
// means nothing.
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

// request is what TakeAll was asked, and where its answers go.
type request struct {
	keys   [][]byte
	limits []limit.Limit
	costs  []int64
	ds     []limit.Decision
}

// take is TakeAll, with errNoRoom for what might find room elsewhere.
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

// decide has every limit answer, and keeps the states that would come of it. Of
// several errors it returns the one of the first key.
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
	g, slot := c.s.live(now, c.h, key)
	state, err := c.s.stateFor(g, slot, l)
	if err != nil {
		return err
	}
	if l.CountDenied { // a denial of one is not to be counted by another
		p.uncounted = *l
		p.uncounted.CountDenied = false
		l = &p.uncounted
	}
	c.there, c.gone, c.moved, c.needs = slot != nil, false, false, 0
	c.late = slot != nil && g.record(slot).isBoxed()
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
			// However segments are rewritten until it is stored, a record is copied
			// as it is, so this stays true.
			c.needs = c.s.table.needs(g, slot, key, next)
			c.must = slot != nil && len(next) <= len(state)
		}
	}
	return nil
}

// takeLate takes from a long state, in its box, what has been decided: to copy it
// as the others are would take longer than all the rest. Peek has answered that
// it is granted, so this cannot fail any more.
func (c *charge) takeLate(g *segment, slot slot, now int64, r *request) ([]byte, error) {
	l := &r.limits[c.at]
	state, err := c.s.stateFor(g, slot, l)
	if err != nil {
		return nil, err
	}
	return limit.Take(l, state, now, r.costs[c.at], state[:0], &r.ds[c.at])
}

// worst is the limit that denies for the longest time, or -1.
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

// tooLong is the first key to be stored that is too long to be new, or -1.
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

// needsRoom tells whether there is anything to make room for.
func (p *plan) needsRoom() bool {
	for i := range p.charges {
		if c := &p.charges[i]; c.needs > 0 || c.late && c.changed {
			return true
		}
	}
	return false
}

// deny makes the answers of those that would have granted say what there is,
// and counts.
func (p *plan) deny(now int64, r *request, worst int) (at int, err error) {
	for i := range p.charges {
		c := &p.charges[i]
		d, l := &r.ds[c.at], &r.limits[c.at]
		if d.Limited {
			continue
		}
		g, slot := c.find(r)
		state, err := c.s.stateFor(g, slot, l)
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

// move keeps the faster pace of a key whose limit denies, so that its wait is true.
func (p *plan) move(c *charge, now int64, r *request) error {
	if !c.moved {
		return nil
	}
	key, l, state := r.keys[c.at], &r.limits[c.at], c.state
	g, slot := c.find(r)
	var d limit.Decision
	if c.late {
		old, err := c.s.stateFor(g, slot, l)
		if err != nil {
			return err
		}
		p.uncounted = *l
		p.uncounted.CountDenied = false
		if state, err = limit.Take(&p.uncounted, old, now, r.costs[c.at], old[:0], &d); err != nil || state == nil {
			return err
		}
	}
	if err := c.s.store(now, c.h, g, slot, key, markOf(l, r.costs[c.at], &r.ds[c.at]), state, true); err != nil {
		return err
	}
	c.s.stirOne(key, nil)
	return nil
}

// store keeps what has been decided, and counts. Keys that are to be forgotten
// come last, for the segments may shrink then, in which room has been made.
func (p *plan) store(now int64, r *request) (at int, err error) {
	for _, gone := range [...]bool{false, true} {
		for i := range p.charges {
			c := &p.charges[i]
			if !c.changed || c.gone != gone {
				continue
			}
			g, slot := c.find(r)
			l, state := &r.limits[c.at], c.state
			c.s.table.payFirst(r.keys[c.at])
			if c.late {
				if state, err = c.takeLate(g, slot, now, r); err != nil {
					return c.at, err
				}
			}
			if err := c.s.store(now, c.h, g, slot, r.keys[c.at], markOf(l, r.costs[c.at], &r.ds[c.at]), state, true); err != nil {
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
