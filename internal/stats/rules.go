package stats

import "sync/atomic"

// Rule has the figures of one rule.
type Rule struct {
	// Allowed counts the decisions that took from the rule's limit, and Near those of them that left a fifth
	// of it or less. Limited counts what the rule denied.
	Allowed, Near, Limited uint64
	// ShadowLimited counts what the rule would have denied without its shadow mode, and CandidateLimited what
	// its candidate would have denied.
	ShadowLimited, CandidateLimited uint64
	// Blocks counts the blocks that a denial under the rule began, and Blocked the requests that were denied because of one. Both
	// have what shadow mode only would have.
	Blocks, Blocked uint64
}

// RuleTotals are the counters of a rule, including those from before a restart.
type RuleTotals struct {
	Rule
	// Since is when the rule began to count, in ns of Unix time.
	Since int64
}

// combine applies op to each pair of counters.
func (r Rule) combine(other Rule, op func(a, b uint64) uint64) Rule {
	return Rule{
		Allowed: op(r.Allowed, other.Allowed), Near: op(r.Near, other.Near), Limited: op(r.Limited, other.Limited),
		ShadowLimited: op(r.ShadowLimited, other.ShadowLimited), CandidateLimited: op(r.CandidateLimited, other.CandidateLimited),
		Blocks: op(r.Blocks, other.Blocks), Blocked: op(r.Blocked, other.Blocked),
	}
}

// RuleCounters are the counters of one rule. They are split into lanes, each in a cache line of its own, so
// that cores rarely write to the same one. Lanes are made when the rule first decides. Any goroutine may call
// the methods.
type RuleCounters struct {
	lanes atomic.Pointer[[]ruleLane]
	n     int
	past  atomic.Pointer[RuleTotals] // what Totals adds to the lanes
}

type ruleLane struct {
	allowed, near, limited, shadow, candidate, blocks, blocked atomic.Uint64
	_                                                          [8]byte
}

// NewRuleCounters returns counters for so many lanes, which begin at now.
func NewRuleCounters(lanes int, now int64) *RuleCounters {
	r := &RuleCounters{n: lanes}
	r.past.Store(&RuleTotals{Since: now})
	return r
}

// RuleOutcome is what a decision was for a rule.
type RuleOutcome uint8

// The outcomes. RuleNear is counted as RuleAllowed as well. RuleBlocks and RuleBlocked are counted beside that of the decision.
const (
	RuleAllowed RuleOutcome = iota
	RuleNear
	RuleLimited
	RuleShadowLimited
	RuleCandidateLimited
	RuleBlocks
	RuleBlocked
)

// Add counts an outcome in a lane, for any i ≥ 0.
func (r *RuleCounters) Add(i int, o RuleOutcome) {
	lanes := r.lanes.Load()
	if lanes == nil {
		made := make([]ruleLane, r.n)
		if r.lanes.CompareAndSwap(nil, &made) {
			lanes = &made
		} else {
			lanes = r.lanes.Load()
		}
	}
	lane := &(*lanes)[i%len(*lanes)]
	switch o {
	case RuleAllowed:
		lane.allowed.Add(1)
	case RuleNear:
		lane.allowed.Add(1)
		lane.near.Add(1)
	case RuleLimited:
		lane.limited.Add(1)
	case RuleShadowLimited:
		lane.shadow.Add(1)
	case RuleCandidateLimited:
		lane.candidate.Add(1)
	case RuleBlocks:
		lane.blocks.Add(1)
	case RuleBlocked:
		lane.blocked.Add(1)
	}
}

// Sum adds up the lanes.
func (r *RuleCounters) Sum() (sum Rule) {
	lanes := r.lanes.Load()
	if lanes == nil {
		return sum
	}
	for i := range *lanes {
		lane := &(*lanes)[i]
		sum.Allowed += lane.allowed.Load()
		sum.Near += lane.near.Load()
		sum.Limited += lane.limited.Load()
		sum.ShadowLimited += lane.shadow.Load()
		sum.CandidateLimited += lane.candidate.Load()
		sum.Blocks += lane.blocks.Load()
		sum.Blocked += lane.blocked.Load()
	}
	return sum
}

// Totals returns the counters, including those that Continue has set.
func (r *RuleCounters) Totals() RuleTotals {
	t := *r.past.Load()
	t.Rule = t.combine(r.Sum(), func(a, b uint64) uint64 { return a + b })
	return t
}

// Continue makes Totals return t now, and count on from there; t includes what the lanes have counted so far. If they
// have counted more than t, the difference wraps, and Totals wraps it back.
func (r *RuleCounters) Continue(t RuleTotals) {
	t.Rule = t.combine(r.Sum(), func(a, b uint64) uint64 { return a - b })
	r.past.Store(&t)
}
