package hold

import (
	"bytes"
	"testing"
)

// A list of any length is what was made, until it is forgotten, and a shorter one takes its place.
func TestList(t *testing.T) {
	var s Set
	var w Edit
	for _, size := range []int{0, 1, MaxLimit - 1, MaxLimit, MaxLimit + 1, 2 * MaxLimit, few * MaxLimit, MaxList, 3} {
		text := bytes.Repeat([]byte("key"), size)[:size]
		s.MakeList(&w, Entry{Until: 100, Rest: 50}, text)
		s = w.apply(t, s)
		e, got, ok := s.List(149)
		if !ok || !bytes.Equal(got, text) || e.Status != Kept || e.Until != 100 || e.Rest != 50 || s.expires() != 150 || s.Due(1000) {
			t.Fatalf("%d bytes: %d, %+v, %t", size, len(got), e, ok)
		}
		if _, _, ok := s.List(150); ok {
			t.Fatal("it is forgotten, and known")
		}
	}
}
