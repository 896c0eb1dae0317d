package rules

import (
	"testing"
)

// block beside a limit means BLOCK in it.
func TestBlock(t *testing.T) {
	const head = "version: 1\nplans: {free: {api: 5/m}, own: {api: 5/m block 1s}}\nnamespaces:\n  a:\n    - {name: x, key: [u], "
	for _, c := range []struct{ field, option string }{
		{"limit: fixed 5/m, block: 15m", "limit: fixed 5/m block 15m"},
		{"limit: fixed 5/m, block: {for: 15m, up_to: 24h}", "limit: fixed 5/m block 15m upto 24h"},
		{"limit: 5/m burst 2, block: {for: 15m}", "limit: 5/m burst 2 block 15m"},
		{"limit: 5/m, candidate: 6/m, block: 15m", "limit: 5/m block 15m, candidate: 6/m block 15m"},
		{"limit_from: q, at_most: 6/m, block: 15m", "limit_from: q, at_most: 6/m block 15m"},
		{"limit: 5/m, block: 15m, overrides: [{match: {u: b}, limit: 9/m}]", "limit: 5/m block 15m, overrides: [{match: {u: b}, limit: 9/m}]"},
	} {
		got, want := mustParse(t, head+c.field+"}"), mustParse(t, head+c.option+"}")
		if g, w := got.Rules()[0], want.Rules()[0]; g.sum != w.sum || g.Limit() != w.Limit() {
			t.Errorf("%s: %s, want %s", c.field, g.Limit(), w.Limit())
		}
	}
	set := mustParse(t, head+"limit: fixed, plan: {field: p, limit: api, default: free}, block: {for: 2s, up_to: 4s}}")
	for p, want := range map[string]string{"free": "FIXED 5/m BLOCK 2s UPTO 4s", "own": "FIXED 5/m BLOCK 1s"} {
		if got := match(t, set, "a", "u=1 p="+p).Charges[0].Limit.String(); got != want {
			t.Errorf("%s: %s, want %s", p, got, want)
		}
	}
}

func TestBadBlock(t *testing.T) {
	for _, c := range []struct{ rest, want string }{
		{"limit: ‸1/s block 1m, block: 2m", `"GCRA 1/s block 1m" has a BLOCK of its own`},
		{"limit: 1/s, block: ‸[1m]", "block must be a mapping, not a list"},
		{"limit: 1/s, block: ‸{up_to: 1m}", `block has no "for"`},
		{"limit: 1/s, block: {for: 1m, ‸upto: 2m}", `block has no field "upto"; did you mean "up_to"?`},
		{"unlimited: true, block: ‸1m", "block is for a limit, which the rule does not have"},
		{"in_flight: 1, lease: 1s, block: ‸1m", "block is for a limit, which the rule does not have"},
		{"limit: 1/s, overrides: [{match: {u: a}, limit: 1/s, ‸block: 1m}]", `an override has no field "block"`},
		{"limit: 1/s, block: ‸soon", `block: a time must be 0 or more milliseconds, or have a unit (ms s m h d w): "soon"`},
		{"limit: 1/s, block: ‸1m upto 2m", `block: a time must be 0 or more milliseconds, or have a unit (ms s m h d w): "1m upto 2m"`},
		{"limit: 1/s, block: ‸0s", `block: BLOCK must be positive milliseconds, or have a unit (ms s m h d w), up to 30 years: "0s"`},
		{"limit: 1/s, block: {for: 2m, up_to: ‸1m}", "block: UPTO must follow BLOCK t and be a time from t to 30 years"},
	} {
		text, want := placed("version: 1\nnamespaces:\n  a:\n    - {name: x, "+c.rest+"}", c.want)
		if _, err := Parse([]byte(text), nil); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}
