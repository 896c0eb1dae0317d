package resp

import (
	"fmt"
	"strings"
	"testing"
)

// long returns an argument of n bytes.
func long(n int) string { return strings.Repeat("k", n) }

func cmds(c ...[]string) [][]string { return c }

var (
	ping    = []string{"PING"}
	pingIn  = "*1\r\n$4\r\nPING\r\n"
	mgetIn  = "$4\r\nMGET\r\n"
	aIn     = "$1\r\na\r\n"
	twice12 = "*3\r\n$12\r\n" + long(12) + "\r\n$12\r\n" + long(12) + "\r\n" // 42 bytes
	partial = "partial"
)

// Each stream is read whole, byte by byte, and cut in two at each place.
func TestReader(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits Limits
		in     string
		want   [][]string
		err    string // without "Protocol error: "; partial means no error, but part of a command is held
	}{
		{"nothing", tiny, "", nil, ""},
		{"one", tiny, pingIn, cmds(ping), ""},
		{"pipeline", tiny, pingIn + "*2\r\n$3\r\nDEL\r\n$0\r\n\r\n" + pingIn, cmds(ping, []string{"DEL", ""}, ping), ""},
		{"CRLF and NUL are data", tiny, "*2\r\n$4\r\n\r\n\x00\n\r\n$1\r\n\xff\r\n", cmds([]string{"\r\n\x00\n", "\xff"}), ""},
		{"empty commands are skipped", tiny, "*0\r\n\r\n\n*-1\r\n   \t\r\n" + pingIn + "*-2\r\n", cmds(ping), ""},
		{"the empty argument alone", tiny, "*1\r\n$0\r\n\r\n", cmds([]string{""}), ""},
		{"lengths of one, two, three digits", normal, "*3\r\n$9\r\n" + long(9) + "\r\n$99\r\n" + long(99) + "\r\n$100\r\n" + long(100) + "\r\n", cmds([]string{long(9), long(99), long(100)}), ""},

		{"most arguments", tiny, "*3\r\n" + aIn + aIn + aIn, cmds([]string{"a", "a", "a"}), ""},
		{"one argument too many", tiny, pingIn + "*4\r\n" + aIn + aIn + aIn + aIn, cmds(ping), "invalid multibulk length"},
		{"a wide command", tiny, "*5\r\n" + mgetIn + aIn + aIn + aIn + aIn, cmds([]string{"MGET", "a", "a", "a", "a"}), ""},
		{"one too many of a wide command", tiny, "*6\r\n", nil, "invalid multibulk length"},
		{"a wide count waits for the name", tiny, "*4\r\n$4\r\nMGET\r", nil, partial},
		{"most bytes", tiny, "*2\r\n" + aIn + "$12\r\n" + long(12) + "\r\n", cmds([]string{"a", long(12)}), ""},
		{"one byte too many", tiny, "*2\r\n" + aIn + "$13\r\n", nil, "invalid bulk length"},
		{"before AUTH, arguments", before, "*11\r\n", nil, "unauthenticated multibulk length"},
		{"before AUTH, no command is wide", Limits{Args: 1, WideArgs: 5, Bulk: 9, Inline: 9, Query: 99, Unauthenticated: true}, "*2\r\n" + mgetIn, nil, "unauthenticated multibulk length"},
		{"before AUTH, bytes", before, "*1\r\n$16385\r\n", nil, "unauthenticated bulk length"},
		{"before AUTH, a negative length", before, "*1\r\n$-1\r\n", nil, "invalid bulk length"},

		{"longest query", tiny, twice12 + "$0\r\n\r\n", cmds([]string{long(12), long(12), ""}), ""},
		{"query one too long", tiny, pingIn + twice12 + aIn, cmds(ping), "too big query"},
		{"longest query, incomplete", tiny, twice12 + "$1\r\na\r", nil, partial},
		{"query one too long, incomplete", tiny, twice12 + "$000000", nil, "too big query"},
		{"empty commands are no query", tiny, strings.Repeat("*0\r\n\r\n", 20) + pingIn, cmds(ping), ""},

		{"not a bulk", tiny, "*1\r\nPING\r\n", nil, "expected '$', got 'P'"},
		{"integer as argument", tiny, "*1\r\n:1\r\n", nil, "expected '$', got ':'"},
		{"map as argument", tiny, "*1\r\n%1\r\n", nil, "expected '$', got '%'"},
		{"null as argument", tiny, "*1\r\n_\r\n", nil, "expected '$', got '_'"},
		{"boolean as argument", tiny, "*1\r\n#t\r\n", nil, "expected '$', got '#'"},
		{"array as argument", tiny, "*1\r\n*1\r\n", nil, "expected '$', got '*'"},
		{"NUL as argument", tiny, "*1\r\n\x00", nil, `expected '$', got '\x00'`},
		{"line end as argument", tiny, "*1\r\n\r\n", nil, `expected '$', got '\r'`},
		{"byte 255 as argument", tiny, "*1\r\n\xff", nil, `expected '$', got '\xff'`},
		{"second argument", tiny, "*2\r\n" + aIn + "a", nil, "expected '$', got 'a'"},

		{"LF after count", tiny, pingIn + "*1\n" + aIn, cmds(ping), "expected CRLF after multibulk length"},
		{"CR after count", tiny, "*1\r" + aIn, nil, "expected CRLF after multibulk length"},
		{"LF after length", tiny, "*1\r\n$1\na\n", nil, "expected CRLF after bulk length"},
		{"CR after length", tiny, "*1\r\n$1\ra\r", nil, "expected CRLF after bulk length"},
		{"LF after bulk", tiny, "*2\r\n$1\r\na\n$1", nil, "expected CRLF after bulk"},
		{"CR after bulk", tiny, "*2\r\n$1\r\na\r$1", nil, "expected CRLF after bulk"},
		{"a longer bulk than told", tiny, "*1\r\n$1\r\nab\r\n", nil, "expected CRLF after bulk"},
		{"a count line as long as may be", tiny, "*" + strings.Repeat("1", 23) + "\r\n", nil, "invalid multibulk length"},
		{"a count line too long", tiny, "*" + strings.Repeat("1", 24) + "\r\n", nil, "too big mbulk count string"},
		{"a count line without end", tiny, "*" + strings.Repeat("x", 24), nil, "too big mbulk count string"},
		{"a length line as long as may be", tiny, "*1\r\n$" + strings.Repeat("0", 23) + "\r\n", nil, "invalid bulk length"},
		{"a length line too long", tiny, "*1\r\n$" + strings.Repeat("0", 24) + "\r\n", nil, "too big bulk count string"},

		{"half a count", tiny, pingIn + "*", cmds(ping), partial},
		{"count without LF", tiny, "*1\r", nil, partial},
		{"half a bulk", tiny, "*1\r\n$4\r\nPIN", nil, partial},
		{"bulk without CRLF", tiny, "*1\r\n$4\r\nPING", nil, partial},
		{"bulk without LF", tiny, "*1\r\n$4\r\nPING\r", nil, partial},
		{"half an inline command", tiny, "PING", nil, partial},

		{"inline", tiny, "PING\r\nGET a\n" + pingIn + " a\tb  c \r\n", cmds(ping, []string{"GET", "a"}, ping, []string{"a", "b", "c"}), ""},
		{"inline, NUL", tiny, "a\x00b \x00\r\n", cmds([]string{"a\x00b", "\x00"}), ""},
		{"inline, CR parts words", tiny, "a\rb\r\r\n", cmds([]string{"a", "b"}), ""},
		{"inline, most arguments", tiny, "a b c\n", cmds([]string{"a", "b", "c"}), ""},
		{"inline, one argument too many", tiny, "a b c d\n", nil, "too big inline request"},
		{"inline, wide", tiny, "mget b c d e\n", cmds([]string{"mget", "b", "c", "d", "e"}), ""},
		{"inline, one too many of a wide command", tiny, "mget b c d e f\n", nil, "too big inline request"},
		{"inline, before AUTH, wide", Limits{Args: 1, WideArgs: 5, Bulk: 9, Inline: 9, Query: 99, Unauthenticated: true}, "mget a\n", nil, "too big inline request"},
		{"inline, before AUTH", before, "a b c d e f g h i j k\n", nil, "too big inline request"},
		{"inline, longest", tiny, long(24) + "\n" + long(23) + "\r\n", cmds([]string{long(24)}, []string{long(23)}), ""},
		{"inline, one byte too long", tiny, long(24) + "\r\n", nil, "too big inline request"},
		{"inline, without end", tiny, pingIn + long(25), cmds(ping), "too big inline request"},
		{"inline, no limit of a bulk", tiny, "get " + long(13) + "\n", cmds([]string{"get", long(13)}), ""},
		{"inline, unbalanced", tiny, "PING\nPING \"a\nPING\n", cmds(ping), "unbalanced quotes in request"},
		{"a length alone is inline", tiny, "$4\r\nPING\r\n", cmds([]string{"$4"}, ping), ""},
		{"a web browser", tiny, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", cmds([]string{"GET", "/", "HTTP/1.1"}, []string{"Host:", "a"}), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := outcome{commands: tt.want, partial: tt.err == partial}
			if tt.err != "" && tt.err != partial {
				want.err = "Protocol error: " + tt.err
			}
			if got := model(tt.in, tt.limits, wide); !got.equal(want) {
				t.Fatalf("the model reads %q as\n%v, want\n%v", tt.in, got, want)
			}
			in := []byte(tt.in)
			check := func(how string, pieces ...[]byte) {
				t.Helper()
				r := &Reader{Limits: tt.limits, Wide: wide}
				if got := read(t, r, pieces...); !got.equal(want) {
					t.Fatalf("%q %s:\n%v, want\n%v", tt.in, how, got, want)
				}
			}
			check("in one piece", in)
			check("byte by byte", bytewise(in)...)
			for i := range in {
				check(fmt.Sprintf("cut at %d", i), in[:i], in[i:])
			}
		})
	}
}

