package engine

import (
	"bytes"
	"slices"

	"limitdb/limit"
)

// forecast is what becomes of a key if all goes as it looks: each waiter of its
// queue is granted as soon as it can be, in the order of wait.go, and nobody else
// comes. It tells a request that must not overtake how long to wait: not shorter than
// it is, so that a caller that does not wait here is not told to come back in vain.
//
// Denials that count and are still to come are not foreseen, and neither is the
// return of those who have stepped aside, if the limits of a long queue change more
// often than forecastAgain allows for.
//
// It is made when it is asked for first, and extended by each waiter that comes.
// What happens otherwise than planned makes it stale: mostly too late, which is no
// harm, so that a long queue's is made anew only when an eighth of it has changed.
type forecast struct {
	made  bool
	bad   bool   // something could not be computed
	state []byte // after the last waiter
	at    int64  // when that is granted
	until int64  // when the last of all is gone
	stale int    // events that were not planned

	under limit.Limit // which the state comes of, if that is known
	aside []*Waiter   // in the order of asking
	again int         // of those, how many may still be looked at again
}

const (
	// forecastFew is how many waiters are planned anew whenever the plan is stale.
	forecastFew = 64
	// forecastAgain is how many waiters one forecast looks at again.
	forecastAgain = 4096
)

// foresee is how long r has to wait until all of q have gone and it can be granted;
// 1 ns at least, for now it cannot.
func (s *shard) foresee(now int64, q *queue, r *Request) int64 {
	p := &q.forecast
	if !p.made || p.at < now || p.stale > 0 && (q.n <= forecastFew || 8*p.stale >= q.n) {
		s.makeForecast(now, q)
	}
	var d limit.Decision
	t := max(p.at, now)
	err := r.peek(p.state, t, &d)
	switch {
	case err != nil, p.bad, d.Limited && d.Wait == limit.Never:
		t = p.until
	case d.Limited:
		t = r.grantedFrom(p.state, later(t, d.Wait))
	}
	return max(1, t-now)
}

// grantedFrom is the time from which r is granted if nobody asks before. A denial
// tells the soonest; but if it has moved the state to a faster pace for that,
// it is later, for nobody asks then and moves it.
func (r *Request) grantedFrom(state []byte, soonest int64) int64 {
	granted := func(t int64) bool {
		var d limit.Decision
		return r.peek(state, t, &d) != nil || !d.Limited
	}
	if granted(soonest) {
		return soonest
	}
	// A state that has expired is none, and none denies for ever only.
	low, high := soonest, max(soonest, limit.Expires(r.kind(), state))
	for low+1 < high {
		if mid := low + (high-low)/2; granted(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

func (s *shard) makeForecast(now int64, q *queue) {
	q.forecast = forecast{made: true, at: now, under: q.under, again: forecastAgain}
	g, at := s.live(now, q.hash, q.bytes())
	state, err := s.stateAsked(g, at, &q.first.Request)
	q.forecast.state, q.forecast.bad = bytes.Clone(state), err != nil
	for w := q.first; w != nil; w = w.next {
		q.forecast.extend(w)
	}
}

// extend plans for one waiter more, if there is a plan.
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

// plan plans for a waiter that is to be looked at: it is gone, or has stepped aside.
// look is set if those who have stepped aside are to be looked at again.
func (p *forecast) plan(w *Waiter) (gone, look bool) {
	if w.Until < p.at {
		return true, false
	}
	var d limit.Decision
	t := p.at
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
			p.at = max(p.at, w.Until) // until then it is in the way
			return false, false
		case w.isTooLate(p.at, t):
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
	p.at = t
	return true, look
}
