package resp

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// Any stream, cut in any way, gives what the model reads from it.
func TestReaderAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		stream := streams().Draw(rt, "stream")
		limits := someLimits().Draw(rt, "limits")
		var pieces [][]byte
		for rest := stream; len(rest) > 0; {
			n := rapid.IntRange(0, min(len(rest), 40)).Draw(rt, "piece")
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		want := model(string(stream), limits, wide)
		if got := read(t, &Reader{Limits: limits, Wide: wide}, pieces...); !got.equal(want) {
			rt.Fatalf("%q\n%v, want\n%v", pieces, got, want)
		}
	})
}

// Rounds may have any form: several Feeds, commands left for a later round, Keep at any time. Arguments do
// not change until Keep or Feed.
func TestRoundsOfAnyShape(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		stream := streams().Draw(rt, "stream")
		limits := someLimits().Draw(rt, "limits")
		want := model(string(stream), limits, wide)
		r := &Reader{Limits: limits, Wide: wide}

		var got outcome
		var given [][]byte // the arguments of this round
		var copies []string
		var lent [][]byte // what the reader may still use
		check := func() {
			for i, g := range given {
				if string(g) != copies[i] {
					rt.Fatalf("an argument changed from %q to %q", copies[i], g)
				}
			}
			given, copies = nil, nil
		}
		reuse := func() {
			for _, b := range lent {
				for i := range b {
					b[i] = 0xAA
				}
			}
			lent = nil
		}
		for fed, done := 0, false; !done; {
			switch rapid.IntRange(0, 3).Draw(rt, "action") {
			case 0:
				n := rapid.IntRange(0, len(stream)-fed).Draw(rt, "n")
				b := append([]byte(nil), stream[fed:fed+n]...)
				fed += n
				check()
				r.Feed(b)
				reuse()
				lent = append(lent, b)
			case 1:
				check()
				r.Keep()
				reuse()
			default:
				args, err := r.Next()
				switch {
				case err != nil:
					got.err, done = err.Error(), true
				case args == nil:
					got.partial, done = r.Partial(), fed == len(stream)
				default:
					got.commands = append(got.commands, texts(args))
					given = append(given, args...)
					copies = append(copies, texts(args)...)
				}
			}
		}
		got.partial = got.partial && got.err == ""
		if !got.equal(want) {
			rt.Fatalf("%q\n%v, want\n%v", stream, got, want)
		}
	})
}

// Limits may change at any time, even in the middle of a command.
func TestLimitsChangeAtAnyTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		stream := streams().Draw(rt, "stream")
		r := &Reader{Wide: wide}
		for len(stream) > 0 {
			r.Limits = someLimits().Draw(rt, "limits")
			n := rapid.IntRange(1, min(len(stream), 40)).Draw(rt, "piece")
			r.Feed(stream[:n])
			if _, err := r.Next(); err != nil {
				return
			}
			r.Keep()
			stream = stream[n:]
		}
	})
}

// After AUTH the higher limits apply to the next command of the same pipeline, and not earlier.
func TestLimitsRaisedInAPipeline(t *testing.T) {
	auth := command("AUTH", "secret")
	big := command("MGET", long(20000), "3", "4", "5", "6", "7", "8", "9", "10", "11", "12")
	in := append(auth, big...)
	for _, raise := range []bool{true, false} {
		for cut := range len(auth) + 20 {
			r := &Reader{Limits: before}
			var n int
			var err error
			for _, piece := range [][]byte{in[:cut], in[cut:]} {
				r.Feed(piece)
				for {
					var args [][]byte
					if args, err = r.Next(); args == nil {
						break
					}
					n++
					if raise {
						r.Limits = normal
					}
				}
				r.Keep()
			}
			switch {
			case raise && (n != 2 || err != nil):
				t.Fatalf("cut at %d, limits raised: %d commands, %v", cut, n, err)
			case !raise && (n != 1 || err == nil || err.Error() != errArgsUnauth):
				t.Fatalf("cut at %d, limits not raised: %d commands, %v", cut, n, err)
			}
		}
	}
}

