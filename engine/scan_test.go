package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"limitdb/limit"
)

func TestRandomFindsEveryKey(t *testing.T) {
	for _, n := range []int{1, 10, 1000} {
		e := New(Options{Seed: 7})
		for i := range n {
			mustTake(t, e, start, key(i), perSecond(1), 1)
		}
		seen := map[string]bool{}
		for i := 0; len(seen) < n && i < 1000*n; i++ {
			k, ok := randomOf(e, start, nil)
			if !ok {
				t.Fatal("nothing found")
			}
			seen[string(k)] = true
		}
		if len(seen) != n {
			t.Errorf("saw %d of %d keys", len(seen), n)
		}
		if k, ok := randomOf(e, start+second, nil); ok {
			t.Errorf("%q has expired", k)
		}
	}
}

// TestRangeMissesNothing grows, shrinks and expires the table between the steps
// of an iteration, which must visit every key that is there all the time.
func TestRangeMissesNothing(t *testing.T) {
	for seed := range uint64(3) {
		for _, shards := range []int{1, 16} {
			rangeMissesNothing(t, seed, shards)
		}
	}
}

func rangeMissesNothing(t *testing.T, seed uint64, shards int) {
	e := New(Options{Shards: shards, Seed: seed + 1})
	stay := perSecond(1)
	stay.Period = 1000 * second
	const stable = 500
	for i := range stable {
		mustTake(t, e, start, key(i), stay, 1)
	}
	now, other := start, stable
	seen := map[string]bool{}
	for cursor, turn := uint64(0), seed; ; turn++ {
		cursor = e.Range(now, cursor, 29, func(k []byte, _ Info) { seen[string(k)] = true })
		if cursor == 0 {
			break
		}
		switch turn % 20 {
		case 0, 1, 2, 3: // grow
			for range 1000 {
				mustTake(t, e, now, key(other), perSecond(1), 1)
				other++
			}
		case 8: // expire them all
			now += second
			e.Sweep(now, 1<<30)
		case 15: // shrink a little by hand
			for i := range 700 {
				e.Reset(now, key(max(other-i, stable)))
			}
		}
	}
	for i := range stable {
		if !seen[string(key(i))] {
			t.Fatalf("seed %d, %d shards: %s was never visited", seed, shards, key(i))
		}
	}
}

func TestRangeDuringTraffic(t *testing.T) {
	e := New(Options{Shards: 4})
	stay := &limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: 1e6 * second, Burst: 1}
	const stable = 2000
	for i := range stable {
		mustTake(t, e, start, key(i), stay, 1)
	}
	var (
		stop    atomic.Bool
		now     atomic.Int64
		traffic sync.WaitGroup
	)
	now.Store(start)
	for g := range 4 {
		traffic.Go(func() {
			for i := 0; !stop.Load(); i++ {
				mustTake(t, e, now.Load(), fmt.Appendf(nil, "%d:%d", g, i), perSecond(1), 1)
				if i%10_000 == 9_999 {
					e.Sweep(now.Add(second), 1<<30)
				}
			}
		})
	}
	for range 20 {
		seen := map[string]bool{}
		for cursor := uint64(0); ; {
			cursor = e.Range(now.Load(), cursor, 100, func(k []byte, _ Info) { seen[string(k)] = true })
			if cursor == 0 {
				break
			}
		}
		for i := range stable {
			if !seen[string(key(i))] {
				t.Errorf("%s was never visited", key(i))
			}
		}
	}
	stop.Store(true)
	traffic.Wait()
}

// TestRangeTakesAnyCursor uses cursors that no Range has returned.
func TestRangeTakesAnyCursor(t *testing.T) {
	e := New(Options{})
	for i := range 1000 {
		mustTake(t, e, start, key(i), perSecond(1), 1)
	}
	for i := range uint64(64) {
		for _, cursor := range []uint64{1 << i, 1<<i - 1, ^uint64(0) << i} {
			for _, count := range []int{-1, 0, 1, 1 << 62} {
				e.Range(start, cursor, count, func([]byte, Info) {})
			}
		}
	}
}
