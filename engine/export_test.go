package engine

import "limitdb/limit"

// What tests ask in one call, in a step of its own.

// Take is TakeAt for a key whose place is not known.
func (e *Engine) Take(now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	return e.TakeAt(0, now, key, l, cost, d)
}

// Update is UpdateAt for keys whose places are not known.
func (e *Engine) Update(now int64, keys [][]byte, fn func(t *Txn) error) error {
	return e.UpdateAt(0, now, keys, fn)
}

// on runs fn in a step on key.
func (e *Engine) on(now int64, key []byte, fn func(t *Txn) error) error {
	return e.UpdateAt(0, now, [][]byte{key}, fn)
}

// Decide is Txn.Take of a cost that nobody counts, in a limit with CountDenied either.
func (t *Txn) Decide(key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	it, err := t.current(key)
	if err != nil {
		return err
	}
	return it.decide(l, cost, -1, d)
}

// TakeFor is Txn.Take.
func (e *Engine) TakeFor(now int64, key []byte, r *Request, d *limit.Decision) (granted int64, err error) {
	err = e.on(now, key, func(t *Txn) (err error) {
		granted, err = t.Take(key, r, d)
		return err
	})
	return granted, err
}

// Lease takes a lease.
func (e *Engine) Lease(now int64, key []byte, l *limit.Lease, d *limit.Decision) error {
	return e.on(now, key, func(t *Txn) error { return t.Lease(key, l, d) })
}

// Peek is Txn.Peek, counted.
func (e *Engine) Peek(now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	return e.on(now, key, func(t *Txn) error {
		t.Count(Peeked)
		return t.Peek(key, l, cost, d)
	})
}

// Refund is Txn.Refund, counted.
func (e *Engine) Refund(now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	return e.on(now, key, func(t *Txn) error {
		t.Count(Refunded)
		return t.Refund(key, l, cost, d)
	})
}

// Reserve is Txn.Reserve.
func (e *Engine) Reserve(now int64, key []byte, l *limit.Limit, cost, maxWait int64, d *limit.Decision) error {
	return e.on(now, key, func(t *Txn) error { return t.Reserve(key, l, cost, maxWait, d) })
}

// Reset is Txn.Delete.
func (e *Engine) Reset(now int64, key []byte) (was bool) {
	err := e.on(now, key, func(t *Txn) (err error) {
		was, err = t.Delete(key)
		return err
	})
	return was && err == nil
}

// Info is Txn.Info.
func (e *Engine) Info(now int64, key []byte) (info Info, ok bool) {
	err := e.on(now, key, func(t *Txn) (err error) {
		info, ok, err = t.Info(key)
		return err
	})
	return info, ok && err == nil
}

// Apply is Txn.Step.
func (e *Engine) Apply(now int64, key []byte, kind limit.Kind, step Step) error {
	return e.on(now, key, func(t *Txn) error { return t.Step(key, kind, step) })
}

// Together is Txn.Together.
func (e *Engine) Together(now int64, r *Together) (at int, err error) {
	err = e.Update(now, r.Keys, func(t *Txn) (err error) {
		at, err = t.Together(r)
		return err
	})
	return at, err
}

// TakeAll is Together without its options.
func (e *Engine) TakeAll(now int64, keys [][]byte, limits []limit.Limit, costs []int64, ds []limit.Decision) (at int, err error) {
	return e.Together(now, &Together{Keys: keys, Limits: limits, Costs: costs, Decisions: ds})
}

// RefundAll is Txn.RefundAll.
func (e *Engine) RefundAll(now int64, keys [][]byte, limits []limit.Limit, costs []int64, ds []limit.Decision) error {
	return e.Update(now, keys, func(t *Txn) error {
		return t.RefundAll(&Together{Keys: keys, Limits: limits, Costs: costs, Decisions: ds})
	})
}

// Ask is Txn.Ask. An error is in w's result.
func (e *Engine) Ask(now int64, key []byte, w *Waiter) (waits bool) {
	keys := [][]byte{key}
	if w.All != nil {
		keys = w.All.Keys
	}
	err := e.Update(now, keys, func(t *Txn) (err error) {
		waits, err = t.Ask(key, w)
		return err
	})
	if err != nil {
		w.Fail(err)
		return false
	}
	return waits
}

// AskAll asks for all of w.All.
func (e *Engine) AskAll(now int64, w *Waiter) (waits bool) { return e.Ask(now, nil, w) }
