package engine

import (
	"bytes"

	"limitdb/limit"
)

// forecast is what becomes of a key if all goes as it looks: each waiter of its
// queue is granted as soon as it can be, and nobody else comes. It tells a
// request that must not overtake how long to wait: not shorter than it is, so
// that a caller that does not wait here is not told to come back in vain.
//
// Where denials count, those that are still to come are not foreseen.
//
// It is made when it is asked for first, and extended by each waiter that comes.
// What happens otherwise than planned makes it stale: mostly too late, which is no
// harm, so that a long queue's is made anew only when an eighth of it has changed.
type forecast struct {
	made  bool
	bad   bool   // something could not be computed
	state []byte // after the last waiter
	at    int64  // when that has been granted or has given up
	until int64  // when the last of all is gone
	stale int    // events that were not planned
}

// forecastFew is how many waiters are planned anew whenever the plan is stale.
const forecastFew = 64

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
	q.forecast = forecast{made: true, at: now}
	g, at := s.live(q.hash, now, q.bytes())
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
	var d limit.Decision
	t := p.at
	if err := w.peek(p.state, t, &d); err != nil {
		p.bad = true
		return
	}
	if d.Limited && t <= w.Until {
		var denial limit.Decision
		switch next, err := w.move(p.state, t, p.state[:0], &denial); {
		case err != nil:
			p.bad = true
			return
		case next != nil && denial.Limited:
			p.state = next
		}
		t = later(t, d.Wait)
	}
	if d.Limited && d.Wait == limit.Never || t > w.Until {
		p.at = max(p.at, w.Until) // until then it is in the way
		return
	}
	next, _, err := w.take(p.state, t, p.state[:0], &d)
	if err != nil {
		p.bad = true
		return
	}
	if next != nil {
		p.state = next
	}
	p.at = t
}
