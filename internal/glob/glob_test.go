package glob

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

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
		{strings.Repeat("*a", 5000) + "b", strings.Repeat("a", 60), false},
	}
	for _, c := range cases {
		if got := Match(c.pattern, c.s); got != c.want {
			t.Errorf("%.40q matches %q: %v", c.pattern, c.s, got)
		}
	}
}

// slowMatch says the same in the plainest way: by trying all that a star can
// stand for.
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
	n, ok := matchOne(pattern, s[0])
	return ok && slowMatch(pattern[n:], s[1:])
}

func TestMatchAgreesWithTheSlowOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.RuneFrom([]rune(`ab*?[]^-\`)), 0, 12, -1).Draw(t, "pattern")
		s := rapid.StringOfN(rapid.RuneFrom([]rune(`ab]-\`)), 0, 8, -1).Draw(t, "s")
		if got, want := Match(pattern, s), slowMatch(pattern, s); got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, s, got, want)
		}
	})
}
