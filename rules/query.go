package rules

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"limitdb/limit"
)

// ErrTooMany is returned for a check to which more than MaxCharges limits apply.
var ErrTooMany = fmt.Errorf("more than %d limits apply", MaxCharges)

// A FieldError says what is wrong with a field of a check.
type FieldError struct {
	// Field is the field's name, quoted and cut.
	Field string
	// Err says what is wrong.
	Err error
}

func (e *FieldError) Error() string { return "field " + e.Field + ": " + e.Err.Error() }
func (e *FieldError) Unwrap() error { return e.Err }

// What a field of a check can have wrong.
var (
	ErrFieldTwice = errors.New("given twice")
	ErrFieldLong  = errors.New("the value has more than " + strconv.Itoa(MaxValue) + " bytes")
	ErrFieldCost  = errors.New("the cost must be an integer from 0 to 9223372036854775807")
)

// Role says what a charge is for.
type Role uint8

// The roles of charges. Only an enforced one can deny.
const (
	Enforced Role = iota
	Shadowed
	Candidate
)

// Charge is a limit that applies to a check.
type Charge struct {
	Rule *Rule
	Role Role
	// Limit is what the caller may do.
	Limit *limit.Limit
	// InFlight is not nil for a lease: how many the caller may hold. Limit then has only its Max.
	InFlight *InFlight
	// Cost is what the check takes from it, 0 or more.
	Cost int64
	// Key is the caller's, valid until the next Match.
	Key []byte

	start, end int   // of Key in Query.keys
	brought    int32 // Limit is in Query.brought, before this index; 0: it is not
}

// Query is a check in progress. The zero value is ready for Begin.
type Query struct {
	// Secret is hashed with values that are too long for a key. The owner sets it once.
	Secret []byte
	// Rates leaves out what may be in flight, for requests that cannot give leases back.
	Rates bool
	// Charges are the limits that apply, in the order of the file, after Match.
	Charges []Charge
	// Unlimited are the rules that matched and do not limit the caller, in the order of the
	// file, after Match.
	Unlimited []*Rule

	ns        *Namespace
	values    [][]byte // by the number of the field; nil: not given
	given     []int32  // the numbers of the fields that were given
	found     []int32
	overrides []int32
	keys      []byte
	escaped   []byte // how the keys made last have the value of escapedOf, or nil: mostly the next key has it, too
	escapedOf int32
	brought   []limit.Limit // by the request
	tag       []byte        // see Tag; empty: not made yet

	// The address of the field before this number; 0: of none.
	addressOf int32
	isAddress bool
	parsed    netip.Addr
}

// Begin begins a check in a namespace, which must not be nil.
func (q *Query) Begin(ns *Namespace) {
	for _, f := range q.given {
		q.values[f] = nil
	}
	q.given, q.Charges, q.Unlimited, q.ns = q.given[:0], q.Charges[:0], q.Unlimited[:0], ns
	q.escaped, q.addressOf, q.tag = nil, 0, q.tag[:0]
	if n := len(ns.fields); n > len(q.values) {
		q.values = make([][]byte, n)
	}
}

// Add adds a field. The value must stay valid until after Match. Fields that no rule names are
// ignored. The error is a *FieldError.
func (q *Query) Add(name, value []byte) error {
	f, ok := q.ns.fields[string(name)]
	if !ok {
		return nil
	}
	switch {
	case q.values[f] != nil:
		return fieldError(name, ErrFieldTwice)
	case len(value) > MaxValue:
		return fieldError(name, ErrFieldLong)
	case value == nil:
		value = []byte{}
	}
	q.values[f] = value
	q.given = append(q.given, f)
	return nil
}

func fieldError[T string | []byte](name T, err error) error {
	return &FieldError{quote(string(name)), err}
}

// Match finds the rules that apply, and fills in Charges and Unlimited. cost is that of rules
// without a field for it; if it is 0, no rule takes anything. The errors are a *FieldError and
// ErrTooMany.
func (q *Query) Match(cost int64) error {
	q.found = q.ns.index.find(q, q.found[:0])
	sort(q.found)
	q.keys, q.brought, q.escaped = q.keys[:0], q.brought[:0], nil
	taken := int32(0) // the last group that has a rule
	for _, id := range q.found {
		r := q.ns.rules[id]
		if r.Mode == Off || r.group != 0 && r.group == taken || !r.applies(q) {
			continue
		}
		taken = r.group
		if err := q.charge(r, cost); err != nil {
			return err
		}
	}
	q.settle()
	return nil
}

// settle gives the charges what lies in buffers, once these grow no more.
func (q *Query) settle() {
	for i := range q.Charges {
		c := &q.Charges[i]
		if c.Key = q.keys[c.start:c.end:c.end]; c.brought > 0 {
			c.Limit = &q.brought[c.brought-1]
		}
	}
}

// Found returns a copy of what Match has found: Charges, with keys that stay valid, and Unlimited.
func (q *Query) Found() Query {
	found := Query{Charges: slices.Clone(q.Charges), Unlimited: slices.Clone(q.Unlimited), keys: slices.Clone(q.keys), brought: slices.Clone(q.brought)}
	found.settle()
	return found
}

// applies reports whether a rule matches.
func (r *Rule) applies(q *Query) bool {
	for _, f := range r.key {
		if q.values[f] == nil {
			return false
		}
	}
	return q.holds(r.conditions) && (len(r.except) == 0 || !q.holds(r.except))
}

// excepts reports whether the rule has an except that matches.
func (r *Rule) excepts(q *Query) bool { return len(r.except) > 0 && q.holds(r.except) }

// holds reports whether all conditions hold.
func (q *Query) holds(conditions []condition) bool {
	for i := range conditions {
		c := &conditions[i]
		if v := q.values[c.field]; v == nil || !c.match(q, v) {
			return false
		}
	}
	return true
}

