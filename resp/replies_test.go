package resp

import (
	"bufio"
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// anyReply draws a reply, or a push in front of one.
func anyReply(t *rapid.T, b []byte, depth int) []byte {
	kinds := []string{"+OK\r\n", "-ERR no\r\n", ":-5\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(123\r\n", "$0\r\n\r\n", "*0\r\n", "=5\r\ntxt:\n\r\n", "!3\r\nE\r\n\r\n", "+" + string(bytes.Repeat([]byte("x"), 40)) + "\r\n"}
	switch k := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case k < 3 || depth > 3:
		return append(b, rapid.SampledFrom(kinds).Draw(t, "plain")...)
	case k == 3:
		return AppendBulk(b, rapid.SliceOfN(rapid.SampledFrom([]byte("ab\r\n$*:")), 0, 12).Draw(t, "text"))
	case k == 4:
		b = append(b, "|1\r\n+a\r\n:1\r\n"...)
		return anyReply(t, b, depth+1)
	}
	n := rapid.IntRange(0, 3).Draw(t, "n")
	kind := rapid.SampledFrom([]byte("*~%")).Draw(t, "aggregate")
	b = append(b, kind, '0'+byte(n), '\r', '\n')
	if kind == '%' {
		n *= 2
	}
	for range n {
		b = anyReply(t, b, depth+1)
	}
	return b
}

// The scanner finds the ends that ReadReply finds, however the stream is cut.
func TestReplyScanner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b []byte
		var ends []int
		for range rapid.IntRange(1, 5).Draw(t, "replies") {
			if rapid.IntRange(0, 4).Draw(t, "push") == 0 {
				b = append(b, ">2\r\n+invalidate\r\n*1\r\n$1\r\na\r\n"...)
			}
			before := len(b)
			b = anyReply(t, b, 0)
			if _, err := ReadReply(bufio.NewReader(bytes.NewReader(b[before:])), len(b)); err != nil {
				t.Fatalf("%q: %v", b[before:], err)
			}
			ends = append(ends, len(b))
		}
		var s ReplyScanner
		var found []int
		for at := 0; at < len(b); {
			piece := b[at:min(len(b), at+rapid.SampledFrom([]int{1, 3, 20, 100, 1000}).Draw(t, "piece"))]
			n, whole, err := s.Scan(piece)
			if err != nil || n == 0 {
				t.Fatalf("%q: at %d: %d, %v", b, at, n, err)
			}
			at += n
			if whole {
				found = append(found, at)
			}
			if s.Within() == (len(found) > 0 && found[len(found)-1] == at) && !bytes.HasSuffix(b[:at], []byte("$1\r\na\r\n")) {
				t.Fatalf("%q: Within is %v at %d", b, s.Within(), at)
			}
		}
		if len(found) != len(ends) {
			t.Fatalf("%q: ends at %v, want %v", b, found, ends)
		}
		for i := range ends {
			if found[i] != ends[i] {
				t.Fatalf("%q: ends at %v, want %v", b, found, ends)
			}
		}
	})
}

func TestReplyScannerRefuses(t *testing.T) {
	for _, in := range []string{"x\r\n", "\r\n", "$x\r\n", "*-2\r\n", "$99999999999999999999\r\n", "*1234567890123456789012345\r\n", string(bytes.Repeat([]byte("*1\r\n"), maxReplyDepth+1))} {
		var s ReplyScanner
		if _, _, err := s.Scan([]byte(in)); err == nil {
			t.Errorf("%q is read", in)
		}
	}
}

// What is put back is read again, before what was not read.
func TestPrepend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []byte
		for i := range rapid.IntRange(1, 6).Draw(t, "commands") {
			all = AppendArray(all, 2)
			all = AppendBulkString(all, "PING")
			all = AppendBulk(all, bytes.Repeat([]byte{'a' + byte(i)}, rapid.IntRange(0, 30).Draw(t, "length")))
		}
		r := Reader{Limits: Limits{Args: 10, WideArgs: 10, Bulk: 100, Inline: 100, Query: 10_000}}
		var got, back []byte
		for at := 0; at < len(all) || r.Buffered() > 0; {
			to := min(len(all), at+rapid.IntRange(1, 60).Draw(t, "piece"))
			r.Feed(all[at:to])
			at = to
			for {
				args, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				if args == nil {
					break
				}
				b := AppendArray(nil, len(args))
				for _, a := range args {
					b = AppendBulk(b, a)
				}
				if len(back) > 0 || rapid.IntRange(0, 3).Draw(t, "back") == 0 {
					back = append(back, b...)
				} else {
					got = append(got, b...)
				}
			}
			r.Keep()
			if !r.Prepend(back) {
				t.Fatal("not put back")
			}
			back = nil
		}
		if !bytes.Equal(got, all) {
			t.Fatalf("%q, want %q", got, all)
		}
	})
	r := Reader{Limits: Limits{Args: 10, WideArgs: 10, Bulk: 100, Inline: 100, Query: 10_000}}
	r.Feed([]byte("*x\r\n"))
	if _, err := r.Next(); err == nil || r.Prepend([]byte("PING\r\n")) {
		t.Error("a stream that cannot be read takes more")
	}
}
