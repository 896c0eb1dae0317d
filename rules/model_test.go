package rules

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The model tries each rule, and matches patterns by trying every way to divide the value.

func modelMatches(pattern, value string) bool {
	if list, ok := strings.CutPrefix(pattern, "["); ok {
		bits := modelBits(value)
		return slices.ContainsFunc(strings.Split(strings.TrimSuffix(list, "]"), ", "), func(n string) bool {
			return bits != "" && !strings.Contains(value, "/") && strings.HasPrefix(bits, modelBits(n))
		})
	}
	if pattern == "" {
		return value == ""
	}
	switch {
	case pattern[0] == '*':
		return modelMatches(pattern[1:], value) || value != "" && modelMatches(pattern, value[1:])
	case pattern[0] == '\\' && len(pattern) > 1:
		pattern = pattern[1:]
	}
	return value != "" && value[0] == pattern[0] && modelMatches(pattern[1:], value[1:])
}

// modelBits returns the family of an address or a network and its bits, a digit each; "" for other texts.
func modelBits(text string) string {
	text, _, _ = strings.Cut(text, "%")
	text, bits, some := strings.Cut(text, "/")
	ip := net.ParseIP(text)
	all, family := "", "6"
	if four := ip.To4(); four != nil {
		ip, family = four, "4"
	}
	for _, b := range ip {
		all += fmt.Sprintf("%08b", b)
	}
	if all == "" {
		return ""
	}
	if some {
		n, _ := strconv.Atoi(bits)
		all = all[:n]
	}
	return family + all
}

// modelRule is a rule as the model has it.
type modelRule struct {
	name  string
	match map[string]string
	but   map[string]string // except; empty: none
	key   []string
	group int // 0: none
	over  []map[string]string

	from    bool          // the request brings its limit in the field q
	weights []modelWeight // each of another field and pattern, those of a field in a row
}

type modelWeight struct {
	field, pattern string
	times          int64
}

// cost returns the cost of a check, nil if it does not fit.
func (r *modelRule) cost(cost int64, fields map[string]string) *big.Int {
	n, seen := big.NewInt(cost), map[string]bool{}
	for _, w := range r.weights {
		if v, ok := fields[w.field]; ok && !seen[w.field] && modelMatches(w.pattern, v) {
			seen[w.field] = true
			n.Mul(n, big.NewInt(w.times))
		}
	}
	if !n.IsInt64() {
		return nil
	}
	return n
}

func (r *modelRule) applies(fields map[string]string) bool {
	for _, k := range r.key {
		if _, ok := fields[k]; !ok {
			return false
		}
	}
	return modelHolds(r.match, fields) && (len(r.but) == 0 || !modelHolds(r.but, fields))
}

func modelHolds(match, fields map[string]string) bool {
	for name, pattern := range match {
		if v, ok := fields[name]; !ok || !modelMatches(pattern, v) {
			return false
		}
	}
	return true
}

// modelBrought has the limits that values bring, at most 1000/m; "" for an error.
var modelBrought = map[string]string{
	"5": "GCRA 5/m", "7/m": "GCRA 7/m", "3/2h": "GCRA 3/2h", "1000": "GCRA 1000/m", "1001": "GCRA 1000/m", "1001/h": "GCRA 1000/m", "17/s": "GCRA 1000/m", "16/s": "GCRA 16/s",
	"0": "GCRA 0/m", "9223372036854775807/h": "GCRA 1000/m", "": "", "x": "", "-1": "", "1/x": "", "1/": "", "/m": "", "1 m": "", "9223372036854775808": "", "1/0s": "", "gcra 1/m": "",
}

// modelAll returns the names of the rules that apply, each with its limit and its cost. The limit of the override i is i + 1 a minute. It returns false if a
// cost does not fit, or a limit cannot be read.
func modelAll(rules []modelRule, cost int64, fields map[string]string) (all []string, ok bool) {
	taken := 0
	for i := range rules {
		r := &rules[i]
		if r.group != 0 && r.group == taken || !r.applies(fields) {
			continue
		}
		taken = r.group
		over := slices.IndexFunc(r.over, func(m map[string]string) bool { return modelHolds(m, fields) })
		n, l := r.cost(cost, fields), fmt.Sprintf("GCRA %d/m", over+2)
		if v, ok := fields["q"]; r.from && ok && over < 0 {
			l = modelBrought[v]
		}
		if n == nil || l == "" {
			return nil, false
		}
		all = append(all, fmt.Sprintf("%s %s %d", r.name, l, n))
	}
	return all, true
}

