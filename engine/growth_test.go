package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"limitdb/engine/table"
	"limitdb/internal/journal"
	"limitdb/limit"
)

// TestGrowingStatesStayWithinTheBudget has logs, segments and leases grow in an
// engine that is full. They are refused, or others are evicted. A refused step
// has changed nothing and left no record.
func TestGrowingStatesStayWithinTheBudget(t *testing.T) {
	log := limit.Limit{Algorithm: limit.LOG, Max: 60_000, Burst: 60_000, Period: 1000 * second}
	parts := limit.Limit{Algorithm: limit.SEGMENTED, Max: 1 << 40, Burst: 1 << 40, Period: 1000 * second, Segments: 1024}
	grow := map[string]func(e *Engine, k []byte, i int) error{
		"LOG": func(e *Engine, k []byte, i int) error {
			_, err := take(e, start+int64(i)*7_919_003, k, &log, 1)
			return err
		},
		"LOG by TakeAll": func(e *Engine, k []byte, i int) error {
			_, err := e.TakeAll(start+int64(i)*7_919_003, [][]byte{k}, []limit.Limit{log}, []int64{1}, make([]limit.Decision, 1))
			return err
		},
		"SEGMENTED": func(e *Engine, k []byte, i int) error {
			_, err := take(e, start+int64(i)*second/4, k, &parts, 1<<20)
			return err
		},
		"leases": func(e *Engine, k []byte, i int) error {
			var d limit.Decision
			return e.Lease(start, k, &limit.Lease{Limit: 1 << 40, TTL: 1000 * second, Weight: 1, ID: fmt.Appendf(nil, "holder-%d", i)}, &d)
		},
	}
	const room = 80 << 10
	for name, step := range grow {
		for _, p := range []Policy{NoEviction, LeastDebt} {
			t.Run(fmt.Sprint(name, " ", p), func(t *testing.T) {
				t.Parallel()
				e := New(Options{Shards: 4})
				e.StartJournal(0, new(journal.Gate), func() {})
				most := e.Stats().Bytes + room
				e.SetMaxMemory(most, p)
				refused := 0
				const keys = 40
				for i := range 2500 * keys {
					k := key(i % keys)
					var before []byte
					if refused < 100 {
						before = stateIn(e, k)
						e.Drain(new(journal.Buffer), math.MaxInt)
					}
					err := step(e, k, i/keys)
					switch {
					case errors.Is(err, ErrOOM):
						if refused < 100 {
							var b journal.Buffer
							e.Drain(&b, math.MaxInt)
							if !slices.Equal(stateIn(e, k), before) || p == NoEviction && len(b.Bytes) > 0 {
								t.Fatalf("a refused step changed %x to %x and left %d bytes of records", before, stateIn(e, k), len(b.Bytes))
							}
						}
						refused++
					case err != nil:
						t.Fatal(err)
					}
					if b := e.Stats().Bytes; b > most+spanSize {
						t.Fatalf("%d bytes, %d allowed", b, most)
					}
				}
				st := e.Stats()
				if leases := name == "leases"; (p == NoEviction || leases) != (refused > 0) || (p == LeastDebt && !leases) != (st.Evicted > 0) {
					t.Errorf("%d refused, %+v", refused, st)
				}
				e.check()
			})
		}
	}
}

// find returns where a key is.
func (e *Engine) find(k []byte) (*shard, table.Spot) {
	h, s := e.place(k)
	sp := table.Spot{Hash: h, Key: k}
	s.table.Find(&sp)
	return s, sp
}

// stateIn returns a copy of a key's state.
func stateIn(e *Engine, k []byte) []byte {
	s, sp := e.find(k)
	if !sp.Found() {
		return nil
	}
	return slices.Clone(s.table.State(&sp))
}
