package rules

import (
	"strings"
	"testing"
)

// imported translates a file, and returns the rules.
func imported(t *testing.T, format, text string, notes ...string) *Set {
	t.Helper()
	out, got, err := Import(format, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, notes...)
	return mustParse(t, string(out))
}

// TestImportEnvoy checks the lookups of Envoy's ratelimit service: a listed value comes before any value, and one
// that leads nowhere means no limit.
func TestImportEnvoy(t *testing.T) {
	s := imported(t, "envoy", `
domain: messaging
descriptors:
  - key: kind
    value: sms
    descriptors:
      - key: to
        rate_limit: {unit: day, requests_per_unit: 5}
      - key: to
        value: "+1555"
        rate_limit: {unit: minute, unit_multiplier: 5, requests_per_unit: 30}
      - key: to
        value: "+49*"
        rate_limit: {unit: month, requests_per_unit: 7}
  - key: kind
    rate_limit: {unit: second, requests_per_unit: 100, name: all}
    shadow_mode: true
  - key: kind
    value: internal
  - key: kind
    value: test
    descriptors: [{key: to, rate_limit: {unlimited: true}}]
  - key: region
    value: eu*
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 1, replaces: [{name: all}]}
    detailed_metric: true
`, "line 2: Envoy decides which descriptors a request has; a check is limited by all rules whose fields it has",
		"line 11: unit_multiplier, which only some builds of Envoy's service have, makes the window 5 units long",
		"line 26: replaces is not carried over: put the rules into one exclusive group", "line 27: detailed_metric is not carried over")
	for fields, want := range map[string]string{
		"kind=sms to=+1555": "kind_sms_to__1555 FIXED 30/5m COUNTDENIED",
		"kind=sms to=+4912": "kind_sms_to__49_ FIXED 7/30d COUNTDENIED",
		"kind=sms to=x":     "kind_sms_to FIXED 5/d COUNTDENIED",
		"kind=test to=x":    "",
		"kind=internal":     "",
		"kind=other":        "kind FIXED 100/s COUNTDENIED",
		"region=eu-1":       "region_eu_ FIXED 1/h COUNTDENIED",
		"region=us":         "",
	} {
		var got []string
		for _, c := range match(t, s, "messaging", fields).Charges {
			if c.Role == Enforced || fields == "kind=other" {
				got = append(got, c.Rule.Name+" "+c.Limit.String())
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %s", fields, got, want)
		}
	}
	eu := func(v string) string { return keyOf(match(t, s, "messaging", "region="+v)) }
	if eu("eu-1") != eu("eu-2") {
		t.Error("share_threshold is not kept")
	}
}

// TestImportMistakes has files that must be refused, most of which Envoy's ratelimit service refuses in its tests.
func TestImportMistakes(t *testing.T) {
	const domain, limit = "domain: d\ndescriptors:\n  - ", "namespace: a\n  max_value: 1\n  seconds: 1\n  "
	for _, test := range []struct{ format, text, want string }{
		{"envoy", "‸", "the file is empty"},
		{"envoy", "‸descriptors: [{key: k}]", `the file has no "domain"`},
		{"envoy", "domain:‸ \ndescriptors: [{key: k}]", "domain must be a text, not nothing"},
		{"envoy", "domain: ‸''\ndescriptors: [{key: k}]", "the domain is empty"},
		{"envoy", "‸0.25: d\ndomain: d\ndescriptors: []", `the file has no field "0.25"`},
		{"envoy", "domain: d\ndescriptors:\n  - key: k\n    ‸value: '", "found unexpected end of stream"},
		{"envoy", domain + "‸a\n  - key: b", `a descriptor must be a mapping, not "a"`},
		{"envoy", domain + "‸value: v", `a descriptor has no "key"`},
		{"envoy", domain + "key: ‸''", "the key is empty"},
		{"envoy", domain + "{key: k, value: v}\n  - ‸{key: k, value: v}", `there are two descriptors with the key "k" and the value "v"`},
		{"envoy", domain + "key: k\n  - ‸{key: k, value: ''}", `there are two descriptors with the key "k" and the value ""`},
		{"envoy", domain + "key: k\n    ‸ratelimit: {unit: day, requests_per_unit: 5}", `a descriptor has no field "ratelimit"; did you mean "rate_limit"?`},
		{"envoy", domain + "{key: k, rate_limit: {unit: day, ‸requestsperunit: 5}}", `rate_limit has no field "requestsperunit"; did you mean "requests_per_unit"?`},
		{"envoy", domain + "{key: k, rate_limit: {unit: ‸fortnight, requests_per_unit: 1}}", `unit must be second, minute, hour, day, week, month or year, not "fortnight"`},
		{"envoy", domain + "‸{key: k, rate_limit: {requests_per_unit: 1}}", `unit must be second, minute, hour, day, week, month or year, not ""`},
		{"envoy", domain + "{key: k, rate_limit: {unit: second, requests_per_unit: ‸-1}}", `requests_per_unit must be an integer from 0 to 4294967295, not "-1"`},
		{"envoy", domain + "{key: k, rate_limit: {unit: second, requests_per_unit: ‸010}}", `requests_per_unit must be an integer without a zero in front, not "010"`},
		{"envoy", domain + "{key: k, rate_limit: {unit: second, requests_per_unit: 5, unit_multiplier: ‸0}}", `unit_multiplier must be an integer from 1 to 4294967295, not "0"`},
		{"envoy", domain + "‸{key: k, rate_limit: {unit: year, requests_per_unit: 5, unit_multiplier: 4294967295}}", `out of range: period, burst and cost must stay within 292 years of nanoseconds: "1567663062675d"`},
		{"envoy", domain + "{key: k, rate_limit: {unlimited: true, unit: ‸day, requests_per_unit: 25}}", "unit does not go with unlimited"},
		{"envoy", domain + "{key: k, rate_limit: {name: self, replaces: [{name: ‸self}], unit: second, requests_per_unit: 5}}", "replaces has the name of the limit that it is in"},
		{"envoy", domain + "{key: k, rate_limit: {replaces: [{name: ‸}], unit: second, requests_per_unit: 5}}", "an item of replaces has no name"},
		{"envoy", domain + "{key: k, rate_limit: {replaces: [{name: ‸''}], unit: second, requests_per_unit: 5}}", "an item of replaces has no name"},
		{"envoy", domain + "{key: k, shadow_mode: ‸maybe}", `shadow_mode must be true or false, not "maybe"`},
		{"envoy", "domain: d\ndescriptors: ‸&a [{key: k, descriptors: *a}]", "more than 100 descriptors are inside one another"},
		{"limitador", "‸", "the file is empty"},
		{"limitador", "- ‸1", `a limit must be a mapping, not "1"`},
		{"limitador", "limits: ‸{}", "the limits must be a list, not a mapping"},
		{"limitador", "- ‸{namespace: a, max_value: 1}", `a limit has no "seconds"`},
		{"limitador", "- ‸{max_value: 1, seconds: 1}", `a limit has no "namespace"`},
		{"limitador", "- ‸{namespace: a, seconds: 1}", `a limit has no "max_value"`},
		{"limitador", "- {namespace: ‸'', max_value: 1, seconds: 1}", "the namespace is empty"},
		{"limitador", "- {namespace: a, max_value: ‸x, seconds: 1}", `max_value must be an integer from 0 to 4611686018427387904, not "x"`},
		{"limitador", "- {namespace: a, max_value: 1, seconds: ‸0}", `seconds must be an integer from 1 to 4294967295, not "0"`},
		{"limitador", "- " + limit + "‸condition: []", `a limit has no field "condition"; did you mean "conditions"?`},
		{"limitador", "- " + limit + "conditions: ‸x == 1", `the conditions must be a list, not "x == 1"`},
		{"limitador", "- " + limit + "conditions: [‸{}]", "a condition must be a text, not a mapping"},
	} {
		text, want := placed(test.text, test.want)
		if out, _, err := Import(test.format, []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %s:\n\tgot  %v %s\n\twant %s", test.format, test.text, err, out, want)
		}
	}
	if _, _, err := Import("other", []byte("a: b")); err == nil || err.Error() != `unknown format "other": use envoy or limitador` {
		t.Error(err)
	}
}

// TestImportEnvoyConstructs imports what the examples and the tests of Envoy's ratelimit service have.
func TestImportEnvoyConstructs(t *testing.T) {
	const before = "domain: d\ndescriptors:\n"
	for _, test := range []struct {
		name, text string
		checks     map[string]string // fields: the limits that apply, of a shared counter with the rule's key
		notes      []string
	}{
		{"no descriptors", "", map[string]string{"k=v": ""}, nil},
		{"unlimited below a limit", `
  - key: foo
    rate_limit: {unit: minute, requests_per_unit: 2}
    descriptors:
      - {key: bar, rate_limit: {unit: minute, requests_per_unit: 3}}
      - {key: bar, value: banned, rate_limit: {unit: minute, requests_per_unit: 0}}
      - {key: bay, rate_limit: {unlimited: true}}
      - {key: baz, value: shady, rate_limit: {unit: minute, requests_per_unit: 1}, shadow_mode: true}
  - {key: qux, rate_limit: {unlimited: true}}
`, map[string]string{
			"foo=1": "foo FIXED 2/m COUNTDENIED", "foo=1 bar=2": "foo FIXED 2/m COUNTDENIED, foo_bar FIXED 3/m COUNTDENIED", "foo=1 bar=banned": "foo FIXED 2/m COUNTDENIED, foo_bar_banned FIXED 0/m COUNTDENIED",
			"foo=1 bay=2": "foo FIXED 2/m COUNTDENIED", "foo=1 baz=shady": "foo FIXED 2/m COUNTDENIED, foo_baz_shady FIXED 1/m COUNTDENIED (shadow)", "foo=1 baz=x": "foo FIXED 2/m COUNTDENIED", "qux=1": "",
		}, []string{"line 1: Envoy decides which descriptors a request has; a check is limited by all rules whose fields it has"}},
		{"a star stands for something only at the end", `
  - {key: a, value: "/api*v1", rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: a, value: "svc*ep*", share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: a, value: "/api/7/v1", rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: a, value: "\\x*", rate_limit: {unit: minute, requests_per_unit: 4}}
`, map[string]string{
			"a=/api*v1": "a_/api_v1 FIXED 1/m COUNTDENIED", "a=/api/v2/v1": "", "a=/api/7/v1": "a_/api/7/v1 FIXED 3/m COUNTDENIED", "a=svc1ep2": "", "a=svc*ep2": "a_svc_ep_ FIXED 2/m COUNTDENIED",
			"a=/api": "", `a=\x1`: "a__x_ FIXED 4/m COUNTDENIED",
		}, nil},
		{"a lookup never goes back", `
  - {key: a, value: x, descriptors: [{key: b, value: "1", rate_limit: {unit: minute, requests_per_unit: 1}}]}
  - {key: a, descriptors: [{key: b, rate_limit: {unit: minute, requests_per_unit: 2}}]}
  - {key: c, value: x, descriptors: [{key: d, value: "1", rate_limit: {unit: minute, requests_per_unit: 3}}]}
`, map[string]string{
			"a=x b=1": "a_x_b_1 FIXED 1/m COUNTDENIED", "a=x b=2": "", "a=y b=2": "a_b FIXED 2/m COUNTDENIED", "c=x d=1": "c_x_d_1 FIXED 3/m COUNTDENIED", "c=x d=2": "",
		}, []string{"line 1: Envoy decides which descriptors a request has; a check is limited by all rules whose fields it has"}},
		{
			"the first wildcard in the file", `
  - {key: a, value: "fo*", rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: a, value: "foo*", rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: b, value: "foo*", rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: b, value: "fo*", rate_limit: {unit: minute, requests_per_unit: 4}}
`,
			map[string]string{"a=foo": "a_fo_ FIXED 1/m COUNTDENIED", "b=foo": "b_foo_ FIXED 3/m COUNTDENIED", "b=fox": "b_fo_ FIXED 4/m COUNTDENIED"},
			[]string{"line 1: Envoy decides which descriptors a request has; a check is limited by all rules whose fields it has", `line 5: "foo*" is never looked up, since "fo*" comes before it: left out`},
		},
		{
			"quota mode", `
  - {key: a, value: x, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: a, value: y, quota_mode: false, rate_limit: {unit: minute, requests_per_unit: 1}}
`,
			map[string]string{"a=x": "a_x FIXED 1/m COUNTDENIED (shadow)", "a=y": "a_y FIXED 1/m COUNTDENIED"},
			[]string{"line 4: quota_mode denies nothing, as shadow mode does; what it tells the caller is not carried over"},
		},
		{
			"metrics", `
  - {key: a, value_to_metric: true, metadata: {name: s}, descriptors: [{key: b, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 1}}]}
`,
			map[string]string{"a=1 b=2": "a_b FIXED 1/m COUNTDENIED", "a=1": ""},
			[]string{"line 4: value_to_metric is not carried over", "line 4: metadata is not carried over", "line 4: detailed_metric is not carried over"},
		},
		{"one key at two levels", `
  - {key: a, value: "top/*", descriptors: [{key: a, value: "x/*", rate_limit: {unit: minute, requests_per_unit: 1}}]}
`, map[string]string{"a=top/x/1": ""}, []string{"line 1: the descriptor a, a has a key twice: left out"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := imported(t, "envoy", before+test.text, test.notes...)
			for fields, want := range test.checks {
				var got []string
				for _, c := range match(t, s, "d", fields).Charges {
					text := c.Rule.Name + " " + c.Limit.String()
					if c.Role == Shadowed {
						text += " (shadow)"
					}
					got = append(got, text)
				}
				if strings.Join(got, ", ") != want {
					t.Errorf("%s: %q, want %s", fields, got, want)
				}
			}
		})
	}
}

func TestImportLimitador(t *testing.T) {
	s := imported(t, "limitador", `
- namespace: api
  name: posts
  max_value: 10
  seconds: 60
  conditions: ["descriptors[0]['req.method'] == 'POST'", "descriptors[0]['req.path'] != '/json'"]
  variables: ["descriptors[0].user_id"]
- namespace: api
  max_value: 1000000
  seconds: 1
  conditions:
  variables:
- namespace: api
  max_value: 5
  seconds: 60
  conditions: ["size(user) > 3"]
- namespace: "other api"
  max_value: 5
  seconds: 60
  conditions: [req_method == "GET*"]
- {namespace: api, max_value: 1, seconds: 1, conditions: [x == "1", x == "2"]}
- {namespace: api, max_value: 1, seconds: 1, conditions: [x == "1", x != "1"]}
- {namespace: api, name: nonempty, max_value: 9, seconds: 1, conditions: [y != "", y != "", z == ""], variables: [y, y]}
- {namespace: api, max_value: 1, seconds: 1, variables: [f(x)]}
`, `line 16: the condition "size(user) > 3" cannot be carried over, so its limit is left out`,
		`line 17: the namespace "other api" is named other_api`,
		`line 21: the condition "x == \"2\"" cannot be carried over, so its limit is left out`,
		"line 22: the conditions never hold at once, so the limit is left out",
		`line 24: the variable "f(x)" cannot be carried over, so its limit is left out`)
	for fields, want := range map[string]string{
		"req.method=POST req.path=/x user_id=u":    "posts FIXED 10/m FIRST, limit_2 FIXED 1000000/s FIRST",
		"req.method=POST req.path=/json user_id=u": "limit_2 FIXED 1000000/s FIRST",
		"req.method=POST req.path=/x":              "limit_2 FIXED 1000000/s FIRST",
		"":                                         "limit_2 FIXED 1000000/s FIRST",
		"x=1 y= z=":                                "limit_2 FIXED 1000000/s FIRST",
		"x=1 y=1 z=":                               "limit_2 FIXED 1000000/s FIRST, nonempty FIXED 9/s FIRST",
	} {
		var got []string
		for _, c := range match(t, s, "api", fields).Charges {
			got = append(got, c.Rule.Name+" "+c.Limit.String())
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %s", fields, got, want)
		}
	}
	if n := len(match(t, s, "other_api", "req_method=GETTER").Charges); n != 0 {
		t.Error("a star of a value has become a pattern")
	}
}
