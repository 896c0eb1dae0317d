package rulebook

import (
	"bytes"
	"slices"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/server/handler"
)

// A request whose descriptors have limits in several groups. Each group decides on its own, one after the other, unless the domain takes from all or none.

// Cross implements handler.Crosses.
func (e *byTree) Cross() (r *engine.Together, each func(*engine.Txn, *engine.Together) (int64, error), text string) {
	if e.domain.AllOrNone() {
		for i := range e.Matches {
			if m := &e.Matches[i]; m.Negative && m.Limit != nil {
				return nil, nil, handler.ErrOneSlot("giving back in a domain with all_or_none")
			}
		}
		return &e.all, nil, ""
	}
	n := len(e.keys)
	r = &engine.Together{Keys: e.keys, Limits: make([]limit.Limit, n), Costs: make([]int64, n), Decisions: make([]limit.Decision, n)}
	return r, e.decideIn, ""
}

// decideIn decides on the descriptors whose keys r has.
func (e *byTree) decideIn(t *engine.Txn, r *engine.Together) (int64, error) {
	for i := range e.Matches {
		m := &e.Matches[i]
		if m.Limit == nil || !slices.ContainsFunc(r.Keys, func(key []byte) bool { return bytes.Equal(key, m.Key) }) {
			continue
		}
		if err := e.one(t, i, false); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// Crossed implements handler.Crosses.
func (e *byTree) Crossed(c *call, at int, _ int64, err error) {
	if e.figures != nil {
		c.Latency = e.figures.tally.took
	}
	if err != nil {
		c.Fail(inDescriptor(errorText(err, nil), max(0, slices.Index(e.part, at))))
		return
	}
	for i := range e.Matches {
		if e.domain.AllOrNone() && e.part[i] >= 0 {
			e.ds[i], e.left[i] = e.all.Decisions[e.part[i]], 0
		}
		e.told[i] = e.Matches[i].Status(&e.ds[i], c.Now)
		e.replies[i] = e.status(i)
	}
	c.Then(len(e.Matches)*chargeCount, e)
	replyEnvoy(c, e.replies)
}
