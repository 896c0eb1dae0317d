// Package envoy compares limitdb with envoyproxy/ratelimit, whose requests and files it takes. It is a module of its own, since that service
// brings many others.
package envoy

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// An alphabet is what keys and values are drawn from.
type alphabet struct {
	keys, values, stars []string
}

// crossed has words of which several give the same text when they are joined by "_", as that service joins them to look them up.
func crossed() alphabet {
	return alphabet{
		keys:   []string{"a", "b", "a_b", "_", "ab", "a*", "é"},
		values: []string{"a", "b", "ab", "a_b", "abc", "_", "*", "a*", "a**", "b.c", "x y", "\"'"},
		stars:  []string{"*", "a*", "ab*", "abc*", "a_*", "b*", "**"},
	}
}

// plain has words of which no two give the same text.
func plain() alphabet {
	return alphabet{
		keys:   []string{"user", "path", "tenant"},
		values: []string{"u1", "u2", "u22", "/api/v1", "/api/v2", "/login", "x"},
		stars:  []string{"u*", "u2*", "/api*", "*"},
	}
}

// generator draws files and requests.
type generator struct {
	*rand.Rand
	alphabet
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// one reports true in one of n cases.
func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

// file returns a file with a tree.
func (g *generator) file(domain string) string {
	return fmt.Sprintf("domain: %s\ndescriptors:\n%s", domain, g.list("  ", 1+g.IntN(6), 1))
}

func (g *generator) list(indent string, n, depth int) string {
	var b strings.Builder
	seen := map[string]bool{}
	for range n {
		key, value := pick(g.Rand, g.keys), ""
		switch g.IntN(3) {
		case 0:
			value = pick(g.Rand, g.values)
		case 1:
			value = pick(g.Rand, g.stars)
		}
		word := key
		if value != "" {
			word += "_" + value
		}
		if seen[word] {
			continue
		}
		seen[word] = true
		fmt.Fprintf(&b, "%s- key: %q\n", indent, key)
		if value != "" {
			fmt.Fprintf(&b, "%s  value: %q\n", indent, value)
		}
		for _, flag := range []string{"shadow_mode", "quota_mode", "detailed_metric", "value_to_metric"} {
			if g.one(8) {
				fmt.Fprintf(&b, "%s  %s: true\n", indent, flag)
			}
		}
		if strings.HasSuffix(word, "*") && g.one(3) {
			fmt.Fprintf(&b, "%s  share_threshold: true\n", indent)
		}
		if !g.one(4) {
			b.WriteString(g.limit(indent + "  "))
		}
		if depth < 4 && g.one(2) {
			fmt.Fprintf(&b, "%s  descriptors:\n%s", indent, g.list(indent+"    ", g.IntN(4), depth+1))
		}
	}
	return b.String()
}

func (g *generator) limit(indent string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, indent+format+"\n", args...) }
	line("rate_limit:")
	if g.one(8) {
		line("  unlimited: true")
	} else {
		line("  unit: %s", pick(g.Rand, []string{"second", "MINUTE", "Hour", "day", "week", "month", "year"}))
		line("  requests_per_unit: %d", pick(g.Rand, []int{0, 1, 2, 3, 5, 10, 100, 1 << 31, 1<<32 - 1}))
	}
	names := []string{"n1", "n2", "n3", "n4"}
	name := g.IntN(3 * len(names))
	if name < len(names) {
		line("  name: %s", names[name])
	}
	if other := g.IntN(4 * len(names)); other < len(names) && other != name {
		line("  replaces:")
		line("    - name: %s", names[other])
	}
	return b.String()
}

// An entry is a key and a value.
type entry struct{ key, value string }

// entries draws the entries of a descriptor.
func (g *generator) entries() (all []entry) {
	for range 1 + g.IntN(4) {
		value := pick(g.Rand, g.values)
		if g.one(10) {
			value = ""
		}
		all = append(all, entry{pick(g.Rand, g.keys), value})
		if g.one(2) {
			return all
		}
	}
	return all
}
