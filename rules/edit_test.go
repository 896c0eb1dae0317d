package rules

import (
	"errors"
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
	if _, err := s.Set("a", "x", []byte("{name: y, limit: 1/s}")); err != ErrName {
		t.Error(err)
	}
	var es Errors
	if _, err := s.Set("a", "x", []byte("[")); !errors.As(err, &es) {
		t.Error(err)
	}
}

// TestEditsInGroups edits rules of groups, and refuses to edit what several places share.
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
  b: &b [{name: z, limit: 3/s}]
  c: *b
`)
	for _, name := range []string{"x", "y"} {
		text, err := s.Delete("a", name)
		if err != nil {
			t.Fatal(err)
		}
		s = mustParse(t, string(text))
	}
	if len(s.Rules()) != 3 || s.Namespace([]byte("a")).Rules()[0].Name != "z" {
		t.Errorf("%s", s.Text())
	}
	if _, err := s.SetMode("c", "z", Off); err != ErrAliased {
		t.Error(err)
	}
	if text, err := s.Excerpt("c", ""); err != nil || string(text) != "&b [{name: z, limit: 3/s}]\n" {
		t.Errorf("%q %v", text, err)
	}
}
