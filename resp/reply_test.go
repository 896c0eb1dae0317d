package resp

import (
	"bufio"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadReply(t *testing.T) {
	a := Value{Kind: '+', Text: "a"}
	for _, tt := range []struct {
		in   string
		want Value
	}{
		{"+a\r\n", a},
		{"+\r\n", Value{Kind: '+'}},
		{"-ERR no\r\n", Value{Kind: '-', Text: "ERR no"}},
		{"!6\r\nERR\r\n\n\r\n", Value{Kind: '!', Text: "ERR\r\n\n"}},
		{":-5\r\n", Value{Kind: ':', Int: -5}},
		{"$0\r\n\r\n", Value{Kind: '$'}},
		{"$-1\r\n", Value{Kind: '$', Null: true}},
		{"*-1\r\n", Value{Kind: '*', Null: true}},
		{"*0\r\n", Value{Kind: '*'}},
		{"_\r\n", Value{Kind: '_', Null: true}},
		{"#f\r\n", Value{Kind: '#'}},
		{",inf\r\n", Value{Kind: ',', Text: "inf"}},
		{"(3492890328409238509324850943850943825024385\r\n", Value{Kind: '(', Text: "3492890328409238509324850943850943825024385"}},
		{"=5\r\ntxt:a\r\n", Value{Kind: '=', Text: "a"}},
		{"=4\r\ntxt:\r\n", Value{Kind: '='}},
		{"%1\r\n+a\r\n*1\r\n+a\r\n", Value{Kind: '%', Elems: []Value{a, {Kind: '*', Elems: []Value{a}}}}},
		{"*2\r\n+a\r\n$5\r\naaaaa\r\n", Value{Kind: '*', Elems: []Value{a, {Kind: '$', Text: "aaaaa"}}}},
		{"*2\r\n$5\r\naaaaa\r\n+a\r\n", Value{Kind: '*', Elems: []Value{{Kind: '$', Text: "aaaaa"}, a}}},
		{"|1\r\n+ttl\r\n:5\r\n+a\r\n", a},
		{"*1\r\n|1\r\n+ttl\r\n:5\r\n+a\r\n", Value{Kind: '*', Elems: []Value{a}}},
		{strings.Repeat("*1\r\n", maxReplyDepth) + "+a\r\n", nest(a, maxReplyDepth)},
	} {
		for how, r := range map[string]io.Reader{"at once": strings.NewReader(tt.in), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.in))} {
			got, err := ReadReply(bufio.NewReader(r), len(tt.in))
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%q %s: %+v, %v; want %+v", tt.in, how, got, err, tt.want)
			}
		}
		if got, err := ReadReply(bufio.NewReader(strings.NewReader(tt.in)), len(tt.in)-1); !errors.Is(err, errReplySize) {
			t.Errorf("%q in one byte less: %+v, %v", tt.in, got, err)
		}
		for cut := 1; cut < len(tt.in); cut++ {
			if got, err := ReadReply(bufio.NewReader(strings.NewReader(tt.in[:cut])), len(tt.in)); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q: %+v, %v; want an unexpected end", tt.in[:cut], got, err)
			}
		}
	}
}

func nest(v Value, depth int) Value {
	for range depth {
		v = Value{Kind: '*', Elems: []Value{v}}
	}
	return v
}

func TestReadReplyErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "EOF",
		"\r\n":                     "resp: an empty line where a reply should begin",
		"+a\n":                     "resp: a line of a reply does not end in CRLF",
		"\n":                       "resp: a line of a reply does not end in CRLF",
		"\x00\r\n":                 `resp: a reply cannot begin with "\x00"`,
		"PONG\r\n":                 `resp: a reply cannot begin with "P"`,
		":+5\r\n":                  `resp: a reply of kind : cannot be "+5"`,
		":\r\n":                    `resp: a reply of kind : cannot be ""`,
		"#x\r\n":                   `resp: a reply of kind # cannot be "x"`,
		"_x\r\n":                   `resp: a reply of kind _ cannot be "x"`,
		"$-2\r\n":                  `resp: a reply of kind $ cannot be "-2"`,
		"$x\r\n":                   `resp: a reply of kind $ cannot be "x"`,
		"!-1\r\n":                  `resp: a reply of kind ! cannot be "-1"`,
		"$?\r\n":                   `resp: a reply of kind $ cannot be "?"`,
		"%-1\r\n":                  `resp: a reply of kind % cannot be "-1"`,
		"*-2\r\n":                  `resp: a reply of kind * cannot be "-2"`,
		"=3\r\ntxt\r\n":            `resp: a reply of kind = cannot be "txt"`,
		"=4\r\ntxta\r\n":           `resp: a reply of kind = cannot be "txta"`,
		"$1\r\nab\r\n":             "resp: a bulk string of a reply does not end in CRLF",
		"$1000000\r\n":             "resp: the reply is too big",
		"*1000000\r\n":             "resp: the reply is too big",
		"$9223372036854775807\r\n": "resp: the reply is too big",
		"%4611686018427387903\r\n": "resp: the reply is too big",
		"%4611686018427387904\r\n": `resp: a reply of kind % cannot be "4611686018427387904"`,
		"*9223372036854775808\r\n": `resp: a reply of kind * cannot be "9223372036854775808"`,
		"+" + long(20000) + "\r\n": "resp: the reply is too big",
		strings.Repeat("*1\r\n", maxReplyDepth+1) + "+a\r\n": "resp: the reply is nested too deeply",
		"*2\r\n+a\r\n": "unexpected EOF",
	} {
		v, err := ReadReply(bufio.NewReader(strings.NewReader(in)), 10000)
		if err == nil || err.Error() != want {
			t.Errorf("%q: %+v, %v; want %s", in, v, err, want)
		}
	}
}

// An announced length costs nothing.
func TestReadReplyMemory(t *testing.T) {
	for _, in := range []string{"$1000000000\r\nabc", "*300000000\r\n+a\r\n", "%100000000\r\n"} {
		r := bufio.NewReader(strings.NewReader(in))
		n := allocated(func() { _, _ = ReadReply(r, 1<<30) })
		if n > 64<<10 {
			t.Errorf("%q allocates %d bytes", in, n)
		}
	}
}

func TestValueErr(t *testing.T) {
	for kind, want := range map[byte]bool{'-': true, '!': true, '+': false, '$': false} {
		err := Value{Kind: kind, Text: "ERR no"}.Err()
		if (err != nil) != want || want && err.Error() != "ERR no" {
			t.Errorf("%c: %v", kind, err)
		}
	}
}
