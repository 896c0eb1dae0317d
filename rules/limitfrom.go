package rules

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"

	"limitdb/limit"
)

// With limit_from, a request brings its limit, and the file bounds it:
//
//	limit_from: quota          the field quota has 500 or 500/m
//	at_most: gcra 1000/m burst 50
//
// The field has a count, or a rate. The algorithm and its options are those of at_most, so that nobody gets a new state by naming
// another algorithm. A limit that could ever admit more than at_most is at_most. Where limits with other periods in turn admit the sum of what
// each does (see windowed), the period must be that of at_most, too.

// limitFrom says where requests bring their limit. It is nil of rules whose requests bring none.
type limitFrom struct {
	field  int32
	name   string // of the field
	atMost terms
	text   string // at_most as it is shown
}

// What a field with a limit can have wrong.
var (
	ErrFieldLimit  = errors.New("the limit must be a count or a rate, such as 100 or 100/m")
	ErrFieldPeriod = errors.New("the limit must be a count, such as 100, for the period that at_most has")
)

// limitFrom compiles limit_from and at_most. The rule's own limit is that of requests that bring none; without it, at_most is.
func (c *compiler) limitFrom(doc *ruleDoc, r *Rule) {
	switch {
	case doc.limitFrom.given() && !doc.atMost.given():
		if !doc.bad {
			c.fail(doc.limitFrom.at, "limit_from needs at_most, the largest limit that a request may bring")
		}
		return
	case !doc.limitFrom.given() && doc.atMost.given():
		if !doc.bad {
			c.fail(doc.atMost.at, "at_most is for the limit that a request brings: it needs limit_from")
		}
		return
	case !doc.limitFrom.given():
		return
	case doc.plan.at != nil:
		c.fail(doc.limitFrom.at, "limit_from does not go with plan")
		return
	}
	before := len(c.errs)
	r.from = &limitFrom{field: c.field(doc.limitFrom.text), name: doc.limitFrom.text, atMost: c.terms(doc.atMost, beside{doc.burst.text, r.block})}
	r.from.text = r.from.atMost.String()
	switch {
	case !doc.limit.given():
		r.terms = r.from.atMost
	case len(c.errs) == before && r.terms.limit != (limit.Limit{}) && r.terms.family != r.from.atMost.family:
		c.fail(doc.atMost.at, "%s cannot read the state of %s: at_most must have the algorithm of limit", r.from.atMost.limit.Algorithm, r.terms.limit.Algorithm)
	case len(c.errs) == before && windowed(&r.from.atMost.limit) && !alike(r.terms.limit, r.from.atMost.limit):
		c.fail(doc.atMost.at, "with %s, limit and at_most may differ only in their counts", r.from.atMost.limit.Algorithm)
	}
}

// LimitFrom returns the field in which requests bring their limit, and the largest that they may bring; "" if they bring none.
func (r *Rule) LimitFrom() (field, atMost string) {
	if r.from == nil {
		return "", ""
	}
	return r.from.name, r.from.text
}

// bring replaces the limit of the last charge by the one that the request brings, if it does. The error is a *FieldError.
func (q *Query) bring(from *limitFrom) error {
	v := q.values[from.field]
	if v == nil {
		return nil
	}
	l, err := from.limit(v)
	if err != nil {
		return fieldError(from.name, err)
	}
	q.brought = append(q.brought, l)
	q.Charges[len(q.Charges)-1].brought = int32(len(q.brought))
	return nil
}

// limit returns the limit that a value means.
func (f *limitFrom) limit(v []byte) (limit.Limit, error) {
	most := &f.atMost.limit
	n, period, err := f.rate(v)
	if err != nil {
		return limit.Limit{}, err
	}
	if f.bounds(n, period) {
		return *most, nil
	}
	l := *most
	if l.Max, l.Period = n, period; most.Burst == most.Max {
		l.Burst = n // as for a limit without BURST
	}
	if err := l.Validate(); err != nil {
		return limit.Limit{}, fmt.Errorf("%s: %w", quote(string(v)), err)
	}
	return l, nil
}

// rate reads a count or a rate.
func (f *limitFrom) rate(v []byte) (n, period int64, err error) {
	most := &f.atMost.limit
	if bytes.IndexByte(v, '/') < 0 {
		n, ok := parseCost(v)
		if !ok {
			return 0, 0, fmt.Errorf("%w, not %s", ErrFieldLimit, quote(string(v)))
		}
		return n, most.Period, nil
	}
	if n, period, err = limit.ParseRate(v); err != nil {
		return 0, 0, fmt.Errorf("%w, not %s", ErrFieldLimit, quote(string(v)))
	}
	if period != most.Period && windowed(most) {
		return 0, 0, fmt.Errorf("%w, not %s", ErrFieldPeriod, quote(string(v)))
	}
	return n, period, nil
}

// windowed reports whether l counts in windows or arrivals, so that it and a limit with another period, asked in turn, admit the sum of what
// each does.
func windowed(l *limit.Limit) bool {
	switch l.Algorithm {
	case limit.FIXED, limit.SEGMENTED, limit.LOG:
		return true
	}
	return l.Interval
}

// alike reports whether two limits differ at most in their counts.
func alike(a, b limit.Limit) bool {
	if a.Zone != nil && b.Zone != nil && a.Zone.String() == b.Zone.String() {
		a.Zone = b.Zone
	}
	a.Max, a.Burst = b.Max, b.Burst
	return a == b
}

// bounds reports whether n in a period may admit more than at_most: more at once, or more in the long run.
func (f *limitFrom) bounds(n, period int64) bool {
	most := &f.atMost.limit
	return n > most.Max || above(n, most.Period, most.Max, period)
}

// above reports whether a·b is above c·d, all 0 or more.
func above(a, b, c, d int64) bool {
	high, low := bits.Mul64(uint64(a), uint64(b))
	most, rest := bits.Mul64(uint64(c), uint64(d))
	return high > most || high == most && low > rest
}

// source says whether the limit of a request is its own.
func (f *limitFrom) source(q *Query) string {
	v := q.values[f.field]
	if v == nil {
		return ""
	}
	if n, period, err := f.rate(v); err == nil && f.bounds(n, period) {
		return "at_most, as " + f.name + " is above it"
	}
	return "limit_from " + f.name
}
