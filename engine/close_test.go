package engine

import (
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"

	"limitdb/engine/table"
	"limitdb/internal/journal"
	"limitdb/limit"
)

// wakes counts how often Wake was called.
type wakes struct{ n int }

func (w *wakes) Wake() { w.n++ }

func TestCloseGivesEverythingBack(t *testing.T) {
	e := New(Options{Shards: 4})
	empty := e.Stats().Bytes
	for i := range 10_000 {
		mustTake(t, e, start, key(i), &slow, 1)
	}
	var told wakes
	one := limit.Limit{Algorithm: limit.GCRA, Max: 1, Burst: 1, Period: second}
	line := limit.Limit{Algorithm: limit.QUEUE, Max: 1, Burst: 5, Period: second}
	var waiters []*Waiter
	for i, l := range []limit.Limit{one, line} {
		k := key(20_000 + i)
		mustTake(t, e, start, k, &l, 1)
		for range 2 {
			w := &Waiter{Request: Request{Limit: l, Cost: 1}, Until: start + 100*second, Owner: &told}
			if !e.Ask(start, k, w) {
				t.Fatal("it does not wait")
			}
			waiters = append(waiters, w)
		}
	}
	e.Close()
	for _, w := range waiters {
		if _, _, err := w.Result(); !w.Done() || !errors.Is(err, ErrClosed) {
			t.Errorf("a waiter: %v, %v", w.Done(), err)
		}
	}
	if st := e.Stats(); st.Bytes != empty || st.Keys != 0 || st.Waiting != 0 || told.n != len(waiters) {
		t.Errorf("%+v, told %d", st, told.n)
	}
	if next := e.Wake(start + 1000*second); next != math.MaxInt64 {
		t.Errorf("the next deadline is %d", next)
	}
	e.check()
	var d limit.Decision
	k := key(1)
	_, partial := takePartial(e, start, k, &slow, 2, &d)
	_, all := e.TakeAll(start, [][]byte{k}, []limit.Limit{slow}, []int64{1}, make([]limit.Decision, 1))
	_, _, renew := e.Renew(start, k, []byte("id"), 1)
	w := &Waiter{Request: Request{Limit: slow, Cost: 1}, Until: start + second, Owner: &told}
	e.Ask(start, k, w)
	_, _, asked := w.Result()
	for what, err := range map[string]error{
		"Take": e.Take(start, k, &slow, 1, &d), "Peek": e.Peek(start, k, &slow, 1, &d),
		"Refund": e.Refund(start, k, &slow, 1, &d), "Reserve": e.Reserve(start, k, &slow, 1, 0, &d),
		"Lease":   e.Lease(start, k, &limit.Lease{Limit: 1, TTL: 1, Weight: 1, ID: k}, &d),
		"Holders": e.Holders(start, k, func(limit.Holder) {}), "Ask": asked,
		"TakePartial": partial, "TakeAll": all, "Renew": renew, "Expect": e.Expect(start, 1e6),
		"Restore": e.Restore([]journal.Record{{Kind: byte(limit.GCRA), Key: k, State: stateOf(start+second, 8, 0)}}, 0, 1),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v", what, err)
		}
	}
	if _, there := e.Info(start, k); there || e.Reset(start, k) {
		t.Error("a key is there")
	}
	e.Sweep(start, 1000)
	e.Flush()
	e.Close()
}

// TestCloseWhileOthersAreInside makes calls of every kind while Close runs. The
// race detector watches.
func TestCloseWhileOthersAreInside(t *testing.T) {
	for range 20 {
		e := New(Options{Shards: 4})
		var started, all sync.WaitGroup
		for g := range 4 {
			started.Add(1)
			all.Go(func() {
				var d limit.Decision
				keys := [][]byte{key(0), key(1), key(2), key(3), key(4)}
				var places [5]Place
				for i := 0; ; i++ {
					if i == 10 {
						started.Done()
					}
					k := key(i % 500)
					e.Peek(start, k, &slow, 1, &d)
					e.Refund(start, k, &slow, 1, &d)
					e.Info(start, k)
					e.Reset(start, key(i%7))
					e.Warm(keys, places[:], true)
					if g == 0 {
						e.Sweep(start, 100)
					}
					if err := e.Take(start, k, &slow, 1, &d); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						break
					}
				}
			})
		}
		started.Wait()
		e.Close()
		all.Wait()
		e.check()
	}
}

// TestMemoryStaysWhileACallIsInside runs the garbage collector while only a call
// still refers to an engine.
func TestMemoryStaysWhileACallIsInside(t *testing.T) {
	for range 10 {
		e := New(Options{Shards: 1})
		mustTake(t, e, start, key(1), &slow, 1)
		s := &e.shards[0]
		h, _ := e.place(key(1))
		e = nil
		for range 3 {
			runtime.GC()
		}
		sp := table.Spot{Hash: h, Key: key(1)}
		if s.open(start, &sp); !sp.Found() {
			t.Fatal("the key has gone")
		}
	}
}

// TestRefundFindsRoom refunds to keys that count as used up, in an engine that is full.
func TestRefundFindsRoom(t *testing.T) {
	for _, p := range []Policy{NoEviction, LeastDebt} {
		e := New(Options{Shards: 1})
		e.AssumeUsedUp(start)
		e.SetMaxMemory(e.Stats().Bytes+50_000, p)
		full := false
		for i := range 3000 {
			var d limit.Decision
			err := e.Refund(start+1, key(i), &slow, 1, &d)
			full = full || err != nil
			if err != nil && !errors.Is(err, ErrOOM) || err != nil && p == LeastDebt {
				t.Fatalf("policy %d: %v", p, err)
			}
		}
		if full != (p == NoEviction) {
			t.Errorf("policy %d: full %v", p, full)
		}
		e.check()
	}
}
