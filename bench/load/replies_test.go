package load

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"limitdb/resp"
)

func TestReplies(t *testing.T) {
	for _, c := range []struct {
		name, stream          string
		done, errors, limited uint64
		firstError            string
	}{
		{"nothing", "", 0, 0, 0, ""},
		{"simple", "+OK\r\n+\r\n", 2, 0, 0, ""},
		{"a granted decision", granted, 1, 0, 0, ""},
		{"a denied decision", denied, 1, 0, 1, ""},
		{"a denied decision with a name", "*6\r\n:1\r\n:5\r\n:0\r\n:9\r\n:9\r\n$1\r\nx\r\n", 1, 0, 1, ""},
		{"an array of another meaning", "*2\r\n:1\r\n:5\r\n", 1, 0, 0, ""},
		{"1 is not the first", "*5\r\n:0\r\n:1\r\n:1\r\n:1\r\n:1\r\n", 1, 0, 0, ""},
		{"1 in an array within", "*5\r\n*1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", 1, 0, 0, ""},
		{"11 is not 1", "*5\r\n:11\r\n:1\r\n:1\r\n:1\r\n:1\r\n", 1, 0, 0, ""},
		{"errors", "-ERR a\r\n+OK\r\n-ERR b\r\n", 3, 2, 0, `"ERR a"`},
		{"an error within", "*2\r\n-ERR a\r\n:1\r\n", 1, 0, 0, ""},
		{"a bulk error", "!5\r\nERR a\r\n", 1, 1, 0, `""`},
		{"bulks", "$0\r\n\r\n$3\r\na\nb\r\n$-1\r\n", 3, 0, 0, ""},
		{"bulks that look like replies", "$8\r\n-ERR x\r\n\r\n", 1, 0, 0, ""},
		{"empty and null arrays", "*0\r\n*-1\r\n", 2, 0, 0, ""},
		{"nested", "*2\r\n*2\r\n:1\r\n*0\r\n$1\r\na\r\n", 1, 0, 0, ""},
		{"RESP3", "_\r\n#t\r\n,1.5\r\n(123\r\n=7\r\ntxt:abc\r\n~1\r\n:1\r\n%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", 7, 0, 0, ""},
		{"an attribute before a reply", "|1\r\n+a\r\n:1\r\n+OK\r\n", 1, 0, 0, ""},
		{"one that is cut", "+OK\r\n*2\r\n:1\r\n", 1, 0, 0, ""},
		{"LF alone", "+OK\n:1\n", 2, 0, 0, ""},
	} {
		for _, step := range []int{1, 2, 3, 1 << 20} {
			var r replies
			for b := []byte(c.stream); len(b) > 0; {
				n := min(step, len(b))
				if err := r.feed(b[:n]); err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				b = b[n:]
			}
			if r.done != c.done || r.errors != c.errors || r.limited != c.limited || r.firstError != c.firstError {
				t.Errorf("%s, %d bytes at a time: %d done, %d errors, %d limited, %s", c.name, step, r.done, r.errors, r.limited, r.firstError)
			}
		}
	}
}

func TestRepliesThatAreNone(t *testing.T) {
	for _, stream := range []string{
		"\r\n", "hello\r\n", "*x\r\n", "*\r\n", "$-2\r\n", "$536870913\r\n", "*9223372036854775807\r\n",
		"%99999999999999999999\r\n", "=\r\n", ">2\r\n", "|-9\r\n", "+" + strings.Repeat("a", 70_000),
	} {
		var r replies
		if err := r.feed([]byte(stream)); err == nil {
			t.Errorf("%.40q: no error", stream)
		}
	}
}

// reply generates a reply, as text.
func reply(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kinds := []string{"+OK\r\n", ":1\r\n", ":-42\r\n", "-ERR x\r\n", "$-1\r\n", "$0\r\n\r\n", "$4\r\n\r\n:1\r\n", "_\r\n", "#t\r\n", ",1\r\n", "*-1\r\n"}
		if depth > 0 {
			kinds = append(kinds, "*", "*", "~", "%")
		}
		k := rapid.SampledFrom(kinds).Draw(t, "kind")
		if len(k) > 1 {
			return k
		}
		n := rapid.IntRange(0, 6).Draw(t, "elements")
		b := string(resp.AppendInt([]byte(k), int64(n))[len(k)+1:])
		if k == "%" {
			n *= 2
		}
		for range n {
			b += reply(depth-1).Draw(t, "element")
		}
		return k + b
	})
}

// The package's reader of whole replies is the model.
func TestRepliesAgainstReadReply(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := []byte(strings.Join(rapid.SliceOfN(reply(3), 0, 8).Draw(t, "replies"), ""))
		var done, failed, limited uint64
		for br := bufio.NewReader(bytes.NewReader(stream)); ; {
			v, err := resp.ReadReply(br, 1<<20)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			done++
			if v.Err() != nil {
				failed++
			}
			if v.Kind == '*' && len(v.Elems) >= 5 && v.Elems[0].Kind == ':' && v.Elems[0].Int == 1 {
				limited++
			}
		}
		var r replies
		for b := stream; len(b) > 0; {
			n := rapid.IntRange(1, len(b)).Draw(t, "piece")
			if err := r.feed(b[:n]); err != nil {
				t.Fatal(err)
			}
			b = b[n:]
		}
		if r.done != done || r.errors != failed || r.limited != limited || r.pending != 0 {
			t.Fatalf("%q: %d done, %d errors, %d limited, want %d, %d, %d", stream, r.done, r.errors, r.limited, done, failed, limited)
		}
	})
}

// Whatever a server sends, nothing breaks, and it does not matter where the pieces end.
func FuzzReplies(f *testing.F) {
	for _, s := range []string{granted, denied, "-ERR x\r\n$3\r\nabc\r\n", "%1\r\n+a\r\n|1\r\n:1\r\n:2\r\n_\r\n", "*3\r\n$-1\r\n*-1\r\n!2\r\nab\r\n", "hello\r\n"} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		var whole, pieces replies
		werr := whole.feed(b)
		var perr error
		for rest := b; len(rest) > 0 && perr == nil; {
			n := min(int(step)+1, len(rest))
			perr = pieces.feed(rest[:n])
			rest = rest[n:]
		}
		if (werr == nil) != (perr == nil) || whole.done != pieces.done || whole.errors != pieces.errors || whole.limited != pieces.limited {
			t.Errorf("%v, %v; %+v, %+v", werr, perr, whole, pieces)
		}
		if whole.limited > whole.done || whole.errors > whole.done {
			t.Errorf("%+v", whole)
		}
	})
}
