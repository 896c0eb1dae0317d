package rules

import (
	"errors"
	"strings"
	"testing"
)

const monday = 1_577_664_000 * int64(1e9)

// TestCases runs a table against the example file.
func TestCases(t *testing.T) {
	cases, err := ParseCases([]byte(`
- {namespace: shop, fields: {user: u1, path: /cart}, repeat: 20, want: allowed, rule: user-api, remaining: 0}
- {namespace: shop, fields: {user: u1, path: /cart}, want: limited, rule: user-api}
- {namespace: shop, fields: {user: u1, path: /cart}, at: 1s, want: allowed}
- {namespace: shop, fields: {user: u1}, cost: 979, want: allowed, rule: user-day, remaining: 0}
- {namespace: shop, fields: {user: u1}, at: 22h59m59s, want: limited}
- {namespace: shop, fields: {user: u1}, at: 23h, want: allowed}         # midnight in Berlin
- {namespace: shop, fields: {user: healthcheck, path: /x}, want: allowed, rule: user-day}
- {namespace: shop, fields: {path: /login, ip: 192.0.2.1}, repeat: 10, want: allowed, rule: global}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range shop(t).Run(cases, monday) {
		t.Errorf("line %d: want %s, got %s", f.Line, f.Want(), f.Got)
	}
	cases, err = ParseCases([]byte(`
- {namespace: shop, fields: {path: /export/x, tenant: t}, repeat: 4, want: allowed}
- {namespace: shop, fields: {path: /export/x, tenant: t}, cost: 4, want: allowed, remaining: 3}
- {namespace: shop, fields: {path: /export/x, tenant: u}, want: allowed, rule: global}
- {namespace: shop, fields: {path: /export/x, tenant: v}, want: allowed, remaining: 1}
- {namespace: none, want: allowed}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range shop(t).Run(cases, monday) {
		got = append(got, f.Want()+": "+f.Got)
	}
	same(t, got, "allowed: limited by exports for 20m0s, 0 of 3 left", "allowed, 3 left: limited by exports for ever, 0 of 3 left", "allowed by global: allowed by exports, 2 of 3 left",
		"allowed, 1 left: allowed by exports, 2 of 3 left", `allowed: there is no namespace "none"`)
}

func TestBadCases(t *testing.T) {
	for text, want := range map[string]string{
		"":            "line 1, column 1: there are no cases",
		"a: b":        "line 1, column 1: the table must be a list, not a mapping",
		"- {want: x}": `line 1, column 3: a case has no "namespace" (and 1 more)`,
		"- {namespace: a, want: allowed, at: 2s}\n- {namespace: a, want: allowed, at: 1s}": "line 2, column 3: at goes back: the case before is at 2s",
		"- {namespace: a, want: allowed, repeat: 1000001}":                                 "line 1, column 41: repeat must be an integer from 1 to 1000000, not \"1000001\"",
		"- {namespace: a, want: allowed, at: soon}":                                        `line 1, column 37: at must be a time such as 90s or 1h30m, not "soon"`,
		"- {namespace: a, wants: allowed}":                                                 `line 1, column 3: a case has no "want" (and 1 more)`,
	} {
		var es Errors
		if _, err := ParseCases([]byte(text)); !errors.As(err, &es) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
