package engine

import (
	"maps"
	"strconv"
	"testing"

	"limitdb/limit"
)

// A walk in a transaction finds the keys as the transaction has made them.
func TestEachInATransaction(t *testing.T) {
	e := New(Options{Shards: 4})
	want := map[string]limit.Kind{}
	for i := range 300 {
		mustTake(t, e, start, key(i), perSecond(10), 5)
		want[string(key(i))] = limit.GCRA.Kind()
	}
	runs := 0
	err := e.Update(start, [][]byte{key(1)}, func(tx *Txn) error {
		runs++
		if _, err := tx.Delete(key(1)); err != nil {
			return err
		}
		if err := tx.Put(key(2), limit.STRING, someValue(start+second)); err != nil {
			return err
		}
		if err := tx.Put([]byte("new"), limit.HASH, someValue(start+second)); err != nil {
			return err
		}
		got := map[string]limit.Kind{}
		if err := tx.Each(func(key []byte, kind limit.Kind) bool { got[string(key)] = kind; return true }); err != nil {
			return err
		}
		delete(want, string(key(1)))
		want[string(key(2))], want["new"] = limit.STRING, limit.HASH
		if !maps.Equal(got, want) {
			t.Errorf("%d keys, not %d", len(got), len(want))
		}
		n := 0
		return tx.Each(func([]byte, limit.Kind) bool { n++; return strconv.Itoa(n) != "7" && n < 8 })
	})
	if err != nil || runs != 2 {
		t.Errorf("%v after %d runs", err, runs)
	}
	e.check()
}

// A walk in a transaction, which stops all others, is bounded by all that it meets, and not by the keys alone.
//
//test:norace
func TestEachIsBoundedByRecords(t *testing.T) {
	e := New(Options{})
	l := limit.Limit{Algorithm: limit.FIXED, Max: 10, Burst: 10, Period: 1e9}
	for i := range maxWalk/2 + 1 {
		var d limit.Decision
		if err := e.HoldAt(0, start, key(i), &l, 1, &Hold{ID: []byte("x"), TTL: 60e9}, &d); err != nil {
			t.Fatal(err)
		}
	}
	err := e.Update(start, nil, func(tx *Txn) error {
		return tx.Each(func([]byte, limit.Kind) bool { return true })
	})
	if err != ErrTooMany {
		t.Error(err)
	}
}
