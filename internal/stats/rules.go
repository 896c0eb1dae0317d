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
}

// RuleCounters are the counters of one rule. They are split into lanes, each in a cache line of its own, so
// that cores rarely write to the same one. Lanes are made when the rule first decides. Any goroutine may call
// the methods.
type RuleCounters struct {
	lanes atomic.Pointer[[]ruleLane]
	n     int
}

type ruleLane struct {
	allowed, near, limited, shadow, candidate atomic.Uint64
	_                                         [24]byte
}

// NewRuleCounters returns counters for so many lanes.
func NewRuleCounters(lanes int) *RuleCounters { return &RuleCounters{n: lanes} }

// RuleOutcome is what a decision was for a rule.
type RuleOutcome uint8

// The outcomes. RuleNear is counted as RuleAllowed as well.
const (
	RuleAllowed RuleOutcome = iota
	RuleNear
	RuleLimited
	RuleShadowLimited
	RuleCandidateLimited
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
	}
	return sum
}
