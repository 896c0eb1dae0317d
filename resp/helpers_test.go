package resp

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The limits of a client that is authenticated, of one that is not, and limits so small that a short stream
// reaches each of them.
var (
	normal = Limits{Args: 1024, WideArgs: 65536, Bulk: 64 << 10, Inline: 64 << 10, Query: 1 << 20}
	before = Limits{Args: 10, WideArgs: 10, Bulk: 16 << 10, Inline: 4 << 10, Query: 64 << 10, Unauthenticated: true}
	tiny   = Limits{Args: 3, WideArgs: 5, Bulk: 12, Inline: 24, Query: 48}
	lax    = Limits{Args: 3, WideArgs: 5, Bulk: 12, Inline: 24, Query: 48, Skip: 90} // skips what is too large
)

// wide is the Wide of most tests.
func wide(name []byte) bool { return EqualFold(name, "mget") }

// command returns a command as a client library sends it.
func command(args ...string) []byte {
	b := AppendArray(nil, len(args))
	for _, a := range args {
		b = AppendBulkString(b, a)
	}
	return b
}

// outcome is everything that was read from a stream.
type outcome struct {
	commands [][]string
	err      string // of a ProtocolError; empty means none
	partial  bool   // a command has begun and is not complete
}

func (o outcome) String() string {
	s := fmt.Sprintf("%q", o.commands)
	if o.err != "" {
		s += " then " + o.err
	}
	if o.partial {
		s += " then a part of a command"
	}
	if len(s) > 2000 {
		s = s[:2000] + "..."
	}
	return s
}

func (o outcome) equal(other outcome) bool {
	return o.err == other.err && o.partial == other.partial &&
		slices.EqualFunc(o.commands, other.commands, slices.Equal)
}

// drain reads all available commands, and reports whether the stream goes on.
func (o *outcome) drain(t testing.TB, r *Reader) bool {
	t.Helper()
	for {
		args, err := r.Next()
		if err != nil {
			var perr *ProtocolError
			if !errors.As(err, &perr) {
				t.Fatalf("Next gave an error of type %T", err)
			}
			o.err, o.partial = perr.Text, false
			return false
		}
		if args == nil {
			o.partial = r.Partial()
			return true
		}
		o.commands = append(o.commands, texts(args))
	}
}

func texts(args [][]byte) []string {
	s := make([]string, len(args))
	for i, a := range args {
		s[i] = string(a)
	}
	return s
}

// read reads a stream in the given pieces through one buffer, as an event loop would: each read overwrites
// the one before.
func read(t testing.TB, r *Reader, pieces ...[]byte) (o outcome) {
	t.Helper()
	longest := 0
	for _, p := range pieces {
		longest = max(longest, len(p))
	}
	shared := make([]byte, longest)
	for _, p := range pieces {
		b := shared[:copy(shared, p)]
		r.Feed(b)
		goesOn := o.drain(t, r)
		if !bytes.Equal(b, p) {
			t.Fatalf("the reader wrote to what it was fed: %q", strings.ToValidUTF8(string(b), "?"))
		}
		r.Keep()
		if held := r.Buffered(); goesOn && (held > 0 || r.at.skip != kept) != o.partial {
			t.Fatalf("between rounds: %d bytes held, partial %v", held, o.partial)
		}
		for i := range shared {
			shared[i] = 0xAA
		}
		if !goesOn {
			return o
		}
	}
	return o
}

// bytewise cuts a stream into pieces of one byte.
func bytewise(stream []byte) (pieces [][]byte) {
	for i := range stream {
		pieces = append(pieces, stream[i:i+1])
	}
	return pieces
}
