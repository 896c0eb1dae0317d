//go:build linux

package engine

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"limitdb/limit"
)

// cpuClock reports the processor time of the benchmark's own thread: on a busy
// machine that is what can be compared.
type cpuClock struct{ from time.Duration }

func startCPU(b *testing.B) *cpuClock {
	runtime.LockOSThread()
	b.Cleanup(runtime.UnlockOSThread)
	return &cpuClock{threadTime(b)}
}

func (c *cpuClock) report(b *testing.B) {
	used := threadTime(b) - c.from
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/used.Seconds()/1e6, "M/cpu-s")
}

func threadTime(b *testing.B) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

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

// benchOrder is 1<<20 keys one behind another in memory, as they come from a
// socket: what is measured is the table's misses and not those of the keys.
func benchOrder(keys [][]byte, pick func(r *rand.Rand, n int) int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	order := make([][]byte, 1<<20)
	all := make([]byte, 0, 17*len(order))
	for i := range order {
		at := len(all)
		all = append(all, keys[pick(r, len(keys))]...)
		order[i] = all[at:len(all):len(all)]
	}
	return order
}

func uniform(r *rand.Rand, n int) int { return r.IntN(n) }

// benchTakes measures a table of 1 M keys; batch is how many are warmed at
// once, or 0.
func benchTakes(b *testing.B, batch int, pick func(r *rand.Rand, n int) int) {
	keys := benchKeys(1_000_000)
	e := filled(b, keys)
	order := benchOrder(keys, pick)
	b.ReportAllocs()
	clock := startCPU(b)
	for i := 0; b.Loop(); i++ {
		at := i & (len(order) - 1)
		if batch > 0 && at%batch == 0 {
			e.Warm(order[at : at+batch])
		}
		if _, err := e.Take(start, order[at], &benchLimit, 1); err != nil {
			b.Fatal(err)
		}
	}
	clock.report(b)
}

func BenchmarkTakeUniform(b *testing.B) { benchTakes(b, 0, uniform) }

// BenchmarkTakeBatch warms batches of 64 keys, as a pipeline gives them.
func BenchmarkTakeBatch(b *testing.B) { benchTakes(b, 64, uniform) }

func BenchmarkTakeZipf(b *testing.B) {
	var z *rand.Zipf
	benchTakes(b, 0, func(r *rand.Rand, n int) int {
		if z == nil {
			z = rand.NewZipf(r, 1.1, 1, uint64(n-1))
		}
		return int(z.Uint64())
	})
}

func BenchmarkTakeOneKey(b *testing.B) {
	benchTakes(b, 0, func(*rand.Rand, int) int { return 0 })
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
	clock := startCPU(b)
	for i := 0; b.Loop(); i++ {
		if i %= len(keys); i == 0 {
			e = New(Options{})
		}
		if _, err := e.Take(start, keys[i], &benchLimit, 1); err != nil {
			b.Fatal(err)
		}
	}
	clock.report(b)
}