// charge adds the limits of a rule that matches.
func (q *Query) charge(r *Rule, cost int64) error {
	t, override := q.terms(r)
	role := Enforced
	if r.Mode == Shadow {
		role = Shadowed
	}
	flies := r.flight != nil && !q.Rates && !(override >= 0 && t.unlimited) && cost != 0
	if t.unlimited && flies {
		q.fly(r, role)
		return q.few()
	}
	if t.unlimited {
		q.Unlimited = append(q.Unlimited, r)
		return nil
	}
	if r.cost >= 0 && cost != 0 {
		if v := q.values[r.cost]; v != nil {
			n, ok := parseCost(v)
			if !ok {
				return fieldError(q.ns.fieldName(r.cost), ErrFieldCost)
			}
			cost = n
		}
	}
	if len(r.weights) > 0 && cost != 0 {
		var err error
		if cost, err = q.weigh(r, cost); err != nil {
			return err
		}
	}
	q.add(r, role, t, cost, t.family)
	if r.from != nil && override < 0 {
		if err := q.bring(r.from); err != nil {
			return err
		}
	}
	if flies {
		q.fly(r, role)
	}
	if r.candidate != nil && override < 0 {
		q.add(r, Candidate, r.candidate, cost, r.candidate.family-'a'+'A')
	}
	return q.few()
}

// few returns ErrTooMany if too many limits apply.
func (q *Query) few() error {
	if len(q.Charges) > MaxCharges {
		return ErrTooMany
	}
	return nil
}

func (q *Query) add(r *Rule, role Role, t *terms, cost int64, family byte) {
	start := len(q.keys)
	q.keys = r.appendKey(q.keys, q, family)
	q.Charges = append(q.Charges, Charge{Rule: r, Role: role, Limit: &t.limit, Cost: cost, start: start, end: len(q.keys)})
}

// terms returns the limit of the caller under a rule, and the override that it comes from, -1 for none.
func (q *Query) terms(r *Rule) (t *terms, override int32) {
	if len(r.overrides) > 0 {
		q.overrides = r.exempt.find(q, q.overrides[:0])
		sort(q.overrides)
		for _, id := range q.overrides {
			if o := &r.overrides[id]; q.holds(o.conditions) {
				return &o.terms, id
			}
		}
	}
	if r.plans.field < 0 {
		return &r.terms, -1
	}
	if t = r.plans.byName[string(q.values[r.plans.field])]; t == nil {
		t = r.plans.byName[r.plans.standard]
	}
	return t, -1
}

// CostField returns the name of the field that the cost of a rule comes from, "" if that is not given.
func (q *Query) CostField(r *Rule) string {
	if r.cost < 0 || q.values[r.cost] == nil {
		return ""
	}
	return r.costName
}

// sort sorts a few numbers.
func sort(a []int32) {
	if len(a) > 16 {
		slices.Sort(a)
		return
	}
	for i := 1; i < len(a); i++ {
		for j := i; j > 0 && a[j] < a[j-1]; j-- {
			a[j], a[j-1] = a[j-1], a[j]
		}
	}
}

// parseCost reads an int64 of 0 or more: digits alone.
func parseCost(v []byte) (int64, bool) {
	if len(v) == 0 || len(v) > 19 {
		return 0, false
	}
	n := uint64(0)
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0') // 19 digits fit
	}
	return int64(n), n <= 1<<63-1
}

// fieldName returns the name of a field by its number.
func (n *Namespace) fieldName(field int32) string {
	for name, f := range n.fields {
		if f == field {
			return name
		}
	}
	return ""
}

// Deciding returns which of the charges' decisions is the answer to the check: of the enforced
// ones that deny, the one with the longest wait, or else the one with the least remaining; of
// several, the first. It returns -1 if no charge is enforced.
func (q *Query) Deciding(ds []limit.Decision) int {
	at := -1
	for i := range q.Charges {
		if q.Charges[i].Role == Enforced && (at < 0 || outranks(&ds[i], &ds[at])) {
			at = i
		}
	}
	return at
}

// outranks reports whether a decides rather than b.
func outranks(a, b *limit.Decision) bool {
	switch {
	case a.Limited != b.Limited:
		return a.Limited
	case !a.Limited:
		return a.Remaining < b.Remaining
	case a.Wait == limit.Never || b.Wait == limit.Never:
		return a.Wait == limit.Never && b.Wait != limit.Never
	}
	return a.Wait > b.Wait
}

// NearLimit reports whether a decision that grants leaves a fifth of the limit or less.
func NearLimit(d *limit.Decision) bool { return !d.Limited && d.Remaining <= d.Limit/5 }

// KeysOf appends to keys every key under which a rule may count the caller that q describes, whatever
// its plan. It returns false if q lacks a field of the rule's key.
func (q *Query) KeysOf(r *Rule, keys [][]byte) ([][]byte, bool) {
	for _, f := range r.key {
		if q.values[f] == nil {
			return keys, false
		}
	}
	var seen [256]bool
	add := func(t *terms, family byte) {
		if !t.unlimited && !seen[family] {
			seen[family] = true
			keys = append(keys, r.appendKey(nil, q, family))
		}
	}
	if r.plans.field < 0 {
		add(&r.terms, r.terms.family)
	}
	for _, t := range r.plans.byName {
		add(t, t.family)
	}
	for i := range r.overrides {
		add(&r.overrides[i].terms, r.overrides[i].terms.family)
	}
	if r.flight != nil {
		keys = append(keys, r.appendKey(nil, q, leaseFamily))
	}
	if r.candidate != nil {
		add(r.candidate, r.candidate.family-'a'+'A')
	}
	return keys, true
}
