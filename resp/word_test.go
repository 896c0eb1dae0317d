package resp

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseInt(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true},
		{"-1", -1, true},
		{"10", 10, true},
		{"2147483648", 1 << 31, true},
		{"4294967297", 1<<32 + 1, true},
		{"9223372036854775807", math.MaxInt64, true},
		{"-9223372036854775808", math.MinInt64, true},
		{"9223372036854775808", 0, false},
		{"-9223372036854775809", 0, false},
		{"9999999999999999999", 0, false},
		{"-9999999999999999999", 0, false},
		{"18446744073709551616", 0, false},
		{"18446744073709551617", 0, false},
		{"1000000000000000000000000000000", 0, false},
		{"", 0, false},
		{"-", 0, false},
		{"--1", 0, false},
		{"-0", 0, false},
		{"00", 0, false},
		{"01", 0, false},
		{"-01", 0, false},
		{"+5", 0, false},
		{" 5", 0, false},
		{"5 ", 0, false},
		{"5\x00", 0, false},
		{"5a", 0, false},
		{"/", 0, false},
		{":", 0, false},
		{"\xb1", 0, false},
	} {
		got, ok := ParseInt([]byte(tt.in))
		if got != tt.want || ok != tt.ok {
			t.Errorf("%q: %d, %v; want %d, %v", tt.in, got, ok, tt.want, tt.ok)
		}
	}
}

// ParseInt accepts exactly what strconv accepts and prints the same way.
func TestParseIntAgainstStrconv(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(
			rapid.Custom(func(t *rapid.T) string { return strconv.FormatInt(rapid.Int64().Draw(t, "n"), 10) }),
			rapid.StringMatching(`[-+]?[0-9]{0,21}`),
			rapid.StringMatching(`-?922337203685477580[0-9]`),
		).Draw(t, "s")
		want, err := strconv.ParseInt(s, 10, 64)
		wantOK := err == nil && strconv.FormatInt(want, 10) == s
		if !wantOK {
			want = 0
		}
		if got, ok := ParseInt([]byte(s)); got != want || ok != wantOK {
			t.Fatalf("%q: %d, %v; want %d, %v", s, got, ok, want, wantOK)
		}
	})
}

func TestEqualFold(t *testing.T) {
	for _, tt := range []struct {
		b, word string
		want    bool
	}{
		{"", "", true},
		{"cost", "COST", true},
		{"CoSt", "cOsT", true},
		{"cost", "cos", false},
		{"cos", "cost", false},
		{"cosT", "cosS", false},
		{"@", "`", false}, // they differ in the bit that distinguishes the case of letters
		{"[", "{", false},
		{"\x00", " ", false},
		{"K", "\u212a", false}, // Kelvin
		{"É", "é", false},
		{"é", "é", true},
	} {
		if got := EqualFold([]byte(tt.b), tt.word); got != tt.want {
			t.Errorf("%q, %q: %v", tt.b, tt.word, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.StringMatching(`[@-~]{0,6}`).Draw(t, "a")
		b := rapid.OneOf(rapid.Just(strings.ToUpper(a)), rapid.StringMatching(`[@-~]{0,6}`)).Draw(t, "b")
		if got := EqualFold([]byte(a), b); got != strings.EqualFold(a, b) {
			t.Fatalf("%q, %q: %v", a, b, got)
		}
	})
}

func BenchmarkParseInt(b *testing.B) {
	in := []byte("3600")
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := ParseInt(in); !ok {
			b.Fatal("not a number")
		}
	}
}
