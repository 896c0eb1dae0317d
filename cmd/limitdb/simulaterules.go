package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/cli"
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
	replay *simulate.RuleReplay
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
	r.replay = simulate.NewRuleReplay(r.ns)
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
			r.replay.Bad()
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		default:
			if err := r.add(&req); err != nil {
				r.replay.Bad()
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
	_, err := r.replay.Add(q, req)
	return err
}

// summed returns what the rules have done.
func (r *ruleSimulation) summed() (*simulate.RuleResult, error) {
	result, err := r.replay.Result()
	if err == nil {
		result.Absent = r.absent
	}
	return result, err
}

// runRules replays files through rules.
func (s *simulation) runRules(cmd *cobra.Command, files []string) error {
	if len(s.limits) > 0 || s.sweep != "" || cmd.Flags().Changed("key") {
		return cli.UsageError(errors.New("--rules does not go with --limit, --sweep or --key"))
	}
	r, err := newRuleSimulation(s.rules, s.namespace, s.fields)
	if err != nil {
		return cli.UsageError(err)
	}
	if s.trace.Actual != "" {
		o, err := s.holding()
		if err == nil {
			err = r.replay.Hold(o)
		}
		if err != nil {
			return cli.UsageError(err)
		}
	}
	for _, name := range files {
		if err := r.file(cmd.InOrStdin(), name, s.trace); err != nil {
			return err
		}
	}
	result, err := r.summed()
	if err != nil {
		return err
	}
	return s.write(cmd.OutOrStdout(), result, files)
}
