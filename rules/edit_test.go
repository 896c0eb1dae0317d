package rules

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestEdits edits a file step by step. Each text must parse.
func TestEdits(t *testing.T) {
	s := mustParse(t, Empty)
	names := func() (all []string) {
		for _, r := range s.Rules() {
			all = append(all, r.Path()+" "+r.Limit()+" "+r.Mode.String())
		}
		return all
	}
	then := func(text []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		s = mustParse(t, string(text))
	}
	then(s.Set("a", "one", []byte("limit: 1/s # first")))
	then(s.Set("a", "two", []byte(`{"limit": "2/s", "key": ["u"]}`)))
	then(s.Set("b", "one", []byte("{name: one, limit: 3/s}")))
	then(s.Set("a", "one", []byte("limit: 4/s\nmode: shadow")))
	same(t, names(), "a/one GCRA 4/s shadow", "a/two GCRA 2/s enforce", "b/one GCRA 3/s enforce")
	then(s.SetMode("a", "one", Enforce))
	then(s.SetMode("a", "two", Off))
	same(t, names(), "a/one GCRA 4/s enforce", "a/two GCRA 2/s off", "b/one GCRA 3/s enforce")
	if text, err := s.Excerpt("a", "two"); err != nil || string(text) != `{name: two, "limit": "2/s", "key": ["u"], mode: off}`+"\n" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := s.Excerpt("a", ""); err != nil || !strings.HasPrefix(string(text), "- name: one\n  limit: 4/s\n  mode: enforce\n") {
		t.Errorf("%q, %v", text, err)
	}
	then(s.Delete("a", "one"))
	then(s.Delete("b", "one"))
	same(t, names(), "a/two GCRA 2/s off")
	if len(s.Namespaces()) != 1 {
		t.Error("the namespace is still there")
	}
	for _, err := range []error{
		func() error { _, err := s.Delete("a", "one"); return err }(),
		func() error { _, err := s.SetMode("c", "one", Off); return err }(),
		func() error { _, err := s.Excerpt("c", ""); return err }(),
	} {
		if err != ErrNoRule {
			t.Error(err)
		}
	}
	for _, list := range []string{"", "- {limit: 1/s}", "1/s"} {
		if _, err := s.Set("a", "x", []byte(list)); err == nil || !strings.Contains(err.Error(), "a rule must be a mapping") {
			t.Errorf("%q: %v", list, err)
		}
	}
	if _, err := s.Set("a", "x", []byte("{name: y, limit: 1/s}")); err != ErrName {
		t.Error(err)
	}
	var es Errors
	if _, err := s.Set("a", "x", []byte("[")); !errors.As(err, &es) {
		t.Error(err)
	}
}

// TestEditsInGroups edits rules of groups.
func TestEditsInGroups(t *testing.T) {
	s := mustParse(t, `
version: 1
namespaces:
  a:
    - exclusive: true
      rules:
        - {name: x, match: {u: v}, limit: 1/s}
        - {name: y, limit: 2/s}
    - {name: z, limit: 3/s}
`)
	for _, name := range []string{"x", "y"} {
		text, err := s.Delete("a", name)
		if err != nil {
			t.Fatal(err)
		}
		s = mustParse(t, string(text))
	}
	if len(s.Rules()) != 1 || s.Namespace([]byte("a")).Rules()[0].Name != "z" {
		t.Errorf("%s", s.Text())
	}
}

// TestEditsOfAliases edits rules that share their text with others: only the rule that is named changes, and what is shown
// of it can be set again.
func TestEditsOfAliases(t *testing.T) {
	const head = "version: 1\nplans: {p: {l: &p 8/s}}\nnamespaces:\n"
	file := mustParse(t, head+`
  a:
    - {name: x, match: &m {u: v}, limit: &l 1/s, mode: &o shadow}
    - {name: y, match: *m, limit: *l, mode: *o}
    - {exclusive: true, rules: [&z {name: z, limit: *l}]}
  b: &b [*z]
  c: *b
`)
	const x, y, az, bz, cz = "a/x v GCRA 1/s shadow", "a/y v GCRA 1/s shadow", "a/z GCRA 1/s enforce", "b/z GCRA 1/s enforce", "c/z GCRA 1/s enforce"
	for name, c := range map[string]struct {
		edit func() ([]byte, error)
		want []string
	}{
		"mode of a rule with anchors":  {func() ([]byte, error) { return file.SetMode("a", "x", Off) }, []string{"a/x v GCRA 1/s off", y, az, bz, cz}},
		"mode of a rule by alias":      {func() ([]byte, error) { return file.SetMode("b", "z", Off) }, []string{x, y, az, "b/z GCRA 1/s off", cz}},
		"mode in a namespace by alias": {func() ([]byte, error) { return file.SetMode("c", "z", Off) }, []string{x, y, az, bz, "c/z GCRA 1/s off"}},
		"an anchor that there is": {func() ([]byte, error) {
			return file.Set("a", "x", []byte("{match: &m {u: w}, limit: &l 2/s, mode: &o off}"))
		}, []string{"a/x w GCRA 2/s off", y, az, bz, cz}},
		"an alias in the rule":          {func() ([]byte, error) { return file.Set("c", "z", []byte("{match: {u: &n z}, name: *n, limit: 3/s}")) }, []string{x, y, az, bz, "c/z z GCRA 3/s enforce"}},
		"a rule more":                   {func() ([]byte, error) { return file.Set("c", "w", []byte("limit: 3/s")) }, []string{x, y, az, bz, cz, "c/w GCRA 3/s enforce"}},
		"without the rule with anchors": {func() ([]byte, error) { return file.Delete("a", "z") }, []string{x, y, bz, cz}},
	} {
		text, err := c.edit()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, r := range mustParse(t, string(text)).Rules() {
			words := []string{r.Path(), r.Limit(), r.Mode.String()}
			for _, cond := range r.conditions {
				words = slices.Insert(words, 1, cond.text)
			}
			got = append(got, strings.Join(words, " "))
		}
		t.Run(name, func(t *testing.T) { same(t, got, c.want...) })
	}
	text, err := file.Excerpt("a", "y")
	if err != nil || string(text) != "{name: y, match: {u: v}, limit: 1/s, mode: shadow}\n" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err = file.Excerpt("c", ""); err != nil || string(text) != "[{name: z, limit: 1/s}]\n" {
		t.Errorf("%q, %v", text, err)
	}
	for _, bad := range []string{
		"&a {name: x, limit: 1/s, match: *a}",
		"{description: &d " + strings.Repeat("x", 1<<20) + ", limit: 1/s, match: [*d, *d, *d, *d]}",
		"{limit: 1/s, match: [&a [x,x,x,x,x,x,x,x,x,x], &b [*a,*a,*a,*a,*a,*a,*a,*a,*a], &c [*b,*b,*b,*b,*b,*b,*b,*b,*b], &d [*c,*c,*c,*c,*c,*c,*c,*c,*c], &e [*d,*d,*d,*d,*d,*d,*d,*d,*d], [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e,*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]]}",
	} {
		var es Errors
		if _, err := file.Set("a", "x", []byte(bad)); !errors.As(err, &es) {
			t.Errorf("%.40s: %v", bad, err)
		}
	}
}
