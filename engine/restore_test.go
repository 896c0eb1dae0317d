package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"limitdb/internal/journal"
	"limitdb/limit"
)

// restored returns an engine that expects that many keys, with n keys in it.
func restored(t *testing.T, o Options, expected int64, n int) *Engine {
	t.Helper()
	e := New(o)
	if err := e.Expect(start, expected); err != nil {
		t.Fatal(err)
	}
	e.check()
	if err := restoreShared(e, someChanges(0, n), 2); err != nil {
		t.Fatal(err)
	}
	e.check()
	if st := e.Stats(); st.Keys != int64(n) {
		t.Fatalf("%d keys, want %d", st.Keys, n)
	}
	return e
}

func segmentsOf(e *Engine) (n int) {
	for i := range e.shards {
		n += e.shards[i].table.Stats().Segments
	}
	return n
}

// A table that knows how many keys will come has the segments that it would have
// grown. It splits few of them, and uses no more memory afterwards.
//
//test:norace
func TestExpectedKeysFindTheirSegments(t *testing.T) {
	for _, keys := range []int{1, 100, 1500, 20_000, 100_000, 130_000, 150_000} {
		o := Options{Shards: 8, Seed: 7}
		e := New(o)
		if err := e.Expect(start, int64(keys)); err != nil {
			t.Fatal(err)
		}
		before := segmentsOf(e)
		e = restored(t, o, int64(keys), keys)
		after, grown := segmentsOf(e), restored(t, o, 0, keys)
		if after > before+before/20+1 {
			t.Errorf("%d keys: %d segments were prepared, and there are %d", keys, before, after)
		}
		if want := segmentsOf(grown); after > want*5/4 || after < want*3/4 {
			t.Errorf("%d keys: %d segments, a table that grew has %d", keys, after, want)
		}
		e.Tidy()
		e.check()
		if got, want := e.Stats().Bytes, grown.Stats().Bytes; got > want*23/20 {
			t.Errorf("%d keys: %d bytes, a table that grew has %d", keys, got, want)
		}
	}
}

// What was prepared for keys that do not come is bounded. Tidy, or Sweep some
// seconds later, gives it back.
func TestKeysThatDoNotComeCostLittle(t *testing.T) {
	const expected = 200_000
	o := Options{Shards: 8, Seed: 7}
	empty := New(o).Stats().Bytes
	for _, came := range []int{0, 1, 500, 10_000} {
		e := restored(t, o, expected, came)
		if got := e.Stats().Bytes - empty; got > expected*16+int64(came)*100 {
			t.Errorf("%d keys of %d: %d bytes", came, expected, got)
		}
		e.Tidy()
		e.arena.Trim(true)
		e.check()
		grown := restored(t, o, 0, came)
		grown.arena.Trim(true)
		if got, want := e.Stats().Bytes, grown.Stats().Bytes; got > want*3/2 {
			t.Errorf("%d keys of %d: %d bytes when it is settled, a table that grew has %d", came, expected, got, want)
		}
		if want, got := contents(grown, start), contents(e, start); len(want) != came || fmt.Sprint(want) != fmt.Sprint(got) {
			t.Errorf("%d keys of %d: there are %d", came, expected, len(got))
		}
	}
	e := restored(t, o, expected, 0)
	prepared := segmentsOf(e)
	if e.Sweep(start, expected); segmentsOf(e) != prepared {
		t.Error("a sweep has undone what was prepared for keys that are still coming")
	}
	e.Sweep(start+sweepRest, expected)
	e.check()
	e.arena.Trim(true)
	if got := e.Stats().Bytes; got != empty {
		t.Errorf("%d bytes when it is swept, %d before", got, empty)
	}
}