// yaml writes the rules as a file. The limit says which override it is of.
func modelFile(rules []modelRule) string {
	var b strings.Builder
	mapping := func(m map[string]string) {
		b.WriteString("{")
		for _, name := range slices.Sorted(keys(m)) {
			if list, ok := strings.CutPrefix(m[name], "["); ok {
				fmt.Fprintf(&b, "%s: ['%s'], ", name, strings.ReplaceAll(strings.TrimSuffix(list, "]"), ", ", "', '"))
			} else {
				fmt.Fprintf(&b, "%s: %q, ", name, m[name])
			}
		}
		b.WriteString("}")
	}
	b.WriteString("version: 1\nnamespaces:\n  n:\n")
	for i, r := range rules {
		indent := "    "
		if r.group > 0 {
			if i == 0 || rules[i-1].group != r.group {
				b.WriteString("    - exclusive: true\n      rules:\n")
			}
			indent = "        "
		}
		fmt.Fprintf(&b, "%s- {name: %s, key: [%s], limit: 1/m, ", indent, r.name, strings.Join(r.key, ", "))
		if len(r.match) > 0 {
			b.WriteString("match: ")
			mapping(r.match)
			b.WriteString(", ")
		}
		if len(r.but) > 0 {
			b.WriteString("except: ")
			mapping(r.but)
			b.WriteString(", ")
		}
		if r.from {
			b.WriteString("limit_from: q, at_most: 1000/m, ")
		}
		for j, w := range r.weights {
			switch {
			case j == 0:
				b.WriteString("weights: {" + w.field + ": {")
			case w.field != r.weights[j-1].field:
				b.WriteString("}, " + w.field + ": {")
			}
			if fmt.Fprintf(&b, "%q: %d, ", w.pattern, w.times); j == len(r.weights)-1 {
				b.WriteString("}}, ")
			}
		}
		b.WriteString("overrides: [")
		for j, o := range r.over {
			b.WriteString("{match: ")
			mapping(o)
			fmt.Fprintf(&b, ", limit: %d/m}, ", j+2)
		}
		b.WriteString("]}\n")
	}
	return b.String()
}

func keys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestFindsWhatTryingEachFinds compares the index with the model, on files and checks in which much nearly
// matches.
func TestFindsWhatTryingEachFinds(t *testing.T) {
	field := rapid.SampledFrom([]string{"a", "b", "c"})
	value := rapid.StringMatching(`[/xy*\\]{0,5}`)
	pattern := rapid.OneOf(value, rapid.StringMatching(`\*[/xy]{0,3}`), rapid.StringMatching(`[/xy]{0,3}\*[xy]?`), rapid.StringMatching(`[xy]?\*[xy]{1,2}\*[xy]?`))
	octet := rapid.SampledFrom([]string{"0", "1", "127", "128", "255"})
	address := rapid.Custom(func(t *rapid.T) string {
		a := "10.0." + octet.Draw(t, "c") + "." + octet.Draw(t, "d")
		return rapid.SampledFrom([]string{"", "", "::ffff:", "2001:db8::", "::"}).Draw(t, "form") + a
	})
	network := rapid.Custom(func(t *rapid.T) string {
		a := netip.MustParseAddr(address.Draw(t, "address")).Unmap()
		return netip.PrefixFrom(a, a.BitLen()-min(a.BitLen(), rapid.SampledFrom([]int{0, 1, 7, 8, 9, 16, 32, 96, 128}).Draw(t, "host"))).Masked().String()
	})
	value = rapid.OneOf(value, address, rapid.Custom(func(t *rapid.T) string {
		return address.Draw(t, "address") + rapid.SampledFrom([]string{"%eth0", ":80", "/32", " "}).Draw(t, "end")
	}))
	plain := pattern
	pattern = rapid.OneOf(pattern, rapid.Map(rapid.SliceOfN(network, 1, 5), func(all []string) string { return "[" + strings.Join(all, ", ") + "]" }))
	weight := rapid.Custom(func(t *rapid.T) modelWeight {
		times := rapid.SampledFrom([]int64{0, 1, 2, 3, 7, 1 << 31, 1 << 62, math.MaxInt64})
		return modelWeight{field.Draw(t, "field"), plain.Draw(t, "pattern"), times.Draw(t, "times")}
	})
	weights := rapid.Map(rapid.SliceOfNDistinct(weight, 0, 4, func(w modelWeight) string { return w.field + w.pattern }), func(all []modelWeight) []modelWeight {
		all = slices.Clone(all)
		slices.SortStableFunc(all, func(a, b modelWeight) int { return strings.Compare(a.field, b.field) })
		return all
	})
	match := func(least int) *rapid.Generator[map[string]string] { return rapid.MapOfN(field, pattern, least, 3) }
	rapid.Check(t, func(t *rapid.T) {
		rules := make([]modelRule, rapid.IntRange(1, 12).Draw(t, "rules"))
		group := 0
		for i := range rules {
			if rapid.IntRange(0, 2).Draw(t, "another group") == 0 {
				group++
			}
			r := &rules[i]
			*r = modelRule{
				name: fmt.Sprint("r", i), match: match(0).Draw(t, "match"), but: match(0).Draw(t, "except"), group: group * (group % 2),
				key:  rapid.SliceOfNDistinct(field, 0, 2, rapid.ID[string]).Draw(t, "key"),
				over: rapid.SliceOfN(match(1), 0, 3).Draw(t, "overrides"), weights: weights.Draw(t, "weights"),
				from: rapid.Bool().Draw(t, "limit from"),
			}
		}
		set, err := Parse([]byte(modelFile(rules)), nil)
		if err != nil {
			if !strings.Contains(err.Error(), "can never") {
				t.Fatalf("%v\n%s", err, modelFile(rules))
			}
			t.Skip("a match that can never hold")
		}
		var q Query
		for range 20 {
			fields := rapid.MapOfN(field, value, 0, 3).Draw(t, "fields")
			if rapid.Bool().Draw(t, "a limit") {
				fields["q"] = rapid.SampledFrom(slices.Sorted(keys(modelBrought))).Draw(t, "quota")
			}
			q.Begin(set.Namespace([]byte("n")))
			for name, v := range fields {
				if err := q.Add([]byte(name), []byte(v)); err != nil {
					t.Fatal(err)
				}
			}
			cost := rapid.SampledFrom([]int64{0, 1, 1, 2, 1 << 32, math.MaxInt64}).Draw(t, "cost")
			err := q.Match(cost)
			if err != nil && !errors.Is(err, ErrFieldWeight) && !errors.Is(err, ErrFieldLimit) {
				t.Fatal(err)
			}
			var got []string
			for _, c := range q.Charges {
				got = append(got, fmt.Sprintf("%s %s %d", c.Rule.Name, c.Limit, c.Cost))
			}
			if want, ok := modelAll(rules, cost, fields); ok != (err == nil) || ok && !slices.Equal(got, want) {
				t.Fatalf("got %v, %v, want %v, %v for %q in\n%s", got, err, want, ok, fields, modelFile(rules))
			}
		}
	})
}

