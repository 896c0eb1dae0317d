package rules

import (
	"fmt"

	"limitdb/limit"
)

// With in_flight, a rule bounds how many requests of a caller are in flight at a time:
//
//	in_flight: 10
//	lease: 60s
//
// Each request that is granted holds a lease until it is given back, or until its time is over, so that a service that dies blocks nobody for
// longer. The leases of a caller are under a key of their own beside that of the limit.

// InFlight is how many leases a caller may hold at a time.
type InFlight struct {
	// Max is how many, 1 to limit.MaxHolders.
	Max int64
	// Lease is how long one lasts if it is not given back, in ns.
	Lease int64

	shown limit.Limit // for those who look at the limit of a charge: it has only a Max
	text  string
}

// String describes it in a line.
func (f *InFlight) String() string { return f.text }

// leaseFamily is the family of keys with leases.
const leaseFamily = 'z'

// inFlight compiles in_flight and lease.
func (c *compiler) inFlight(doc *ruleDoc, r *Rule) {
	switch {
	case doc.inFlight.given() && !doc.lease.given():
		if !doc.bad {
			c.fail(doc.inFlight.at, "in_flight needs lease, the time after which a request that is not over counts no longer, such as 60s")
		}
		return
	case !doc.inFlight.given() && doc.lease.given():
		if !doc.bad {
			c.fail(doc.lease.at, "lease is for in_flight, which is not there")
		}
		return
	case !doc.inFlight.given():
		return
	}
	n, _ := parseCost([]byte(doc.inFlight.text))
	ttl, err := limit.ParseTime([]byte(doc.lease.text))
	switch {
	case err != nil:
		c.fail(doc.lease.at, "lease: %v", err)
	case ttl < 1:
		c.fail(doc.lease.at, "lease must be longer than 0")
	}
	r.flight = &InFlight{Max: n, Lease: ttl, shown: limit.Limit{Max: n}, text: fmt.Sprintf("%d in flight, each for %s at most", n, doc.lease.text)}
}

// InFlight returns how much of the rule may be in flight; nil if it does not say.
func (r *Rule) InFlight() *InFlight { return r.flight }

// fly adds the lease that a rule asks for, beside its limit if it has one.
func (q *Query) fly(r *Rule, role Role) {
	start := len(q.keys)
	q.keys = r.appendKey(q.keys, q, leaseFamily)
	q.Charges = append(q.Charges, Charge{Rule: r, Role: role, Limit: &r.flight.shown, InFlight: r.flight, Cost: 1, start: start, end: len(q.keys)})
}

// Spelling describes what the caller may do in a line.
func (c *Charge) Spelling() string {
	if c.InFlight != nil {
		return c.InFlight.text
	}
	return c.Limit.String()
}

// Counts reports whether the answer to a charge, ds[i], counts for its rule. A rule with both a limit and in_flight counts a check once: by what
// denies, or else by its limit.
func (q *Query) Counts(i int, ds []limit.Decision) bool {
	c := &q.Charges[i]
	for _, j := range [...]int{i - 1, i + 1} {
		if j >= 0 && j < len(q.Charges) && q.Charges[j].Rule == c.Rule && q.Charges[j].Role == c.Role {
			if ds[i].Limited != ds[j].Limited {
				return ds[i].Limited
			}
			return c.InFlight == nil
		}
	}
	return true
}
