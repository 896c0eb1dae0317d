package engine

import (
	"slices"

	"limitdb/limit"
)

// forecast predicts the state of a key if each waiter of its queue is granted
// as soon as possible, in the order of wait.go, and nobody else asks. It tells
// a request that must not overtake how long to wait. That wait is never too
// short, so that a caller that does not wait here does not come back in vain.
//
// A forecast does not include future denials that count. Nor does it include
// the return of waiters that have stepped aside, if the limits of a long queue
// change more often than forecastAgain allows.
//
// It is made when it is first needed, and each new waiter extends it. Events
// that differ from the plan make it stale. A stale forecast is mostly too late,
// which does no harm. So a long queue gets a new forecast only when an
// eighth of the queue has changed.
type forecast struct {
	made  bool
	bad   bool   // something could not be computed
	state []byte // after the last waiter
	last  int64  // when the last waiter is granted
	until int64  // when the last of all waiters is gone
	stale int    // events that were not planned

	under limit.Limit // the limit that the state comes from, if known
	aside []*Waiter   // in the order of asking
	again int         // how many looks at waiters that stepped aside are left
}

const (
	// forecastFew is the longest queue that is planned again whenever the plan
	// is stale.
	forecastFew = 64
	// forecastAgain is the number of waiters that one forecast looks at again.
	forecastAgain = 4096
)

// extend plans for one more waiter, if there is a plan.
func (p *forecast) extend(w *Waiter) {
	if !p.made {
		return
	}
	p.until = max(p.until, w.Until)
	p.aside = append(p.aside, w)
	for i := len(p.aside) - 1; i < len(p.aside) && !p.bad; {
		gone, look := p.plan(p.aside[i])
		if gone {
			p.aside = slices.Delete(p.aside, i, i+1)
		}
		switch n := len(p.aside); {
		case look && n <= p.again:
			p.again -= n
			i = 0
		case !gone:
			i++
		}
	}
}

// plan plans for one waiter: it is gone, or it has stepped aside. look reports
// whether to look again at the waiters that have stepped aside.
func (p *forecast) plan(w *Waiter) (gone, look bool) {
	if w.Until < p.last {
		return true, false
	}
	var d limit.Decision
	t := p.last
	err := w.peek(p.state, t, &d)
	if err == nil && d.Limited && d.Wait == limit.Never {
		return true, false
	}
	if err == nil && d.Limited {
		var denial limit.Decision
		next, err := w.move(p.state, t, p.state[:0], &denial)
		if err == nil && next != nil && denial.Limited {
			p.state, p.under = next, limit.Limit{}
			return false, true
		}
		t = later(t, d.Wait)
		switch {
		case err != nil:
		case w.Lease != nil && t > w.Until:
			p.last = max(p.last, w.Until) // it blocks the queue until then
			return false, false
		case w.isTooLate(p.last, t):
			return false, false
		}
	}
	next := p.state
	if err == nil {
		next, _, err = w.take(p.state, t, p.state[:0], &d)
	}
	if err != nil {
		p.bad = true
		return true, false
	}
	if next != nil {
		p.state = next
		look = w.Lease != nil || p.under != w.Limit
		p.under = w.Limit
	}
	p.last = t
	return true, look
}
