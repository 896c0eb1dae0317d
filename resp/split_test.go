package resp

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestInline(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []string // nil means unbalanced quotes
	}{
		{"", []string{}},
		{"  \t\v\f\r ", []string{}},
		{"a", []string{"a"}},
		{" a  b ", []string{"a", "b"}},
		{`a\nb`, []string{`a\nb`}},
		{"a\vb\fc", []string{"a\vb\fc"}}, // these separate no words
		{"\va", []string{"a"}},           // but are skipped before one
		{`""`, []string{""}},
		{`''`, []string{""}},
		{`a "" b`, []string{"a", "", "b"}},
		{`"a b"`, []string{"a b"}},
		{`"\x41\x7a\x7A\xfF\x00"`, []string{"Azz\xff\x00"}},
		{`"\n\r\t\b\a\q\"\\\'"`, []string{"\n\r\t\b\aq\"\\'"}},
		{`"\x4"`, []string{"x4"}},
		{`"\x4g"`, []string{"x4g"}},
		{`"\xg4"`, []string{"xg4"}},
		{`"\x"`, []string{"x"}},
		{`"\X41"`, []string{"X41"}},
		{`"\x41`, nil},
		{`'a\'b\n\x41\\'`, nil},
		{`'a\'b\n\x41\\ '`, []string{`a'b\n\x41\\ `}},
		{`'"' "'"`, []string{`"`, `'`}},
		{`foo"b c"`, []string{"foob c"}},
		{`foo'b c' d`, []string{"foob c", "d"}},
		{"\"a\"\t'b'\v'c'\rd", []string{"a", "b", "c", "d"}},
		{`"a"b`, nil},
		{`'a'b`, nil},
		{`"a""b"`, nil},
		{`"a"'b'`, nil},
		{`"`, nil},
		{`'`, nil},
		{`a "b`, nil},
		{`a 'b`, nil},
		{`a"`, nil},
		{`"a\"`, nil},
		{`'a\'`, nil},
		{`"a\`, nil},
		{"'a\x00b' \x00", []string{"a\x00b", "\x00"}},
	} {
		if words, balanced := modelSplit(tt.line); balanced != (tt.want != nil) || balanced && !slices.Equal(words, tt.want) {
			t.Errorf("the model splits %q as %q, %v; want %q", tt.line, words, balanced, tt.want)
		}
		for _, end := range []string{"\n", "\r\n"} {
			checkInline(t, tt.line+end, tt.want)
		}
	}
}

// checkInline reads a line. want is nil if its quotes are unbalanced.
func checkInline(t interface {
	Helper()
	Errorf(string, ...any)
}, line string, want []string,
) {
	t.Helper()
	r := &Reader{Limits: Limits{Args: 1 << 20, WideArgs: 1, Bulk: 1, Inline: 1 << 20, Query: 1 << 21}}
	in := []byte(line)
	r.Feed(in)
	args, err := r.Next()
	switch {
	case string(in) != line:
		t.Errorf("reading %q changed it to %q", line, in)
	case want == nil:
		if err == nil || err.Error() != "Protocol error: unbalanced quotes in request" {
			t.Errorf("%q: %q, %v; want unbalanced quotes", line, texts(args), err)
		}
	case err != nil || !slices.Equal(texts(args), want):
		t.Errorf("%q: %q, %v; want %q", line, texts(args), err, want)
	}
}

// Appending to one argument must not change the next.
func TestArgumentsAreApart(t *testing.T) {
	for _, in := range []string{"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n", "a b c\r\n", "\"a\" 'b' \"c\"\r\n"} {
		r := &Reader{Limits: normal}
		r.Feed(append(make([]byte, 0, 100), in...))
		args, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		_ = append(args[0], "xxxxxxxx"...)
		if got := strings.Join(texts(args), ","); got != "a,b,c" {
			t.Errorf("%q: after an argument was appended to: %s", in, got)
		}
	}
}

// AppendQuoted's output is read back as one word.
func TestQuotedIsOneWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, maxQuoted), 1, 5).Draw(t, "words")
		line, want := []byte{}, []string{}
		for _, w := range words {
			line = append(AppendQuoted(line, w), ' ')
			want = append(want, string(w))
		}
		checkInline(t, string(line)+"\r\n", want)
	})
}
