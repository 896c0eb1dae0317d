package engine

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"limitdb/limit"
)

// slow is a limit that its keys take long to recover from.
var slow = limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: second, Burst: 1000}

func TestNoEvictionRefusesNewKeys(t *testing.T) {
	e := New(Options{Shards: 4})
	const room = 300_000
	e.SetMaxMemory(e.Stats().Bytes+room, NoEviction)
	limitBytes := e.Stats().Bytes + room
	n := 0
	for ; ; n++ {
		_, err := take(e, start, key(n), &slow, 10)
		if b := e.Stats().Bytes; b > limitBytes {
			t.Fatalf("%d bytes with key %d, %d allowed", b, n, limitBytes)
		}
		if err != nil {
			if !errors.Is(err, ErrOOM) {
				t.Fatal(err)
			}
			break
		}
	}
	if n < room/60 {
		t.Errorf("only %d keys in %d bytes", n, room)
	}
	before := e.Stats()
	if before.Refused != 1 || before.Evicted != 0 || before.Keys != int64(n) {
		t.Errorf("%+v", before)
	}
	for i := range n { // those that exist go on working
		if d := mustTake(t, e, start, key(i), &slow, 1); d.Remaining != 1000-11 {
			t.Fatalf("key %d: %+v", i, d)
		}
	}
	if _, err := peek(e, start, key(n), &slow, 1); err != nil {
		t.Errorf("a peek needs no room: %v", err)
	}
	if d, err := take(e, start, key(n), &slow, 1001); err != nil || !d.Limited {
		t.Errorf("a denial needs no room: %+v, %v", d, err)
	}
	// What has expired makes room, without a sweep from outside.
	for i := range 3 * n / 4 {
		if d, err := take(e, start+11*second, key(n+i), &slow, 1); err != nil || d.Limited {
			t.Fatalf("new key %d after expiry: %+v, %v", i, d, err)
		}
	}
	if got := e.Stats(); got.Expired < uint64(n/2) {
		t.Errorf("%+v", got)
	}
	e.check()
}

func TestLeastDebtKeepsTheLimited(t *testing.T) {
	e := New(Options{Shards: 4})
	limitBytes := e.Stats().Bytes + 300_000
	e.SetMaxMemory(limitBytes, LeastDebt)
	const debtors = 200
	for i := range debtors {
		mustTake(t, e, start, key(i), &slow, 1000)
	}
	// A spray of new keys, far more than there is room for.
	for i := range 100_000 {
		mustTake(t, e, start+int64(i), key(debtors+i), &slow, 1+int64(i%5))
		if i%1000 == 0 {
			e.check()
			if b := e.Stats().Bytes; b > limitBytes {
				t.Fatalf("%d bytes, %d allowed", b, limitBytes)
			}
		}
	}
	for i := range debtors {
		d, err := peek(e, start+second/2, key(i), &slow, 1)
		if err != nil || !d.Limited {
			t.Fatalf("debtor %d has a fresh quota: %+v, %v", i, d, err)
		}
	}
	st := e.Stats()
	if st.Evicted == 0 || st.Refused != 0 || st.Keys+int64(st.Evicted) != debtors+100_000 {
		t.Errorf("%+v", st)
	}
	// Each was evicted with 1 to 5 s of debt.
	if each := st.Forgiven / st.Evicted; each < uint64(second)/2 || each > 5*uint64(second) {
		t.Errorf("%d ns forgiven for each", each)
	}
}

func TestMaxMemoryLoweredBelowUse(t *testing.T) {
	fill := func(p Policy) (*Engine, int64) {
		e := New(Options{})
		empty := e.Stats().Bytes
		for i := range 100_000 {
			mustTake(t, e, start, key(i), &slow, 1+int64(i%100))
		}
		low := empty + (e.Stats().Bytes-empty)/3
		e.SetMaxMemory(low, p)
		return e, low
	}
	e, low := fill(LeastDebt)
	for i := 0; e.Stats().Bytes > low; i++ {
		if e.Sweep(start, 5000); i > 10_000 {
			t.Fatalf("%d bytes, %d allowed", e.Stats().Bytes, low)
		}
	}
	e.check()
	if st := e.Stats(); st.Keys == 0 || st.Evicted == 0 || st.Expired != 0 {
		t.Errorf("%+v", st)
	}
	mustTake(t, e, start, []byte("new"), &slow, 100)

	e, _ = fill(NoEviction)
	e.Sweep(start, 1<<40)
	if _, err := take(e, start, []byte("new"), &slow, 1); !errors.Is(err, ErrOOM) {
		t.Errorf("a new key above the budget: %v", err)
	}
	if st := e.Stats(); st.Keys != 100_000 || st.Evicted != 0 {
		t.Errorf("%+v", st)
	}
	mustTake(t, e, start, key(7), &slow, 1)
	e.SetMaxMemory(0, NoEviction)
	mustTake(t, e, start, []byte("new"), &slow, 1)
}

