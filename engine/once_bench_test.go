package engine

import (
	"encoding/binary"
	"testing"

	"limitdb/limit"
)

// What a request with an id costs beside one without, in one step each: a thousand keys, each with the ids of a minute.
func BenchmarkOnce(b *testing.B) {
	l := limit.Limit{Algorithm: limit.GCRA, Max: 1_000_000, Period: 60e9, Burst: 1_000_000}
	for _, bench := range []struct {
		name string
		once bool
	}{{"without", false}, {"with", true}} {
		b.Run(bench.name, func(b *testing.B) {
			e := New(Options{Shards: 1})
			defer e.Close()
			now := int64(1.7e18)
			o := Once{ID: make([]byte, 16), For: 60e9, Asked: 7}
			r := Request{Limit: l, Cost: 1}
			if bench.once {
				r.Hold = &Hold{Once: &o}
			}
			var keys [1000][]byte
			for i := range keys {
				keys[i] = key(i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				now += 2e6 // 30 ids of each key
				binary.LittleEndian.PutUint64(o.ID, uint64(i))
				var d limit.Decision
				if _, err := e.TakeFor(now, keys[i%1000], &r, &d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
