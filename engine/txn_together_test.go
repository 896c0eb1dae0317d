package engine

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"limitdb/limit"
)

// Several requests in one transaction, each for several limits, are decided and counted as if they came one after the
// other, and leave the same states: whether they are denied, peek, count denials, have soft limits, or fail.
func TestTogetherInAStepIsTogether(t *testing.T) {
	long := longLog(t)
	limits := append(everyLimit(t, "5/s"), everyLimit(t, "8/m")...)
	limits = append(limits, limit.Limit{Algorithm: limit.LOG, Max: longMax, Period: 60 * second})
	rapid.Check(t, func(rt *rapid.T) {
		one, all := New(Options{Seed: 1, Shards: 4}), New(Options{Seed: 1, Shards: 4})
		names := keysOf(0, 1, 2, 3, 4, 5)
		if rapid.Bool().Draw(rt, "long") {
			for _, e := range []*Engine{one, all} {
				if err := e.Update(start, nil, func(tx *Txn) error { return tx.Put(key(0), limit.LOG.Kind(), long) }); err != nil {
					rt.Fatal(err)
				}
			}
		}
		some := limits
		if rapid.Bool().Draw(rt, "few limits") { // so that keys change their limits, but not their families
			at := rapid.IntRange(0, len(limits)-3).Draw(rt, "limit")
			some = limits[at : at+3]
		}
		drawn := func() *Together {
			n := rapid.IntRange(1, 4).Draw(rt, "keys")
			r := &Together{Decisions: make([]limit.Decision, n), CountDenied: rapid.Bool().Draw(rt, "counts"), Peek: rapid.IntRange(0, 4).Draw(rt, "peeks") == 0}
			soft := rapid.Bool().Draw(rt, "soft")
			for range n {
				r.Keys = append(r.Keys, names[rapid.IntRange(0, len(names)-1).Draw(rt, "key")])
				r.Limits = append(r.Limits, some[rapid.IntRange(0, len(some)-1).Draw(rt, "limit")])
				r.Costs = append(r.Costs, rapid.Int64Range(-1, 9).Draw(rt, "cost"))
				if soft {
					r.Soft = append(r.Soft, rapid.Bool().Draw(rt, "soft"))
				}
			}
			return r
		}
		now := start
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			now += rapid.Int64Range(0, 3*second).Draw(rt, "wait")
			var requests []*Together
			for range rapid.IntRange(1, 4).Draw(rt, "requests") {
				requests = append(requests, drawn())
			}
			show := func(r *Together, at int, err error) string {
				if err != nil {
					return fmt.Sprint(at, err)
				}
				return fmt.Sprint(at, r.Decisions)
			}
			var want, got []string
			for _, r := range requests {
				at, err := one.Together(now, r)
				want = append(want, show(r, at, err))
			}
			declared := names[:rapid.IntRange(0, len(names)).Draw(rt, "declared")]
			err := all.Update(now, declared, func(tx *Txn) error {
				got = got[:0]
				for _, r := range requests {
					at, err := tx.Together(r)
					if err == ErrUndeclared {
						return err
					}
					got = append(got, show(r, at, err))
				}
				return nil
			})
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				rt.Fatalf("%+v: %v\n%s, want\n%s", requests, err, got, want)
			}
			for _, key := range names {
				if a, b := stateAt(one, now, key), stateAt(all, now, key); !bytes.Equal(a, b) {
					rt.Fatalf("%s holds %x, want %x", key, b, a)
				}
			}
			a, b := one.Stats(), all.Stats()
			if a.Bytes, b.Bytes = 0, 0; a != b {
				rt.Fatalf("%+v, want %+v", b, a)
			}
		}
	})
}

// A transaction that replaces a key of another family decides and counts as Engine.TakeFor does, and leaves what that leaves.
func TestTxnTakeReplaces(t *testing.T) {
	limits := everyLimit(t, "5/s")
	limits = append(limits, limit.Limit{Algorithm: limit.GCRA, Period: second})
	rapid.Check(t, func(rt *rapid.T) {
		e, now := New(Options{Seed: 1}), start
		one, other := []byte("one"), []byte("other")
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			now += rapid.Int64Range(0, second).Draw(rt, "wait")
			r := &Request{
				Limit: limits[rapid.IntRange(0, len(limits)-1).Draw(rt, "limit")], Cost: rapid.Int64Range(-1, 12).Draw(rt, "cost"),
				Partial: rapid.Bool().Draw(rt, "partial"), Replace: rapid.IntRange(0, 3).Draw(rt, "replace") > 0,
			}
			var want, got limit.Decision
			wantPart, wantErr := e.TakeFor(now, one, r, &want)
			before := e.Stats()
			var part int64
			var err error
			if broken := e.Update(now, [][]byte{other}, func(tx *Txn) error {
				part, err = tx.Take(other, r, &got)
				return nil
			}); broken != nil {
				rt.Fatal(broken)
			}
			if part != wantPart || err != wantErr || err == nil && got != want {
				rt.Fatalf("%s, %+v: %d, %+v, %v; want %d, %+v, %v", r.Limit.String(), r, part, got, err, wantPart, want, wantErr)
			}
			if a, b := stateAt(e, now, one), stateAt(e, now, other); !bytes.Equal(a, b) {
				rt.Fatalf("%s, %+v leaves %x, want %x", r.Limit.String(), r, b, a)
			}
			if st := e.Stats(); err == nil && st.Allowed+st.Limited != before.Allowed+before.Limited+1 {
				rt.Fatalf("%+v after %+v", st, before)
			}
		}
	})
}
