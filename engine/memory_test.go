package engine

import (
	"errors"
	"testing"

	"limitdb/limit"
)

// slow is a limit whose keys take long to recover.
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
	for i := range n { // existing keys continue to work
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
	// Expired keys make room, without a sweep from outside.
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

//test:norace
func TestLeastDebtKeepsTheLimited(t *testing.T) {
	e := New(Options{Shards: 4})
	limitBytes := e.Stats().Bytes + 300_000
	e.SetMaxMemory(limitBytes, LeastDebt)
	const debtors = 200
	for i := range debtors {
		mustTake(t, e, start, key(i), &slow, 1000)
	}
	// There are far more new keys than room.
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
	// Each evicted key had 1 to 5 s of debt.
	if each := st.Forgiven / st.Evicted; each < uint64(second)/2 || each > 5*uint64(second) {
		t.Errorf("%d ns forgiven for each", each)
	}
}

// TestTinyBudgets gives budgets of less than one page for each shard, or of
// nothing at all.
//
//test:norace
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

func TestWarmTakesAnything(t *testing.T) {
	e := New(Options{Shards: 1})
	e.Warm(nil, nil, false)
	e.Warm([][]byte{nil, {}, []byte("absent"), make([]byte, 1<<20)}, make([]Place, 4), true)
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = key(i)
		mustTake(t, e, start, keys[i], &slow, 1)
	}
	places := make([]Place, len(keys))
	e.Warm(keys, places, false)
	for i, k := range keys {
		var d limit.Decision
		if err := e.TakeAt(places[i], start, k, &slow, 1, &d); err != nil {
			t.Fatal(err)
		}
		if again, err := peek(e, start, k, &slow, 0); err != nil || again != d {
			t.Fatalf("TakeAt left %+v, %v; there is %+v", d, err, again)
		}
	}
	if n := allocations(100, func() { e.Warm(keys, places, true) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestBytesOfAKey: a typical key, of 17 bytes and under GCRA, takes 42 bytes at most,
// however many there are.
//
//test:norace
func TestBytesOfAKey(t *testing.T) {
	for _, n := range []int{400_000, 700_000} {
		if got := bytesPerKey(t, n); got > 42 {
			t.Errorf("%.1f bytes for each of %d keys", got, n)
		}
	}
}

// bytesPerKey returns how many bytes each of n keys takes in an engine.
func bytesPerKey(tb testing.TB, n int) float64 {
	e := New(Options{Seed: 7})
	empty := e.Bytes()
	var buf [32]byte
	for i := range n {
		mustTake(tb, e, start, benchKey(buf[:], i), &benchLimit, 1)
	}
	return float64(e.Bytes()-empty) / float64(n)
}

// benchKey writes the i-th key over buf: 17 bytes, as the keys of the published
// figures.
func benchKey(buf []byte, i int) []byte {
	buf = append(buf[:0], "resi:000000000000"...)
	for p, v := len(buf)-1, i; v > 0; p, v = p-1, v/10 {
		buf[p] = byte('0' + v%10)
	}
	return buf
}

// benchLimit never denies, so that every step writes.
var benchLimit = limit.Limit{Algorithm: limit.GCRA, Max: 1_000_000, Period: second, Burst: 1 << 40}
