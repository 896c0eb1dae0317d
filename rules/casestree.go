package rules

import (
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The requests of Envoy's rate limit service in a table of cases, with the fields of its protocol.

// caseDescriptors are the descriptors of a case.
type caseDescriptors struct {
	all []Descriptor
	own []bool // a descriptor has hits of its own
}

// request returns the descriptors of a request whose own hits are cost.
func (c *caseDescriptors) request(cost int64) []Descriptor {
	all := make([]Descriptor, len(c.all))
	for i, d := range c.all {
		if !c.own[i] {
			d.Hits = uint64(cost)
		}
		all[i] = d
	}
	return all
}

// readDescriptors reads the descriptors of a case.
func readDescriptors(d *decoder, n *yaml.Node, to *Case) {
	to.descriptors = &caseDescriptors{}
	d.items(n, "descriptors", func(item *yaml.Node) {
		var one caseDescriptor
		object(d, item, "a descriptor", caseDescriptorRows(), &one)
		to.descriptors.all, to.descriptors.own = append(to.descriptors.all, one.Descriptor), append(to.descriptors.own, one.own)
	})
	if len(to.descriptors.all) > MaxDescriptors {
		d.fail(n, "%v", ErrTooManyDescriptors)
	}
}

// caseDescriptor is a descriptor of a case.
type caseDescriptor struct {
	Descriptor
	own bool
}

func caseDescriptorRows() []row[caseDescriptor] {
	return []row[caseDescriptor]{
		{name: "entries", required: true, read: func(d *decoder, n *yaml.Node, to *caseDescriptor) {
			d.items(n, "entries", func(item *yaml.Node) {
				var e Entry
				object(d, item, "an entry", []row[Entry]{
					{name: "key", required: true, read: func(d *decoder, n *yaml.Node, to *Entry) { to.Key, _ = d.scalar(n, "key") }},
					{name: "value", read: func(d *decoder, n *yaml.Node, to *Entry) { to.Value, _ = d.scalar(n, "value") }},
				}, &e)
				to.Entries = append(to.Entries, e)
			})
		}},
		{name: "hits_addend", read: func(d *decoder, n *yaml.Node, to *caseDescriptor) {
			to.Hits, to.own = uint64(d.number(n, "hits_addend", 0, math.MaxInt64)), true
		}},
		{name: "is_negative_hits", read: func(d *decoder, n *yaml.Node, to *caseDescriptor) { to.Negative = d.yesNo(n, "is_negative_hits") }},
		{name: "limit", read: func(d *decoder, n *yaml.Node, to *caseDescriptor) {
			to.Override = &Rate{}
			object(d, n, "limit", []row[Rate]{
				{name: "requests_per_unit", required: true, read: func(d *decoder, n *yaml.Node, to *Rate) {
					to.PerUnit = uint32(d.number(n, "requests_per_unit", 0, math.MaxUint32))
				}},
				{name: "unit", required: true, read: func(d *decoder, n *yaml.Node, to *Rate) {
					unit, ok := ParseUnit(n.Value)
					if to.Unit = unit; !ok {
						d.fail(n, "unit must be second, minute, hour, day, week, month or year, not %s", what(n))
					}
				}},
			}, to.Override)
		}},
	}
}

// runTree returns the answer to a case with descriptors if it is not the one that is wanted.
func (s *Set) runTree(l *Ledger, c *Case, start int64) (got string) {
	domain := s.Domain(c.Namespace)
	if domain == nil {
		return fmt.Sprintf("there is no tree of descriptors in %s", quote(c.Namespace))
	}
	var statuses []Status
	request := c.descriptors.request(c.Cost)
	for range c.Repeat {
		var err error
		if statuses, err = l.Judge(start+c.At, domain, request); err != nil {
			return err.Error()
		}
	}
	at := deciding(statuses)
	limited := at >= 0 && statuses[at].Denied
	name, remaining := "", int64(-1)
	if at >= 0 {
		name, remaining = l.lookup.Matches[at].Name, int64(statuses[at].Remaining)
	}
	if limited == c.Limited && (c.Rule == nil || *c.Rule == name) && (c.Remaining == nil || *c.Remaining == remaining) {
		return ""
	}
	var b strings.Builder
	b.WriteString(map[bool]string{false: "allowed", true: "limited"}[limited])
	for i, st := range statuses {
		m := &l.lookup.Matches[i]
		fmt.Fprintf(&b, "; descriptor %d: ", i+1)
		switch {
		case m.Unlimited:
			b.WriteString("unlimited")
		case !st.Limited:
			b.WriteString("without a limit")
		default:
			fmt.Fprintf(&b, "%d of %d per %s left", st.Remaining, m.Rate.PerUnit, m.Rate.Unit)
			if m.Name != "" {
				b.WriteString(" of " + m.Name)
			}
			if st.Over {
				b.WriteString(", over the limit")
			}
		}
	}
	return b.String()
}

// deciding returns the index of the first status that denies or, if none does, of the one with the least left; -1 if there is no limit.
func deciding(statuses []Status) int {
	at := -1
	for i := range statuses {
		switch st := &statuses[i]; {
		case st.Denied:
			return i
		case st.Limited && (at < 0 || st.Remaining < statuses[at].Remaining):
			at = i
		}
	}
	return at
}
