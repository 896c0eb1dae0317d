package rulebook

import (
	"bytes"
	"math"
	"slices"

	"limitdb/engine"
	"limitdb/internal/decisionlog"
	"limitdb/limit"
	"limitdb/rules"
	"limitdb/server/handler"
)

// A request of Envoy's rate limit service in a domain with a tree of descriptors. Each descriptor has at most one limit.

// byTree is such a request. It is used again.
type byTree struct {
	rules.Lookup
	book    *Book
	pooled  bool // the book's pool gets it back
	domain  *rules.Domain
	figures *treeFigures // of the domain; nil: it has been replaced
	keys    [][]byte
	ds      []limit.Decision      // on Matches
	told    []rules.Status        // of Matches
	blocks  []engine.BlockOutcome // what they had to do with the denials of Matches
	left    []int64               // before the decisions, where that is known and asked for; else 0
	replies []status
	before  limit.Decision
	metric  []byte          // room for a name
	single  engine.Together // of limits in several groups

	// Of a domain whose limits take together or not at all:
	all  engine.Together
	part []int // of Matches in all, -1 for none
}

// prepareTree finds the limit of each descriptor.
func (b *Book) prepareTree(c *call, d *rules.Domain, request []rules.Descriptor) (handler.Prepared, string) {
	e, ok := b.byTrees.Get().(*byTree)
	if !ok {
		e = &byTree{book: b, pooled: true}
	}
	e.Secret, e.domain, e.figures = b.secret.bytes(), d, b.figuresOf(d)
	if err := e.Find(d, request); err != nil {
		e.Free()
		return nil, "ERR " + err.Error()
	}
	n := len(e.Matches)
	e.ds, e.told, e.replies = slices.Grow(e.ds[:0], n)[:n], slices.Grow(e.told[:0], n)[:n], slices.Grow(e.replies[:0], n)[:n]
	e.left, e.blocks = slices.Grow(e.left[:0], n)[:n], slices.Grow(e.blocks[:0], n)[:n]
	e.keys = e.keys[:0]
	for i := range e.Matches {
		if m := &e.Matches[i]; m.Limit != nil {
			e.keys = append(e.keys, m.Key)
		}
	}
	if d.AllOrNone() && !e.together() {
		e.Free()
		return nil, errorText(engine.ErrTooMany, nil)
	}
	e.timed(c)
	return e, ""
}

// timed makes c count in the times of the domain.
func (e *byTree) timed(c *call) {
	if e.figures != nil {
		c.Latency = e.figures.tally.took
	}
}

// together makes the request to the engine for all limits at once. The costs of descriptors with the same key are added. It returns false
// if there are too many keys.
func (e *byTree) together() bool {
	a := &e.all
	a.Keys, a.Limits, a.Costs, a.Soft, e.part = a.Keys[:0], a.Limits[:0], a.Costs[:0], a.Soft[:0], e.part[:0]
	for i := range e.Matches {
		m := &e.Matches[i]
		if m.Limit == nil || m.Negative {
			e.part = append(e.part, -1)
			continue
		}
		at := slices.IndexFunc(a.Keys, func(key []byte) bool { return bytes.Equal(key, m.Key) })
		if at < 0 {
			if at = len(a.Keys); at == engine.MaxAll {
				return false
			}
			a.Keys, a.Limits, a.Costs, a.Soft = append(a.Keys, m.Key), append(a.Limits, *m.Limit), append(a.Costs, m.Cost), append(a.Soft, m.Soft())
		} else {
			if m.Binds(&a.Limits[at], a.Soft[at]) {
				a.Limits[at] = *m.Limit
			}
			a.Costs[at] += min(m.Cost, math.MaxInt64-a.Costs[at])
			a.Soft[at] = a.Soft[at] && m.Soft()
		}
		e.part = append(e.part, at)
	}
	a.Decisions, a.Blocks, a.CountDenied = make([]limit.Decision, len(a.Keys)), make([]engine.BlockOutcome, len(a.Keys)), true
	return true
}

// Keys implements handler.Prepared.
func (e *byTree) Keys() [][]byte { return e.keys }

// Keep implements handler.Prepared. The words are copied already.
func (e *byTree) Keep() handler.Prepared {
	e.pooled = false
	return e
}