// Every length at and around the limits of the integers that might hold it.
func TestIntegerBounds(t *testing.T) {
	const huge = 1<<63 - 1
	open := Limits{Args: huge, WideArgs: huge, Bulk: huge, Inline: 64, Query: huge}
	const (
		skipped = "skipped"
		waits   = "waits"
		bad     = "invalid"
		unauth  = "unauthenticated"
	)
	for _, tt := range []struct {
		number                   string
		count, length            string // with the usual limits
		countBefore, lengthBefor string // before AUTH
		countOpen, lengthOpen    string // with every limit at the largest int
	}{
		{"0", skipped, waits, skipped, waits, skipped, waits},
		{"1", waits, waits, waits, waits, waits, waits},
		{"-1", skipped, bad, skipped, bad, skipped, bad},
		{"-2", skipped, bad, skipped, bad, skipped, bad},
		{"10", waits, waits, waits, waits, waits, waits},
		{"11", waits, waits, unauth, waits, waits, waits},
		{"16384", waits, waits, unauth, waits, waits, waits},
		{"16385", waits, waits, unauth, unauth, waits, waits},
		{"65536", waits, waits, unauth, unauth, waits, waits},
		{"65537", bad, bad, unauth, unauth, waits, waits},
		{"1048576", bad, bad, unauth, unauth, waits, waits},
		{"2147483647", bad, bad, unauth, unauth, waits, waits},
		{"2147483648", bad, bad, unauth, unauth, waits, waits},
		{"2147483649", bad, bad, unauth, unauth, waits, waits},
		{"4294967295", bad, bad, unauth, unauth, waits, waits},
		{"4294967296", bad, bad, unauth, unauth, waits, waits},
		{"4294967297", bad, bad, unauth, unauth, waits, waits},
		{"999999999999999999", bad, bad, unauth, unauth, waits, waits},
		{"1000000000000000000", bad, bad, unauth, unauth, waits, waits},
		{"9223372036854775806", bad, bad, unauth, unauth, waits, waits},
		{"9223372036854775807", bad, bad, unauth, unauth, waits, waits},
		{"9223372036854775808", bad, bad, bad, bad, bad, bad},
		{"18446744073709551615", bad, bad, bad, bad, bad, bad},
		{"18446744073709551616", bad, bad, bad, bad, bad, bad},
		{"18446744073709551617", bad, bad, bad, bad, bad, bad},
		{"1000000000000000000000000000000", bad, bad, bad, bad, bad, bad},
		{"-2147483649", skipped, bad, skipped, bad, skipped, bad},
		{"-9223372036854775808", skipped, bad, skipped, bad, skipped, bad},
		{"-9223372036854775809", bad, bad, bad, bad, bad, bad},
		{"-18446744073709551615", bad, bad, bad, bad, bad, bad},
		{"", bad, bad, bad, bad, bad, bad},
		{"-", bad, bad, bad, bad, bad, bad},
		{"-0", bad, bad, bad, bad, bad, bad},
		{"+1", bad, bad, bad, bad, bad, bad},
		{"01", bad, bad, bad, bad, bad, bad},
		{"001", bad, bad, bad, bad, bad, bad},
		{"00", bad, bad, bad, bad, bad, bad},
		{"--1", bad, bad, bad, bad, bad, bad},
		{" 1", bad, bad, bad, bad, bad, bad},
		{"1 ", bad, bad, bad, bad, bad, bad},
		{"1.0", bad, bad, bad, bad, bad, bad},
		{"1e1", bad, bad, bad, bad, bad, bad},
		{"0x1", bad, bad, bad, bad, bad, bad},
		{"1\x00", bad, bad, bad, bad, bad, bad},
		{"\xb1", bad, bad, bad, bad, bad, bad},
	} {
		check := func(limits Limits, before, name, want string) {
			t.Helper()
			in := []byte(before + tt.number + "\r\n")
			var wanted outcome
			switch want {
			case waits:
				wanted.partial = true
			case skipped:
			default:
				wanted.err = "Protocol error: " + want + " " + name + " length"
			}
			for _, pieces := range [][][]byte{{in}, bytewise(in)} {
				r := &Reader{Limits: limits, Wide: func([]byte) bool { return true }}
				if got := read(t, r, pieces...); !got.equal(wanted) {
					t.Errorf("%q with %+v: %v, want %v", in, limits, got, wanted)
				}
			}
		}
		check(normal, "*", "multibulk", tt.count)
		check(before, "*", "multibulk", tt.countBefore)
		check(open, "*", "multibulk", tt.countOpen)
		for _, header := range []string{"*1\r\n$", "*2\r\n$1\r\na\r\n$", "*9\r\n$"} {
			check(normal, header, "bulk", tt.length)
			check(before, header, "bulk", tt.lengthBefor)
			check(open, header, "bulk", tt.lengthOpen)
		}
	}
}