// TestPatterns compares patterns with the model, and what is said of two of them with all short values.
func TestPatterns(t *testing.T) {
	text := rapid.StringMatching(`[ab*\\]{0,6}`)
	var values []string
	for _, n := range []string{"", "a", "b", `\`, "*"} {
		for _, m := range []string{"", "a", "b", `\`, "*"} {
			for _, o := range []string{"", "a", "b", "ab", "ba", "*"} {
				values = append(values, n+m+o)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "pattern"), text.Draw(t, "other")
		p, q := parsePattern(a), parsePattern(b)
		covers, excludes := p.covers(&q), p.excludes(&q)
		for _, v := range values {
			inP, inQ := p.match([]byte(v)), q.match([]byte(v))
			if inP != modelMatches(a, v) {
				t.Fatalf("%q matches %q: %v", a, v, inP)
			}
			if covers && inQ && !inP || excludes && inP && inQ {
				t.Fatalf("%q and %q, covers %v, excludes %v: %q", a, b, covers, excludes, v)
			}
		}
	})
}

// thousand is a namespace of 1000 rules, 5 of which apply to the fields of benchmark.
func thousand(t testing.TB) *Set {
	var b strings.Builder
	b.WriteString("version: 1\nnamespaces:\n  n:\n    - {name: all, limit: 1000000/s}\n    - {name: user, key: [user], limit: 100/s}\n")
	for i := range 499 {
		fmt.Fprintf(&b, "    - {name: path%d, match: {method: POST, path: /v1/things/%d}, key: [user], limit: 10/s}\n", i, i)
		fmt.Fprintf(&b, "    - {name: glob%d, match: {path: /v1/things/%d*}, limit: 1000/s}\n", i, i)
	}
	return mustParse(t, b.String())
}

// check is a check to which 5 of them apply.
func check(q *Query, ns *Namespace) error {
	q.Begin(ns)
	for _, f := range [...][2]string{{"method", "POST"}, {"path", "/v1/things/17"}, {"user", "u123456"}, {"tenant", "t5"}} {
		if err := q.Add(asBytes(f[0]), asBytes(f[1])); err != nil {
			return err
		}
	}
	return q.Match(1)
}

func TestMatchAllocatesNothing(t *testing.T) {
	ns, q := thousand(t).Namespace([]byte("n")), new(Query)
	if err := check(q, ns); err != nil || len(q.Charges) != 5 {
		t.Fatalf("%v, %v", applied(q), err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = check(q, ns) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMatch(b *testing.B) {
	ns, q := thousand(b).Namespace([]byte("n")), new(Query)
	b.ReportAllocs()
	for b.Loop() {
		if err := check(q, ns); err != nil {
			b.Fatal(err)
		}
	}
}
