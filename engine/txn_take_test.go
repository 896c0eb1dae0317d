package engine

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"limitdb/limit"
)

// Txn.Take decides as Engine.Take does, and leaves the same state: also of a denial that counts, of a long state, in its record or
// in a box, of a part, and several times in one transaction. So do Peek and Refund.
func TestTxnTakeIsTake(t *testing.T) {
	long := longLog(t)
	rapid.Check(t, func(rt *rapid.T) {
		e, now := New(Options{Seed: 1}), start
		one, other := []byte("one"), []byte("other")
		spelt := rapid.SampledFrom([]string{
			"FIXED 5/m", "FIXED 5/m COUNTDENIED", "SLIDING 5/m COUNTDENIED", "SEGMENTED 5/m SEGMENTS 6 COUNTDENIED", "LOG 5/m COUNTDENIED", "LOG 200/m COUNTDENIED", "GCRA 5/m",
			"LOG 4000/m", "LOG 4000/m COUNTDENIED",
		}).Draw(rt, "limit")
		l, err := limit.Parse(spelt)
		if err != nil {
			rt.Fatal(err)
		}
		if l.Max == longMax {
			for _, key := range [][]byte{one, other} {
				if err := e.Update(now, [][]byte{key}, func(tx *Txn) error { return tx.Put(key, limit.LOG.Kind(), long) }); err != nil {
					rt.Fatal(err)
				}
			}
		}
		type step struct {
			op   int
			cost int64
		}
		costs := rapid.OneOf(rapid.Int64Range(0, 1+l.Max/3), rapid.Int64Range(0, 3))
		for range rapid.IntRange(1, 30).Draw(rt, "rounds") {
			now += rapid.Int64Range(0, 20*second).Draw(rt, "wait")
			var want, got []string
			var steps []step
			for range rapid.IntRange(1, 4).Draw(rt, "steps") {
				st := step{rapid.IntRange(0, 5).Draw(rt, "op"), costs.Draw(rt, "cost")}
				steps = append(steps, st)
				var d limit.Decision
				err, part := error(nil), int64(0)
				switch st.op {
				case 0:
					err = e.Peek(now, one, &l, st.cost, &d)
				case 1:
					err = e.Refund(now, one, &l, st.cost, &d)
				case 2:
					part, err = e.TakeFor(now, one, &Request{Limit: l, Cost: st.cost, Partial: true}, &d)
				default:
					if err = e.Take(now, one, &l, st.cost, &d); !d.Limited {
						part = st.cost
					}
				}
				want = append(want, fmt.Sprint(d, part, err))
			}
			err := e.Update(now, [][]byte{other}, func(tx *Txn) error {
				got = got[:0]
				for _, st := range steps {
					var d limit.Decision
					err, part := error(nil), int64(0)
					switch st.op {
					case 0:
						err = tx.Peek(other, &l, st.cost, &d)
					case 1:
						err = tx.Refund(other, &l, st.cost, &d)
					default:
						part, err = tx.Take(other, &Request{Limit: l, Cost: st.cost, Partial: st.op == 2}, &d)
					}
					got = append(got, fmt.Sprint(d, part, err))
				}
				return nil
			})
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				rt.Fatalf("%s, %v: %s, want %s (%v)", spelt, steps, got, want, err)
			}
			a, b := stateAt(e, now, one), stateAt(e, now, other)
			if !bytes.Equal(a, b) {
				rt.Fatalf("%s, %v: %x, want %x", spelt, steps, b, a)
			}
		}
	})
}

// longMax is the limit of longLog.
const longMax = 4000

// longLog returns the state of a LOG that is too long for a record.
func longLog(t *testing.T) (state []byte) {
	l := limit.Limit{Algorithm: limit.LOG, Max: longMax, Period: 60 * second}
	for i := range int64(3000) {
		var d limit.Decision
		next, err := limit.Take(&l, state, start-(3000-i)*10_000_019, 1, nil, &d)
		if err != nil || next == nil {
			t.Fatal(d, err)
		}
		state = next
	}
	if len(state) <= 10<<10 {
		t.Fatalf("%d bytes", len(state))
	}
	return state
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
