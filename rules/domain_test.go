package rules

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"limitdb/limit"
)

// treeOf parses the descriptors of a domain that is called d.
func treeOf(t testing.TB, descriptors string) *Domain {
	t.Helper()
	text := "version: 1\nnamespaces:\n  d:\n    descriptors:" + strings.ReplaceAll("\n"+strings.Trim(descriptors, "\n"), "\n", "\n    ")
	d := mustParse(t, text).Domain("d")
	if d == nil {
		t.Fatal("there is no domain d")
	}
	return d
}

// descriptor makes a descriptor of "key=value key=value".
func descriptor(text string) Descriptor {
	d := Descriptor{Hits: 1}
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		d.Entries = append(d.Entries, Entry{key, value})
	}
	return d
}

// lookup finds the descriptors of "key=value; key=value …", and describes what limits each.
func lookup(t testing.TB, l *Lookup, d *Domain, request string) string {
	t.Helper()
	var all []Descriptor
	for one := range strings.SplitSeq(request, ";") {
		all = append(all, descriptor(one))
	}
	if err := l.Find(d, all); err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range l.Matches {
		out = append(out, l.Matches[i].describe())
	}
	return strings.Join(out, ", ")
}

func (m *Match) describe() string {
	switch {
	case m.Unlimited:
		return "unlimited"
	case m.Limit == nil:
		return "-"
	}
	text := m.Name
	if text == "" {
		text = fmt.Sprint(m.Rate.PerUnit)
	}
	if m.Shadow {
		text += " shadow"
	}
	if m.Quota {
		text += " quota"
	}
	return text
}

const someTree = `
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors:
      - key: path
        rate_limit: {unit: second, requests_per_unit: 2}
      - key: path
        value: /free
        rate_limit: {unlimited: true}
  - key: user
    value: bob
    rate_limit: {unit: HOUR, requests_per_unit: 3}
  - key: user
    value: admin*
    rate_limit: {unit: Day, requests_per_unit: 4}
    descriptors: [{key: path, rate_limit: {unit: week, requests_per_unit: 5}}]
  - key: user
    value: adm*
    rate_limit: {unit: month, requests_per_unit: 6}
  - key: user
    value: administrator*
    rate_limit: {unit: month, requests_per_unit: 7}
  - key: only
    value: a
    descriptors: [{key: b, value: c, rate_limit: {unit: year, requests_per_unit: 8}}]
  - key: quiet
    shadow_mode: true
    rate_limit: {unit: second, requests_per_unit: 9}
  - key: quiet
    value: q
    quota_mode: true
    rate_limit: {unit: second, requests_per_unit: 10}
  - key: no
    rate_limit: {unit: second}
  - key: one
    rate_limit: {unit: second, requests_per_unit: 11, name: one}
  - key: two
    rate_limit: {unit: second, requests_per_unit: 12, name: two, replaces: [{name: one}, {name: nobody}]}
  - key: three
    rate_limit: {unlimited: true, replaces: [{name: two}]}
  - key: x_y
    rate_limit: {unit: second, requests_per_unit: 13}
`

func TestDomainFinds(t *testing.T) {
	d, l := treeOf(t, someTree), new(Lookup)
	for _, test := range []struct{ request, want string }{
		{"user=a", "1"},
		{"user=", "1"},
		{"user=bob", "3"},
		{"user=a path=/", "2"},
		{"user=a path=/free", "unlimited"},
		{"user=bob path=/", "-"},
		{"user=a path=/ more=1", "-"},
		{"user=admin", "4"},
		{"user=admin7", "4"},
		{"user=administrator", "4"},
		{"user=adm", "6"},
		{"user=admiral", "6"},
		{"user=ad", "1"},
		{"user=adn", "1"},
		{"user=admin7 path=/", "5"},
		{"user=adm path=/", "-"},
		{"only=a", "-"},
		{"only=a b=c", "8"},
		{"only=a b=d", "-"},
		{"only=b", "-"},
		{"b=c", "-"},
		{"path=/ user=a", "-"},
		{"quiet=1; quiet=q", "9 shadow, 10 quota"},
		{"no=1", "0"},
		{"", "-"},
		{"one=1; two=1; one=2; user=a", "-, two, -, 1"},
		{"two=1; three=1; one=2", "-, unlimited, -"}, // what is replaced replaces
		{"one=1", "one"},
		{"x=y", "13"}, // an entry is looked up as key_value, as that service does
		{"x_y=1", "13"},
		{"x=z", "-"},
		{"user=" + strings.Repeat("admin", 3000), "4"},
		{"user=" + strings.Repeat("x", 3000), "1"},
	} {
		if got := lookup(t, l, d, test.request); got != test.want {
			t.Errorf("%.40s: %s, want %s", test.request, got, test.want)
		}
	}
}

