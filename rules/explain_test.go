package rules

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// verdictText renders a verdict in a line.
func verdictText(q *Query, v *Verdict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:", v.Rule.Name)
	if v.Why != "" {
		fmt.Fprintf(&b, " %s [%s %q %q]", v.Why, v.Field, v.Has, v.Wants)
	}
	if v.From != "" {
		fmt.Fprintf(&b, " from %s", v.From)
	}
	for _, i := range v.Charges {
		fmt.Fprintf(&b, " %d:%s", q.Charges[i].Role, q.Charges[i].Limit)
	}
	return b.String()
}

func TestVerdictOfExcept(t *testing.T) {
	set := mustParse(t, `version: 1
namespaces:
  a:
    - {name: but, key: [user], except: {user: x*, t: ""}, limit: 8/s}
`)
	for _, test := range []struct{ user, t, want string }{
		{"xy", "", `but: its except matches: user is "xy", t is "" [ "" ""]`},
		{"xy", "1", "but: 0:GCRA 8/s"},
		{"y", "", "but: 0:GCRA 8/s"},
	} {
		q, err := set.Query("a", [][2]string{{"user", test.user}, {"t", test.t}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if v := q.Explain().Of(set.Rules()[0]); verdictText(q, &v) != test.want {
			t.Errorf("%v: got %s", test, verdictText(q, &v))
		}
	}
}

// An except is a part of what a rule means, and its layout is not.
func TestExceptChangesTheSum(t *testing.T) {
	file := func(rest string) *Set {
		return mustParse(t, "version: 1\nnamespaces: {a: [{name: x, limit: 1/s"+rest+"}]}")
	}
	seen := map[string]string{}
	for _, rest := range []string{"", ", match: {u: a}", ", except: {u: a}", ", except: {u: b}", ", except: {v: a}", ", overrides: [{match: {u: a}, unlimited: true}]", ", match: {u: a}, except: {v: a}"} {
		sum := file(rest).Sum()
		if other, ok := seen[string(sum[:])]; ok {
			t.Errorf("%q and %q have one sum", rest, other)
		}
		seen[string(sum[:])] = rest
	}
	if file(", except: {u: a}").Sum() != file(", except:  {'u':  a}").Sum() {
		t.Error("the layout changes the sum")
	}
}

func TestVerdicts(t *testing.T) {
	set, err := Parse([]byte(`version: 1
plans: {free: {api: 1/s}, pro: {api: 2/s}}
namespaces:
  a:
    - {name: planned, key: [user], plan: {field: plan, limit: api, default: free}, candidate: 9/s, overrides: [
        {match: {user: x*}, limit: 5/s}, {match: {user: y}, unlimited: true}, {match: {user: z}, limit: 7/s}]}
    - {name: off, limit: 1/s, mode: off}
    - {name: path, match: {path: /a*}, limit: 3/s, mode: shadow}
    - {exclusive: true, rules: [{name: first, match: {t: "1"}, unlimited: true}, {name: last, limit: 4/s}]}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		fields [][2]string
		want   string
	}{
		{nil, `last: 0:GCRA 4/s, planned: the field user of its key is missing [user "" ""], off: its mode is off [ "" ""], path: the field path is missing [path "" "/a*"], first: the field t is missing [t "" "1"]`},
		{[][2]string{{"user", "u"}, {"path", "/b"}, {"t", "1"}}, `planned: from plan free 0:GCRA 1/s 2:GCRA 9/s, first:, off: its mode is off [ "" ""], path: path is "/b", not /a* [path "/b" "/a*"], last: first comes first in its group [ "" ""]`},
		{[][2]string{{"user", "u"}, {"plan", "pro"}, {"path", "/a"}}, `planned: from plan pro 0:GCRA 2/s 2:GCRA 9/s, path: 1:GCRA 3/s, last: 0:GCRA 4/s, off: its mode is off [ "" ""], first: the field t is missing [t "" "1"]`},
		{[][2]string{{"user", "u"}, {"plan", "none"}, {"t", ""}}, `planned: from plan free 0:GCRA 1/s 2:GCRA 9/s, last: 0:GCRA 4/s, off: its mode is off [ "" ""], path: the field path is missing [path "" "/a*"], first: t is "", not 1 [t "" "1"]`},
		{[][2]string{{"user", "xy"}}, `planned: from override 1 0:GCRA 5/s, last: 0:GCRA 4/s, off: its mode is off [ "" ""], path: the field path is missing [path "" "/a*"], first: the field t is missing [t "" "1"]`},
		{[][2]string{{"user", "z"}}, `planned: from override 3 0:GCRA 7/s, last: 0:GCRA 4/s, off: its mode is off [ "" ""], path: the field path is missing [path "" "/a*"], first: the field t is missing [t "" "1"]`},
		{[][2]string{{"user", "y"}}, `planned: from override 2, last: 0:GCRA 4/s, off: its mode is off [ "" ""], path: the field path is missing [path "" "/a*"], first: the field t is missing [t "" "1"]`},
	} {
		q, err := set.Query("a", test.fields, 1)
		if err != nil {
			t.Fatal(err)
		}
		x := q.Explain()
		var got []string
		for _, r := range x.Rules(99) {
			v := x.Of(r)
			got = append(got, verdictText(q, &v))
		}
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("%v:\n got %s\nwant %s", test.fields, text, test.want)
		}
		if few := x.Rules(1); len(few) != 1 || few[0].Name != strings.Split(test.want, ":")[0] {
			t.Errorf("%v: the first rule is %v", test.fields, few)
		}
	}
}

// Every rule either applies and has what Match has found, or says why not; a query that is kept needs none of the bytes that it was given.
func TestEveryRuleIsExplained(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "b", "ab", "*", "a*"})
		var b strings.Builder
		b.WriteString("version: 1\nnamespaces:\n  n:\n")
		for i := range rapid.IntRange(1, 12).Draw(t, "rules") {
			rule := fmt.Sprintf("{name: r%d, match: {f%d: %q}, key: [k], limit: 1/s, mode: %s}", i, rapid.IntRange(0, 2).Draw(t, "field"), word.Draw(t, "pattern"),
				rapid.SampledFrom([]string{"enforce", "shadow", "off"}).Draw(t, "mode"))
			if rapid.Bool().Draw(t, "group") {
				rule = "{exclusive: true, rules: [" + rule + fmt.Sprintf(", {name: s%d, key: [k], unlimited: true}]}", i)
			}
			b.WriteString("    - " + rule + "\n")
		}
		set, err := Parse([]byte(b.String()), nil)
		if err != nil {
			t.Skip() // a rule is never reached
		}
		q := new(Query)
		q.Begin(set.Namespace([]byte("n")))
		var given [][]byte
		for _, f := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"f0", "f1", "f2", "k"}), 0, 4, rapid.ID).Draw(t, "fields") {
			v := []byte(rapid.SampledFrom([]string{"", "a", "b", "ab"}).Draw(t, "value"))
			given = append(given, v)
			if err := q.Add([]byte(f), v); err != nil {
				t.Fatal(err)
			}
		}
		if err := q.Match(1); err != nil {
			t.Fatal(err)
		}
		x := q.Explain()
		var before []string
		applies := 0
		for _, r := range x.Rules(99) {
			v := x.Of(r)
			if v.Why == "" {
				if applies++; len(v.Charges) == 0 && r.Limit() != "unlimited" {
					t.Errorf("%s has no limit", r.Name)
				}
			}
			before = append(before, verdictText(q, &v))
		}
		if applies != x.Matched() || len(before) != len(set.Rules()) {
			t.Errorf("%d of %d apply, Match says %d", applies, len(before), x.Matched())
		}
		q.Keep()
		for _, v := range given {
			clear(v)
		}
		for i, r := range x.Rules(99) {
			if v := x.Of(r); verdictText(q, &v) != before[i] {
				t.Errorf("kept: %s, before %s", verdictText(q, &v), before[i])
			}
		}
	})
}
