package rulebook

import (
	"slices"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/server/handler"
)

// A request whose descriptors have limits in several groups. Each group decides on its own, one after the other, unless the domain takes from all or none.

// errTakesAndGives is the error for what would have to wait for the decisions of all groups before it is given back.
const errTakesAndGives = "CROSSSLOT a request that takes and gives back in a domain with all_or_none needs all keys in one slot: give back in another request"

// takesTogether reports whether limits are taken from together or not at all. What is only given back cannot be denied.
func (e *byTree) takesTogether() bool { return e.domain.AllOrNone() && len(e.all.Keys) > 0 }

// Cross implements handler.Crosses.
func (e *byTree) Cross() (all []handler.Asked, text string) {
	if e.takesTogether() {
		for i := range e.Matches {
			if m := &e.Matches[i]; m.Negative && m.Limit != nil {
				return nil, errTakesAndGives
			}
		}
		return []handler.Asked{{Together: &e.all}}, ""
	}
	r := &e.single
	n := len(e.keys)
	*r = engine.Together{Keys: e.keys, Decisions: make([]limit.Decision, n), Blocks: make([]engine.BlockOutcome, n)}
	if e.book.Parts.Settings.EnvoyMetrics.Get() {
		r.Free = make([]limit.Decision, n)
	}
	for i := range e.Matches {
		if m := &e.Matches[i]; m.Limit != nil {
			r.Limits, r.Costs, r.Soft = append(r.Limits, *m.Limit), append(r.Costs, m.Cost), append(r.Soft, m.Negative)
		}
	}
	return []handler.Asked{{Together: r, Each: handler.Each{How: handler.Singly}}}, ""
}

// Crossed implements handler.Crosses.
func (e *byTree) Crossed(c *call, all []handler.Answered) {
	if err := all[0].Err; err != nil {
		c.Fail(inDescriptor(errorText(err, nil), max(0, slices.Index(e.part, all[0].At))))
		return
	}
	next := 0
	for i := range e.Matches {
		e.left[i], e.blocks[i] = 0, engine.NoBlock
		switch {
		case e.takesTogether():
			if e.part[i] >= 0 {
				e.ds[i], e.blocks[i] = e.all.Decisions[e.part[i]], e.partBlock(i)
			}
		case e.Matches[i].Limit != nil:
			if e.ds[i], e.blocks[i] = e.single.Decisions[next], e.single.Blocks[next]; e.single.Free != nil {
				e.left[i] = e.single.Free[next].Remaining
			}
			next++
		}
		e.told[i] = e.Matches[i].Status(&e.ds[i], c.Now)
		e.replies[i] = e.status(i)
	}
	c.Then(len(e.Matches)*chargeCount, e)
	replyEnvoy(c, e.replies)
}
