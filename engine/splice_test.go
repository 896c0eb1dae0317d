package engine

import (
	"bytes"
	"fmt"
	"testing"

	"limitdb/internal/journal"
	"limitdb/limit"
)

// A long value that changes where it is gives the same after a replay, after each change, and its record has only what has
// changed. Its box grows and shrinks meanwhile.
//
//test:norace
func TestSplicesOfLongValues(t *testing.T) {
	f := newFollower(t)
	key := []byte("list")
	body := bytes.Repeat([]byte("12345678"), 3000)
	head := valueState(limit.NUMBERS, f.now+1e9, nil)
	if err := f.e.Update(f.now, [][]byte{key}, func(tx *Txn) error {
		return tx.Put(key, limit.NUMBERS, append(bytes.Clone(head), body...))
	}); err != nil {
		t.Fatal(err)
	}
	f.drain()
	for i := range 3000 {
		ins, at, del := fmt.Appendf(nil, "%8d", i), len(body), 0
		switch {
		case i%50 == 7:
			ins = bytes.Repeat(ins, 100) // more than a decision adds
		case i%50 == 9:
			at, del, ins = 4, 800, nil
		case i%3 == 1:
			at, del = 4, 8
		}
		var state []byte
		if err := f.e.Update(f.now, [][]byte{key}, func(tx *Txn) error {
			err := tx.Splice(key, limit.NUMBERS, head, journal.AppendSplice(nil, at, del, ins))
			if err == nil && i%7 == 0 {
				_, state, err = tx.Get(key)
				state = bytes.Clone(state)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		body = append(append(bytes.Clone(body[:at]), ins...), body[at+del:]...)
		if i%7 == 0 && !bytes.Equal(state[len(head):], body) {
			t.Fatalf("change %d: within the transaction the state is another", i)
		}
		if n := f.drain(); n > 60+len(ins) {
			t.Fatalf("change %d: %d bytes in the log", i, n)
		}
	}
	if err := f.e.Update(f.now, [][]byte{key}, func(tx *Txn) error {
		_, state, err := tx.Get(key)
		if n := journal.HeadSize(byte(limit.NUMBERS)); !bytes.Equal(state[n:], body) || journal.Revision(state[:n]) != 3000 {
			t.Errorf("%d bytes, want %d; revision %d", len(state)-n, len(body), journal.Revision(state[:n]))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	f.e.check()
}
