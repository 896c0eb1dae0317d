package config

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSplitLine(t *testing.T) {
	cases := []struct {
		line string
		want []string // nil means unbalanced quotes
	}{
		{"", []string{}},
		{" \t ", []string{}},
		{"a b\tc", []string{"a", "b", "c"}},
		{`a "b c" 'd e'`, []string{"a", "b c", "d e"}},
		{`"" ''`, []string{"", ""}},
		{`a"b"`, []string{"ab"}},
		{`"\n\r\t\b\a\\\"\q"`, []string{"\n\r\t\b\a\\\"q"}},
		{`"\x41\x0a\xfF\xg1\x1"`, []string{"A\n\xffxg1x1"}},
		{`'\n \' "'`, []string{`\n ' "`}},
		{`a\nb`, []string{`a\nb`}},
		{`# a`, []string{"#", "a"}},
		{"\xff \u00a0", []string{"\xff", "\u00a0"}},
		{`"a`, nil},
		{`'a`, nil},
		{`"a\"`, nil},
		{`'a\'`, nil},
		{`"a"b`, nil},
		{`"a""b"`, nil},
		{`"\`, nil},
		{`"`, nil},
	}
	for _, c := range cases {
		got, err := splitLine(c.line)
		if c.want == nil {
			if err == nil {
				t.Errorf("%s: %q, want an error", c.line, got)
			}
			continue
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v; want %q", c.line, got, err, c.want)
		}
	}
}

func TestQuoteWordReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.OneOf(
			rapid.String(),
			rapid.StringOf(rapid.RuneFrom([]rune("\"'\\ \n\r\tx0a#\x00\x7f"))),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		)).Draw(t, "words")
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = quoteWord(w)
			if strings.ContainsAny(quoted[i], "\r\n\x00") {
				t.Fatalf("%q is spelt on several lines: %q", w, quoted[i])
			}
		}
		got, err := splitLine(strings.Join(quoted, " "))
		if err != nil || !slices.Equal(got, words) {
			t.Fatalf("%q is read as %q, %v", quoted, got, err)
		}
	})
}

func TestQuoteWordLeavesPlainWords(t *testing.T) {
	for _, w := range []string{"yes", "64mb", "/var/run/limitdb.sock", "::1", "*", "-1"} {
		if got := quoteWord(w); got != w {
			t.Errorf("%s is spelt %s", w, got)
		}
	}
}
