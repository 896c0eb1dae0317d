package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// The model of a domain reads a file with the YAML package alone, and looks at every descriptor of a list.

type modelTree struct {
	Domain      string
	Descriptors []modelDescriptor
}

type modelDescriptor struct {
	Key, Value  string
	RateLimit   *modelRate `yaml:"rate_limit"`
	Descriptors []modelDescriptor
	Shadow      bool `yaml:"shadow_mode"`
	Quota       bool `yaml:"quota_mode"`
	Share       bool `yaml:"share_threshold"`
}

type modelRate struct {
	Unit      string
	Requests  uint32 `yaml:"requests_per_unit"`
	Unlimited bool
	Name      string
	Replaces  []struct{ Name string }
}

func (d *modelDescriptor) word() string {
	if d.Value == "" {
		return d.Key
	}
	return d.Key + "_" + d.Value
}

// modelStep returns the descriptor for an entry, and whether it is a wildcard.
func modelStep(list []modelDescriptor, e Entry) (found *modelDescriptor, wildcard bool) {
	full := e.Key + "_" + e.Value
	for i := range list {
		if list[i].word() == full {
			return &list[i], false
		}
	}
	for i := range list {
		if prefix, ok := strings.CutSuffix(list[i].word(), "*"); ok && strings.HasPrefix(full, prefix) {
			return &list[i], true
		}
	}
	for i := range list {
		if list[i].word() == e.Key {
			return &list[i], false
		}
	}
	return nil, false
}

// modelFind returns the descriptor with the limit, and who the caller is.
func modelFind(tree *modelTree, entries []Entry) (found *modelDescriptor, caller string) {
	list := tree.Descriptors
	for _, e := range entries {
		var wildcard bool
		if found, wildcard = modelStep(list, e); found == nil {
			return nil, ""
		}
		list = found.Descriptors
		value := e.Value
		if wildcard && found.Share {
			value = strings.TrimPrefix(found.word(), e.Key+"_")
		}
		caller += fmt.Sprintf("%q %q ", e.Key, value)
	}
	if found == nil || found.RateLimit == nil {
		return nil, ""
	}
	return found, caller
}

// modelRequest returns what limits each descriptor, and the callers.
func modelRequest(tree *modelTree, request []Descriptor) (limits, callers []string) {
	found := make([]*modelDescriptor, len(request))
	replaced := map[string]bool{}
	callers = make([]string, len(request))
	for i := range request {
		if found[i], callers[i] = modelFind(tree, request[i].Entries); found[i] != nil {
			for _, r := range found[i].RateLimit.Replaces {
				replaced[r.Name] = true
			}
			if !found[i].RateLimit.Unlimited {
				callers[i] += strings.ToUpper(found[i].RateLimit.Unit)
			}
		}
	}
	for _, d := range found {
		switch {
		case d == nil:
			limits = append(limits, "-")
		case d.RateLimit.Unlimited:
			limits = append(limits, "unlimited")
		case replaced[d.RateLimit.Name]:
			limits = append(limits, "-")
		default:
			limits = append(limits, fmt.Sprintf("%d per %s %q %v %v", d.RateLimit.Requests, strings.ToUpper(d.RateLimit.Unit), d.RateLimit.Name, d.Shadow, d.Quota))
		}
	}
	return limits, callers
}

// compareDomain compares what a domain and the model find.
func compareDomain(t interface{ Fatalf(string, ...any) }, text string, d *Domain, request []Descriptor) {
	var tree modelTree
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if tree.Domain != d.Name() {
		t.Fatalf("%q: the domain is %q", text, d.Name())
	}
	l := &Lookup{Secret: []byte("secret")}
	if err := l.Find(d, request); err != nil {
		t.Fatalf("%v", err)
	}
	want, callers := modelRequest(&tree, request)
	caller, key := map[string]string{}, map[string]string{}
	for i := range l.Matches {
		m := &l.Matches[i]
		got := m.describe()
		if m.Limit != nil {
			got = fmt.Sprintf("%d per %s %q %v %v", m.Rate.PerUnit, m.Rate.Unit, m.Name, m.Shadow, m.Quota)
			k := string(m.Key)
			if was, ok := caller[k]; ok && was != callers[i] || key[callers[i]] != "" && key[callers[i]] != k {
				t.Fatalf("%q: %v: the keys of %s and %s", text, request, callers[i], was)
			}
			caller[k], key[callers[i]] = callers[i], k
		}
		if got != want[i] {
			t.Fatalf("%s\n%v: %s, want %s", text, request[i].Entries, got, want[i])
		}
		l.AppendMetric(nil, i)
	}
}

