package engine

import "limitdb/limit"

// TakeAll is Together without its options.
func (e *Engine) TakeAll(now int64, keys [][]byte, limits []limit.Limit, costs []int64, ds []limit.Decision) (at int, err error) {
	return e.Together(now, &Together{Keys: keys, Limits: limits, Costs: costs, Decisions: ds})
}

// AskAll asks for all of w.All.
func (e *Engine) AskAll(now int64, w *Waiter) (waiting bool) { return e.Ask(now, nil, w) }

// RefundAll is Txn.RefundAll in a step of its own.
func (e *Engine) RefundAll(now int64, keys [][]byte, limits []limit.Limit, costs []int64, ds []limit.Decision) error {
	return e.Update(now, keys, func(t *Txn) error {
		return t.RefundAll(&Together{Keys: keys, Limits: limits, Costs: costs, Decisions: ds})
	})
}