// TestTinyBudgets has less room than one page for each shard, or none at all.
func TestTinyBudgets(t *testing.T) {
	for _, p := range []Policy{NoEviction, LeastDebt} {
		for _, room := range []int64{1, 1 << 12, 1 << 14, 1 << 17} {
			e := New(Options{})
			e.SetMaxMemory(e.Stats().Bytes+room, p)
			allowed := e.Stats().Bytes + room
			for i := range 2000 {
				if _, err := take(e, start, key(i), &slow, 1); err != nil && !errors.Is(err, ErrOOM) {
					t.Fatal(err)
				}
				if b := e.Stats().Bytes; b > allowed {
					t.Fatalf("%d bytes, %d allowed", b, allowed)
				}
			}
			e.check()
			if st := e.Stats(); room > 1<<12 && st.Keys == 0 || st.Allowed+st.Refused != 2000 {
				t.Errorf("policy %d, %d bytes: %+v", p, room, st)
			}
		}
	}
}

func TestKeyTooLong(t *testing.T) {
	e := New(Options{})
	if _, err := take(e, start, make([]byte, MaxKey+1), &slow, 1); !errors.Is(err, ErrKey) {
		t.Errorf("a key of MaxKey+1 bytes: %v", err)
	}
	mustTake(t, e, start, make([]byte, MaxKey), &slow, 1)
	if e.Reset(start, make([]byte, MaxKey+1)) || !e.Reset(start, make([]byte, MaxKey)) {
		t.Error("another key was reset")
	}
}

// TestMassExpiry has every key expire in one instant.
func TestMassExpiry(t *testing.T) {
	e := New(Options{})
	empty := e.Stats().Bytes
	const n = 300_000
	for i := range n {
		mustTake(t, e, start, key(i), perSecond(1), 1)
	}
	if got := e.Sweep(start+second-1, 1<<40); got != 0 {
		t.Fatalf("%d expired too early", got)
	}
	now, dropped := start+second, 0
	for i := 0; i < 1000 && dropped < n; i++ {
		mustTake(t, e, now, key(n+i%10), perSecond(1), 0) // traffic goes on
		dropped += e.Sweep(now, 1000)
	}
	if dropped != n {
		t.Fatalf("dropped %d of %d in 1000 sweeps of 1000 slots", dropped, n)
	}
	for range 3 {
		e.Sweep(now, 1<<40)
	}
	if got := e.Stats(); got.Bytes != empty || got.Expired != n {
		t.Errorf("%+v, %d bytes at first", got, empty)
	}
}

// TestFlushDuringGrowth flushes, warms, ranges and sweeps while keys are added.
func TestFlushDuringGrowth(t *testing.T) {
	e := New(Options{Shards: 2})
	e.SetMaxMemory(4<<20, LeastDebt)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			batch := make([][]byte, 100)
			for range 300 {
				for i := range batch {
					batch[i] = key(r.IntN(60_000))
				}
				e.Warm(batch, make([]Place, len(batch)))
				for _, k := range batch {
					if _, err := take(e, start, k, &slow, 1); err != nil {
						t.Errorf("Take: %v", err)
						return
					}
				}
			}
		})
	}
	for i := range 30 {
		e.Range(start, 0, 1000, func([]byte, Info) {})
		e.Sweep(start, 1000)
		if i%3 == 0 {
			e.Flush()
		}
	}
	all.Wait()
	e.check()
	e.Flush()
	if st := e.Stats(); st.Keys != 0 || st.Bytes != New(Options{Shards: 2}).Stats().Bytes {
		t.Errorf("%+v", st)
	}
}

func TestWarmTakesAnything(t *testing.T) {
	e := New(Options{Shards: 1})
	e.Warm(nil, nil)
	e.Warm([][]byte{nil, {}, []byte("absent"), make([]byte, 1<<20)}, make([]Place, 4))
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = key(i)
		mustTake(t, e, start, keys[i], &slow, 1)
	}
	places := make([]Place, len(keys))
	e.Warm(keys, places)
	for i, k := range keys {
		var d limit.Decision
		if err := e.TakeAt(places[i], start, k, &slow, 1, &d); err != nil {
			t.Fatal(err)
		}
		if again, err := peek(e, start, k, &slow, 0); err != nil || again != d {
			t.Fatalf("TakeAt left %+v, %v; there is %+v", d, err, again)
		}
	}
	if n := testing.AllocsPerRun(100, func() { e.Warm(keys, places) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