// A number that is right for the header must be wrong in the fast path, too, since the whole command is
// there.
func TestNumbersOfWholeCommands(t *testing.T) {
	for in, want := range map[string]string{
		"*01\r\n$4\r\nPING\r\n":                    "invalid multibulk length",
		"*1\r\n$04\r\nPING\r\n":                    "invalid bulk length",
		"*1\r\n$004\r\nPING\r\n":                   "invalid bulk length",
		"*1\r\n$00\r\n\r\n":                        "invalid bulk length",
		"*1\r\n$-0\r\n\r\n":                        "invalid bulk length",
		"*1\r\n$+4\r\nPING\r\n":                    "invalid bulk length",
		"*1\r\n$4:\r\nPING\r\n":                    "invalid bulk length",
		"*1\r\n$0:\r\nPING PING \r\n":              "invalid bulk length",
		"*1\r\n$/\r\nPING\r\n":                     "invalid bulk length",
		"*1\r\n$\r\nPING\r\n":                      "invalid bulk length",
		"*\r\n$4\r\nPING\r\n":                      "invalid multibulk length",
		"*18446744073709551617\r\n$4\r\nPING\r\n":  "invalid multibulk length",
		"*1\r\n$18446744073709551620\r\nPING\r\n":  "invalid bulk length",
		"*1\r\n$9223372036854775807\r\nPING\r\n":   "invalid bulk length",
		"*1\r\n$4\n\nPING\r\n":                     "expected CRLF after bulk length",
		"*1\r\n$4\r\rPING\r\n":                     "expected CRLF after bulk length",
		"*1\r\n$12\r\rPING\r\nPING\r\n":            "expected CRLF after bulk length",
		"*1\r\n$4\r\nPING\n\r":                     "expected CRLF after bulk",
		"*1\r\n#4\r\nPING\r\n":                     "expected '$', got '#'",
		"*2\r\n$4\r\nECHO\r\n$65537\r\n" + long(9): "invalid bulk length",
	} {
		got := read(t, &Reader{Limits: normal}, []byte(in))
		if got.err != "Protocol error: "+want || len(got.commands) > 0 {
			t.Errorf("%q: %v, want %s", in, got, want)
		}
	}
}