// Free implements handler.Prepared.
func (e *byTree) Free() {
	if !e.pooled {
		return
	}
	e.Reset()
	clear(e.replies)
	e.domain, e.figures, e.all.Decisions, e.all.Blocks, e.single = nil, nil, nil, nil, engine.Together{}
	if cap(e.metric) > keptName {
		e.metric = nil
	}
	if cap(e.ds) <= keptDescriptors {
		e.book.byTrees.Put(e)
	}
}

// keptDescriptors is the most descriptors, and keptName the most bytes of a name, for which a request that is used again keeps room.
const (
	keptDescriptors = 64
	keptName        = 1 << 10
)

// Waits implements handler.Prepared: it does not ask.
func (e *byTree) Waits() int64 { return -1 }

// decide implements envoyRequest.
func (e *byTree) decide(c *call, t *txn) {
	e.timed(c)
	clear(e.blocks)
	denied := false
	if e.domain.AllOrNone() {
		clear(e.all.Blocks)
		at, err := t.Together(&e.all)
		if e.failed(c, t, err, max(0, slices.Index(e.part, at))) {
			return
		}
		denied = at >= 0
	}
	for i := range e.Matches {
		if m := &e.Matches[i]; m.Limit != nil {
			if err := e.one(t.Txn, i, denied); e.failed(c, t, err, i) {
				return
			}
		}
		e.told[i] = e.Matches[i].Status(&e.ds[i], t.Now())
		e.replies[i] = e.status(i)
	}
	if !c.Then(len(e.Matches)*chargeCount, e) {
		t.End(engine.ErrTooMany)
		return
	}
	replyEnvoy(c, e.replies)
}

// one decides on the limit of a descriptor. denied reports that nothing may be taken or given back, since another one denies.
func (e *byTree) one(t *engine.Txn, i int, denied bool) (err error) {
	m, d := &e.Matches[i], &e.ds[i]
	e.left[i] = 0
	switch {
	case e.domain.AllOrNone() && e.part[i] >= 0:
		*d, e.blocks[i] = e.all.Decisions[e.part[i]], e.partBlock(i)
	case m.Negative && denied:
		err = t.Peek(m.Key, m.Limit, 0, d)
	default:
		var before *limit.Decision
		if e.before = (limit.Decision{}); e.book.Parts.Settings.EnvoyMetrics.Get() {
			before = &e.before
		}
		err = handler.Single(t, m.Key, m.Limit, m.Cost, m.Negative, d, before, &e.blocks[i])
		e.left[i] = e.before.Remaining
	}
	return err
}

// partBlock returns what a block had to do with the denial of a descriptor that takes together with others. Of several with the same key, the first
// has begun it.
func (e *byTree) partBlock(i int) engine.BlockOutcome {
	as := e.all.Blocks[e.part[i]]
	if as == engine.BlockBegun && slices.Index(e.part, e.part[i]) < i {
		return engine.InBlock
	}
	return as
}

// failed replies with an error of the engine on a descriptor, and reports whether there was one.
func (e *byTree) failed(c *call, t *txn, err error, i int) bool {
	if err = t.Note(err); err != nil && t.Err == nil {
		c.Fail(inDescriptor(errorText(err, nil), i))
	}
	return err != nil || t.Err != nil
}

// status returns the answer for a descriptor.
func (e *byTree) status(i int) status {
	m, s := &e.Matches[i], &e.told[i]
	out := status{over: s.Denied, requests: -1, remaining: int64(s.Remaining), reset: s.Reset}
	if s.Limited {
		out.requests, out.unit, out.name = int64(m.Rate.PerUnit), m.Rate.Unit.String(), m.Name
	}
	return out
}

// Happen implements handler.Effect: the decisions are counted, and offered to the log of decisions.
func (e *byTree) Happen(c *call) {
	e.count(c)
	to, counts := c.Decisions, e.book.Parts.Settings.EnvoyMetrics.Get()
	if to == nil && !counts {
		return
	}
	for i := range e.Matches {
		m, d := &e.Matches[i], &e.ds[i]
		if m.Limit == nil || m.Cost == 0 || m.Negative {
			continue
		}
		if counts {
			e.metric = e.AppendMetric(e.metric[:0], i)
			if n := e.book.envoy.of(e.metric); n != nil {
				n.add(m, d, &e.told[i], e.left[i])
			}
		}
		if to != nil {
			to.Offer(&decisionlog.Decision{
				Time: c.Now, Key: m.Key, Cost: m.Cost, Limited: d.Limited, Limit: d.Limit, Remaining: d.Remaining, Rule: e.domain.Name() + "/" + m.Name,
			})
		}
	}
}
