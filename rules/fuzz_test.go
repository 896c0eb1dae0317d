package rules

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// FuzzFiles checks that no file panics, that mistakes have places that the file has, that an edit of one rule changes no
// other, and that what is imported can be loaded.
func FuzzFiles(f *testing.F) {
	shop, err := os.ReadFile("testdata/shop.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{
		string(shop), Empty,
		"version: 1\nnamespaces:\n  a:\n    - &r {name: x, match: &m {u: 'v*'}, limit: &l 1/s, mode: shadow}\n    - exclusive: true\n      rules: [{name: y, match: *m, limit: *l}, {name: z, unlimited: true}]\n  b: [*r]\n",
		`{"version": 1, "defaults": {"mode": "off"}, "namespaces": {"a/b": [{"name": "c", "key": ["ip", "d"], "ipv6_prefix": 56, "cost": "n", "limit": "log 5/m", "candidate": "token 6/m interval"}]}}`,
		"# one\nversion: 1 # two\nnamespaces:\n  # three\n  a: # four\n  - name: x # five\n    limit: 1/s\n    # six\n  - {limit: 2/s,\n     name: y} # seven\n",
		"version: 1\nnamespaces: {a: [{name: x, match: {u: a*}, except: &e {u: '*b', v: c}, limit: 1/s}, {name: y, except: *e, limit: 2/s}]}\n",
		"version: 1\nnamespaces:\n  a: {shard_by: &s u, rules: [{name: x, key: [v, *s], limit: 1/s}, {exclusive: true, rules: [{name: y, limit: 1/s}]}]}\n  b: {rules: [{name: x, limit: 1/s}]}\n",
		"version: 1\nnamespaces: {a: [{name: x, limit: \"1/s\", description: |\n a\n\n  b\n}]}\n",
		"version: 1\nnamespaces:\n  a: {all_or_none: true, descriptors: [{key: k, value: v*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 5, algorithm: gcra}}]}\n  b: [{name: x, limit: 1/s}]\n",
	} {
		f.Add("", text)
	}
	f.Add("envoy", "domain: a\ndescriptors:\n  - key: k\n    value: v*\n    rate_limit: {unit: day, requests_per_unit: 5, name: n}\n    descriptors: [{key: k2, shadow_mode: true, rate_limit: {unlimited: true}}]\n  - {key: k, detailed_metric: true}\n")
	f.Add("limitador", "- {namespace: n/m, max_value: 5, seconds: 60, conditions: [\"a == 'b'\", \"descriptors[0]['c'] != 'd'\"], variables: [e, \"descriptors[0].f\"]}\n")
	f.Fuzz(func(t *testing.T, from, text string) {
		if from != "" {
			out, _, err := Import(from, []byte(text))
			if err == nil {
				_, err = Parse(out, nil)
			} else if from == "envoy" || from == "limitador" {
				checkPlaces(t, text, err)
				return
			}
			if (err == nil) != (from == "envoy" || from == "limitador") {
				t.Fatalf("%q from %q gives %q: %v", text, from, out, err)
			}
			return
		}
		s, err := Parse([]byte(text), nil)
		if err != nil {
			checkPlaces(t, text, err)
			return
		}
		for _, r := range s.Rules()[:min(3, len(s.Rules()))] {
			checkEdits(t, s, r)
		}
	})
}

// checkPlaces checks the places of the mistakes in a text.
func checkPlaces(t *testing.T, text string, err error) {
	t.Helper()
	var es Errors
	if !errors.As(err, &es) || len(es) == 0 || len(es) > maxErrors+1 {
		t.Fatalf("%q: %v", text, err)
	}
	// A document that begins at the end of the text, as after ---, begins in a line of its own.
	lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 1 + 2*strings.Count(text, "\u2028") + 2*strings.Count(text, "\u2029") + strings.Count(text, "\u0085")
	if strings.HasPrefix(text, "\xfe\xff") || strings.HasPrefix(text, "\xff\xfe") {
		lines = len(text) // in UTF-16, YAML counts bytes that look like ends of lines in some errors, and characters in others
	}
	for _, e := range es {
		if e.Line < 1 || e.Line > lines+1 || e.Column < 1 || e.Text == "" || strings.ContainsAny(e.Text, "\n\r\x00") {
			t.Fatalf("%q: %v", text, e)
		}
	}
}

// checkEdits edits a rule in each way. The other rules must stay as they are.
func checkEdits(t *testing.T, s *Set, r *Rule) {
	t.Helper()
	edited := func(what string, text []byte, err error) *Set {
		t.Helper()
		if err != nil {
			t.Fatalf("%s %s: %v in %q", what, r.Path(), err, s.Text())
		}
		after, err := Parse(text, nil)
		if err != nil {
			t.Fatalf("%s %s: %v in %q, which was %q", what, r.Path(), err, text, s.Text())
		}
		return after
	}
	excerpt, err := s.Excerpt(r.Namespace, r.Name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.Set(r.Namespace, r.Name, excerpt)
	if edited("set", text, err).Sum() != s.Sum() {
		t.Fatalf("%q is set as %q, and gives %q", s.Text(), excerpt, text)
	}
	text, err = s.SetMode(r.Namespace, r.Name, (r.Mode+1)%3)
	if after := edited("mode", text, err); after.Rules()[r.Index].Mode == r.Mode || len(Diff(s, after).Changed) != 1 {
		t.Fatalf("the mode of %s in %q gives %q", r.Path(), s.Text(), text)
	}
	text, err = s.Delete(r.Namespace, r.Name)
	if after := edited("delete", text, err); len(after.Rules()) != len(s.Rules())-1 {
		t.Fatalf("%q without %s is %q", s.Text(), r.Path(), text)
	}
}
