package resp

import (
	"bufio"
	"bytes"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWriters(t *testing.T) {
	for _, tt := range []struct {
		name         string
		write        func(b []byte, p Proto) []byte
		resp2, resp3 string // resp3 is empty if it is the same
	}{
		{"int", func(b []byte, _ Proto) []byte { return AppendInt(b, math.MinInt64) }, ":-9223372036854775808\r\n", ""},
		{"small int", func(b []byte, _ Proto) []byte { return AppendInt(b, 7) }, ":7\r\n", ""},
		{"string", func(b []byte, _ Proto) []byte { return AppendString(b, "a\r\nb") }, "+a  b\r\n", ""},
		{"error", func(b []byte, _ Proto) []byte { return AppendError(b, "ERR a\r\n+OK\rb\nc") }, "-ERR a  +OK b c\r\n", ""},
		{"bulk", func(b []byte, _ Proto) []byte { return AppendBulk(b, []byte("a\r\n")) }, "$3\r\na\r\n\r\n", ""},
		{"empty bulk", func(b []byte, _ Proto) []byte { return AppendBulkString(b, "") }, "$0\r\n\r\n", ""},
		{"bulk int", func(b []byte, _ Proto) []byte { return AppendBulkInt(b, math.MinInt64) }, "$20\r\n-9223372036854775808\r\n", ""},
		{"array", func(b []byte, _ Proto) []byte { return AppendArray(b, 12) }, "*12\r\n", ""},
		{"null", AppendNull, "$-1\r\n", "_\r\n"},
		{"null array", AppendNullArray, "*-1\r\n", "_\r\n"},
		{"command", func(b []byte, _ Proto) []byte { return AppendCommand(b, "GET", "k") }, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", ""},
		{"map", func(b []byte, p Proto) []byte { return AppendMap(b, p, 7) }, "*14\r\n", "%7\r\n"},
		{"set", func(b []byte, p Proto) []byte { return AppendSet(b, p, 7) }, "*7\r\n", "~7\r\n"},
		{"push", func(b []byte, p Proto) []byte { return AppendPush(b, p, 3) }, "*3\r\n", ">3\r\n"},
		{"verbatim", func(b []byte, p Proto) []byte { return AppendVerbatim(b, p, "mkd", "# a\n") }, "$4\r\n# a\n\r\n", "=8\r\nmkd:# a\n\r\n"},
		{"verbatim of no format", func(b []byte, p Proto) []byte { return AppendVerbatim(b, p, "text", "a") }, "$1\r\na\r\n", "=5\r\ntxt:a\r\n"},
		{"double", func(b []byte, p Proto) []byte { return AppendDouble(b, p, -0.25) }, "$5\r\n-0.25\r\n", ",-0.25\r\n"},
	} {
		for p, want := range map[Proto]string{0: tt.resp2, RESP2: tt.resp2, RESP3: tt.resp3} {
			if want == "" {
				want = tt.resp2
			}
			if got := string(tt.write([]byte("x"), p)); got != "x"+want {
				t.Errorf("%s for RESP%d: %q, want %q", tt.name, p, got, want)
			}
		}
	}
}

func TestAppendDouble(t *testing.T) {
	for _, tt := range []struct {
		f    float64
		want string
	}{
		{0, "0"},
		{math.Copysign(0, -1), "-0"},
		{1, "1"},
		{0.1, "0.1"},
		{3600, "3600"},
		{1e6, "1000000"},
		{1e16, "10000000000000000"},
		{1e17, "1e+17"},
		{0.0001, "0.0001"},
		{0.00001, "1e-05"},
		{1.0 / 3, "0.3333333333333333"},
		{-math.MaxFloat64, "-1.7976931348623157e+308"},
		{-math.SmallestNonzeroFloat64, "-5e-324"},
		{math.Inf(1), "inf"},
		{math.Inf(-1), "-inf"},
		{math.NaN(), "nan"},
	} {
		if got := string(AppendDouble(nil, RESP3, tt.f)); got != ","+tt.want+"\r\n" {
			t.Errorf("%v: %q, want %q", tt.f, got, tt.want)
		}
	}
}

func TestWritersAllocateNothing(t *testing.T) {
	b := make([]byte, 0, 4096)
	bulk := []byte("bulk")
	if n := testing.AllocsPerRun(100, func() {
		b := AppendInt(b, 1234567)
		b = AppendArray(b, 12)
		b = AppendBulk(b, bulk)
		b = AppendBulkString(b, "bulk")
		b = AppendBulkInt(b, math.MinInt64)
		b = AppendString(b, "string")
		b = AppendError(b, "ERR error")
		b = AppendCommand(b, bulk, bulk)
		for _, p := range []Proto{RESP2, RESP3} {
			b = AppendNull(b, p)
			b = AppendNullArray(b, p)
			b = AppendDouble(b, p, -math.MaxFloat64)
			b = AppendMap(b, p, 12)
			b = AppendSet(b, p, 12)
			b = AppendPush(b, p, 12)
			b = AppendVerbatim(b, p, "txt", "text")
		}
		_ = AppendQuoted(b, bulk)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestQuote(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", `""`},
		{"user 1", `"user 1"`},
		{`a"b\c'`, `"a\"b\\c'"`},
		{"\n\r\t\a\b\v\x00\x7f\x80\xff~", `"\n\r\t\a\b\x0b\x00\x7f\x80\xff~"`},
		{"é", `"\xc3\xa9"`},
		{long(128), `"` + long(128) + `"`},
		{long(128) + "x", `"` + long(128) + `"...`},
		{strings.Repeat("\x00", 1<<20), `"` + strings.Repeat(`\x00`, 128) + `"...`},
	} {
		if got := Quote([]byte(tt.in)); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.in, got, tt.want)
		}
		if got := string(AppendQuoted([]byte("key "), []byte(tt.in))); got != "key "+tt.want {
			t.Errorf("%q: %s, want %s after what was there", tt.in, got, tt.want)
		}
	}
}

// ReadReply reads what the writers write.
func TestRepliesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom([]Proto{RESP2, RESP3}).Draw(t, "proto")
		b, want := someReply(t, p, nil, 0)
		b = append(b, "+next\r\n"...)
		r := bufio.NewReaderSize(bytes.NewReader(b), rapid.IntRange(16, 64).Draw(t, "buffer"))
		got, err := ReadReply(r, len(b))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is read as %+v, %v; want %+v", b, got, err, want)
		}
		if next, err := ReadReply(r, 100); err != nil || next.Text != "next" {
			t.Fatalf("after %q: %+v, %v", b, next, err)
		}
	})
}

