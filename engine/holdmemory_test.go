package engine

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"testing"

	"limitdb/hold"
	"limitdb/internal/journal"
	"limitdb/limit"
)

// Holds while memory, and what one key may have, is used up.

// A key whose estimates are held is not evicted, and when memory is used up, holds are refused but settled all the same.
//
//test:norace
func TestHoldsWhenMemoryIsUsedUp(t *testing.T) {
	e := New(Options{Shards: 1, MaxMemory: 768 << 10, Policy: LeastDebt})
	defer e.Close()
	l, err := limit.Parse("FIXED 1000000/d")
	if err != nil {
		t.Fatal(err)
	}
	now := int64(1.7e18)
	held, refused := 0, 0
	for i := range 20_000 {
		req := Request{Limit: l, Cost: 1, Hold: &Hold{ID: strconv.AppendInt([]byte("request:"), int64(i), 10), TTL: 1e9, Returns: i%2 == 0}}
		var d limit.Decision
		switch _, err := e.TakeFor(now, key(i%7), &req, &d); {
		case err == nil:
			held++
		case errors.Is(err, ErrOOM) || errors.Is(err, hold.ErrLive):
			refused++
		default:
			t.Fatal(err)
		}
	}
	if held < 2_000 || refused < 2_000 {
		t.Fatalf("%d held, %d refused", held, refused)
	}
	for i := range 20_000 {
		var s Settlement
		if err := e.on(now, key(i%7), func(t *Txn) error {
			return Settle(t, key(i%7), strconv.AppendInt([]byte("request:"), int64(i), 10), 0, &s)
		}); err == nil {
			if held--; s.Charged != -1 {
				t.Fatalf("hold %d: %+v", i, s)
			}
		} else if !errors.Is(err, ErrNoHold) {
			t.Fatal(err)
		}
	}
	if held != 0 {
		t.Errorf("%d holds are lost", held)
	}
}