// drawTree draws a file in which much nearly matches.
func drawTree(t *rapid.T) string {
	word := rapid.StringMatching(`[ab_]{1,3}`)
	value := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[ab_]{0,3}\*?`), rapid.StringMatching(`[ab]{0,2}\*`))
	flag := rapid.SampledFrom([]string{"", "", "", "shadow_mode: true, ", "quota_mode: true, ", "value_to_metric: true, ", "detailed_metric: true, "})
	name := rapid.SampledFrom([]string{"x", "y", "z"})
	count := 0
	var list func(depth int) string
	list = func(depth int) string {
		seen := map[string]bool{}
		var b strings.Builder
		b.WriteString("[")
		for range rapid.IntRange(0, 5).Draw(t, "descriptors") {
			d := modelDescriptor{Key: word.Draw(t, "key"), Value: value.Draw(t, "value")}
			if seen[d.word()] {
				continue
			}
			seen[d.word()] = true
			fmt.Fprintf(&b, "{key: %q, value: %q, %s", d.Key, d.Value, flag.Draw(t, "flag"))
			if strings.HasSuffix(d.word(), "*") && rapid.Bool().Draw(t, "share") {
				b.WriteString("share_threshold: true, ")
			}
			switch count++; rapid.IntRange(0, 5).Draw(t, "limit") {
			case 0:
			case 1:
				fmt.Fprintf(&b, "rate_limit: {unlimited: true, replaces: [{name: %s}]}, ", name.Draw(t, "replaces"))
			case 2:
				fmt.Fprintf(&b, "rate_limit: {unit: hour, requests_per_unit: %d, name: %s}, ", count, name.Draw(t, "name"))
			case 3:
				fmt.Fprintf(&b, "rate_limit: {unit: day, requests_per_unit: %d, replaces: [{name: %s}]}, ", count, name.Draw(t, "replaces"))
			default:
				fmt.Fprintf(&b, "rate_limit: {unit: Minute, requests_per_unit: %d}, ", count)
			}
			if depth < 3 && rapid.Bool().Draw(t, "deeper") {
				fmt.Fprintf(&b, "descriptors: %s", list(depth+1))
			}
			b.WriteString("}, ")
		}
		b.WriteString("]")
		return b.String()
	}
	return "domain: d\ndescriptors: " + list(1) + "\n"
}

// TestDomainFindsWhatTryingEachFinds compares trees with the model.
func TestDomainFindsWhatTryingEachFinds(t *testing.T) {
	entry := rapid.Custom(func(t *rapid.T) Entry {
		return Entry{rapid.StringMatching(`[ab_]{1,3}`).Draw(t, "key"), rapid.StringMatching(`[ab_*]{0,3}`).Draw(t, "value")}
	})
	one := rapid.Custom(func(t *rapid.T) Descriptor {
		return Descriptor{Entries: rapid.SliceOfN(entry, 0, 4).Draw(t, "entries"), Hits: 1}
	})
	rapid.Check(t, func(t *rapid.T) {
		text := drawTree(t)
		ds, err := ParseDomains([]File{{"f", []byte(text)}}, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for range 10 {
			compareDomain(t, text, ds.Domain("d"), rapid.SliceOfN(one, 1, 6).Draw(t, "request"))
		}
	})
}

// FuzzDomain checks that no file panics, that mistakes have places, and that a tree finds what the model finds. The request has a
// descriptor a line, whose words are keys and values in turn.
func FuzzDomain(f *testing.F) {
	const tree = `domain: d
descriptors:
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 1, name: n}
    descriptors:
      - {key: b, value: c*, share_threshold: yes, rate_limit: {unit: DAY, requests_per_unit: 2, replaces: [{name: n}]}}
      - {key: b, value: cd*, shadow_mode: true, rate_limit: {unlimited: true}}
      - &x {key: b, value: 5, quota_mode: off, rate_limit: {unit: week}}
  - {key: a, value: ~, rate_limit:, descriptors: [*x]}
`
	f.Add(tree[:strings.Index(tree, "  - {key: a, value: ~")], "a x\na x b cde\na x b 5 6\n\na")
	f.Add(tree, "a x")
	f.Add("domain: d\ndescriptors:\n- {key: a_b, rate_limit: {unit: second, requests_per_unit: 4294967295, algorithm: gcra}}\n- {key: 'a*', unit: day}\n", "a b\na_b\nac")
	f.Fuzz(func(t *testing.T, text, request string) {
		ds, err := ParseDomains([]File{{"f", []byte(text)}}, nil)
		if err != nil {
			var mistakes Errors
			if !errors.As(err, &mistakes) {
				t.Fatal(err)
			}
			checkPlaces(t, text, mistakes)
			return
		}
		var all []Descriptor
		for line := range strings.SplitSeq(request, "\n") {
			words := strings.Split(line, " ")
			var d Descriptor
			for i := 0; i+1 < len(words); i += 2 {
				d.Entries = append(d.Entries, Entry{words[i], words[i+1]})
			}
			if all = append(all, d); len(all) == 20 {
				break
			}
		}
		compareDomain(t, text, ds.All()[0], all)
	})
}
