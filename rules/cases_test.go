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
		"[]":          "line 1, column 1: there are no cases",
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

// TestCasesOfDescriptors runs tables against trees: independent limits, and limits that take together or not at all.
func TestCasesOfDescriptors(t *testing.T) {
	const tree = `descriptors: [{key: u, rate_limit: {unit: minute, requests_per_unit: 3, name: user}},
  {key: all, rate_limit: {unit: minute, requests_per_unit: 5, name: all}}, {key: quiet, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1, name: quiet}},
  {key: shut, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: fixed block 5m}}]`
	set := mustParse(t, "version: 1\nnamespaces:\n  each:\n    "+strings.ReplaceAll(tree, "\n", "\n    ")+"\n  both:\n    all_or_none: true\n    "+strings.ReplaceAll(tree, "\n", "\n    ")+"\n")
	const both = "descriptors: [{entries: [{key: u, value: x}]}, {entries: [{key: all, value: y}]}, {entries: [{key: quiet, value: z}]}]"
	cases, err := ParseCases([]byte(`
- {namespace: each, ` + both + `, cost: 4, want: limited, rule: user, remaining: 0}
- {namespace: each, descriptors: [{entries: [{key: all, value: y}], hits_addend: 0}], want: allowed, rule: all, remaining: 1}
- {namespace: each, descriptors: [{entries: [{key: u, value: x}], hits_addend: 3, is_negative_hits: true}], want: allowed, remaining: 2}
- {namespace: each, descriptors: [{entries: [{key: none}]}, {entries: []}], want: allowed, remaining: -1}
- {namespace: each, descriptors: [{entries: [{key: own}], limit: {requests_per_unit: 1, unit: hour}}], repeat: 2, want: limited}
- {namespace: both, ` + both + `, cost: 4, want: limited, rule: user, remaining: 0}
- {namespace: both, descriptors: [{entries: [{key: all, value: y}], hits_addend: 0}], want: allowed, rule: all, remaining: 5}
- {namespace: both, ` + both + `, repeat: 2, want: allowed, rule: quiet, remaining: 0}
- {namespace: both, ` + both + `, want: allowed, rule: user, remaining: 0}
- {namespace: both, ` + both + `, want: limited, rule: user}
- {namespace: both, descriptors: [{entries: [{key: all, value: y}]}, {entries: [{key: all, value: y}]}, {entries: [{key: all, value: y}]}], want: limited}
- {namespace: both, descriptors: [{entries: [{key: all, value: y}]}, {entries: [{key: all, value: y}]}], want: allowed, remaining: 0}
- {namespace: both, descriptors: [{entries: [{key: u, value: z}]}, {entries: [{key: u, value: z}], limit: {requests_per_unit: 1, unit: minute}}], want: limited}
- {namespace: both, descriptors: [{entries: [{key: quiet}], limit: {requests_per_unit: 5, unit: minute}}, {entries: [{key: quiet}]}], want: allowed, remaining: 3}
- {namespace: both, ` + both + `, at: 1m, want: allowed}
- {namespace: each, descriptors: [{entries: [{key: u, value: x}]}, {entries: [{key: quiet}]}, {entries: [{key: v}]}], at: 1m, want: limited, remaining: 7}
- {namespace: each, descriptors: [{entries: [{key: shut}], hits_addend: 2}], at: 1m, want: allowed, remaining: 0}
- {namespace: each, descriptors: [{entries: [{key: shut}]}], at: 1m, want: limited}
- {namespace: each, descriptors: [{entries: [{key: shut}], hits_addend: 1, is_negative_hits: true}], at: 1m, want: allowed, remaining: 1}
- {namespace: each, descriptors: [{entries: [{key: shut}]}], at: 1m, want: limited}
- {namespace: each, descriptors: [{entries: [{key: shut}]}], at: 6m, want: allowed, remaining: 1}
- {namespace: nowhere, descriptors: [], at: 6m, want: allowed}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range set.Run(cases, monday) {
		got = append(got, f.Got)
	}
	same(t, got, "allowed; descriptor 1: 2 of 3 per MINUTE left of user; descriptor 2: 0 of 1 per MINUTE left of quiet; descriptor 3: without a limit",
		`there is no tree of descriptors in "nowhere"`)
	for text, want := range map[string]string{
		"- {namespace: a, fields: {b: c}, descriptors: [], want: allowed}":                                            "fields do not go with descriptors",
		"- {namespace: a, descriptors: [{}], want: allowed}":                                                          `a descriptor has no "entries"`,
		"- {namespace: a, descriptors: [{entries: [{value: 1}]}], want: allowed}":                                     `an entry has no "key"`,
		"- {namespace: a, descriptors: [{entries: [], limit: {unit: days, requests_per_unit: 1}}], want: allowed}":    `unit must be second, minute, hour, day, week, month or year, not "days"`,
		"- {namespace: a, descriptors: [{entries: [], hits_addend: -1}], want: allowed}":                              `hits_addend must be an integer from 0 to 9223372036854775807, not "-1"`,
		"- {namespace: a, want: allowed, descriptors: [" + strings.Repeat("{entries: []}, ", MaxDescriptors+1) + "]}": ErrTooManyDescriptors.Error(),
	} {
		if _, err := ParseCases([]byte(text)); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text[:60], err, want)
		}
	}
}
