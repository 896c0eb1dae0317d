package engine

import (
	"bytes"
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"limitdb/internal/journal"
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

// The fast way of a take is a step: for every algorithm with every option, under limits that change, on keys that expire or hold
// another kind of state, it gives the same decisions and errors, and leaves the same states, figures and records.
func TestFastWayIsAStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fast, slow := New(Options{Seed: 1, Shards: 1}), New(Options{Seed: 1, Shards: 1})
		fast.StartJournal(0, new(journal.Gate), func() {})
		slow.StartJournal(0, new(journal.Gate), func() {})
		if rapid.Bool().Draw(t, "used up") {
			fast.AssumeUsedUp(start)
			slow.AssumeUsedUp(start)
		}
		some := rapid.SliceOfN(rapid.SampledFrom(stepLimits), 1, 4).Draw(t, "limits")
		now := start
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += rapid.OneOf(rapid.Int64Range(0, 300), rapid.Int64Range(0, 3_000_000)).Draw(t, "wait")
			k, l := key(rapid.IntRange(0, 1).Draw(t, "key")), rapid.SampledFrom(some).Draw(t, "limit")
			cost := rapid.OneOf(rapid.Int64Range(0, 4), rapid.Int64Range(-1, 300)).Draw(t, "cost")
			var want, got limit.Decision
			wantErr := slow.Update(now, [][]byte{k}, func(tx *Txn) error {
				_, err := tx.Take(k, &Request{Limit: l, Cost: cost}, &want)
				return err
			})
			err := fast.TakeAt(0, now, k, &l, cost, &got)
			if fmt.Sprint(err) != fmt.Sprint(wantErr) || err == nil && got != want {
				t.Fatalf("%v cost %d: %+v, %v; the step says %+v, %v", l, cost, got, err, want, wantErr)
			}
			if a, b := contents(fast, now), contents(slow, now); !maps.Equal(a, b) {
				t.Fatalf("%v cost %d leaves %v, the step %v", l, cost, a, b)
			}
		}
		a, b := fast.Stats(), slow.Stats()
		for _, st := range []*Stats{&a, &b} { // a step that fails leaves the records of expired keys where they are
			st.Keys, st.Expired, st.Bytes = st.Keys+int64(st.Expired), 0, 0
		}
		if a != b {
			t.Fatalf("%+v, after steps %+v", a, b)
		}
		var records, stepped journal.Buffer
		drain(fast, &records)
		drain(slow, &stepped)
		if !bytes.Equal(records.Bytes, stepped.Bytes) {
			t.Fatalf("the records are %x, those of steps %x", records.Bytes, stepped.Bytes)
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
