package resp

import (
	"bytes"
	"strings"
	"testing"
)

// TestLongArguments checks that only the commands that Long accepts may have a longer argument, however the bytes
// come, and that what follows is bounded as ever.
func TestLongArguments(t *testing.T) {
	limits := Limits{Args: 10, WideArgs: 10, Bulk: 100, LongBulk: 5000, Inline: 100, Query: 300}
	command := func(name string, n int) []byte {
		b := AppendArray(nil, 2)
		b = AppendBulkString(b, name)
		return AppendBulkString(b, strings.Repeat("x", n))
	}
	for _, c := range []struct {
		name string
		n    int
		err  string
	}{
		{"LOAD", 100, ""},
		{"LOAD", 101, ""},
		{"LOAD", 5000, ""},
		{"LOAD", 5001, errBulk},
		{"load", 5000, errBulk},
		{"GET", 100, ""},
		{"GET", 101, errBulk},
	} {
		for _, piece := range []int{1, 7, 290, 6000} {
			r := Reader{Limits: limits, Long: func(name []byte) bool { return string(name) == "LOAD" }}
			in := append(command(c.name, c.n), command("GET", 101)...)
			got, err := 0, error(nil)
			for len(in) > 0 && err == nil {
				k := min(piece, len(in))
				r.Feed(bytes.Clone(in[:k]))
				in = in[k:]
				for err == nil {
					var args [][]byte
					if args, err = r.Next(); args == nil {
						break
					}
					got += len(args[1])
				}
				r.Keep()
			}
			want := c.n
			if c.err != "" {
				want = 0
			}
			if err == nil || err.Error() != errBulk || got != want {
				t.Errorf("%s with %d bytes, in pieces of %d: %d bytes, %v", c.name, c.n, piece, got, err)
			}
		}
	}
}
