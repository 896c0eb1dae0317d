//go:build linux

package engine

import (
	"encoding/binary"
	"fmt"
	"testing"

	"limitdb/engine/table"
	"limitdb/limit"
)

// BenchmarkFar measures ns of the processor for requests on each of 2²⁰ keys that have been taken from, in batches of 64 that are fetched
// ahead, as a pipeline gives them: a take, one that counts once, a hold, its settlement, and such requests with a second id of each key.
func BenchmarkFar(b *testing.B) {
	const keys = 1 << 20
	l := limit.Limit{Algorithm: limit.FIXED, Max: 1_000_000_000, Burst: 1_000_000_000, Period: 30 * 24 * 3600e9}
	for range b.N {
		var d limit.Decision
		var id [14]byte
		var batch [table.BatchSize][]byte
		var places [table.BatchSize]Place
		each := func(name string, e *Engine, ids bool, fn func(at Place, key []byte) error) {
			clock := startCPU(b)
			for i := 0; i < keys; i += len(batch) {
				for j := range batch {
					batch[j] = fmt.Appendf(batch[j][:0], "user:%010d", i+j)
				}
				e.Warm(batch[:], places[:], ids)
				for j, key := range batch {
					binary.BigEndian.PutUint64(id[:], uint64(i+j))
					if err := fn(places[j], key); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64((threadTime()-clock.from).Nanoseconds())/keys, name)
		}
		held, once := Hold{ID: id[:], TTL: 3600e9}, Hold{Once: &Once{ID: id[:], For: 3600e9, Asked: 7}}
		for _, holds := range []bool{false, true} {
			e := New(Options{Shards: 256})
			take := func(at Place, key []byte) error { return e.TakeAt(at, start, key, &l, 5, &d) }
			each("new", e, false, take)
			each("take", e, false, take)
			for _, nth := range []string{"", "2"} {
				id[13]++
				if holds {
					each("hold"+nth, e, true, func(at Place, key []byte) error {
						return e.HoldAt(at, start, key, &l, 5, &held, &d)
					})
					var s Settlement
					each("settle"+nth, e, true, func(at Place, key []byte) error {
						return e.SettleAt(at, start, key, id[:], 3, &s)
					})
				} else {
					each("once"+nth, e, true, func(at Place, key []byte) error {
						return e.HoldAt(at, start, key, &l, 5, &once, &d)
					})
				}
			}
			if !holds {
				each("again", e, true, func(at Place, key []byte) error {
					return e.HoldAt(at, start, key, &l, 5, &once, &d)
				})
			}
			e.Close()
		}
	}
}
