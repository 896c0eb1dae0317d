package engine

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"limitdb/limit"
)

// Txn.Take decides as Engine.Take does, and leaves the same state: also of a denial that counts, of a long state, and
// several times in one transaction.
func TestTxnTakeIsTake(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e, now := New(Options{Seed: 1}), start
		one, other := []byte("one"), []byte("other")
		spelt := rapid.SampledFrom([]string{
			"FIXED 5/m", "FIXED 5/m COUNTDENIED", "SLIDING 5/m COUNTDENIED", "SEGMENTED 5/m SEGMENTS 6 COUNTDENIED", "LOG 5/m COUNTDENIED", "LOG 200/m COUNTDENIED", "GCRA 5/m",
		}).Draw(rt, "limit")
		l, err := limit.Parse(spelt)
		if err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 30).Draw(rt, "rounds") {
			now += rapid.Int64Range(0, 20*second).Draw(rt, "wait")
			costs := rapid.SliceOfN(rapid.Int64Range(0, 1+l.Max/3), 1, 3).Draw(rt, "costs")
			var want, got []string
			for _, cost := range costs {
				var d limit.Decision
				err := e.Take(now, one, &l, cost, &d)
				want = append(want, fmt.Sprint(d, err))
			}
			err := e.Update(now, [][]byte{other}, func(tx *Txn) error {
				got = got[:0]
				for _, cost := range costs {
					var d limit.Decision
					err := tx.Take(other, &l, cost, &d)
					got = append(got, fmt.Sprint(d, err))
				}
				return nil
			})
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				rt.Fatalf("%s, %d: %s, want %s (%v)", spelt, costs, got, want, err)
			}
			a, b := stateAt(e, now, one), stateAt(e, now, other)
			if !bytes.Equal(a, b) {
				rt.Fatalf("%s, %d: %x, want %x", spelt, costs, b, a)
			}
		}
	})
}

// stateAt returns what a key holds.
func stateAt(e *Engine, now int64, key []byte) (state []byte) {
	_ = e.Update(now, [][]byte{key}, func(tx *Txn) error {
		_, held, err := tx.Get(key)
		state = bytes.Clone(held)
		return err
	})
	return state
}
