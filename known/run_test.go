package known

import (
	"bytes"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"limitdb/value"
)

type anyStore struct{}

func (anyStore) Get([]byte) (Value, bool)           { return Value{}, true }
func (anyStore) Put([]byte, *Value, []value.Splice) {}

// A client that has run a script holds nothing of it but a little room for the next one.
func TestForget(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 64<<10)
	r := Run{Keys: [][]byte{long}, Args: [][]byte{long}, Store: anyStore{}}
	r.setText(r.Keys[0], long, 0)
	if r.Forget(); !reflect.DeepEqual(r, Run{}) {
		t.Errorf("%d bytes are kept", cap(r.body)+cap(r.value.Body))
	}
	r.Store = anyStore{}
	r.setCounter(long, 5, 0)
	room := cap(r.body)
	if r.Forget(); cap(r.body) != room || !reflect.DeepEqual(r, Run{body: r.body}) {
		t.Errorf("of %d bytes of room, %d are left", room, cap(r.body))
	}
}

// Numbers are read as strconv reads them, to the last bit, around the length from which that is asked.
func TestPlain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`[0-9]{0,18}(\.[0-9]{0,18})?`).Draw(rt, "text")
		if rapid.IntRange(0, 20).Draw(rt, "odd") == 0 {
			text += rapid.SampledFrom([]string{".", "..", "e5", "-", "+1", " ", "x", "_0", "inf"}).Draw(rt, "tail")
		}
		want, err := strconv.ParseFloat(text, 64)
		wanted := err == nil && strings.Trim(text, "0123456789.") == ""
		if got, ok := plain([]byte(text)); ok != wanted || ok && got != want {
			rt.Fatalf("%q: %v %v, and strconv says %v %v", text, got, ok, want, err)
		}
	})
}
