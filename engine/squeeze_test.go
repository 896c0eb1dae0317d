package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"limitdb/internal/journal"
	"limitdb/limit"
)

// ranked returns how many keys the engine has looked at in order to evict some.
func ranked(e *Engine) (n uint64) {
	e.eachShard(func(s *shard) { n += s.table.Stats().Ranked })
	return n
}

// setText stores a string of n bytes, which expires at a time, or never if that is 0.
func setText(e *Engine, now int64, key []byte, n int, expires int64) error {
	kind, state := limit.STRING, make([]byte, 0, n+8)
	if expires == 0 {
		kind = limit.STRING + 1
	} else {
		state = binary.LittleEndian.AppendUint64(state, uint64(expires))
	}
	state = append(state, make([]byte, n)...)
	return e.Update(now, [][]byte{key}, func(tx *Txn) error { return tx.Put(key, kind, state) })
}

// TestSweepsInVainAreNotRepeated fills the memory with what may not be evicted, and counts the keys that
// refused commands look at.
//
//test:norace
func TestSweepsInVainAreNotRepeated(t *testing.T) {
	const budget = 4 << 20
	used := limit.Limit{Algorithm: limit.FIXED, Max: 1, Burst: 1, Period: 1000 * second}
	for name, fill := range map[string]func(e *Engine, now int64, i int) error{
		"values":      func(e *Engine, now int64, i int) error { return setText(e, now, key(i), 40, 0) },
		"long values": func(e *Engine, now int64, i int) error { return setText(e, now, key(i), 20_000, 0) },
		"leases": func(e *Engine, now int64, i int) error {
			var d limit.Decision
			return e.Lease(now, key(i), &limit.Lease{Limit: 1, TTL: 1000 * second, Weight: 1, ID: key(i)}, &d)
		},
		"denied": func(e *Engine, now int64, i int) error {
			_, err := take(e, now, key(i), &used, 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(Options{MaxMemory: budget, Policy: LeastDebt})
			n := 0
			for refused := 0; refused < 3000; n++ {
				switch err := fill(e, start, n); {
				case err == nil:
					refused = 0
				case errors.Is(err, ErrOOM):
					refused++
				default:
					t.Fatal(err)
				}
			}
			keys, before := e.Stats().Keys, ranked(e)
			const refused = 10_000
			for i := range refused {
				e.SetMaxMemory(budget, LeastDebt) // a leader says so every second
				if err := fill(e, start+int64(i), n+i); !errors.Is(err, ErrOOM) {
					t.Fatalf("%d: %v", i, err)
				}
			}
			if got := ranked(e) - before; got != 0 {
				t.Errorf("%d refused commands looked at %d keys", refused, got)
			}
			if st := e.Stats(); st.Evicted != 0 || st.Keys != keys {
				t.Errorf("%+v", st)
			}
			// What may be evicted from now on is found: at once where nothing expired before,
			// otherwise some seconds later.
			_, of := e.place(key(0))
			for i := range n {
				if _, s := e.place(key(i)); s == of {
					if _, there := e.Info(start, key(i)); there {
						if err := setText(e, start+refused, key(i), 0, start+500*second); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			now := start + refused
			if name == "leases" || name == "denied" {
				now += 6 * second
			}
			// Each command looks at a part of the table.
			tries := 0
			for fill(e, now, n+refused) != nil {
				if tries++; tries > 20 {
					t.Fatalf("no room after %d tries", tries)
				}
			}
			e.check()
		})
	}
}

// TestFloodFreesNobody floods engines with new keys that are too many for their memory, down
// to less than a page for each shard. No caller that is denied gets a fresh quota.
//
//test:norace
func TestFloodFreesNobody(t *testing.T) {
	for _, budget := range []int64{900 << 10, 1 << 20, 1400 << 10, 1600 << 10, 1800 << 10, 2 << 20} {
		for _, l := range evictLimits() {
			t.Run(fmt.Sprintf("%d kB %v", budget>>10, &l), func(t *testing.T) {
				e := New(Options{MaxMemory: budget, Policy: LeastDebt})
				var denied [][]byte
				for i := range 50 {
					k := fmt.Appendf(nil, "caller:%d", i)
					if _, err := take(e, start, k, &l, l.Max); err != nil {
						continue
					}
					take(e, start, k, &l, 1)
					if d := mustTake(t, e, start, k, &l, 1); d.Limited {
						denied = append(denied, k)
					}
				}
				if len(denied) < 20 {
					t.Fatalf("%d denied", len(denied))
				}
				for i := range 10_000 {
					if _, err := take(e, start+int64(i), fmt.Appendf(nil, "spray:%d", i), &l, 1); err != nil && !errors.Is(err, ErrOOM) {
						t.Fatal(err)
					}
					if i%100 == 0 {
						e.Sweep(start+int64(i), 4000)
					}
				}
				for _, k := range denied {
					if d, err := peek(e, start+10_000, k, &l, 1); err != nil || !d.Limited {
						t.Fatalf("%s has a fresh quota: %+v, %v", k, d, err)
					}
				}
				if st := e.Stats(); st.EvictedDenied != 0 || st.Bytes > budget {
					t.Errorf("%+v", st)
				}
				e.check()
			})
		}
	}
}

// After a restart nobody knows which callers are denied. TestRestoredKeysMakeRoom checks that a full
// engine takes new keys then, and keeps the callers that have been denied since.
func TestRestoredKeysMakeRoom(t *testing.T) {
	old, e := New(Options{Shards: 4}), New(Options{Shards: 4})
	one := limit.Limit{Algorithm: limit.FIXED, Max: 1, Burst: 1, Period: 1000 * second}
	var records []journal.Record
	const n, back = 20_000, 50
	for i := range n {
		mustTake(t, old, start, key(i), &one, 1)
		records = append(records, journal.Record{Kind: byte(limit.FIXED), Key: key(i), State: stateIn(old, key(i))})
	}
	if err := e.Restore(records, 0, 1); err != nil {
		t.Fatal(err)
	}
	e.SetMaxMemory(e.Stats().Bytes, LeastDebt)
	for i := range back {
		if d := mustTake(t, e, start, key(i), &one, 1); !d.Limited {
			t.Fatalf("%+v", d)
		}
	}
	for i := range n / 2 {
		mustTake(t, e, start, key(n+i), &one, 1)
	}
	for i := range back {
		if d, err := peek(e, start, key(i), &one, 1); err != nil || !d.Limited {
			t.Fatalf("caller %d has a fresh quota: %+v, %v", i, d, err)
		}
	}
	e.check()
}
