package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/cli"
	"limitdb/groups"
	"limitdb/internal/english"
	"limitdb/resp"
	"limitdb/rules"
)

func rulesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "rules",
		Short: "Check, explain, test and import files of rules",
		Long:  "Works on files of rules (docs/rules.md) without a server. The exit status is 1 if a file has a mistake or a test fails.",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return cli.UsageError(fmt.Errorf("unknown subcommand %q: the usage is limitdb rules check|explain|test|import", args[0]))
		},
	}
	c.AddCommand(rulesCheckCommand(), rulesExplainCommand(), rulesTestCommand(), rulesImportCommand())
	return c
}

func rulesCheckCommand() *cobra.Command {
	var schema, envoy bool
	c := &cobra.Command{
		Use:     "check FILE …",
		Short:   "Find the mistakes in files of rules",
		Example: "  limitdb rules check rules.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && !schema {
				return cli.UsageError(errors.New("name at least one file"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if schema {
				_, err := c.OutOrStdout().Write(rules.Schema())
				return err
			}
			bad := 0
			for _, name := range args {
				set, err := readRules(name, envoy)
				var mistakes rules.Errors
				switch {
				case errors.As(err, &mistakes):
					for _, e := range mistakes { // as compilers print them
						fmt.Fprintf(c.ErrOrStderr(), "%s:%d:%d: %s\n", name, e.Line, e.Column, e.Text)
					}
					bad += len(mistakes)
					continue
				case err != nil:
					return err
				}
				for _, note := range set.Notes() {
					fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", name, note)
				}
				fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", name, contents(set))
			}
			if bad > 0 {
				return errors.New(english.Count(bad, "mistake"))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of files of rules")
	envoyFlag(c, &envoy)
	return c
}

// envoyFlag adds the flag of commands that read files of Envoy's rate limit service.
func envoyFlag(c *cobra.Command, to *bool) {
	c.Flags().BoolVar(to, "envoy", false, "read files of Envoy's rate limit service")
}

// readRules reads a file of rules, or of Envoy's rate limit service.
func readRules(name string, envoy bool) (*rules.Set, error) {
	if envoy {
		return cli.ReadEnvoyRules(name)
	}
	return cli.ReadRules(name)
}

// contents says in a line what a set has.
func contents(set *rules.Set) string {
	text := english.Count(len(set.Rules()), "rule") + " in " + english.Count(len(set.Namespaces()), "namespace")
	if len(set.Domains()) == 0 {
		return text
	}
	limits := 0
	for _, d := range set.Domains() {
		limits += d.Limits()
	}
	trees := english.Count(limits, "limit") + " in " + english.Count(len(set.Domains()), "tree") + " of descriptors"
	if len(set.Namespaces()) == 0 {
		return trees
	}
	return text + ", " + trees
}

func rulesExplainCommand() *cobra.Command {
	n := 0
	c := &cobra.Command{
		Use:   "explain FILE NAMESPACE [field=value …]",
		Short: "Say which rules apply to a request, and why the others do not",
		Long: `Says which rules of a file apply to a request, why the others do not, and in which slots the keys of its callers are. What
is in one slot is decided in one step, also in a cluster of several groups.`,
		Example: "  limitdb rules explain rules.yaml shop user=u17 path=/cart plan=pro",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("groups") && !groups.ValidCount(n) {
				return cli.UsageError(fmt.Errorf("--groups must be a power of two from 1 to %d, not %d", groups.Most, n))
			}
			set, err := cli.ReadRules(args[0])
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			var fields [][2]string
			for _, arg := range args[2:] {
				name, value, ok := strings.Cut(arg, "=")
				if !ok || name == "" {
					return cli.UsageError(fmt.Errorf("%q is not field=value", arg))
				}
				fields = append(fields, [2]string{name, value})
			}
			q, err := set.Query(args[1], fields, 1)
			if err != nil {
				return err
			}
			explain(c.OutOrStdout(), set.Namespace([]byte(args[1])), q, fields)
			places(c.OutOrStdout(), q, n)
			return nil
		},
	}
	c.Flags().IntVar(&n, "groups", 0, "say as well which of so many groups of a cluster have the slots")
	return c
}

// places prints in which slots the keys of a query are and, if n is not 0, in which of n groups these are.
func places(w io.Writer, q *rules.Query, n int) {
	var order []string
	names := map[string][]string{}
	for i := range q.Charges {
		place := placeOf(q.Charges[i].Key, n)
		if !slices.Contains(order, place) {
			order = append(order, place)
		}
		if name := q.Charges[i].Rule.Name; !slices.Contains(names[place], name) {
			names[place] = append(names[place], name)
		}
	}
	for _, place := range order {
		fmt.Fprintf(w, "%s: %s\n", place, strings.Join(names[place], ", "))
	}
}

// placeOf returns the slot of a caller's key.
func placeOf(key []byte, n int) string {
	tag := rules.TagOf(key)
	caller, _ := rules.ParseKey(key)
	switch slot := resp.Slot(key); {
	case strings.HasPrefix(tag, "#"), tag == "" && caller.Hashed:
		return "in a slot that only the server knows, since a value is too long"
	case n > 0:
		return fmt.Sprintf("in slot %d, group %d", slot, groups.Of(slot, n))
	default:
		return fmt.Sprintf("in slot %d", slot)
	}
}

// explain prints which rules a query has matched.
func explain(w io.Writer, ns *rules.Namespace, q *rules.Query, fields [][2]string) {
	known := ns.Fields()
	for _, f := range fields {
		if !slices.Contains(known, f[0]) {
			fmt.Fprintf(w, "no rule looks at the field %s\n", f[0])
		}
	}
	x := q.Explain()
	for _, r := range ns.Rules() {
		v := x.Of(r)
		for _, i := range v.Charges {
			charge := &q.Charges[i]
			caller, _ := rules.ParseKey(charge.Key)
			who := "all callers together"
			switch {
			case caller.Hashed:
				who = "a caller whose values are too long for a key"
			case len(caller.Values) > 0:
				who = "the caller " + fmt.Sprintf("%q", caller.Values)
			}
			role := [...]string{rules.Enforced: "", rules.Shadowed: "in shadow mode ", rules.Candidate: "as a candidate "}[charge.Role]
			from := ""
			if v.From != "" && charge.Role != rules.Candidate {
				from = " (" + v.From + ")"
			}
			fmt.Fprintf(w, "%s: %slimits %s to %s%s, cost %d\n", r.Name, role, who, charge.Spelling(), from, charge.Cost)
		}
		switch {
		case len(v.Charges) > 0:
		case v.Why == "" && v.From != "":
			fmt.Fprintf(w, "%s: does not limit the caller (%s)\n", r.Name, v.From)
		case v.Why == "":
			fmt.Fprintf(w, "%s: does not limit the caller\n", r.Name)
		default:
			fmt.Fprintf(w, "%s: does not apply: %s\n", r.Name, v.Why)
		}
	}
}

// testStart is when tables of cases begin: midnight of a Monday, UTC.
const testStart = 1_577_664_000 * int64(1e9)

func rulesTestCommand() *cobra.Command {
	var envoy bool
	c := &cobra.Command{
		Use:   "test FILE CASES …",
		Short: "Run tables of requests and expected answers against a file of rules",
		Long: `Runs tables of requests against a file of rules, on a clock of their own, which begins at midnight of a
Monday, UTC. Each table begins without any state. CASES is a YAML list:

  - {namespace: shop, fields: {user: u1, path: /cart}, repeat: 20, want: allowed, rule: user-api, remaining: 0}
  - {namespace: shop, fields: {user: u1, path: /cart}, want: limited}
  - {namespace: shop, fields: {user: u1, path: /cart}, at: 1s, want: allowed}

In a namespace with a tree of descriptors, a request has descriptors in place of fields, as Envoy sends them:

  - {namespace: edge, descriptors: [{entries: [{key: user, value: u1}], hits_addend: 2}], want: limited, remaining: 0}`,
		Example: "  limitdb rules test rules.yaml cases.yaml",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			set, err := readRules(args[0], envoy)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			failed, ran := 0, 0
			for _, name := range args[1:] {
				text, err := cli.ReadBounded(name, rules.MaxText)
				if err != nil {
					return err
				}
				cases, err := rules.ParseCases(text)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				for _, f := range set.Run(cases, testStart) {
					fmt.Fprintf(c.ErrOrStderr(), "%s:%d: want %s, got %s\n", name, f.Line, f.Want(), f.Got)
					failed++
				}
				ran += len(cases)
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d cases fail", failed, ran)
			}
			if ran == 1 {
				fmt.Fprintln(c.OutOrStdout(), "1 case passes")
			} else {
				fmt.Fprintf(c.OutOrStdout(), "%d cases pass\n", ran)
			}
			return nil
		},
	}
	envoyFlag(c, &envoy)
	return c
}

func rulesImportCommand() *cobra.Command {
	var from string
	c := &cobra.Command{
		Use:   "import --from FORMAT FILE",
		Short: "Translate the file of another limiter into a file of rules",
		Long: `Writes a file of rules to standard output, and what cannot be carried over to standard error. The limits
become FIXED, with the windows that the other limiter has; gcra is smoother.`,
		Example: "  limitdb rules import --from envoy ratelimit.yaml >rules.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := cli.ReadBounded(args[0], rules.MaxText)
			if err != nil {
				return err
			}
			out, notes, err := rules.Import(from, text)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			for _, note := range notes {
				fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", args[0], note)
			}
			_, err = io.Copy(c.OutOrStdout(), bytes.NewReader(out))
			return err
		},
	}
	c.Flags().StringVar(&from, "from", "", "the `FORMAT` of the file: envoy (its ratelimit service) or limitador")
	_ = c.MarkFlagRequired("from") // it is there
	return c
}
