package known

import (
	"bytes"
	"reflect"
	"testing"

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