// someReply writes a reply and returns the value that it should be read as.
func someReply(t *rapid.T, p Proto, b []byte, depth int) ([]byte, Value) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("ab\r\n*$1")), 0, 40, -1)
	oneLine := func() string { return strings.NewReplacer("\r", "", "\n", "").Replace(text.Draw(t, "line")) }
	number := rapid.Int64()
	kinds := 8
	if depth < 4 {
		kinds = 12
	}
	either := func(resp2, resp3 Value) Value {
		if p >= RESP3 {
			return resp3
		}
		return resp2
	}
	kind := rapid.IntRange(0, kinds-1).Draw(t, "kind")
	switch kind {
	case 0:
		n := number.Draw(t, "int")
		return AppendInt(b, n), Value{Kind: ':', Int: n}
	case 1:
		s := oneLine()
		return AppendString(b, s), Value{Kind: '+', Text: s}
	case 2:
		s := oneLine()
		return AppendError(b, s), Value{Kind: '-', Text: s}
	case 3:
		s := text.Draw(t, "bulk")
		return AppendBulkString(b, s), Value{Kind: '$', Text: s}
	case 4:
		return AppendNull(b, p), either(Value{Kind: '$', Null: true}, Value{Kind: '_', Null: true})
	case 5:
		return AppendNullArray(b, p), either(Value{Kind: '*', Null: true}, Value{Kind: '_', Null: true})
	case 6:
		return AppendDouble(b, p, 0.5), either(Value{Kind: '$', Text: "0.5"}, Value{Kind: ',', Text: "0.5"})
	case 7:
		s := text.Draw(t, "verbatim")
		return AppendVerbatim(b, p, "txt", s), either(Value{Kind: '$', Text: s}, Value{Kind: '=', Text: s})
	}
	n := rapid.IntRange(0, 4).Draw(t, "elements")
	var v Value
	switch kind {
	case 8:
		b, v = AppendArray(b, n), Value{Kind: '*'}
	case 9:
		b, v = AppendMap(b, p, n), either(Value{Kind: '*'}, Value{Kind: '%'})
		n *= 2
	case 10:
		b, v = AppendSet(b, p, n), either(Value{Kind: '*'}, Value{Kind: '~'})
	default:
		b, v = AppendPush(b, p, n), either(Value{Kind: '*'}, Value{Kind: '>'})
	}
	for range n {
		var e Value
		b, e = someReply(t, p, b, depth+1)
		v.Elems = append(v.Elems, e)
	}
	return b, v
}

// Integers of every length are written as strconv writes them, small ones from a table.
func TestAppendInt(t *testing.T) {
	for n := int64(-1100); n < 11_000; n++ {
		if got, want := string(AppendInt([]byte("x"), n)), "x:"+strconv.FormatInt(n, 10)+"\r\n"; got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	for _, n := range []int64{math.MinInt64, math.MaxInt64} {
		if got, want := string(AppendInt(nil, n)), ":"+strconv.FormatInt(n, 10)+"\r\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
