package resp

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// NextOf returns what Next would: a reader that remembers the shape of the last command reads any stream,
// however it is cut and while limits change, like a reader that does not.
func TestShapesReadTheSame(t *testing.T) {
	pieces := []string{
		string(command("GET", "k")), string(command("GET", "key")), string(command("GET", "")), string(command("SET", "k", "v")), string(command("SET", "key", "v")),
		string(command("SET", "k", "w")), string(command("PING")), "*2\r\n$3\r\nGET\r\n$3\r\nkex\r\n", "*2\r\n$3\r\nGET\r\n$03\r\nkex\r\n",
		"*2\r\n$3\r\nGET\r\n$3\r\nke\r\n", "*02\r\n$3\r\nGET\r\n$3\r\nkey\r\n", "GET key\r\n", "*0\r\n", "\r\n", "*2\r\n$3\r\nGET\r\n$3\r\nkey\n\n",
		string(command("MSET", "k", "v", "w")), string(command("GET", "a key of 20 bytes...")), string(command("SET", "k", "a value of 20 bytes.")), string(command("SET", "twelve bytes", "twelve bytes")),
		string(command("EVALSHA", "5ha", "1", "k", "60")), string(command("EVALSHA", "5ha", "1", "other", "60")), string(command("EVALSHA", "5ha", "1", "k", "61")),
		string(command("SET", "a key of 100 bytes...........................................................................................", "v")),
	}
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		for range rapid.IntRange(1, 10).Draw(t, "runs") {
			piece := rapid.SampledFrom(pieces).Draw(t, "piece")
			stream = append(stream, strings.Repeat(piece, rapid.IntRange(1, 3).Draw(t, "times"))...)
		}
		plain, quick := &Reader{}, &Reader{}
		var shape Shape
		most := rapid.SampledFrom([]int{2, 50, 1000}).Draw(t, "longest key")
		at := rapid.SampledFrom([]int{1, 3}).Draw(t, "key")
		for len(stream) > 0 {
			n := rapid.IntRange(1, len(stream)).Draw(t, "read")
			plain.Feed(stream[:n])
			quick.Feed(stream[:n])
			parked := rapid.IntRange(0, 3).Draw(t, "parked") == 0 // and reads nothing of this round
			for !parked {
				l := rapid.SampledFrom([]Limits{normal, normal, normal, normal, before, tiny}).Draw(t, "limits")
				plain.Limits, quick.Limits = l, l
				want, wantErr := plain.Next()
				if key := quick.NextOf(&shape, most); key != nil {
					matched++
					if len(key) > most {
						t.Fatalf("a key of %d bytes", len(key))
					}
					if got := shape.With(key); !slices.EqualFunc(got, want, slices.Equal[[]byte]) {
						t.Fatalf("NextOf: %q, want %q", got, want)
					}
					continue
				}
				got, err := quick.Next()
				if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() || !slices.EqualFunc(got, want, slices.Equal[[]byte]) {
					t.Fatalf("%q, %v: want %q, %v", got, err, want, wantErr)
				}
				if got == nil {
					break
				}
				quick.Shape(&shape, at)
			}
			plain.Keep()
			quick.Keep()
			if plain.Buffered() != quick.Buffered() {
				t.Fatalf("%d bytes are left, want %d", quick.Buffered(), plain.Buffered())
			}
			stream = stream[n:]
		}
	})
	if matched == 0 {
		t.Error("no command had the shape of the one before")
	}
}

// A shape includes the whole command with all its arguments but the key.
func TestShapeIsExact(t *testing.T) {
	var shape Shape
	r := &Reader{Limits: normal}
	next := func(c []byte) bool {
		r.Feed(c)
		defer r.Keep()
		if r.NextOf(&shape, 10) != nil {
			return true
		}
		if args, err := r.Next(); err != nil || args == nil {
			t.Fatalf("%q: %q, %v", c, args, err)
		}
		return false
	}
	if next(command("SET", "k", "v")) || !r.shapeOf(command("SET", "k", "v"), &shape) || !next(command("SET", "other", "v")) {
		t.Error("the same command was not recognised")
	}
	for _, c := range [][]string{{"SET", "k", "w"}, {"set", "k", "v"}, {"SET", "k", "v", "x"}, {"SET", "k"}, {"SET", "k", "vv"}} {
		if next(command(c...)) {
			t.Errorf("%q passed for another command", c)
		}
	}
	if r.shapeOf(command("PING"), &shape) || next(command("SET", "k", "v")) {
		t.Error("PING has a shape")
	}
}

// shapeOf reads one command and stores its shape.
func (r *Reader) shapeOf(c []byte, s *Shape) bool {
	r.Feed(c)
	defer r.Keep()
	if args, err := r.Next(); args == nil || err != nil {
		return false
	}
	return r.Shape(s, 1)
}

// Next returns again what Unread has put back, wherever the stream is cut into reads.
func TestUnread(t *testing.T) {
	pieces := []string{string(command("GET", "k")), "PING a\r\n", "*0\r\n", "\r\n", string(command("SET", "k", strings.Repeat("x", 30)))}
	rapid.Check(t, func(t *rapid.T) {
		stream := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 12).Draw(t, "stream"), "")
		r := &Reader{Limits: normal}
		var got, want [][]string
		r.Feed([]byte(stream))
		for args, _ := r.Next(); args != nil; args, _ = r.Next() {
			want = append(want, texts(args))
		}
		r = &Reader{Limits: normal}
		for len(stream) > 0 {
			n := rapid.IntRange(1, len(stream)).Draw(t, "read")
			r.Feed([]byte(stream[:n]))
			stream = stream[n:]
			left := []int{r.Buffered()} // behind each command of the round
			for {
				args, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				if rapid.IntRange(0, 3).Draw(t, "back") == 0 {
					k := rapid.IntRange(0, len(left)-1).Draw(t, "commands kept")
					r.Unread(left[k] - r.Buffered())
					got, left = got[:len(got)-(len(left)-1-k)], left[:k+1]
					if rapid.Bool().Draw(t, "another round") {
						break
					}
					continue
				}
				if args == nil {
					break
				}
				got, left = append(got, texts(args)), append(left, r.Buffered())
			}
			r.Keep()
		}
		r.Feed(nil)
		for args, _ := r.Next(); args != nil; args, _ = r.Next() {
			got = append(got, texts(args))
		}
		if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}
