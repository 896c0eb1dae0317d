package rules

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"limitdb/limit"
)

// Case is a row of a table of tests: a check, made Repeat times, and the answer that the last one must have.
type Case struct {
	// Line is where the case is in its file.
	Line int
	// At is when the check is made, in nanoseconds after the start of the table. It never goes back.
	At int64
	// Namespace and Fields describe the check.
	Namespace string
	Fields    [][2]string
	Cost      int64
	Repeat    int
	// Want is the answer that is wanted: allowed or limited, and the rule's name and what is left, if they are
	// given.
	Limited   bool
	Rule      *string
	Remaining *int64

	descriptors *caseDescriptors // nil: the case has fields
}

// maxRepeat bounds the time of a table.
const maxRepeat = 1_000_000

// caseRows are the fields of a case as it is written.
func caseRows() []row[Case] {
	return []row[Case]{
		{"namespace", true, schemaName, "The namespace, or the domain.", func(d *decoder, n *yaml.Node, to *Case) { to.Namespace, _ = d.scalar(n, "namespace") }},
		{"at", false, `{"type": "string"}`, "When, as 90s or 1h30m after the start; that of the case before if not given.", func(d *decoder, n *yaml.Node, to *Case) {
			t, err := time.ParseDuration(n.Value)
			if err != nil || t < 0 {
				d.fail(n, "at must be a time such as 90s or 1h30m, not %s", what(n))
			}
			to.At = int64(t)
		}},
		{"fields", false, schemaMatch, "The fields with their values.", func(d *decoder, n *yaml.Node, to *Case) {
			d.pairs(n, "fields", func(key, value *yaml.Node) {
				v, _ := d.scalar(d.resolve(value), "the value of a field")
				to.Fields = append(to.Fields, [2]string{key.Value, v})
			})
		}},
		{"descriptors", false, `{"type": "array"}`, "The descriptors of a request over gRPC.", readDescriptors},
		{"cost", false, `{"type": "integer"}`, "COST; 1 if not given.", func(d *decoder, n *yaml.Node, to *Case) { to.Cost = d.number(n, "cost", 0, 1<<62) }},
		{"repeat", false, `{"type": "integer"}`, "How many times; the last answer counts.", func(d *decoder, n *yaml.Node, to *Case) {
			to.Repeat = int(d.number(n, "repeat", 1, maxRepeat))
		}},
		{"want", true, `{"enum": ["allowed", "limited"]}`, "allowed or limited.", func(d *decoder, n *yaml.Node, to *Case) {
			if n.Value != "allowed" && n.Value != "limited" {
				d.fail(n, "want must be allowed or limited, not %s", what(n))
			}
			to.Limited = n.Value == "limited"
		}},
		{"rule", false, schemaName, "The rule that decides.", func(d *decoder, n *yaml.Node, to *Case) {
			if s, ok := d.scalar(n, "rule"); ok {
				to.Rule = &s
			}
		}},
		{"remaining", false, `{"type": "integer"}`, "What is left.", func(d *decoder, n *yaml.Node, to *Case) {
			v := d.number(n, "remaining", -1, 1<<62)
			to.Remaining = &v
		}},
	}
}

// ParseCases parses a table of cases: a YAML list. The error is an Errors.
func ParseCases(text []byte) ([]Case, error) {
	root, err := parseTree(text)
	if err != nil {
		return nil, err
	}
	var cases []Case
	d := &decoder{}
	err = d.guard(func() {
		if root == nil || root.Kind == yaml.SequenceNode && len(root.Content) == 0 {
			d.fail(nil, "there are no cases")
			return
		}
		last := int64(0)
		d.items(d.resolve(root), "the table", func(n *yaml.Node) {
			doc := Case{Line: n.Line, At: last, Cost: 1, Repeat: 1}
			object(d, n, "a case", caseRows(), &doc)
			if doc.descriptors != nil && doc.Fields != nil {
				d.fail(n, "fields do not go with descriptors")
			}
			if doc.At < last {
				d.fail(n, "at goes back: the case before is at %v", time.Duration(last))
			}
			last = doc.At
			cases = append(cases, doc)
		})
	})
	return cases, err
}

// Failure is a case whose answer is another than it must be.
type Failure struct {
	Case
	// Got is the answer.
	Got string
}

// Run runs cases in order, on one ledger that begins at start, in Unix ns.
func (s *Set) Run(cases []Case, start int64) (failures []Failure) {
	var l Ledger
	for _, c := range cases {
		if got := s.runCase(&l, &c, start); got != "" {
			failures = append(failures, Failure{c, got})
		}
	}
	return failures
}

// runCase returns the answer if it is not the one that is wanted.
func (s *Set) runCase(l *Ledger, c *Case, start int64) (got string) {
	if c.descriptors != nil {
		return s.runTree(l, c, start)
	}
	var a Answer
	for range c.Repeat {
		q, err := s.Query(c.Namespace, c.Fields, c.Cost)
		if err == nil {
			a, err = l.Decide(start+c.At, q)
		}
		if err != nil {
			return err.Error()
		}
	}
	if a.Limited != c.Limited || c.Rule != nil && *c.Rule != a.Rule || c.Remaining != nil && *c.Remaining != a.Remaining {
		return a.String()
	}
	return ""
}

// Query matches a check. It returns an error for an unknown namespace, and the errors of Query.Match.
func (s *Set) Query(namespace string, fields [][2]string, cost int64) (*Query, error) {
	ns := s.Namespace([]byte(namespace))
	if ns == nil {
		return nil, fmt.Errorf("there is no namespace %s", quote(namespace))
	}
	q := new(Query)
	q.Begin(ns)
	for _, f := range fields {
		if err := q.Add([]byte(f[0]), []byte(f[1])); err != nil {
			return nil, err
		}
	}
	return q, q.Match(cost)
}

// String describes the answer in a line.
func (a *Answer) String() string {
	var b strings.Builder
	b.WriteString("allowed")
	if a.Limited {
		b.Reset()
		b.WriteString("limited")
	}
	if a.Rule != "" {
		b.WriteString(" by " + a.Rule)
	}
	switch {
	case a.Limit < 0:
		b.WriteString(", without a limit")
	case a.Limited && a.Wait == limit.Never:
		fmt.Fprintf(&b, " for ever, %d of %d left", a.Remaining, a.Limit)
	case a.Limited:
		fmt.Fprintf(&b, " for %v, %d of %d left", time.Duration(a.Wait), a.Remaining, a.Limit)
	default:
		fmt.Fprintf(&b, ", %d of %d left", a.Remaining, a.Limit)
	}
	return b.String()
}

// Want says in a line what the answer must be.
func (c *Case) Want() string {
	want := "allowed"
	if c.Limited {
		want = "limited"
	}
	if c.Rule != nil {
		want += " by " + *c.Rule
	}
	if c.Remaining != nil {
		want += fmt.Sprintf(", %d left", *c.Remaining)
	}
	return want
}
