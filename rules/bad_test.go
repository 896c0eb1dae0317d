package rules

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"limitdb/internal/glob"
)

// placed takes the mark of a place out of a text, and adds the place to the text of an error.
func placed(text, err string) (string, string) {
	before, after, found := strings.Cut(text, "‸")
	if !found {
		return text, err
	}
	line, column := 1+strings.Count(before, "\n"), len(before)-strings.LastIndex(before, "\n")
	return before + after, fmt.Sprintf("line %d, column %d: %s", line, column, err)
}

// TestBadFiles has every mistake that a file can have, with the text of its error; ‸ marks the place.
func TestBadFiles(t *testing.T) {
	head := "version: 1\nplans:\n  free: {api: 60/m}\nnamespaces:\n  a:\n"
	for _, c := range []struct{ text, want string }{
		{"‸", "the file is empty: it needs at least version and namespaces"},
		{"‸# nothing\n", "the file is empty: it needs at least version and namespaces"},
		{"‸- 1", "the file must be a mapping, not a list"},
		{"‸version: 1", `the file has no "namespaces"`},
		{"version: ‸2\nnamespaces: {}", `version must be 1, not "2"`},
		{"version: ‸'1'\nnamespaces: {}", `version must be 1, not "1"`},
		{"version: 1\nnamespaces: {}\n‸version: 1", `"version" is given twice`},
		{"version: 1\nnamespaces: {}\n‸---\nversion: 1", "the file has a second document"},
		{"‸version: 1\nnamespace: {}", `the file has no "namespaces" (and 1 more)`},
		{"version: 1\nnamespaces: {}\n‸plan: {}", `the file has no field "plan"; did you mean "plans"?`},
		{"version: 1\n‸namespaces: [", "did not find expected node content"},
		{"version: 1\nnamespaces:\n  a:\n    ‸- {name: x, limit: 1/s\n    - {name: y, limit: 1/s}\n", "did not find expected ',' or '}'"},
		{"version: 1\nnamespaces:\n  a:\n    - {name: x, limit: 1/s}}\n    ‸- {name: y, limit: 1/s}\n", "did not find expected '-' indicator"}, // after the bracket
		{"version: 1\nnamespaces:\n  a:\n    - name: x\n      limit: 1/s\n     ‸mode: off\n\n    - name: y\n", "did not find expected '-' indicator"},
		{"version: 1\nnamespaces:\n  a:\n    - name: x\n   ‸limit: 1/s\n    - name: y\n", "did not find expected key"},
		{"version: 1\nnamespaces:\n  ‸a: [1, 2\nb: 3\n", "did not find expected ',' or ']'"},
		{"‸{version: 1", "did not find expected ',' or '}'"},
		{"version: 1\nnamespaces:\n  a:\n    - name: x\n      limit: 1/s\n       ‸mode: off\n", "mapping values are not allowed in this context"},
		{"version: 1\n\t‸namespaces: 1", "found a tab character that violates indentation"},
		{"version: ‸\x00", "control characters are not allowed"},
		{"version: 1\nnamespaces: {a: ‸&x [*x]}", "a rule must be a mapping, not a list"},
		{"version: 1\nnamespaces: ‸*nothing", "unknown anchor 'nothing' referenced"},
		{"version: 1\ndefaults: {algorithm: ‸gcrb, mode: on}\nnamespaces: {}", `unknown algorithm "gcrb" (and 1 more)`},
		{"version: 1\nnamespaces: {‸a b: []}", `a namespace's name must be a letter, digit or _, then any of these or of . / -, at most 64 in all, not "a b"`},
		{"version: 1\nnamespaces: {a: ‸{}}", `a namespace has no "descriptors"`},
		{"version: 1\nnamespaces: {a: ‸1}", `a namespace must be a list, not "1"`},
		{"version: 1\nnamespaces: {a: ‸{shard_by: u}}", `a namespace has no "rules"`},
		{"version: 1\nnamespaces: {a: {rules: ‸{}}}", "a namespace must be a list, not a mapping"},
		{"version: 1\nnamespaces: {a: {‸shards_by: u, rules: []}}", `a namespace has no field "shards_by"; did you mean "shard_by"?`},
		{"version: 1\nnamespaces: {a: {rules: [], ‸descriptors: []}}", `a namespace has no field "descriptors"`},
		{"version: 1\nnamespaces: {a: {shard_by: ‸[u], rules: []}}", "shard_by must be a text, not a list"},
		{"version: 1\nnamespaces: {a: {shard_by: ‸u v, rules: []}}", `shard_by must be a letter, digit or _, then any of these or of . / -, at most 64 in all, not "u v"`},
		{"version: 1\nnamespaces: {a: {shard_by: u, rules: [{name: x, key: [u], limit: 1/s}, {name: v, key: [v], ipv4_prefix: 8, limit: 1/s}, ‸{name: y, key: [u, v], ip_field: u, ipv4_prefix: 8, limit: 1/s}]}}", `this rule must cut "u" to the same networks as rule "x", since shard_by names it`},
		{"version: 1\nnamespaces: {a: {shard_by: u, rules: [{name: x, key: [u], ipv4_prefix: 8, limit: 1/s}, ‸{name: y, key: [u], ipv4_prefix: 9, limit: 1/s}]}}", `this rule must cut "u" to the same networks as rule "x", since shard_by names it`},
		{"version: 1\nnamespaces: {a: [], ‸a: []}", `"a" is given twice`},
		{"version: 1\nnamespaces: {‸[a]: []}", "a name must be a text, not a list"},
		{"version: 1\nplans: {free: {api: 60}}\nnamespaces: {}", ""},
		{"version: 1\nplans: {free: {api: ‸sliding}}\nnamespaces: {}", `a plan's limit is a rate such as 60/m, a limit, or unlimited, not "sliding"`},
		{"version: 1\nplans: {free: {api: ‸60/q}}\nnamespaces: {}", `period must be positive milliseconds, or have a unit (ms s m h d w): "q"`},
		{"version: 1\nplans: {free: {api: ‸fixed 5 calendar day tz Nowhere}}\nnamespaces: {a: [{name: x, plan: {field: p, limit: api, default: free}}]}", `unknown time zone: "Nowhere"`},
		{"version: 1\nplans: {free: {api: 60/m first, day: 60/h tz UTC, many: 70000/s}}\ndefaults: {algorithm: log}\nnamespaces: {}", ""},
		{"version: 1\nplans: {free: {api: ‸~}}\nnamespaces: {}", "a plan's limit must be a text, not nothing"},
		{head + "    - ‸{limit: 1/s}", `a rule has no "name"`},
		{head + "    - {name: ‸[x], limit: 1/s}", "name must be a text, not a list"},
		{head + "    - {name: ‸/x, limit: 1/s}", `name must be a letter, digit or _, then any of these or of . / -, at most 64 in all, not "/x"`},
		{head + "    - {name: ‸'', limit: 1/s}", `name must be a letter, digit or _, then any of these or of . / -, at most 64 in all, not ""`},
		{head + "    - {name: ‸'x y', limit: 1/s}", `name must be a letter, digit or _, then any of these or of . / -, at most 64 in all, not "x y"`},
		{head + "    - {name: ‸" + strings.Repeat("x", 65) + ", limit: 1/s}", `name must be a letter, digit or _, then any of these or of . / -, at most 64 in all, not "` + strings.Repeat("x", 64) + `"...`},
		{head + "    - {name: x, limit: 1/s}\n    - {name: ‸x, limit: 2/s}", `there are two rules with the name "x"`},
		{head + "    - ‸{name: x}", `rule "x" needs a limit, a plan, or unlimited`},
		{head + "    - {name: x, ‸limits: 1/s}", `a rule has no field "limits"; did you mean "limit"?`},
		{head + "    - {name: x, limit: ‸1/x}", `period must be positive milliseconds, or have a unit (ms s m h d w): "x"`},
		{head + "    - {name: x, limit: ‸gcrb 1/s}", `unknown algorithm: "gcrb"; there are GCRA, TOKEN, LEAKY, QUEUE, WARMUP, FIXED, SLIDING, SEGMENTED, LOG`},
		{head + "    - {name: x, limit: ‸fixed 1/s tz UTC}", `syntax error: "TZ" works only with CALENDAR`},
		{head + "    - {name: x, limit: ‸fixed 1 calendar day tz Nowhere}", `unknown time zone: "Nowhere"`},
		{head + "    - {name: x, limit: ‸1/s burst 2, burst: 3}", `"GCRA 1/s burst 2" has a BURST of its own`},
		{head + "    - {name: x, limit: ‸log 1/s, burst: 3}", `syntax error: LOG has no option "BURST"`},
		{head + "    - {name: x, limit: 1/s, burst: ‸-3}", `burst must be an integer from 0 to 9223372036854775807, not "-3"`},
		{head + "    - {name: x, limit: 1/s, burst: ‸010}", `burst must be an integer without a zero in front, not "010"`},
		{head + "    - {name: x, limit: 1/s, candidate: ‸2}", `syntax error: period is missing after "2"`},
		{head + "    - {name: x, limit: 1/s, mode: ‸on}", `mode must be enforce, shadow or off, not "on"`},
		{head + "    - {name: x, limit: 1/s, key: ‸ip}", `key must be a list, not "ip"`},
		{head + "    - {name: x, limit: 1/s, key: [ip, ‸ip]}", `"ip" is in the key twice`},
		{head + "    - ‸{name: x, limit: 1/s, key: [user, addr], ipv6_prefix: 64}", `the key has no field "ip": name the one with the address in ip_field`},
		{head + "    - {name: x, limit: 1/s, key: [ip], ipv6_prefix: ‸129}", `ipv6_prefix must be an integer from 1 to 128, not "129"`},
		{head + "    - {name: x, limit: 1/s, key: [ip], ipv4_prefix: ‸0}", `ipv4_prefix must be an integer from 1 to 32, not "0"`},
		{head + "    - {name: x, limit: 1/s, match: ‸{}}", "match is empty"},
		{head + "    - ‸{name: x, limit: 1/s, key: [a, b], match: {" + fieldsMatch(63) + "}}", "this can never match: it needs 65 fields, and a check has at most 64"},
		{head + "    - {name: x, limit: 1/s, key: [a, f0], match: {" + fieldsMatch(63) + "}}", ""},
		{head + "    - {name: x, limit: 1/s, key: [a], match: {" + fieldsMatch(62) + "}, overrides: [{match: {a: b, c: d}, limit: 2/s}, ‸{match: {c: e, d: d}, limit: 2/s}]}", "this can never match: it needs 65 fields, and a check has at most 64"},
		{head + "    - {name: x, limit: 1/s, except: ‸{}}", "except is empty"},
		{head + "    - {name: x, limit: 1/s, key: [a, b], except: ‸{" + fieldsMatch(63) + "}}", "this can never match: it needs 65 fields, and a check has at most 64"},
		{head + "    - {name: x, limit: 1/s, except: ‸[a]}", "except must be a mapping, not a list"},
		{head + "    - {name: x, limit: 1/s, except: {a: ‸{b: c}}}", `the value of "a" must be a text, not a mapping`},
		{head + "    - {name: x, limit: 1/s, except: {a: ‸" + strings.Repeat("y", glob.MaxPattern+1) + "}}", "the pattern has more than 1024 bytes"},
		{head + "    - {name: x, limit: 1/s, match: {u: b*}, except: {v: c, u: ‸a}}", `this except can never count: the rule matches u only where it is "b*"`},
		{head + "    - {name: x, limit: 1/s, match: {u: ab}, except: ‸{u: a*}}", "this rule can never apply: its except matches whatever it matches"},
		{head + "    - {name: x, limit: 1/s, key: [u], except: ‸{u: '*'}}", "this rule can never apply: its except matches whatever it matches"},
		{head + "    - {name: x, limit: 1/s, match: {u: ab}, except: {u: a*, v: c}}", ""},
		{head + "    - {name: x, limit: 1/s, except: {u: a*}, overrides: [{match: {u: b}, limit: 2/s}, ‸{match: {u: ab}, limit: 2/s}]}", "this override can never count: the rule's except matches whatever it matches"},
		{head + "    - {exclusive: true, rules: [{name: x, except: {u: a}, limit: 1/s}, {name: y, match: {u: a}, limit: 1/s}]}", ""},
		{head + "    - {exclusive: true, rules: [{name: x, except: {u: ab}, limit: 1/s}, {name: ‸y, except: {u: a*}, limit: 1/s}]}", `this rule can never apply: "x" before it matches whatever it matches`},
		{head + "    - {name: x, limit: 1/s, match: {a: ‸{b: c}}}", `the value of "a" must be a text, not a mapping`},
		{head + "    - {name: x, limit: 1/s, match: {a: ‸~}}", `the value of "a" must be a text, not nothing`},
		{head + "    - {name: x, limit: 1/s, match: {a: ‸" + strings.Repeat("y", glob.MaxPattern+1) + "}}", "the pattern has more than 1024 bytes"},
		{head + "    - {name: x, unlimited: ‸false}", "unlimited can only be true: leave it out otherwise"},
		{head + "    - {name: x, unlimited: ‸true, limit: 1/s}", "unlimited does not go with limit, limit_from, in_flight, plan, burst, weights, overrides or candidate"},
		{head + "    - {name: x, unlimited: ‸true, plan: {field: u, limit: api, default: free}}", "unlimited does not go with limit, limit_from, in_flight, plan, burst, weights, overrides or candidate"},
		{head + "    - {name: x, unlimited: ‸true, overrides: [{match: {u: a}, limit: 2/s}]}", "unlimited does not go with limit, limit_from, in_flight, plan, burst, weights, overrides or candidate"},
		{head + "    - {name: x, ‸<<: {limit: 1/s}}", `merging with "<<" is not supported: write the fields out`},
		{head + "    - {name: x, plan: {field: p, limit: api, default: ‸gold}}", `there is no plan "gold"`},
		{head + "    - {name: x, plan: {field: p, limit: ‸daily, default: free}}", `plan "free" has no limit "daily"; write unlimited there if it is to have none`},
		{head + "    - {name: x, plan: ‸{field: p, limit: api}}", `plan has no "default"`},
		{head + "    - {name: x, limit: fixed calendar day, plan: {field: p, limit: ‸api, default: free}}", `with plan "free": "60/m" does not fit calendar day: write 60`},
		{head + "    - {name: x, limit: 1/s, overrides: [‸{limit: 2/s}]}", `an override has no "match"`},
		{head + "    - {name: x, limit: 1/s, overrides: [‸{match: {u: a}}]}", "an override needs a limit or unlimited"},
		{head + "    - {name: x, limit: 1/s, overrides: [{match: {u: a}, limit: 2/s, unlimited: ‸true}]}", "unlimited does not go with limit or burst"},
		{head + "    - {name: x, limit: 1/s, overrides: [{match: {u: a}, burst: 2, unlimited: ‸true}]}", "unlimited does not go with limit or burst"},
		{head + "    - {name: x, match: {u: b*}, limit: 1/s, overrides: [{match: {u: ‸a}, limit: 2/s}]}", `this override can never count: the rule matches u only where it is "b*"`},
		{head + "    - {name: x, limit: 1/s, overrides: [{match: {u: a*}, limit: 2/s}, ‸{match: {u: ab, v: c}, limit: 3/s}]}", "this override can never count: one before it matches whatever it matches"},
		{head + "    - ‸{exclusive: true}", `a group has no "rules"`},
		{head + "    - {exclusive: true, rules: ‸[]}", "the group has no rules"},
		{head + "    - {exclusive: ‸false, rules: [{name: x, limit: 1/s}]}", "exclusive must be true: without it, write the rules into the namespace's list"},
		{head + "    - ‸{rules: [{name: x, limit: 1/s}]}", `a group has no "exclusive"`},
		{head + "    - {exclusive: true, rules: [{name: x, match: {u: a*}, limit: 1/s}, {name: ‸y, match: {u: ab, v: c}, limit: 1/s}]}", `this rule can never apply: "x" before it matches whatever it matches`},
		{head + "    - {exclusive: true, rules: [{name: x, match: {u: '*'}, limit: 1/s}, {name: ‸y, key: [u, w], limit: 1/s}]}", `this rule can never apply: "x" before it matches whatever it matches`},
		{head + "    - {exclusive: true, rules: [{name: x, limit: 1/s, mode: off}, {name: y, limit: 1/s}]}", ""},
	} {
		text, want := placed(c.text, c.want)
		s, err := Parse([]byte(text), nil)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s:\n\t%v", c.text, err)
		case want != "" && (err == nil || err.Error() != want):
			t.Errorf("%s:\n\tgot  %v\n\twant %s", c.text, err, want)
		case want != "" && s != nil:
			t.Errorf("%s: a set and an error", c.text)
		}
	}
}

