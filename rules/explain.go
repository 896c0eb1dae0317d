package rules

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Verdict is what one rule says to a query.
type Verdict struct {
	Rule *Rule
	// Why says why the rule does not apply; "" if it does.
	Why string
	// Field is the field for which it does not apply, Has what the query has there, nil for nothing, and Wants the pattern that it asks for.
	// They are empty if another reason came first.
	Field, Wants string
	Has          []byte
	// Charges are the indexes in Query.Charges of the limits that apply: none if the rule does not limit the caller.
	Charges []int
	// From says where the caller's limit comes from, "plan pro", "override 2" or "limit_from quota", and which weights its cost has: "weight 5 of path \"/a\"". It is
	// "" for the rule's own limit without weights.
	From string
}

// Explanation says of each rule of a namespace what it says to a query. It is valid as long as the query is, and until its next Match.
type Explanation struct {
	q       *Query
	charges map[*Rule][]int
	applies map[*Rule]bool
	taken   map[int32]*Rule // by the exclusive group: the rule that is taken
}

// Explain explains what Match has found.
func (q *Query) Explain() *Explanation {
	x := &Explanation{q, map[*Rule][]int{}, map[*Rule]bool{}, map[int32]*Rule{}}
	found := func(r *Rule) {
		x.applies[r] = true
		if r.group != 0 {
			x.taken[r.group] = r
		}
	}
	for i := range q.Charges {
		r := q.Charges[i].Rule
		x.charges[r] = append(x.charges[r], i)
		found(r)
	}
	for _, r := range q.Unlimited {
		found(r)
	}
	return x
}

// Keep makes the query independent of the bytes that it was given.
func (q *Query) Keep() {
	for _, f := range q.given {
		q.values[f] = append([]byte{}, q.values[f]...)
	}
}

// Rules returns the first n rules of the namespace, those that apply before the others.
func (x *Explanation) Rules(n int) []*Rule {
	all := slices.SortedFunc(maps.Keys(x.applies), func(a, b *Rule) int { return cmp.Compare(a.Index, b.Index) })
	for _, r := range x.q.ns.rules {
		if len(all) >= n {
			return all[:n]
		}
		if !x.applies[r] {
			all = append(all, r)
		}
	}
	return all
}

// Matched returns how many rules apply.
func (x *Explanation) Matched() int { return len(x.applies) }

// Of returns what a rule says.
func (x *Explanation) Of(r *Rule) Verdict {
	v := Verdict{Rule: r, Charges: x.charges[r]}
	if x.applies[r] {
		v.From = strings.Join(append(x.q.source(r), r.weighed(x.q)...), ", ")
		return v
	}
	if r.Mode == Off {
		v.Why = "its mode is off"
		return v
	}
	for i, f := range r.key {
		if x.q.values[f] == nil {
			v.Field, v.Why = r.fields[i], "the field "+r.fields[i]+" of its key is missing"
			return v
		}
	}
	for i := range r.conditions {
		c := &r.conditions[i]
		has := x.q.values[c.field]
		if has != nil && c.match(x.q, has) {
			continue
		}
		v.Field, v.Has, v.Wants = c.name, has, c.text
		if v.Why = "the field " + c.name + " is missing"; has != nil {
			v.Why = c.name + " is " + quote(string(has)) + c.refusal(x.q)
		}
		return v
	}
	if r.excepts(x.q) {
		var is []string
		for i := range r.except {
			is = append(is, r.except[i].name+" is "+quote(string(x.q.values[r.except[i].field])))
		}
		v.Why = "its except matches: " + strings.Join(is, ", ")
		return v
	}
	if first := x.taken[r.group]; first != nil {
		v.Why = first.Name + " comes first in its group"
	}
	return v
}

// refusal says why the value in q is not accepted.
func (c *condition) refusal(q *Query) string {
	if c.nets == nil {
		return ", not " + cmp.Or(c.text, `""`)
	}
	if _, ok := q.address(c.field); !ok {
		return ", which is no IP address"
	}
	return ", not in " + c.text
}

// source says where the terms of the caller come from: see terms.
func (q *Query) source(r *Rule) []string {
	t, override := q.terms(r)
	if override >= 0 {
		return []string{"override " + strconv.Itoa(int(override)+1)}
	}
	if r.from != nil {
		if source := r.from.source(q); source != "" {
			return []string{source}
		}
	}
	for _, name := range r.plans.names {
		if r.plans.byName[name] == t {
			return []string{"plan " + name}
		}
	}
	return nil
}
