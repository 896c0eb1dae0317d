package envoy

import (
	"limitdb/rules"
	"strings"
	"testing"
)

// TestFilesAreTakenAlike has files that both take or refuse, and all differences there are; docs/envoy.md lists them.
func TestFilesAreTakenAlike(t *testing.T) {
	const (
		both = iota
		neither
		onlyHere
		onlyThere
	)
	const head, limit = "domain: d\ndescriptors:\n", "rate_limit: {unit: day, requests_per_unit: 5}"
	deep := func(n int) string {
		text := head
		for i := range n {
			indent := strings.Repeat("  ", i)
			text += indent + "- key: k\n" + indent + "  descriptors:\n"
		}
		return text + strings.Repeat("  ", n) + "- {key: k}\n"
	}
	for _, c := range []struct {
		name, text string
		want       int
	}{
		{"empty", "", neither},
		{"no domain", "descriptors: []\n", neither},
		{"an empty domain", "domain: ''\n", neither},
		{"a domain alone", "domain: d\n", both},
		{"a domain without a value", "domain:\n", neither},
		{"any domain", "domain: a b/ü:%\n", both},
		{"no list", "domain: d\ndescriptors: {}\n", neither},
		{"no value of descriptors", "domain: d\ndescriptors:\n", both},
		{"no mapping", head + "- a\n", neither},
		{"a list", "- a\n", neither},
		{"no key", head + "- value: v\n", neither},
		{"an empty key", head + "- key: ''\n", neither},
		{"a key without a value", head + "- key:\n", neither},
		{"fields without values", head + "- {key: k, value: , rate_limit: , descriptors: , shadow_mode: , share_threshold: }\n", both},
		{"a rate_limit with nothing", head + "- {key: k, rate_limit: {}}\n", neither},
		{"twice the same", head + "- {key: k, value: v}\n- {key: k, value: v}\n", neither},
		{"twice the same without a value", head + "- {key: k}\n- {key: k, value: ''}\n", neither},
		{"the same when joined", head + "- {key: a_b, value: c}\n- {key: a, value: b_c}\n", neither},
		{"the same key as a value", head + "- {key: a_b}\n- {key: a, value: b}\n", neither},
		{"a number as a key", head + "- {key: 5, value: 7}\n", both},
		{"a word of YAML as a value", head + "- {key: on, value: yes}\n", both},
		{"an unknown field of the file", "domain: d\nfoo: 1\n", neither},
		{"an unknown field of a descriptor", head + "- {key: k, ratelimit: {}}\n", neither},
		{"an unknown field of a limit", head + "- {key: k, rate_limit: {unit: day, request_per_unit: 1}}\n", neither},
		{"an unknown field of replaces", head + "- {key: k, rate_limit: {unit: day, replaces: [{name: a, b: c}]}}\n", neither},
		{"a field at the wrong place", head + "- {key: k, unit: day, rate_limit: {unit: day, requests_per_unit: 1, shadow_mode: true}}\n", both},
		{"a wrong unit", head + "- {key: k, rate_limit: {unit: fortnight}}\n", neither},
		{"the unit unknown", head + "- {key: k, rate_limit: {unit: unknown}}\n", neither},
		{"units in any case", head + "- {key: k, rate_limit: {unit: mOnTh}}\n- {key: l, rate_limit: {unit: week}}\n", both},
		{"a plural", head + "- {key: k, rate_limit: {unit: days}}\n", neither},
		{"unlimited with a unit", head + "- {key: k, rate_limit: {unlimited: true, unit: day}}\n", neither},
		{"unlimited with a wrong unit", head + "- {key: k, rate_limit: {unlimited: true, unit: fortnight}}\n", both},
		{"unlimited with a count", head + "- {key: k, rate_limit: {unlimited: true, requests_per_unit: 1}}\n", both},
		{"not unlimited", head + "- {key: k, rate_limit: {unlimited: false, unit: day}}\n", both},
		{"a negative count", head + "- {key: k, rate_limit: {unit: day, requests_per_unit: -1}}\n", neither},
		{"the largest count", head + "- {key: k, rate_limit: {unit: day, requests_per_unit: 4294967295}}\n", both},
		{"too large a count", head + "- {key: k, rate_limit: {unit: day, requests_per_unit: 4294967296}}\n", neither},
		{"a count in quotes", head + "- {key: k, rate_limit: {unit: day, requests_per_unit: '5'}}\n", neither},
		{"replaces itself", head + "- {key: k, rate_limit: {unit: day, name: a, replaces: [{name: a}]}}\n", neither},
		{"replaces nothing", head + "- {key: k, rate_limit: {unit: day, replaces: [{name: ''}]}}\n", neither},
		{"replaces nobody", head + "- {key: k, rate_limit: {unit: day, replaces: [{name: b}, {name: b}]}}\n", both},
		{"replaces with a number", head + "- {key: k, rate_limit: {unit: day, replaces: [{name: 5}]}}\n", both},
		{"share_threshold without a star", head + "- {key: k, value: v, share_threshold: true, " + limit + "}\n", neither},
		{"share_threshold with a star inside", head + "- {key: k, value: 'v*x', share_threshold: true, " + limit + "}\n", neither},
		{"share_threshold without a limit", head + "- {key: k, value: 'v*', share_threshold: true}\n", both},
		{"share_threshold of a key", head + "- {key: 'k*', share_threshold: true, " + limit + "}\n", both},
		{"yes and no", head + "- {key: k, shadow_mode: yes, quota_mode: Off, value_to_metric: y, detailed_metric: n}\n", both},
		{"true in quotes", head + "- {key: k, shadow_mode: 'true'}\n", neither},
		{"maybe", head + "- {key: k, shadow_mode: maybe}\n", neither},
		{"anchors", head + "- {key: k, rate_limit: &l {unit: day}}\n- {key: m, rate_limit: *l}\n", both},
		{"broken", "domain: d\n\tdescriptors: []\n", neither},
		{"100 deep", deep(99), both},

		{"101 deep", deep(101), onlyThere},
		{"a second document", "domain: d\n---\ndomain: e\n", onlyThere},
		{"a count with a zero in front", head + "- {key: k, rate_limit: {unit: day, requests_per_unit: 010}}\n", onlyThere},
		{"a field twice", "domain: d\ndomain: d\n", onlyThere},
		{"a merge", head + "- &a {key: k}\n- {<<: *a, value: v}\n", onlyThere},
		{"a long value", head + "- {key: k, value: " + strings.Repeat("v", 8193) + "}\n", onlyThere},
		{"many descriptors", head + many(100_001), onlyThere},
		{"a fraction as a value", head + "- {key: k, value: 1.5}\n", onlyHere},
		{"a date as a value", head + "- {key: k, value: 2026-01-01}\n", both},
		{"an algorithm", head + "- {key: k, rate_limit: {unit: day, algorithm: gcra}}\n", onlyHere},
		{"all or none", "domain: d\nall_or_none: true\n", onlyHere},
	} {
		_, there := theirs(c.text)
		_, here := rules.ParseDomains([]rules.File{{Name: "f", Text: []byte(c.text)}}, nil)
		got := both
		switch {
		case there != nil && here != nil:
			got = neither
		case there != nil:
			got = onlyHere
		case here != nil:
			got = onlyThere
		}
		if got != c.want {
			t.Errorf("%s: there %v, here %v", c.name, there, here)
		}
	}
}

// many returns descriptors.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("- {key: k, value: ")
		for ; i > 0; i /= 62 {
			b.WriteByte("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[i%62])
		}
		b.WriteString("x}\n")
	}
	return b.String()
}
