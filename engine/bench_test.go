package engine

import (
	"math/rand/v2"
	"testing"

	"limitdb/limit"
)

// benchKeys are 17 bytes long, as the keys of the published figures.
func benchKeys(n int) [][]byte {
	keys := make([][]byte, n)
	all := make([]byte, 0, 17*n)
	for i := range keys {
		at := len(all)
		all = append(all, "resi:000000000000"...)
		for p, v := at+16, i; v > 0; p, v = p-1, v/10 {
			all[p] = byte('0' + v%10)
		}
		keys[i] = all[at:len(all):len(all)]
	}
	return keys
}

// benchLimit never denies, so that every step writes.
var benchLimit = limit.Limit{Algorithm: limit.GCRA, Max: 1_000_000, Period: second, Burst: 1 << 40}

func filled(b *testing.B, keys [][]byte) *Engine {
	e := New(Options{})
	for _, k := range keys {
		mustTake(b, e, start, k, &benchLimit, 1_000_000)
	}
	return e
}

func benchTakes(b *testing.B, pick func(r *rand.Rand, n int) int) {
	const n = 1_000_000
	keys := benchKeys(n)
	e := filled(b, keys)
	r := rand.New(rand.NewPCG(1, 2))
	order := make([]int32, 1<<20)
	for i := range order {
		order[i] = int32(pick(r, n))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := e.Take(start, keys[order[i&(1<<20-1)]], &benchLimit, 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
}

func BenchmarkTakeUniform(b *testing.B) {
	benchTakes(b, func(r *rand.Rand, n int) int { return r.IntN(n) })
}

func BenchmarkTakeZipf(b *testing.B) {
	var z *rand.Zipf
	benchTakes(b, func(r *rand.Rand, n int) int {
		if z == nil {
			z = rand.NewZipf(r, 1.1, 1, uint64(n-1))
		}
		return int(z.Uint64())
	})
}

func BenchmarkTakeOneKey(b *testing.B) {
	benchTakes(b, func(*rand.Rand, int) int { return 0 })
}

func BenchmarkTakeParallel(b *testing.B) {
	const n = 1_000_000
	keys := benchKeys(n)
	e := filled(b, keys)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		r := rand.New(rand.NewPCG(rand.Uint64(), 2))
		for pb.Next() {
			if _, err := e.Take(start, keys[r.IntN(n)], &benchLimit, 1); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
}

func BenchmarkGrow(b *testing.B) {
	keys := benchKeys(1_000_000)
	var e *Engine
	for i := 0; b.Loop(); i++ {
		if i %= len(keys); i == 0 {
			e = New(Options{})
		}
		if _, err := e.Take(start, keys[i], &benchLimit, 1); err != nil {
			b.Fatal(err)
		}
	}
}
