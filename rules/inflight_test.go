package rules

import (
	"fmt"
	"strings"
	"testing"

	"limitdb/limit"
)

func TestInFlight(t *testing.T) {
	set := mustParse(t, `version: 1
plans: {free: {api: 1/s}, pro: {api: unlimited}}
namespaces:
  a:
    - {name: both, key: [user], limit: 100/m, in_flight: 10, lease: 60s, candidate: 5/m, overrides: [{match: {user: vip}, limit: 9/s}, {match: {user: free}, unlimited: true}]}
  b:
    - {name: only, in_flight: 2, lease: 1500, mode: shadow}
  c:
    - {name: planned, plan: {field: p, limit: api, default: free}, in_flight: 3, lease: 1m}
`)
	for _, c := range []struct {
		ns, fields string
		cost       int64
		rates      bool
		want       string
	}{
		{"a", "user=u", 1, false, "both 0 GCRA 100/m 1, both 0 10 in flight, each for 60s at most 1, both 2 GCRA 5/m 1"},
		{"a", "user=u", 7, false, "both 0 GCRA 100/m 7, both 0 10 in flight, each for 60s at most 1, both 2 GCRA 5/m 7"},
		{"a", "user=u", 0, false, "both 0 GCRA 100/m 0, both 2 GCRA 5/m 0"},
		{"a", "user=u", 1, true, "both 0 GCRA 100/m 1, both 2 GCRA 5/m 1"},
		{"a", "user=vip", 1, false, "both 0 GCRA 9/s 1, both 0 10 in flight, each for 60s at most 1"},
		{"a", "user=free", 1, false, "unlimited"},
		{"b", "", 1, false, "only 1 2 in flight, each for 1500 at most 1"},
		{"b", "", 1, true, "unlimited"},
		{"c", "p=pro", 1, false, "planned 0 3 in flight, each for 1m at most 1"},
		{"c", "p=free", 1, false, "planned 0 GCRA 1/s 1, planned 0 3 in flight, each for 1m at most 1"},
	} {
		q := &Query{Rates: c.rates}
		q.Begin(set.Namespace([]byte(c.ns)))
		for f := range strings.FieldsSeq(c.fields) {
			name, value, _ := strings.Cut(f, "=")
			_ = q.Add([]byte(name), []byte(value))
		}
		if err := q.Match(c.cost); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range q.Charges {
			x := &q.Charges[i]
			got = append(got, fmt.Sprint(x.Rule.Name, " ", x.Role, " ", x.Spelling(), " ", x.Cost))
			if caller, ok := ParseKey(x.Key); !ok || caller.Rule != x.Rule.Name || caller.Candidate != (x.Role == Candidate) {
				t.Errorf("%q: %+v", x.Key, caller)
			}
			for j := range i {
				if string(q.Charges[j].Key) == string(x.Key) {
					t.Errorf("two charges have the key %q", x.Key)
				}
			}
		}
		for range q.Unlimited {
			got = append(got, "unlimited")
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	f := set.Rules()[1].InFlight()
	if f.Max != 2 || f.Lease != 1500e6 {
		t.Errorf("%+v", f)
	}
	q := match(t, set, "a", "user=u")
	if keys, ok := q.KeysOf(set.Rules()[0], nil); !ok || len(keys) != 3 {
		t.Errorf("%q", keys)
	}
}

// Of a rule with a limit and in_flight, a check counts once.
func TestInFlightCounts(t *testing.T) {
	set := mustParse(t, "version: 1\nnamespaces: {a: [{name: x, limit: 1/s, in_flight: 1, lease: 1s, candidate: 2/s}, {name: y, in_flight: 1, lease: 1s}]}")
	q := match(t, set, "a", "")
	for limited, want := range map[string]string{"0000": "1011", "1000": "1011", "0100": "0111", "1100": "1011", "0011": "1011"} {
		ds, got := make([]limit.Decision, 4), ""
		for i := range ds {
			ds[i].Limited = limited[i] == '1'
		}
		for i := range ds {
			got += map[bool]string{false: "0", true: "1"}[q.Counts(i, ds)]
		}
		if got != want {
			t.Errorf("%s: %s", limited, got)
		}
	}
}

func TestBadInFlight(t *testing.T) {
	for _, c := range []struct{ rest, want string }{
		{"limit: 1/s, in_flight: ‸10", "in_flight needs lease, the time after which a request that is not over counts no longer, such as 60s"},
		{"limit: 1/s, lease: ‸10s", "lease is for in_flight, which is not there"},
		{"in_flight: ‸0, lease: 10s", `in_flight must be an integer from 1 to 8192, not "0"`},
		{"in_flight: ‸8193, lease: 10s", `in_flight must be an integer from 1 to 8192, not "8193"`},
		{"in_flight: 8192, lease: ‸0", "lease must be longer than 0"},
		{"in_flight: 8192, lease: ‸x", `lease: a time must be 0 or more milliseconds, or have a unit (ms s m h d w): "x"`},
		{"in_flight: 1, lease: 10s, candidate: ‸1/s", "candidate is tried beside a limit: the rule has only in_flight"},
		{"in_flight: 1, lease: 10s, burst: ‸5", "burst is for a limit, which the rule does not have"},
		{"unlimited: ‸true, in_flight: 1, lease: 10s", "unlimited does not go with limit, limit_from, in_flight, plan, burst, weights, overrides or candidate"},
		{"in_flight: 8192, lease: 24h", ""},
	} {
		text, want := placed("version: 1\nnamespaces:\n  a:\n    - {name: x, "+c.rest+"}", c.want)
		switch _, err := Parse([]byte(text), nil); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || err.Error() != want):
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

// In a table of tests, a lease ends when its time is over.
func TestCasesOfInFlight(t *testing.T) {
	set := mustParse(t, "version: 1\nnamespaces: {a: [{name: x, key: [u], limit: 3/h, in_flight: 2, lease: 10s}]}")
	cases, err := ParseCases([]byte(`
- {namespace: a, fields: {u: v}, repeat: 2, want: allowed, rule: x, remaining: 0}
- {namespace: a, fields: {u: v}, repeat: 9, want: limited, rule: x, remaining: 0}
- {namespace: a, fields: {u: w}, want: allowed, remaining: 1}
- {namespace: a, fields: {u: v}, at: 11s, want: allowed, remaining: 0}
- {namespace: a, fields: {u: v}, want: limited}
- {namespace: a, fields: {u: v}, at: 22s, want: limited, remaining: 0}
- {namespace: a, fields: {u: v}, at: 21m, want: allowed}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range set.Run(cases, 1_577_664_000e9) {
		t.Errorf("line %d: want %s, got %s", f.Line, f.Want(), f.Got)
	}
}
