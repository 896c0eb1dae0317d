package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/cli"
	"limitdb/limit"
	"limitdb/rules"
	"limitdb/simulate"
)

// ruleSimulation replays a trace through the rules of a namespace.
type ruleSimulation struct {
	ns     *rules.Namespace
	fields []string // of the trace, as the rules name them
	names  []string // the same, as the trace names them
	absent []string // those that no request has had
	query  rules.Query
	ledger rules.Ledger
	now    int64
	result ruleResult
}

// ruleResult has the counts of one rule in a simulation.
type ruleResult struct {
	Requests  int64        `json:"requests"`
	Denied    int64        `json:"denied"`
	Unmatched int64        `json:"unmatched"` // by any rule
	Bad       int64        `json:"bad_lines"`
	Rules     []ruleCounts `json:"rules"`
}

type ruleCounts struct {
	Name      string `json:"name"`
	Mode      string `json:"mode"`
	Matched   int64  `json:"matched"`
	Denied    int64  `json:"denied"`
	Shadow    int64  `json:"shadow_denied"`
	Candidate int64  `json:"candidate_denied"`
}

// newRuleSimulation reads a file of rules. fields are pairs "rule's=trace's", for fields with another name in the
// trace.
func newRuleSimulation(file, namespace string, fields []string) (*ruleSimulation, error) {
	set, err := cli.ReadRules(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if all := set.Namespaces(); namespace == "" && len(all) == 1 {
		namespace = all[0].Name()
	}
	r := &ruleSimulation{ns: set.Namespace([]byte(namespace))}
	if r.ns == nil {
		return nil, fmt.Errorf("%s has no namespace %q: name one with --namespace", file, namespace)
	}
	r.fields = r.ns.Fields()
	r.names, r.absent = slices.Clone(r.fields), slices.Clone(r.fields)
	for _, f := range fields {
		field, name, ok := strings.Cut(f, "=")
		at := slices.Index(r.fields, field)
		if !ok || at < 0 {
			return nil, fmt.Errorf("--field %s: write one of %s, = and the field of the trace", f, strings.Join(r.fields, ", "))
		}
		r.names[at] = name
	}
	for _, rule := range r.ns.Rules() {
		r.result.Rules = append(r.result.Rules, ruleCounts{Name: rule.Name, Mode: rule.Mode.String()})
	}
	return r, nil
}

// file replays one file.
func (r *ruleSimulation) file(stdin io.Reader, name string, o simulate.TraceOptions) error {
	in, err := openTrace(stdin, name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer in.Close()
	o.Key, o.Optional = r.names, true
	trace, err := simulate.NewTrace(in, o)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var req simulate.Request
	var wrong *simulate.LineError
	for {
		err := trace.Next(&req)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &wrong):
			r.result.Bad++
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		default:
			if err := r.add(&req); err != nil {
				r.result.Bad++
			}
		}
	}
}

// add decides one request, and counts.
func (r *ruleSimulation) add(req *simulate.Request) error {
	q := &r.query
	q.Begin(r.ns)
	for i, v := range req.Values {
		if v == nil {
			continue
		}
		if at := slices.Index(r.absent, r.fields[i]); at >= 0 {
			r.absent = slices.Delete(r.absent, at, at+1)
		}
		if err := q.Add([]byte(r.fields[i]), v); err != nil {
			return err
		}
	}
	if err := q.Match(req.Cost); err != nil {
		return err
	}
	r.now = max(r.now, req.Time)
	a, err := r.ledger.Decide(r.now, q)
	if err != nil {
		return err
	}
	r.result.Requests++
	if a.Limited {
		r.result.Denied++
	}
	if len(q.Charges) == 0 {
		r.result.Unmatched++
	}
	for i := range q.Charges {
		r.count(&q.Charges[i], &a.Parts[i])
	}
	return nil
}

func (r *ruleSimulation) count(c *rules.Charge, d *limit.Decision) {
	n := &r.result.Rules[c.Rule.Index-r.ns.Rules()[0].Index]
	if c.Role != rules.Candidate {
		n.Matched++
	}
	switch {
	case !d.Limited:
	case c.Role == rules.Candidate:
		n.Candidate++
	case c.Role == rules.Shadowed:
		n.Shadow++
	default:
		n.Denied++
	}
}

// write prints the result.
func (r *ruleSimulation) write(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(&r.result)
	}
	res := &r.result
	fmt.Fprintf(w, "%d requests, %d denied, %d that no rule limits, %d lines that are not requests\n\n", res.Requests, res.Denied, res.Unmatched, res.Bad)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "rule\tmode\tmatched\tdenied\tin shadow mode\tcandidate")
	for _, n := range res.Rules {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\n", n.Name, n.Mode, n.Matched, n.Denied, n.Shadow, n.Candidate)
	}
	if err := t.Flush(); err != nil || len(r.absent) == 0 || res.Requests == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "\nNo request has these fields: %s. If the trace has another name for one, give it: --field %s=NAME\n", strings.Join(r.absent, ", "), r.absent[0])
	return err
}

// runRules replays files through rules.
func (s *simulation) runRules(cmd *cobra.Command, files []string) error {
	if len(s.limits) > 0 || s.sweep != "" || s.html != "" || cmd.Flags().Changed("key") {
		return cli.UsageError(errors.New("--rules does not go with --limit, --sweep, --key or --html"))
	}
	r, err := newRuleSimulation(s.rules, s.namespace, s.fields)
	if err != nil {
		return cli.UsageError(err)
	}
	for _, name := range files {
		if err := r.file(cmd.InOrStdin(), name, s.trace); err != nil {
			return err
		}
	}
	return r.write(cmd.OutOrStdout(), s.json)
}
