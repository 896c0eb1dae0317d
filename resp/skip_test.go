package resp

import (
	"strconv"
	"strings"
	"testing"
)

// TestSkippedCommands checks that a command which is too large leaves the stream as it is, whatever it has.
func TestSkippedCommands(t *testing.T) {
	ping := "*1\r\n$4\r\nPING\r\n"
	big := func(n int) string { return "$" + strconv.Itoa(n) + "\r\n" + strings.Repeat("$*\r\n", n)[:n] + "\r\n" }
	args := func(n int) string { return "*" + strconv.Itoa(n) + "\r\n" + strings.Repeat("$1\r\na\r\n", n) }
	for name, tt := range map[string]struct {
		in     string
		skips  string // TooLong or TooMany; empty: nothing is skipped
		err    string // that ends the stream
		limits Limits
	}{
		"as long as may be":          {"*2\r\n$1\r\na\r\n" + big(12), "", "", lax},
		"one byte too long":          {"*2\r\n$1\r\na\r\n" + big(13), TooLong, "", lax},
		"longer than Query":          {"*2\r\n$1\r\na\r\n" + big(90), TooLong, "", lax},
		"too long to be skipped":     {"*2\r\n$1\r\na\r\n" + big(91), "", errBulk, lax},
		"a name that is too long":    {"*2\r\n" + big(20) + big(20), TooLong, "", lax},
		"many that are too long":     {"*3\r\n" + big(80) + big(80) + big(90), TooLong, "", lax},
		"one too many":               {args(4), TooMany, "", lax},
		"one too many of a wide one": {"*6\r\n$4\r\nMGET\r\n" + args(5)[4:], TooMany, "", lax},
		"many more than fit":         {args(3000), TooMany, "", lax},
		"too many, and too long":     {"*4\r\n" + big(5) + big(70) + big(90) + big(0), TooMany, "", lax},
		"more than can be skipped":   {"*1048577\r\n", "", errArgs, lax},
		"a wrong end":                {"*2\r\n$1\r\na\r\n$13\r\n0123456789abcdef", "", errBulkEnd, lax},
		"no argument after it":       {"*2\r\n" + big(13) + "PING\r\n", "", "Protocol error: expected '$', got 'P'", lax},
		"a longer one after it":      {"*2\r\n" + big(13) + "$91\r\n", "", errBulk, lax},
		"a negative one after it":    {"*2\r\n" + big(13) + "$-1\r\n", "", errBulk, lax},
		"before AUTH": {
			"*2\r\n$1\r\na\r\n" + big(13), "", errBulkUnauth,
			Limits{Args: 3, WideArgs: 5, Bulk: 12, Inline: 24, Query: 48, Skip: 90, Unauthenticated: true},
		},
		"many before AUTH": {
			args(4), "", errArgsUnauth,
			Limits{Args: 3, WideArgs: 5, Bulk: 12, Inline: 24, Query: 48, Skip: 90, Unauthenticated: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := []byte(ping + tt.in + ping)
			for _, pieces := range [][][]byte{{in}, bytewise(in), {in[:len(ping)+9], in[len(ping)+9:]}} {
				got := read(t, &Reader{Limits: tt.limits, Wide: wide}, pieces...)
				want := outcome{commands: [][]string{{"PING"}}, err: tt.err}
				switch {
				case tt.skips != "":
					want.commands = append(want.commands, []string{tt.skips}, []string{"PING"})
				case tt.err == "":
					want.commands = append(want.commands, []string{"a", strings.Repeat("$*\r\n", 3)[:12]}, []string{"PING"})
				}
				if !got.equal(want) {
					t.Errorf("in %d pieces: %v, want %v", len(pieces), got, want)
				}
			}
		})
	}
}

// What is skipped takes no memory, however it comes.
func TestSkippedBytesAreNotHeld(t *testing.T) {
	const n = 8 << 20
	limits := Limits{Args: 10, WideArgs: 10, Bulk: 64 << 10, Inline: 64 << 10, Query: 1 << 20, Skip: 16 << 20}
	for _, size := range []int{100, 4096, 64 << 10} {
		r := &Reader{Limits: limits}
		in := []byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$" + strconv.Itoa(n) + "\r\n" + strings.Repeat("x", n) + "\r\n*1\r\n$4\r\nPING\r\n")
		commands := 0
		used := allocated(func() {
			for len(in) > 0 {
				k := min(size, len(in))
				commands += round(t, r, in[:k])
				if in = in[k:]; r.Memory() > 64<<10 || r.Buffered() > 64<<10 || len(in) > 0 && !r.Partial() {
					t.Fatalf("%d bytes held, %d of memory, partial %v", r.Buffered(), r.Memory(), r.Partial())
				}
			}
		})
		if commands != 2 || used > 64<<10 {
			t.Errorf("in pieces of %d: %d commands, %d bytes allocated", size, commands, used)
		}
	}
}

// A command that was skipped in part cannot be put behind others again.
func TestPrependBehindASkippedCommand(t *testing.T) {
	r := &Reader{Limits: lax}
	if round(t, r, []byte("*2\r\n$3\r\nGET\r\n$20\r\nabc")) != 0 {
		t.Fatal("a command")
	}
	if !r.Prepend(nil) || r.Prepend(command("PING")) {
		t.Error("Prepend")
	}
	if got := read(t, r, []byte("defghijklmnopqrst\r\n"), command("PING")); !got.equal(outcome{commands: [][]string{{TooLong}, {"PING"}}}) {
		t.Errorf("%v", got)
	}
}