// fieldsMatch returns n conditions on fields f0, f1 and so on.
func fieldsMatch(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("f%d: x", i))
	}
	return strings.Join(all, ", ")
}

// TestAllMistakes checks that Parse tells several mistakes, but not without end.
func TestAllMistakes(t *testing.T) {
	_, err := Parse([]byte("version: 1\nnamespaces: {a: [{}, {nam: x}, 1]}"), nil)
	var es Errors
	if !errors.As(err, &es) || len(es) != 4 || es[3].Text != `a rule must be a mapping, not "1"` {
		t.Errorf("%v", es.Unwrap())
	}
	_, err = Parse([]byte("version: 1\nnamespaces: {a: ["+strings.Repeat("{}, ", 1000)+"]}"), nil)
	if !errors.As(err, &es) || len(es) != maxErrors+1 {
		t.Errorf("%d mistakes", len(es))
	}
}

// TestMistakesHideNoOthers puts any two mistakes, and all of them, into one file. Each is found, and nothing that
// follows from one is told as another.
func TestMistakesHideNoOthers(t *testing.T) {
	type mistake struct{ defaults, plan, rule, want string }
	all := []mistake{
		{defaults: "algorithm: gcrb", want: `unknown algorithm "gcrb"`},
		{defaults: "mod: off", want: `defaults has no field "mod"; did you mean "mode"?`},
		{plan: "pro: {api: [1]}", want: "a plan's limit must be a text, not a list"},
		{plan: "pro: {api: 60/q}", want: `period must be positive milliseconds, or have a unit (ms s m h d w): "q"`},
		{plan: "pro: 7", want: `a plan must be a mapping, not "7"`},
		{plan: "basic: {day: 1/d}", want: ""}, // told for the rule with the plan, below
		{rule: "{limit: 1/s}", want: `a rule has no "name"`},
		{rule: "{name: a/, limits: 1/s}", want: `a rule has no field "limits"; did you mean "limit"?`},
		{rule: "{name: b, limit: 1/x}", want: `period must be positive milliseconds, or have a unit (ms s m h d w): "x"`},
		{rule: "{name: c, limit: 1/s, key: ip, ipv4_prefix: 24}", want: `key must be a list, not "ip"`},
		{rule: "{name: d, limit: 1/s, match: {}}", want: "match is empty"},
		{rule: "{name: e, limit: 1/s, overrides: [{match: {u: {x: y}}, limit: 1/s}, {match: {u: x}, limit: 2/s}]}", want: `the value of "u" must be a text, not a mapping`},
		{rule: "{name: f, limit: 1/s, overrides: [{match: {u: x}, limt: 1/s}]}", want: `an override has no field "limt"; did you mean "limit"?`},
		{rule: "{name: g, limit: 1/s, burst: many}", want: `burst must be an integer from 0 to 9223372036854775807, not "many"`},
		{rule: "{name: h, plan: {field: p, limit: api, default: none}}", want: `there is no plan "none"`},
		{rule: "{name: i, plan: {field: p, limit: api}}", want: `plan has no "default"`},
		{rule: "{name: j, plan: free}", want: `plan must be a mapping, not "free"`},
		{rule: "{name: k}", want: `rule "k" needs a limit, a plan, or unlimited`},
		{rule: "{name: l, unlimited: false, limit: 1/s}", want: "unlimited can only be true: leave it out otherwise"},
		{rule: "{exclusive: true}", want: `a group has no "rules"`},
		{rule: "{exclusive: true, rules: [{name: m, limit: 1/s, match: u}, {name: n, limit: 1/s}]}", want: `match must be a mapping, not "u"`},
		{rule: "{exclusive: true, rules: [{name: o, limit: 1/s}, {name: p, limit: 1/s}]}", want: `this rule can never apply: "o" before it matches whatever it matches`},
		{rule: "{name: q, limit: 1/s, mode: on}", want: `mode must be enforce, shadow or off, not "on"`},
		{rule: "{name: r, limit: 1/s segments 5}", want: ""}, // which may go with the algorithm of the defaults
		{rule: "{name: s, limit: 1/s, candidate: ~}", want: "candidate must be a text, not nothing"},
		{rule: "7", want: `a rule must be a mapping, not "7"`},
	}
	check := func(some ...mistake) {
		defaults, plans, rules := "", "free: {api: 60/m}", "{name: good, plan: {field: p, limit: api, default: free}}"
		var want, got []string
		vague, wrongDefaults := false, false
		for _, m := range some {
			defaults = cmp.Or(m.defaults, defaults)
			wrongDefaults = wrongDefaults || m.defaults != ""
			if m.plan != "" {
				plans += ", " + m.plan
			}
			if m.rule != "" {
				rules += ", " + m.rule
			}
			switch {
			case strings.Contains(m.plan, "day:"):
				want = append(want, `plan "basic" has no limit "api"; write unlimited there if it is to have none`)
			case strings.Contains(m.rule, "segments"):
				vague = true
			default:
				want = append(want, m.want)
			}
		}
		if vague && !wrongDefaults {
			want = append(want, `syntax error: GCRA has no option "segments"`)
		}
		_, err := Parse([]byte(fmt.Sprintf("version: 1\ndefaults: {%s}\nplans: {%s}\nnamespaces: {a: [%s]}\n", defaults, plans, rules)), nil)
		if err != nil {
			for _, e := range err.(Errors) {
				got = append(got, e.Text)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%v:\n got %q\nwant %q", some, got, want)
		}
	}
	for i, a := range all {
		check(a)
		for _, b := range all[i+1:] {
			samePart := a.defaults != "" && b.defaults != "" || strings.HasPrefix(a.plan, "pro") && strings.HasPrefix(b.plan, "pro")
			planOfBoth := strings.Contains(a.plan, "day") || strings.Contains(b.plan, "day")
			if !samePart && !(planOfBoth && strings.Contains(a.rule+b.rule, "plan: {")) {
				check(a, b)
			}
		}
	}
	check(slices.DeleteFunc(all, func(m mistake) bool {
		return m.plan == "pro: 7" || strings.Contains(m.plan, "60/q") || m.defaults == "mod: off" || strings.Contains(m.plan, "day")
	})...)
}

// TestHostileFiles checks that a file that is made to take much time or memory ends in an error. What it
// takes is bounded by maxMarks and maxVisits, not by a clock.
func TestHostileFiles(t *testing.T) {
	aliases := "version: 1\nplans:\n  p0: &p0 {" + strings.Repeat("a: 1, ", 3) + "b: 2/s}\n"
	var bomb strings.Builder
	bomb.WriteString("version: 1\ndefaults: &a0 [" + strings.Repeat("x,", 100) + "]\nplans:\n")
	for i := range 20 {
		fmt.Fprintf(&bomb, "  a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 100), ","))
	}
	bomb.WriteString("namespaces: {}\n")
	rule := "{name: x, limit: 1/s}"
	reuse := "version: 1\nnamespaces:\n  a0: &a [" + strings.TrimSuffix(strings.Repeat("&r "+rule+",", 1), ",") + "]\n"
	var wide strings.Builder
	wide.WriteString("version: 1\nplans:\n  p: &p {a: 1/s, b: 2/s, c: 3/s}\nnamespaces:\n  n: &n\n")
	for i := range 2000 {
		fmt.Fprintf(&wide, "    - {name: r%d, limit: 1/s}\n", i)
	}
	for i := range 30 {
		fmt.Fprintf(&wide, "  n%d: *n\n", i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"larger than the bound": {strings.Repeat("#", MaxText+1), "more than 4194304 bytes"},
		"100 MB":                {strings.Repeat("- a\n", 25<<20), "more than 4194304 bytes"},
		"many small values":     {"[" + strings.Repeat("a,", MaxText/2-10) + "]", "more than 524288 values"},
		"deep":                  {strings.Repeat("[", 1000), "more than 100 brackets are open"},
		"deep mappings":         {strings.Repeat("{a: ", 1000), "more than 100 brackets are open"},
		"deep by indentation":   {deep(2000), ""},
		"aliases that explode":  {bomb.String(), ""},
		"an unclosed text":      {"version: \"" + strings.Repeat("a ", MaxText/2-100), ""},
		"a long comment":        {"version: 1 #" + strings.Repeat("a", MaxText-100), `the file has no "namespaces"`},
		"a long key":            {strings.Repeat("a", MaxText-100), "the file must be a mapping"},
		"a name twice":          {aliases + "namespaces: {}", `"a" is given twice`},
		"a rule twice":          {reuse + "  b: *a\n", ""},
		"rules by aliases":      {wide.String(), "more than 50000 rules"},
		"many anchors":          {"version: 1\nplans: {" + strings.Repeat("&a x: 1,", 50_000) + "}", "must be a mapping"},
		"not UTF-8":             {"version: \xff\xfe", "invalid"},
		"UTF-16":                {"\xff\xfe" + strings.Repeat("\x00a", 1000), ""},
	} {
		_, err := Parse([]byte(c.text), nil)
		ok := err != nil && strings.Contains(err.Error(), c.want)
		if name == "a rule twice" {
			ok = err == nil
		}
		if !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// deep returns mappings in mappings without brackets.
func deep(n int) string {
	var b bytes.Buffer
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()[:min(b.Len(), MaxText)]
}
