package simulate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"limitdb/rules"
)

// RuleReplay decides requests under the rules of a namespace, and counts.
type RuleReplay struct {
	ledger  rules.Ledger
	tally   *RuleTally
	pending pending[*heldCheck]
	holding HoldOptions // a TTL of 0: nothing is held
	fields  []string    // with costs, of all rules
	now     int64
	seq     uint64
}

// heldCheck is what a request holds, and what it has cost in the end.
type heldCheck struct {
	*rules.Held
	at, actual int64
}

// NewRuleReplay makes a replay of the rules of ns.
func NewRuleReplay(ns *rules.Namespace) *RuleReplay {
	return &RuleReplay{tally: NewRuleTally(ns), fields: ns.CostFields()}
}

// Hold has Add hold what a trace with TraceOptions.Actual estimates: the costs that the rules take from a field or, if none does so, all.
// Call it before the first Add.
func (r *RuleReplay) Hold(o HoldOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	if len(r.fields) > 1 {
		return fmt.Errorf("the rules take their costs from several fields: %s", strings.Join(r.fields, ", "))
	}
	r.holding = o
	r.ledger.Returned = func(rule *rules.Rule, amount int64) { r.tally.of(rule).Holds.changed(-amount, 0) }
	for i := range r.tally.result.Rules {
		r.tally.result.Rules[i].Holds = new(Holds)
	}
	return nil
}

// Add decides a request, which q describes and has been matched, and returns the answer, which is valid until the next Add. If the
// request's time is before that of the last one, it has that of the last one.
func (r *RuleReplay) Add(q *rules.Query, req *Request) (rules.Answer, error) {
	r.now = max(r.now, req.Time)
	if err := r.settleUntil(r.now); err != nil {
		return rules.Answer{}, err
	}
	a, err := r.ledger.Decide(r.now, q)
	if err != nil {
		return a, err
	}
	r.tally.Add(q, &a)
	if r.seq++; r.holding.TTL > 0 && req.Held && req.Cost > 0 && !a.Limited {
		err = r.hold(q, &a, req)
	}
	return a, err
}

// hold holds what has been granted.
func (r *RuleReplay) hold(q *rules.Query, a *rules.Answer, req *Request) error {
	h, err := r.ledger.Hold(r.now, q, a, r.holding.TTL, r.holding.Returns)
	if err != nil {
		return err
	}
	late := req.Actual < 0 || req.Took >= r.holding.TTL
	for _, p := range h.Parts {
		r.tally.of(p.Rule).Holds.held(p.Estimate, late)
	}
	if req.Actual >= 0 && req.Took < 2*r.holding.TTL { // later, nothing is known of it
		at := later(r.now, req.Took)
		r.pending.add(at, r.seq, &heldCheck{h, at, req.Actual})
	}
	return nil
}

// settleUntil settles what is due at now.
func (r *RuleReplay) settleUntil(now int64) error {
	for {
		h, ok := r.pending.next(now)
		if !ok {
			return nil
		}
		cost := func(p *rules.HeldPart) int64 {
			if p.Field == "" && len(r.fields) > 0 {
				return -1
			}
			return h.actual
		}
		if err := r.ledger.Commit(h.at, h.Held, cost, func(p *rules.HeldPart, changed, over int64) {
			r.tally.of(p.Rule).Holds.changed(changed, over)
		}); err != nil {
			return err
		}
	}
}

// Bad counts a line that is not a request.
func (r *RuleReplay) Bad() { r.tally.Bad() }

// Result settles what is still held, at the times that the trace says, and sums up.
func (r *RuleReplay) Result() (*RuleResult, error) {
	if err := r.settleUntil(math.MaxInt64); err != nil {
		return nil, err
	}
	if err := r.ledger.GiveBack(); err != nil {
		return nil, err
	}
	return r.tally.Result(), nil
}

// of returns the outcome of a rule.
func (t *RuleTally) of(r *rules.Rule) *RuleOutcome { return &t.result.Rules[r.Index-t.first] }

// holds reports whether the rules have held estimates.
func (r *RuleResult) holds() bool {
	return slices.ContainsFunc(r.Rules, func(o RuleOutcome) bool { return o.Holds != nil && o.Holds.Requests > 0 })
}

// heldHead returns the names of the columns of the table of what was held.
func heldHead() []string { return []string{"rule", "held", "returned", "over", "expired"} }

// figures returns what was held, in the order of the columns.
func (h *Holds) figures() []int64 {
	return []int64{int64(h.Estimated), int64(h.Returned), int64(h.Over), int64(h.Expired)}
}

// heldTable is the table of what was held.
func (r *RuleResult) heldTable() sortTable {
	t := sortTable{Title: "What was held", ID: "held", First: "order of the file", Head: heldHead()}
	for _, o := range r.Rules {
		t.Rows = append(t.Rows, newRow(o.Holds.figures(), o.Name))
	}
	t.place()
	return t
}
