package engine

import "limitdb/limit"

// TakePartial takes as much of cost as is available, at least 1, and returns
// how much it took. The decision is the one on the amount taken. If nothing is
// available, it is the denial of a cost of 1, so its Wait is the time until
// something is available again. With a cost of 0, TakePartial is a peek. The
// errors are those of Take.
func (e *Engine) TakePartial(now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) (granted int64, err error) {
	h, s := e.place(key)
	return e.ask(now, h, s, key, &Request{Limit: *l, Cost: cost, Partial: true}, nil, d)
}