// A hold that has no place takes nothing, also in a step that has taken from the key before.
//
//test:norace
func TestHoldsOfOneKeyAreBounded(t *testing.T) {
	e := New(Options{Shards: 1})
	defer e.Close()
	l, err := limit.Parse("FIXED 1000000/d")
	if err != nil {
		t.Fatal(err)
	}
	now, k := int64(1.7e18), key(1)
	held := func(i int) Request {
		return Request{Limit: l, Cost: 1, Hold: &Hold{ID: strconv.AppendInt(nil, int64(i), 10), TTL: 1e9}}
	}
	var d limit.Decision
	for i := range hold.MaxLive {
		r := held(i)
		if _, err := e.TakeFor(now, k, &r, &d); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := e.on(now, k, func(t *Txn) error {
		one := Request{Limit: l, Cost: 7}
		if _, err := t.Take(k, &one, &d); err != nil {
			return err
		}
		r := held(hold.MaxLive)
		if _, err := t.Take(k, &r, &d); err != hold.ErrLive {
			return fmt.Errorf("%w, want ErrLive", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := e.Peek(now, k, &l, 0, &d); err != nil || d.Remaining != 1_000_000-hold.MaxLive-7 {
		t.Errorf("%+v, %v", d, err)
	}
	// Those whose time is over make room.
	r := held(hold.MaxLive)
	if _, err := e.TakeFor(now+1e9, k, &r, &d); err != nil {
		t.Error(err)
	}
}

// Estimates that go back to a long LOG, all at once, do not take the shard's lock for long: each look gives back as many as
// bytes of states allow, the others stay taken meanwhile, and all have gone back in the end.
//
//test:norace
func TestReturnsToALongLogAreBounded(t *testing.T) {
	e := New(Options{Shards: 1})
	defer e.Close()
	l, err := limit.Parse("LOG 65536/h")
	if err != nil {
		t.Fatal(err)
	}
	const many = 3000
	now, key := int64(1.7e18), []byte("tenant")
	for i := range int64(many) {
		now += 1001
		r := Request{Limit: l, Cost: 1, Hold: &Hold{ID: fmt.Append(nil, i), TTL: 60e9, Returns: true}}
		err := e.UpdateAt(0, now, [][]byte{key}, func(x *Txn) error {
			var d limit.Decision
			_, err := x.Take(key, &r, &d)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	now += 100e9
	left, looks := int64(many), 0
	for ; left > 0; looks++ {
		var d limit.Decision
		if err := e.Peek(now, key, &l, 0, &d); err != nil {
			t.Fatal(err)
		}
		was := left
		left = l.Max - d.Remaining
		if back := was - left; back < 1 || back > returnWork/max(left, 1)+1 { // a unit has a byte at least
			t.Fatalf("look %d: %d went back, %d are left", looks, back, left)
		}
	}
	if looks < 3 {
		t.Errorf("%d looks", looks)
	}
}

// Estimates under several limits, in turn, all go back at one look, and so do those of a key that is blocked.
func TestReturnsOfSeveralLimits(t *testing.T) {
	for _, specs := range [][]string{
		{"FIXED 5000/d"},
		{"FIXED 5000/d", "FIXED 4000/d"},
		{"GCRA 5000/h", "TOKEN 5000/h", "LEAKY 5000/h"},
		{"SLIDING 5000/h"},
		{"SEGMENTED 5000/h SEGMENTS 5"},
		{"LOG 5000/h", "LOG 4000/h"},
		{"FIXED 5000/d BLOCK 10s", "FIXED 4000/d BLOCK 10s"},
	} {
		for _, many := range []int{1, 3, 17, 600} {
			e := New(Options{Shards: 1})
			defer e.Close()
			limits := parsed(t, specs...)
			now, k := int64(1.7e18), key(1)
			var d limit.Decision
			for i := range many {
				h := Hold{ID: strconv.AppendInt(nil, int64(i), 10), TTL: 1e9, Returns: true}
				if err := e.HoldAt(0, now, k, &limits[i/2%len(limits)], 2, &h, &d); err != nil || d.Limited {
					t.Fatalf("%s: %+v, %v", specs, d, err)
				}
			}
			first := &limits[0]
			if first.Block > 0 {
				if err := e.Take(now, k, first, 4999, &d); err != nil || !d.Limited {
					t.Fatalf("%s: %+v, %v", specs, d, err)
				}
				now += 11e9
			}
			now += 1e9
			if d, err := peek(e, now, k, first, 0); err != nil || d.Remaining < first.Max-1 { // a bucket keeps a part of a token
				t.Errorf("%s, %d: %d are left of %d, %v", specs, many, d.Remaining, first.Max, err)
			}
			if s := e.Stats(); s.HoldsReturned != uint64(many) {
				t.Errorf("%s: %d of %d have gone back", specs, s.HoldsReturned, many)
			}
		}
	}
}

// An estimate that is to go back, on a key that nobody asks about until all of it is forgotten, is gone with its set.
func TestReturnsThatAreForgotten(t *testing.T) {
	for _, spec := range []string{"GCRA 100/h", "FIXED 100/s", "LOG 100/s"} {
		for _, holds := range []int{1, 3, 40} {
			e := New(Options{Shards: 1})
			defer e.Close()
			l, err := limit.Parse(spec)
			if err != nil {
				t.Fatal(err)
			}
			now, k := int64(1.7e18), key(1)
			var d limit.Decision
			for i := range holds {
				r := Request{Limit: l, Cost: 1, Hold: &Hold{ID: strconv.AppendInt(nil, int64(i), 10), TTL: 10e9, Returns: true}}
				if _, err := e.TakeFor(now, k, &r, &d); err != nil {
					t.Fatal(err)
				}
			}
			now += 4000e9
			if err := e.Peek(now, k, &l, 0, &d); err != nil || d.Remaining != 100 {
				t.Errorf("%s, %d holds: %+v, %v", spec, holds, d, err)
			}
		}
	}
}

// TestHoldsWithoutMemory checks that a hold is stored with what it takes, or neither is, while there is no room for more, whatever is
// evicted for it.
//
//test:norace
func TestHoldsWithoutMemory(t *testing.T) { holdWithoutMemory(t, NoEviction) }

//test:norace
func TestHoldsWithEviction(t *testing.T) { holdWithoutMemory(t, LeastDebt) }

func holdWithoutMemory(t *testing.T, policy Policy) {
	t.Run("FIXED", func(t *testing.T) { holdUnder(t, "FIXED 1000000/d", 0, policy) })
	t.Run("SEGMENTED", func(t *testing.T) { holdUnder(t, "SEGMENTED 1000000/2h SEGMENTS 60", 15, policy) })
	t.Run("longer SEGMENTED", func(t *testing.T) { holdUnder(t, "SEGMENTED 1000000/2h SEGMENTS 60", 40, policy) })
}

// holdUnder makes holds under a limit. From some of the keys, much is taken every two minutes before, so often that their states are long.
func holdUnder(t *testing.T, spec string, before int, policy Policy) {
	e := New(Options{Shards: 1, MaxMemory: 512 << 10, Policy: policy})
	defer e.Close()
	e.StartJournal(0, new(journal.Gate), func() {})
	l, err := limit.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	now := int64(1.7e18)
	taken := map[int]int64{} // by held estimates and by nothing else
	held, refused := 0, 0
	const grown = 30 // keys with sets that grow
	for range before {
		now += 120e9
		for k := range grown {
			if _, err := take(e, now, key(k), &l, int64(5*before)); err != nil {
				t.Fatal(err)
			}
		}
	}
	longest := 0
	for i := range 12_000 {
		var d limit.Decision
		if policy != NoEviction { // keys to evict
			if _, err := take(e, now, key(1_000_000+i), &l, 1); err != nil && !errors.Is(err, ErrOOM) {
				t.Fatal(err)
			}
		}
		at := i
		if i%3 == 0 {
			at = i % grown
		}
		h := Hold{ID: fmt.Appendf(nil, "%0*d", 1+i%100, i), TTL: 3600e9}
		switch err := e.HoldAt(0, now, key(at), &l, 2, &h, &d); {
		case err == nil:
			held++
			taken[at] += 2
			_ = e.on(now, key(at), func(t *Txn) error {
				_, state, err := t.Get(key(at))
				longest = max(longest, len(state))
				return err
			})
		case errors.Is(err, ErrOOM):
			refused++
			taken[at] += 0
		default:
			t.Fatal(err)
		}
	}
	if held < 1000 || refused < 1000 {
		t.Fatalf("%d held, %d refused", held, refused)
	}
	if longest < 2*before {
		t.Errorf("no state is longer than %d bytes", longest)
	}
	for at, want := range taken {
		var d limit.Decision
		other := int64(0)
		if at < grown {
			other = int64(5 * before * before)
		}
		if err := e.Peek(now, key(at), &l, 0, &d); err != nil || l.Max-d.Remaining != want+other {
			t.Fatalf("key %d: %d is taken, %v; %d is held", at, l.Max-d.Remaining, err, want)
		}
		sum := int64(0)
		if err := e.on(now, key(at), func(t *Txn) error {
			return Holds(t, key(at), func(h *Held) bool { sum += h.Amount; return true })
		}); err != nil || sum != want {
			t.Fatalf("key %d: %d is held, %v, want %d", at, sum, err, want)
		}
	}
	var log journal.Buffer
	drain(e, &log)
	again := New(Options{Shards: 1})
	defer again.Close()
	if err := replay(again, now, log.Bytes); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(contents(again, now), contents(e, now)) {
		t.Error("the journal and the table differ")
	}
}

// longKeys returns an engine with keys, their limit, and a function that returns how much of the limit a key has used. The states of the keys are
// too long for what is held of them to be in the same record. The first key has used least.
func longKeys(t *testing.T, keys int) (e *Engine, now int64, l limit.Limit, used func(i int) int64) {
	e, now = New(Options{Shards: 1}), int64(1.7e18)
	t.Cleanup(e.Close)
	l, err := limit.Parse("SEGMENTED 1000000/2h SEGMENTS 60")
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		now += 120e9
		for i := range keys {
			if _, err := take(e, now, key(i), &l, int64(1+i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return e, now, l, func(i int) int64 {
		d, err := peek(e, now, key(i), &l, 0)
		if err != nil {
			t.Fatal(err)
		}
		return l.Max - d.Remaining
	}
}

// TestKeyIsNotEvictedForItsHold checks that the room for a hold is not made by evicting its own key, although that key is the next to be evicted.
func TestKeyIsNotEvictedForItsHold(t *testing.T) {
	const keys = 500
	e, now, l, used := longKeys(t, keys)
	held := 0
	for i := range keys {
		if used(i) == 0 { // evicted for another
			continue
		}
		var d limit.Decision
		e.SetMaxMemory(e.Stats().Bytes-1, LeastDebt) // so others go for what comes
		err := e.HoldAt(0, now, key(i), &l, 1, &Hold{ID: []byte("request"), TTL: 1e9}, &d)
		if errors.Is(err, ErrOOM) { // no others are left
			break
		}
		if held++; err != nil || used(i) == 0 {
			t.Fatalf("key %d: %d is taken, %v", i, used(i), err)
		}
	}
	if evicted := e.Stats().Evicted; held < 10 || evicted < uint64(held) {
		t.Errorf("%d held, %d evicted", held, evicted)
	}
}

// TestRefusedHoldTakesNothing checks that what a hold takes is given back if there is no room for what is known of it.
func TestRefusedHoldTakesNothing(t *testing.T) {
	e, now, l, used := longKeys(t, 1)
	e.SetMaxMemory(1, NoEviction)
	var d limit.Decision
	if err := e.HoldAt(0, now, key(0), &l, 1, &Hold{ID: []byte("request"), TTL: 1e9}, &d); !errors.Is(err, ErrOOM) {
		t.Fatal(err)
	}
	if got := used(0); got != 40 {
		t.Errorf("%d are taken, want 40", got)
	}
}

// TestDenialsOfIDsWithoutMemory checks that a request with an id which is denied, and whose limit counts that, is answered as by a step when there is no room
// for what is counted.
func TestDenialsOfIDsWithoutMemory(t *testing.T) {
	const now = int64(1.7e18)
	for _, spec := range []string{"FIXED 3/h COUNTDENIED", "SLIDING 3/h COUNTDENIED", "SEGMENTED 3/h SEGMENTS 4 COUNTDENIED", "LOG 3/h COUNTDENIED"} {
		e := New(Options{Shards: 1})
		defer e.Close()
		l := parsed(t, spec)[0]
		var d, want limit.Decision
		if err := e.HoldAt(0, now, key(0), &l, 3, &Hold{ID: []byte("first"), TTL: 1e9}, &d); err != nil || d.Limited {
			t.Fatal(spec, err)
		}
		e.SetMaxMemory(1, NoEviction)
		for i, h := range []*Hold{{ID: []byte("request"), TTL: 1e9}, {Once: &Once{ID: []byte("request"), For: 1e9}}} {
			for _, k := range []int{0, 2 * i, 2*i + 2} { // one that is there, and new ones
				r := Request{Limit: l, Cost: 4, Hold: h}
				if _, err := e.TakeFor(now, key(100+k), &r, &want); err != nil || !want.Limited {
					t.Fatalf("%s: %+v, %v in a step", spec, want, err)
				}
				if err := e.HoldAt(0, now, key(k), &l, 4, h, &d); err != nil || !d.Limited || k > 0 && d != want {
					t.Errorf("%s: key %d: %+v, %v; want %+v", spec, k, d, err, want)
				}
			}
		}
	}
}
