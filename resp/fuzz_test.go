package resp

import (
	"bufio"
	"bytes"
	"reflect"
	"regexp"
	"strconv"
	"testing"
	"testing/iotest"

	"github.com/tidwall/redcon"
)

// FuzzReader compares the reader with the model. cuts gives the lengths of the pieces of the stream, over and
// over.
func FuzzReader(f *testing.F) {
	f.Fuzz(func(t *testing.T, stream, cuts []byte, which byte) {
		limits := []Limits{tiny, before, normal, lax}[which%4]
		want := model(string(stream), limits, wide)
		if got := read(t, &Reader{Limits: limits, Wide: wide}, stream); !got.equal(want) {
			t.Fatalf("%q in one piece:\n%v, want\n%v", stream, got, want)
		}
		var pieces [][]byte
		for i, rest := 0, stream; len(rest) > 0; i++ {
			n := 1
			if len(cuts) > 0 {
				n = int(cuts[i%len(cuts)])
			}
			n = min(max(n, 1), len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got := read(t, &Reader{Limits: limits, Wide: wide}, pieces...); !got.equal(want) {
			t.Fatalf("%q:\n%v, want\n%v", pieces, got, want)
		}
	})
}

// FuzzInline compares the splitting of inline commands with the model.
func FuzzInline(f *testing.F) {
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.ContainsRune(line, '\n') || bytes.HasPrefix(line, []byte("*")) {
			return
		}
		words, balanced := modelSplit(string(line))
		if !balanced {
			checkInline(t, string(line)+"\n", nil)
			return
		}
		if len(words) == 0 {
			words = []string{}
		}
		checkInline(t, string(line)+"\n", words)
		checkInline(t, string(line)+"\r\n", words)
	})
}

// FuzzReaderVsRedcon compares the reader with redcon's. It reads the same commands from everything that
// redcon handles, and redcon reads none from what is an error or incomplete here.
func FuzzReaderVsRedcon(f *testing.F) {
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := &Reader{Limits: normal, Wide: wide}
		r.Feed(stream)
		var handled []byte // the commands that redcon handles
		var want [][]string
		for {
			from := len(stream) - r.Buffered()
			args, err := r.Next()
			if args == nil {
				// It may include empty commands before an incomplete one.
				noCommandForRedcon(t, stream[from:], err)
				break
			}
			piece := stream[from : len(stream)-r.Buffered()]
			piece = piece[len(emptyCommands.Find(piece)):]
			if piece[0] == '*' || redconInline.Match(piece) {
				handled = append(handled, piece...)
				want = append(want, texts(args))
			}
		}
		if got := redconReads(handled); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q\nredcon reads %q, here it is %q", handled, got, want)
		}
	})
}

var (
	// Redis, and so this reader, skips these; redcon returns an error for some of them.
	emptyCommands = regexp.MustCompile(`^(?:\*(?:0|-[1-9][0-9]*)\r\n|[ \t\v\f\r]*\n)*`)
	// redcon splits lines only at spaces, with quotes only around whole words, without \a, \b and \x, and
	// accepts the escapes of "…" in '…' as well.
	redconInline = regexp.MustCompile(`^(?: *(?:[^ \t\n\v\f\r"'*][^ \t\n\v\f\r"']*|"(?:[^"\\\n\r]|\\[nrt"\\])*"|'[^'\\\n\r]*')(?: +|\r?\n))+$`)
	// redcon panics on such lengths, turns long ones into others, and takes long to count to them.
	badForRedcon = regexp.MustCompile(`[0-9]{6}|-`)
)

func redconReads(stream []byte) (commands [][]string) {
	r := redcon.NewReader(bytes.NewReader(stream))
	for {
		c, err := r.ReadCommand()
		if err != nil {
			return commands
		}
		commands = append(commands, texts(c.Args))
	}
}

// noCommandForRedcon checks that redcon finds no command at the start of tail, which is incomplete or wrong
// here.
func noCommandForRedcon(t *testing.T, tail []byte, err error) {
	tail = tail[len(emptyCommands.Find(tail)):]
	if len(tail) == 0 || badForRedcon.Match(tail) {
		return
	}
	if err != nil {
		switch text := err.Error(); {
		case text == errArgs, text == errBulk, text == errInline, text == errQuotes:
			return // redcon has other rules for numbers and quotes, and no limits
		}
	}
	if got := redconReads(tail); len(got) > 0 {
		t.Fatalf("%q\nredcon reads %q, here it is %v", tail, got, err)
	}
}

// FuzzReply reads replies whole and byte by byte, and writes them again.
func FuzzReply(f *testing.F) {
	f.Fuzz(func(t *testing.T, stream []byte) {
		const most = 1 << 14
		at := bytes.NewReader(stream)
		once := bufio.NewReader(at)
		slow := bufio.NewReaderSize(iotest.OneByteReader(bytes.NewReader(stream)), 16)
		for {
			v, err := ReadReply(once, most)
			again, errAgain := ReadReply(slow, most)
			if !reflect.DeepEqual(v, again) && err == nil || (err == nil) != (errAgain == nil) || err != nil && err.Error() != errAgain.Error() {
				t.Fatalf("%q: %+v, %v; byte by byte %+v, %v", stream, v, err, again, errAgain)
			}
			if err != nil {
				return
			}
			b := appendValue(nil, v)
			if back, err := ReadReply(bufio.NewReader(bytes.NewReader(b)), len(b)); err != nil || !reflect.DeepEqual(back, v) {
				t.Fatalf("%+v is written as %q and read as %+v, %v", v, b, back, err)
			}
			if used := len(stream) - at.Len() - once.Buffered(); len(b) > used {
				t.Fatalf("%+v takes %d bytes and was read from %d", v, len(b), used)
			}
		}
	})
}

// appendValue writes a value as a server would send it.
func appendValue(b []byte, v Value) []byte {
	b = append(b, v.Kind)
	number := func(n int) []byte { return append(strconv.AppendInt(b, int64(n), 10), "\r\n"...) }
	switch v.Kind {
	case '_':
		b = append(b, "\r\n"...)
	case ':':
		b = append(strconv.AppendInt(b, v.Int, 10), "\r\n"...)
	case '#':
		b = append(b, "ft"[v.Int], '\r', '\n')
	case '$', '!', '=':
		if v.Null {
			return number(-1)
		}
		text := v.Text
		if v.Kind == '=' {
			text = "txt:" + text
		}
		b = append(append(number(len(text)), text...), "\r\n"...)
	case '*', '~', '>', '%':
		if v.Null {
			return number(-1)
		}
		n := len(v.Elems)
		if v.Kind == '%' {
			n /= 2
		}
		b = number(n)
		for _, e := range v.Elems {
			b = appendValue(b, e)
		}
	default:
		b = append(append(b, v.Text...), "\r\n"...)
	}
	return b
}
