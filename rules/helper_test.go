package rules

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// mustParse parses a file that has no mistake.
func mustParse(t testing.TB, text string) *Set {
	t.Helper()
	s, err := Parse([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func shop(t testing.TB) *Set {
	t.Helper()
	text, err := os.ReadFile("testdata/shop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return mustParse(t, string(text))
}

// match matches "field=value …" in a namespace.
func match(t testing.TB, s *Set, ns, fields string) *Query {
	t.Helper()
	q := &Query{Secret: []byte("secret")}
	q.Begin(s.Namespace([]byte(ns)))
	for f := range strings.FieldsSeq(fields) {
		name, value, _ := strings.Cut(f, "=")
		if err := q.Add([]byte(name), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Match(1); err != nil {
		t.Fatal(err)
	}
	return q
}

// applied returns the names and limits of the charges.
func applied(q *Query) (all []string) {
	for _, c := range q.Charges {
		all = append(all, c.Rule.Name+": "+[]string{"", "shadow ", "candidate "}[c.Role]+c.Limit.String())
	}
	return all
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
