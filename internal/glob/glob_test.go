package glob

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func matches(t interface{ Fatalf(string, ...any) }, pattern, s string) bool {
	p, ok := Compile(pattern)
	if !ok {
		t.Fatalf("%.40q is too long", pattern)
	}
	return p.Match([]byte(s))
}

func TestCompileRefusesLongPatterns(t *testing.T) {
	if _, ok := Compile(strings.Repeat("a", MaxPattern)); !ok {
		t.Error("the longest pattern is refused")
	}
	if _, ok := Compile("*[" + strings.Repeat("b-c", 20_000) + "]"); ok {
		t.Error("60 000 bytes are accepted")
	}
}

// For any pattern, a byte of the text costs a step for each 64 bytes of the pattern.
func BenchmarkMatch(b *testing.B) {
	for _, c := range []struct{ name, pattern, s string }{
		{"prefix", "user:*", "user:123456789"},
		{"long", strings.Repeat("*a", 512), strings.Repeat("a", 4096)},
		{"class", "*[" + strings.Repeat("b-c", 300) + "]", "user:123456789"},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, _ := Compile(c.pattern)
			s := []byte(c.s)
			for b.Loop() {
				p.Match(s)
			}
		})
	}
}

func TestMatch(t *testing.T) {
	cases := []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"**", "abc", true},
		{"a*c", "abbc", true},
		{"a*c", "abbd", false},
		{"a?c", "abc", true},
		{"?", "", false},
		{"[ab]", "b", true},
		{"[^ab]", "b", false},
		{"[^ab]", "c", true},
		{"[a-c]x", "bx", true},
		{"[c-a]x", "bx", true},
		{"[a-c]", "d", false},
		{`[\]]`, "]", true},
		{"[ab", "b", true},
		{"[ab", "c", false},
		{"[", "a", false},
		{"[^", "a", true},
		{"[]a", "a", false},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{`a\`, `a\`, true},
		{"MAX*", "maxclients", false},
		{"[A-Z]b", "ab", false},
		{"*[a-", "xa", true},
		{"*a*b*c*", "xxaxxbxxcxx", true},
		{strings.Repeat("*a", 500) + "b", strings.Repeat("a", 600), false},
		{strings.Repeat("*a", 500) + "b", strings.Repeat("a", 600) + "b", true},
		{strings.Repeat("?", 1024), strings.Repeat("x", 1024), true},
		{strings.Repeat("?", 1024), strings.Repeat("x", 1023), false},
		{strings.Repeat("x", 63) + "*", strings.Repeat("x", 200), true},
		{strings.Repeat("x", 64) + "*y", strings.Repeat("x", 200) + "y", true},
		{"*[" + strings.Repeat("b-c", 300) + "]", "xxxc", true},
	}
	for _, c := range cases {
		if got := matches(t, c.pattern, c.s); got != c.want {
			t.Errorf("%.40q matches %q: %v", c.pattern, c.s, got)
		}
	}
}

// slowMatch matches in the simplest way: it tries everything that a star can stand for.
func slowMatch(pattern, s string) bool {
	if pattern == "" {
		return s == ""
	}
	if pattern[0] == '*' {
		for i := 0; i <= len(s); i++ {
			if slowMatch(pattern[1:], s[i:]) {
				return true
			}
		}
		return false
	}
	if s == "" {
		return false
	}
	n, ok := slowOne(pattern, s[0])
	return ok && slowMatch(pattern[n:], s[1:])
}

// slowOne matches one element, not a star.
func slowOne(pattern string, c byte) (n int, ok bool) {
	switch {
	case pattern[0] == '?':
		return 1, true
	case pattern[0] == '\\' && len(pattern) > 1:
		return 2, pattern[1] == c
	case pattern[0] != '[':
		return 1, pattern[0] == c
	}
	i := 1
	not := strings.HasPrefix(pattern[i:], "^")
	if not {
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			ok = ok || pattern[i] == c
		case i+2 < len(pattern) && pattern[i+1] == '-':
			ok = ok || min(pattern[i], pattern[i+2]) <= c && c <= max(pattern[i], pattern[i+2])
			i += 2
		default:
			ok = ok || pattern[i] == c
		}
	}
	return min(i+1, len(pattern)), ok != not
}

func TestMatchAgreesWithTheSlowOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.RuneFrom([]rune(`ab*?[]^-\`)), 0, 12, -1).Draw(t, "pattern")
		s := rapid.StringOfN(rapid.RuneFrom([]rune(`ab]-\`)), 0, 8, -1).Draw(t, "s")
		if repeat := rapid.SampledFrom([]int{1, 9}).Draw(t, "repeat"); repeat > 1 { // several words of states
			pattern = strings.Repeat("a", 9*repeat-1) + pattern
			s = strings.Repeat("a", 9*repeat-1) + s
		}
		if got, want := matches(t, pattern, s), slowMatch(pattern, s); got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, s, got, want)
		}
		longer := s + rapid.StringOfN(rapid.RuneFrom([]rune(`ab]`)), 1, 4, -1).Draw(t, "more")
		if p, _ := Compile(pattern); p.Open() && p.Match([]byte(s)) && !p.Match([]byte(longer)) {
			t.Fatalf("%q is open, matches %q and not %q", pattern, s, longer)
		}
		if p, _ := Compile(pattern + "*"); !strings.HasSuffix(pattern, `\`) && !strings.Contains(pattern, "[") && !p.Open() {
			t.Fatalf("%q is not open", pattern+"*")
		}
	})
}