// Expect prepares for no more keys than the budget has room for. An engine that
// has keys stays as it is.
//
//test:norace
func TestExpectIsBounded(t *testing.T) {
	const budget = 1 << 20
	for _, policy := range []Policy{NoEviction, LeastDebt} {
		e := New(Options{Shards: 4, MaxMemory: budget, Policy: policy})
		if err := e.Expect(start, 1<<62); err != nil {
			t.Fatal(err)
		}
		e.check()
		if got := e.Stats().Bytes; got > budget {
			t.Fatalf("%d bytes of %d before the first key", got, budget)
		}
		var d limit.Decision
		refused := 0
		for i := range 40_000 {
			switch err := e.Take(start, key(i), &benchLimit, 1e9, &d); err {
			case nil:
			case ErrOOM:
				refused++
			default:
				t.Fatal(err)
			}
		}
		e.check()
		if st := e.Stats(); st.Keys < 8_000 || st.Bytes > budget+2*spanSize || (refused > 0) != (policy == NoEviction) {
			t.Errorf("policy %d: %d refused, %+v", policy, refused, st)
		}
	}
	e := restored(t, Options{Shards: 1}, 0, 3)
	before := e.Stats()
	for _, keys := range []int64{100_000, 0, -1} {
		if err := e.Expect(start, keys); err != nil || e.Stats() != before {
			t.Errorf("%+v, %v; it was %+v", e.Stats(), err, before)
		}
	}
}

// Each key is in exactly one share, whatever the number of shares. A share is the keys of shards that stand one behind another, as many
// in each share, but for one.
func TestSharesAreApart(t *testing.T) {
	changes := someChanges(0, 1000)
	for _, shards := range []int{1, 4, 256} {
		for _, shares := range []int{1, 2, 3, 7} {
			e := New(Options{Shards: shards})
			of := make([]int64, shards) // the keys of each shard
			for i := range changes {
				h, _ := e.place(changes[i].Key)
				of[h>>(64-e.shardBits)]++
			}
			sum, from := int64(0), 0
			for share := range shares {
				before := e.Stats().Keys
				if err := e.Restore(changes, share, shares); err != nil {
					t.Fatal(err)
				}
				n, want, to := e.Stats().Keys-before, int64(0), ((share+1)*shards+shares-1)/shares
				for _, keys := range of[from:to] {
					want += keys
				}
				if sum, from = sum+n, to; n != want {
					t.Errorf("share %d of %d of %d shards has %d keys, not %d", share, shares, shards, n, want)
				}
			}
			if sum != 1000 {
				t.Errorf("%d shares of %d shards have %d keys of 1000", shares, shards, sum)
			}
		}
	}
}

func TestRestoreAllocatesNothing(t *testing.T) {
	e := New(Options{})
	changes := someChanges(0, 500)
	if n := allocations(100, func() {
		if err := e.Restore(changes, 0, 1); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Other shards continue while a table is restored.
func TestRestoreBesideOthers(t *testing.T) {
	e, stop, done := New(Options{Shards: 4}), make(chan struct{}), make(chan struct{})
	if err := e.Expect(start, 20_000); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		for now := int64(start); ; now += second {
			select {
			case <-stop:
				return
			default:
			}
			e.Sweep(now, 1000)
			e.Range(now, 0, 100, func([]byte, Info) {})
			e.Stats()
		}
	}()
	err := restoreShared(e, someChanges(0, 40_000), 2)
	e.Tidy()
	close(stop)
	<-done
	if e.check(); err != nil || e.Stats().Keys != 40_000 {
		t.Errorf("%v, %+v", err, e.Stats())
	}
}

func TestRestoreRefusesWhatItDoesNotKnow(t *testing.T) {
	e := New(Options{})
	state := bytes.Repeat([]byte{9}, 8)
	for _, kind := range []byte{0, 127, 255} {
		if e.Restore([]journal.Record{{Op: journal.Set, Kind: kind, Key: []byte("k"), State: state}}, 0, 1) == nil {
			t.Errorf("kind %d was restored", kind)
		}
	}
	long := bytes.Repeat([]byte("k"), MaxKey+1)
	if e.Restore([]journal.Record{{Op: journal.Set, Kind: byte(limit.GCRA), Key: long, State: state}}, 0, 1) == nil {
		t.Error("a key that is too long was restored")
	}
}

// someChanges returns the records of n keys, from the first on, as recovery
// restores them.
func someChanges(first, n int) []journal.Record {
	state := binary.LittleEndian.AppendUint64(nil, math.MaxInt64)
	all := make([]journal.Record, n)
	for i := range all {
		all[i] = journal.Record{Op: journal.Set, Kind: byte(limit.GCRA), Key: benchKey(nil, first+i), State: state}
	}
	return all
}
