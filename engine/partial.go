package engine

import "limitdb/limit"

// TakePartial takes what there is, up to cost, and returns how much that was:
// it asks for one at least and for cost at most. The decision is the one on
// what was taken; a denial, of nothing at all, is the one on a cost of 1, so its
// Wait is the time after which there is something again. With a cost of 0 it is
// a peek. The errors are those of Take.
func (e *Engine) TakePartial(now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) (granted int64, err error) {
	h, s := e.place(key)
	return e.ask(now, h, s, key, &Request{Limit: *l, Cost: cost, Partial: true}, nil, d)
}
