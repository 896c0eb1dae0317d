package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"limitdb/rules"
)

// RuleResult is what the rules of a namespace have done in a replay.
type RuleResult struct {
	Requests  int64         `json:"requests"`
	Denied    int64         `json:"denied"`
	Unmatched int64         `json:"unmatched"` // by any rule
	Bad       int64         `json:"bad_lines"`
	Rules     []RuleOutcome `json:"rules"` // in the order of the file

	// Absent are the fields of the rules that no request has had.
	Absent []string `json:"-"`
}

// RuleCounts are requests that a rule matched, and those that it denied, would have denied if it were not in shadow mode, and
// would have denied by its candidate.
type RuleCounts struct {
	Matched   int64 `json:"matched"`
	Denied    int64 `json:"denied"`
	Shadow    int64 `json:"shadow_denied"`
	Candidate int64 `json:"candidate_denied"`
}

// RuleOutcome is what one rule did.
type RuleOutcome struct {
	Name string `json:"name"`
	Mode string `json:"mode"`
	RuleCounts
	// Holds is what the rule has held; nil if nothing is held.
	Holds *Holds `json:"holds,omitempty"`
	// Top has the callers that the rule denied most, or would have denied most, at most MaxTop.
	Top []RuleCaller `json:"top"`
}

// RuleCaller is a caller of a rule. Caller has the values of the fields of the rule's key, for people.
type RuleCaller struct {
	Caller string `json:"caller"`
	RuleCounts
}

// RuleTally counts what the rules of a namespace do. Its memory grows with the callers.
type RuleTally struct {
	first   int // the index of the first rule
	result  RuleResult
	callers []map[string]*RuleCounts // of each rule, by key
}

// NewRuleTally returns a tally of the rules of ns.
func NewRuleTally(ns *rules.Namespace) *RuleTally {
	t := &RuleTally{}
	for i, rule := range ns.Rules() {
		if i == 0 {
			t.first = rule.Index
		}
		t.result.Rules = append(t.result.Rules, RuleOutcome{Name: rule.Name, Mode: rule.Mode.String()})
		t.callers = append(t.callers, map[string]*RuleCounts{})
	}
	return t
}

// Bad counts a line that is not a request.
func (t *RuleTally) Bad() { t.result.Bad++ }

// Add counts a request with its answer.
func (t *RuleTally) Add(q *rules.Query, a *rules.Answer) {
	t.result.Requests++
	if a.Limited {
		t.result.Denied++
	}
	if len(q.Charges) == 0 {
		t.result.Unmatched++
	}
	for i := range q.Charges {
		if !q.Counts(i, a.Parts) {
			continue
		}
		c := &q.Charges[i]
		at := c.Rule.Index - t.first
		caller := t.callers[at][string(c.Key)]
		if caller == nil {
			caller = new(RuleCounts)
			t.callers[at][string(c.Key)] = caller
		}
		t.result.Rules[at].add(c.Role, a.Parts[i].Limited)
		caller.add(c.Role, a.Parts[i].Limited)
	}
}

// add counts a request that was charged in a role.
func (n *RuleCounts) add(role rules.Role, limited bool) {
	if role != rules.Candidate {
		n.Matched++
	}
	switch {
	case !limited:
	case role == rules.Candidate:
		n.Candidate++
	case role == rules.Shadowed:
		n.Shadow++
	default:
		n.Denied++
	}
}

// over returns how many requests were above a limit, whatever came of it.
func (n *RuleCounts) over() int64 { return n.Denied + n.Shadow + n.Candidate }

// Result sums up the requests so far.
func (t *RuleTally) Result() *RuleResult {
	r := t.result
	r.Rules = slices.Clone(r.Rules)
	for i := range r.Rules {
		r.Rules[i].Top = topCallers(t.callers[i])
	}
	return &r
}

// topCallers returns the callers that were most often above a limit. A candidate has a key of its own for a caller, so their counts
// are added up.
func topCallers(byKey map[string]*RuleCounts) []RuleCaller {
	byName := map[string]*RuleCounts{}
	for key, n := range byKey {
		name := callerText(key)
		sum := byName[name]
		if sum == nil {
			sum = new(RuleCounts)
			byName[name] = sum
		}
		sum.Matched += n.Matched
		sum.Denied += n.Denied
		sum.Shadow += n.Shadow
		sum.Candidate += n.Candidate
	}
	all := []RuleCaller{}
	for name, n := range byName {
		if n.over() > 0 {
			all = append(all, RuleCaller{name, *n})
		}
	}
	slices.SortFunc(all, func(a, b RuleCaller) int {
		return cmp.Or(cmp.Compare(b.over(), a.over()), cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Caller, b.Caller))
	})
	return all[:min(len(all), MaxTop)]
}

// callerText returns the values of a caller's key for people.
func callerText(key string) string {
	c, ok := rules.ParseKey([]byte(key))
	switch {
	case !ok:
		return printable(key)
	case len(c.Values) == 0:
		return "all"
	}
	values := make([]string, len(c.Values))
	for i, v := range c.Values {
		values[i] = printable(v)
	}
	return strings.Join(values, " ")
}

// ruleHead returns the names of the columns of the table of rules.
func ruleHead() []string {
	return []string{"rule", "mode", "matched", "denied", "in shadow mode", "candidate"}
}

// figures returns the counts in the order of the columns.
func (n *RuleCounts) figures() []int64 { return []int64{n.Matched, n.Denied, n.Shadow, n.Candidate} }

// summary says in a sentence what was replayed.
func (r *RuleResult) summary() string {
	return fmt.Sprintf("%d requests, %d denied, %d that no rule limits, %d lines that are not requests", r.Requests, r.Denied, r.Unmatched, r.Bad)
}

// hint names the fields that no request has had; "" if there are none.
func (r *RuleResult) hint() string {
	if len(r.Absent) == 0 || r.Requests == 0 {
		return ""
	}
	return fmt.Sprintf("No request has these fields: %s. If the trace has another name for one, give it: --field %s=NAME", strings.Join(r.Absent, ", "), r.Absent[0])
}

// WriteTable writes the result as text.
func (r *RuleResult) WriteTable(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s\n\n", r.summary()); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(ruleHead(), "\t"))
	for _, o := range r.Rules {
		fmt.Fprintf(t, "%s\t%s", o.Name, o.Mode)
		for _, n := range o.figures() {
			fmt.Fprintf(t, "\t%d", n)
		}
		fmt.Fprintln(t)
	}
	if r.holds() {
		fmt.Fprintf(t, "\n%s\n", strings.Join(heldHead(), "\t"))
		for _, o := range r.Rules {
			fmt.Fprint(t, o.Name)
			for _, n := range o.Holds.figures() {
				fmt.Fprintf(t, "\t%d", n)
			}
			fmt.Fprintln(t)
		}
	}
	if err := t.Flush(); err != nil || r.hint() == "" {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.hint())
	return err
}

// WriteJSON writes the result as one indented object.
func (r *RuleResult) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