// An error is final, and the reader holds nothing after it.
func TestErrorIsFinal(t *testing.T) {
	r := &Reader{Limits: tiny}
	r.Feed([]byte("*1\r\n$4\r\nPI"))
	_, _ = r.Next()
	r.Keep()
	r.Feed([]byte("NGxx" + pingIn))
	_, first := r.Next()
	if first == nil {
		t.Fatal("no error")
	}
	for range 2 {
		if r.Buffered() != 0 || r.Memory() != 0 || r.Partial() {
			t.Fatalf("after the error: %d bytes held, %d allocated, partial %v", r.Buffered(), r.Memory(), r.Partial())
		}
		r.Keep()
		r.Feed([]byte(pingIn))
		if args, err := r.Next(); args != nil || err == nil || err.Error() != first.Error() {
			t.Fatalf("after %v: %q, %v", first, args, err)
		}
	}
}

// A Reader without limits accepts nothing and does not break.
func TestNoLimits(t *testing.T) {
	for _, in := range []string{pingIn, "PING\r\n", "*", "\n"} {
		if got := read(t, &Reader{}, []byte(in)); got.err == "" {
			t.Errorf("%q: %v", in, got)
		}
	}
}

// streams generates almost valid streams: commands, broken commands, pieces of syntax, and wrong bytes in
// between.
func streams() *rapid.Generator[[]byte] {
	word := rapid.OneOf(
		rapid.SampledFrom([]string{"", "a", "MGET", "mget", "\r\n", "\x00", "$1\r\na\r\n", "*1\r\n", `"`}),
		rapid.StringOfN(rapid.RuneFrom([]rune("ab\r\n*$1 \"")), 0, 14, -1),
	)
	good := rapid.Custom(func(t *rapid.T) string {
		return string(command(rapid.SliceOfN(word, 0, 6).Draw(t, "args")...))
	})
	number := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(-2, 14).Draw(t, "n")) }),
		rapid.SampledFrom([]string{"", "-", "+1", "01", "1048576", "9223372036854775808", "18446744073709551617", "00000000000000000000000001"}),
	)
	end := rapid.SampledFrom([]string{"\r\n", "\r\n", "\r\n", "\r\n", "\r", "\n", "", "\r\r\n"})
	header := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"*", "$", ":", "%"}).Draw(t, "kind") + number.Draw(t, "number") + end.Draw(t, "end")
	})
	inline := rapid.Custom(func(t *rapid.T) string {
		return rapid.StringOfN(rapid.RuneFrom([]rune("abn \t\v\"'\\x4\x00\r")), 0, 30, -1).Draw(t, "line") + end.Draw(t, "end")
	})
	raw := rapid.StringOfN(rapid.RuneFrom([]rune("*$12\r\na \"")), 0, 12, -1)
	part := rapid.OneOf(good, good, good, header, header, inline, raw)
	return rapid.Custom(func(t *rapid.T) []byte {
		var b []byte
		for _, p := range rapid.SliceOfN(part, 0, 8).Draw(t, "parts") {
			b = append(b, p...)
		}
		if len(b) > 0 && rapid.IntRange(0, 3).Draw(t, "spoil") == 0 {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		return b
	})
}

func someLimits() *rapid.Generator[Limits] {
	return rapid.Custom(func(t *rapid.T) Limits {
		n := func(most int) int { return rapid.IntRange(1, most).Draw(t, "limit") }
		if rapid.IntRange(0, 3).Draw(t, "limits") == 0 {
			return normal
		}
		return Limits{Args: n(5), WideArgs: n(8), Bulk: n(16), Inline: n(40), Query: n(100), Skip: n(60) * n(2) % 60, Unauthenticated: rapid.Bool().Draw(t, "unauthenticated")}
	})
}
