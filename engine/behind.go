package engine

import (
	"bytes"

	"limitdb/limit"
)

// behind makes *d a denial of r, which must let q go first. Before the call, *d
// is the decision on r as if there were no queue. state is needed only if *d is
// not a denial yet.
func (s *shard) behind(now int64, q *queue, state []byte, r *Request, d *limit.Decision) error {
	if !d.Limited {
		if err := r.stand(state, now, d); err != nil {
			return err
		}
	}
	if d.Wait != limit.Never && q.holds() {
		d.Wait = s.foresee(now, q, r)
	}
	return nil
}

// foresee returns how long r must wait until all of q have gone and r can be
// granted. It is at least 1 ns, since r cannot be granted now.
func (s *shard) foresee(now int64, q *queue, r *Request) int64 {
	p := &q.forecast
	if !p.made || p.last < now || p.stale > 0 && (q.n <= forecastFew || 8*p.stale >= q.n) {
		s.makeForecast(now, q)
	}
	var d limit.Decision
	t := max(p.last, now)
	err := r.peek(p.state, t, &d)
	switch {
	case err != nil, p.bad, d.Limited && d.Wait == limit.Never:
		t = p.until
	case d.Limited:
		t = r.grantedFrom(p.state, later(t, d.Wait))
	}
	return max(1, t-now)
}

// grantedFrom returns the time from which r is granted if nobody asks before. A
// denial gives the soonest time. But if the denial moved the state to a faster
// pace to get there, the true time is later, because nobody will ask and move
// it.
func (r *Request) grantedFrom(state []byte, soonest int64) int64 {
	granted := func(t int64) bool {
		var d limit.Decision
		return r.peek(state, t, &d) != nil || !d.Limited
	}
	if granted(soonest) {
		return soonest
	}
	// An expired state is like no state, and no state denies only for ever.
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
	q.forecast = forecast{made: true, last: now, under: q.under, again: forecastAgain}
	sp := s.liveOf(now, q)
	state, err := s.stateAsked(&sp, &q.first.Request)
	q.forecast.state, q.forecast.bad = bytes.Clone(state), err != nil
	for w := q.first; w != nil; w = w.next {
		q.forecast.extend(w)
	}
}