func TestDomainLimits(t *testing.T) {
	d, l := treeOf(t, `
  - {key: fixed, rate_limit: {unit: month, requests_per_unit: 7}}
  - {key: gcra, rate_limit: {unit: minute, requests_per_unit: 7, algorithm: gcra burst 2}}
  - {key: year, rate_limit: {unit: year, requests_per_unit: 7, algorithm: sliding}}
  - {key: own, rate_limit: {unit: hour, requests_per_unit: 7, algorithm: fixed}}
`), new(Lookup)
	for key, want := range map[string]string{
		"fixed": "FIXED 7/30d COUNTDENIED", "gcra": "GCRA 7/m BURST 2", "year": "SLIDING 7/365d", "own": "FIXED 7/h",
	} {
		lookup(t, l, d, key+"=1")
		if got := l.Matches[0].Limit.String(); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	err := l.Find(d, []Descriptor{{Entries: []Entry{{"nowhere", "1"}}, Hits: math.MaxUint64, Override: &Rate{5, Week}}})
	if m := &l.Matches[0]; err != nil || m.Limit.String() != "FIXED 5/w COUNTDENIED" || m.Cost != math.MaxInt64 || m.Rate != (Rate{5, Week}) {
		t.Error(l.Matches, err)
	}
	for _, unit := range []Unit{NoUnit, Week + 1, 255} {
		if err := l.Find(d, []Descriptor{{Override: &Rate{5, unit}}}); err != ErrUnit || len(l.Matches) != 0 {
			t.Error(unit, err)
		}
	}
	if err := l.Find(d, make([]Descriptor, MaxDescriptors+1)); err != ErrTooManyDescriptors {
		t.Error(err)
	}
	all := mustParse(t, "version: 1\nnamespaces: {d: {all_or_none: true, descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]}}").Domain("d")
	if lookup(t, l, all, "k=1"); !all.AllOrNone() || l.Matches[0].Limit.String() != "FIXED 1/d" {
		t.Error(all.AllOrNone(), l.Matches[0].Limit)
	}
}

// TestDomainAlgorithms checks which limits come of a unit and an algorithm, and what is told of those that do not.
func TestDomainAlgorithms(t *testing.T) {
	for _, test := range []struct{ unit, algorithm, want string }{
		{"day", "gcra burst 2", "GCRA 5/d BURST 2"},
		{"month", "sliding block 5m", "SLIDING 5/30d BLOCK 5m"},
		{"day", "fixed calendar day tz UTC", "FIXED 5 CALENDAR DAY"},
		{"month", "fixed calendar month", "FIXED 5 CALENDAR MONTH"},
		{"year", "Fixed Calendar Year", "FIXED 5 CALENDAR YEAR"},
		{"day", "fixed calendar month", `algorithm must have calendar day, as the unit is day, not "fixed calendar month"`},
		{"day", "gcra calendar day", `syntax error: GCRA has no option "calendar"`},
		{"day", "fixed calendar", `algorithm must have calendar day, as the unit is day, not "fixed calendar"`},
		{"day", "gcra burst", `syntax error: a value is missing after "burst"`},
		{"day", "gcra 10/s", `algorithm must be without a rate, which unit and requests_per_unit have, not "gcra 10/s"`},
		{"day", "burst 20", `algorithm must begin with an algorithm, as in gcra burst 20, not "burst 20"`},
		{"day", "unlimited", `algorithm must begin with an algorithm, as in gcra burst 20, not "unlimited"`},
	} {
		set, err := ParseEnvoy([]byte("domain: d\ndescriptors: [{key: a, rate_limit: {unit: " + test.unit + ", requests_per_unit: 5, algorithm: " + test.algorithm + "}}]"))
		got := ""
		if err != nil {
			got = err.(Errors)[0].Text
		} else {
			got = set.domains[0].limits[0].limit.String()
		}
		if got != test.want {
			t.Errorf("%s, %s: %s, want %s", test.unit, test.algorithm, got, test.want)
		}
	}
}

// TestDomainSum checks that trees which mean something else have other checksums.
func TestDomainSum(t *testing.T) {
	seen := map[[32]byte]string{}
	for _, replaces := range []string{"", "replaces: []", "replaces: [{name: x}]", "replaces: [{name: y}]", "replaces: [{name: x}, {name: y}]", "replaces: [{name: 'x y'}]"} {
		d := treeOf(t, `
  - {key: a, rate_limit: {unit: day, requests_per_unit: 1, name: x}}
  - {key: b, rate_limit: {unit: day, requests_per_unit: 1, name: y}}
  - {key: c, rate_limit: {unit: day, requests_per_unit: 1, `+replaces+`}}
`)
		if other, ok := seen[d.sum]; ok && (other != "" || replaces != "replaces: []") {
			t.Errorf("%q and %q have one checksum", other, replaces)
		}
		seen[d.sum] = replaces
	}
}

// TestDomainKeys checks that callers have the same key only if they are the same, and that keys can be read.
func TestDomainKeys(t *testing.T) {
	d := treeOf(t, `
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors:
      - {key: b, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: "b,c", rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: a
    value: s*
    share_threshold: true
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors: [{key: b, rate_limit: {unit: minute, requests_per_unit: 1}}]
`)
	l, seen := &Lookup{Secret: []byte("secret")}, map[string]string{}
	for _, test := range []struct{ request, text string }{
		{"a=1", "d/a 1"},
		{"a=2", "d/a 2"},
		{"a=", "d/a "},
		{"a=1 b=2", "d/a,b 1 2"},
		{"a=1:2 b=3%", "d/a,b 1:2 3%"},
		{"a=1 b=2:3%", "d/a,b 1 2:3%"},
		{"a=1 b,c=#", "d/a,b,c 1 #"},
		{"a=s1", "d/a s*"},
		{"a=s1 b=1", "d/a,b s* 1"},
		{"a=s1 b=2", "d/a,b s* 2"},
		{"a=" + strings.Repeat("x", 300), "d/ #"},
		{"a=" + strings.Repeat("x", 301), "d/ #"},
		{"a=" + strings.Repeat(":", 100), "d/ #"},
	} {
		lookup(t, l, d, test.request)
		key := string(l.Matches[0].Key)
		if seen[key] != "" {
			t.Errorf("%s and %s have one key", seen[key], test.request)
		}
		seen[key] = test.request
		if got := KeyText(key); got != test.text && (!strings.HasSuffix(test.text, "#") || !strings.HasPrefix(got, test.text)) {
			t.Errorf("%.40s: %s, want %s (%q)", test.request, got, test.text, key)
		}
		if len(key) > MaxKey || !IsKey([]byte(key)) {
			t.Errorf("%q", key)
		}
	}
	same := func(a, b string) bool {
		lookup(t, l, d, a)
		first := string(l.Matches[0].Key)
		lookup(t, l, d, b)
		return first == string(l.Matches[0].Key)
	}
	if !same("a=s1", "a=s2") || same("a=s1 b=1", "a=s2 b=2") || !same("a=s1 b=1", "a=s2 b=1") {
		t.Error("share_threshold")
	}
	l.Find(d, []Descriptor{{Entries: []Entry{{"a", "1"}}, Override: &Rate{9, Minute}}, {Entries: []Entry{{"a", "1"}}}, {Entries: []Entry{{"a", "1"}}, Override: &Rate{9, Hour}}, {Override: &Rate{9, Hour}}})
	if m := l.Matches; string(m[0].Key) != string(m[1].Key) || string(m[0].Key) == string(m[2].Key) || string(m[3].Key) == string(m[2].Key) {
		t.Error(m)
	}
	long := strings.Repeat("%", 60)
	for _, name := range []string{long, long + "x", strings.Repeat("x", 500)} {
		if stem := domainStem(name); len(stem) > maxStem || !strings.Contains(stem, "#") {
			t.Error(stem)
		}
	}
	if domainStem(long) == domainStem(long+"x") {
		t.Error("two domains have one stem")
	}
}

// TestDomainMetrics has the names that the tests of Envoy's rate limit service describe.
func TestDomainMetrics(t *testing.T) {
	d, l := treeOf(t, `
  - key: plain
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors: [{key: b, value: c, rate_limit: {unit: minute, requests_per_unit: 1}}]
  - key: detail
    detailed_metric: true
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: user
    value_to_metric: true
    descriptors:
      - {key: path, value: /a*, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: path, value: /b*, value_to_metric: true, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: path, value: /c*, value_to_metric: true, share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: path, value: /d*, share_threshold: true, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: free, rate_limit: {unlimited: true}}
`), new(Lookup)
	for _, test := range []struct{ request, want string }{
		{"plain=1", "d.plain"},
		{"plain=1 b=c", "d.plain.b_c"},
		{"detail=1", "d.detail_1"},
		{"detail=", "d.detail_"},
		{"user=u path=/a1", "d.user_u.path_/a*"},
		{"user=u path=/b1", "d.user_u.path_/b1"},
		{"user=u path=/c1", "d.user_u.path_/c*"},
		{"user=u path=/d1", "d.user_u.path_/d*"},
		{"user= path=/d1", "d.user.path_/d*"},
		{"free=1", ""},
		{"other=1", ""},
	} {
		lookup(t, l, d, test.request)
		if got := string(l.AppendMetric(nil, 0)); got != test.want {
			t.Errorf("%s: %q, want %q", test.request, got, test.want)
		}
	}
	l.Find(d, []Descriptor{{Entries: []Entry{{"a", "1"}, {"b", ""}}, Override: &Rate{9, Minute}}})
	if got := string(l.AppendMetric(nil, 0)); got != "d.a_1.b" {
		t.Errorf("%q", got)
	}
}

// TestStatus has the answers of Envoy's rate limit service: what is denied counts, and the reset is that of the window.
func TestStatus(t *testing.T) {
	d := treeOf(t, `
  - {key: five, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: cold, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: none, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: quota, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: both, quota_mode: true, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: gcra, rate_limit: {unit: minute, requests_per_unit: 60, algorithm: gcra}}
`)
	const sec = int64(1e9)
	states := map[string][]byte{}
	l := new(Lookup)
	for i, step := range []struct {
		at   int64
		key  string
		hits uint64
		want Status
	}{
		{600 * sec, "five", 0, Status{false, false, true, 5, 60}},
		{600 * sec, "five", 3, Status{false, false, true, 2, 60}},
		{601*sec + 1, "five", 3, Status{true, true, true, 0, 59}},
		{602 * sec, "five", 1, Status{true, true, true, 0, 58}}, // the denied hits count
		{602 * sec, "five", 0, Status{true, true, true, 0, 58}},
		{660 * sec, "five", 5, Status{false, false, true, 0, 60}},
		{660 * sec, "five", 0, Status{false, false, true, 0, 60}},
		{600 * sec, "none", 0, Status{false, false, true, 0, 1}},
		{600 * sec, "none", 1, Status{true, true, true, 0, 1}},
		{600 * sec, "shadow", 1, Status{false, false, true, 0, 60}},
		{600 * sec, "shadow", 1, Status{false, true, true, 0, 60}},
		{600 * sec, "quota", 1, Status{false, false, true, 0, 60}},
		{600 * sec, "quota", 1, Status{false, true, true, 0, -1}},
		{600 * sec, "both", 2, Status{false, true, true, 0, 60}},
		{600 * sec, "free", 2, Status{false, false, false, math.MaxUint32, -1}},
		{600 * sec, "nothing", 2, Status{false, false, false, 0, -1}},
		{600 * sec, "gcra", 2, Status{false, false, true, 58, 2}},
		{600*sec + 1, "gcra", 0, Status{false, false, true, 58, 2}},
		{601 * sec, "gcra", 0, Status{false, false, true, 59, 1}},
		{-1, "cold", 0, Status{false, false, true, 5, 1}},
	} {
		if err := l.Find(d, []Descriptor{{Entries: []Entry{{step.key, "v"}}, Hits: step.hits}}); err != nil {
			t.Fatal(err)
		}
		m, decision := &l.Matches[0], limit.Decision{}
		if m.Limit != nil {
			next, err := limit.Take(m.Limit, states[string(m.Key)], step.at, m.Cost, nil, &decision)
			if err != nil {
				t.Fatal(err)
			}
			if next != nil {
				states[string(m.Key)] = next
			}
		}
		if got := m.Status(&decision, step.at); got != step.want {
			t.Errorf("step %d: %+v, want %+v", i, got, step.want)
		}
	}
}

func TestFindAllocatesNothing(t *testing.T) {
	d, l := treeOf(t, someTree), new(Lookup)
	request := []Descriptor{descriptor("user=a path=/"), descriptor("user=admin7"), descriptor("one=1"), descriptor("two=1"), {Entries: []Entry{{"a", "b"}}, Override: &Rate{1, Day}}}
	find := func() {
		if err := l.Find(d, request); err != nil || l.Matches[0].Limit == nil || l.Matches[2].Limit != nil || l.Matches[4].Limit == nil {
			t.Fatal(l.Matches, err)
		}
	}
	find()
	if n := testing.AllocsPerRun(100, find); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFind(b *testing.B) {
	d, l := treeOf(b, someTree), new(Lookup)
	request := []Descriptor{descriptor("user=a path=/"), descriptor("user=admin7"), descriptor("one=1")}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Find(d, request); err != nil {
			b.Fatal(err)
		}
	}
}
