// Package bench has the benchmarks of whole properties: what a key costs in memory, how long growth and
// expiry make a decision wait, how much work the garbage collector has. Benchmarks of single functions are in
// their own packages.
package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"limitdb/engine"
	"limitdb/limit"
)

const t0 = 1_700_000_000 * int64(time.Second)

// once is a limit whose keys live for a day after one take.
var once = limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: 24 * int64(time.Hour), Burst: 2}

// key17 writes key i in 17 bytes: user: and twelve digits.
func key17(buf []byte, i int) []byte {
	buf = append(buf[:0], "user:000000000000"...)
	for p := len(buf) - 1; i > 0; p-- {
		buf[p] = byte('0' + i%10)
		i /= 10
	}
	return buf
}

// fill takes once from each of n keys.
func fill(b *testing.B, e *engine.Engine, n int, key func([]byte, int) []byte) {
	b.Helper()
	var buf []byte
	var d limit.Decision
	for i := range n {
		buf = key(buf, i)
		if err := e.TakeAt(0, t0, buf, &once, 1, &d); err != nil {
			b.Fatal(err)
		}
	}
}

// resident returns the process's resident memory in bytes, after the Go heap has returned what it does not
// need.
func resident(b *testing.B) int64 {
	b.Helper()
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip("needs /proc")
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(data), &size, &pages); err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// cpu returns the CPU time that the process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkBytesPerKey reports resident bytes for each key, under GCRA and with expiry.
func BenchmarkBytesPerKey(b *testing.B) {
	for _, test := range []struct {
		name string
		n    int
		key  func([]byte, int) []byte
	}{
		{"17-byte-keys/5M", 5_000_000, key17},
		{"8-byte-keys/1M", 1_000_000, func(buf []byte, i int) []byte { return binary.LittleEndian.AppendUint64(buf[:0], uint64(i)) }},
	} {
		b.Run(test.name, func(b *testing.B) {
			for b.Loop() {
				before := resident(b)
				e := engine.New(engine.Options{})
				fill(b, e, test.n, test.key)
				grown := resident(b) - before
				b.ReportMetric(float64(grown)/float64(test.n), "RSS-B/key")
				b.ReportMetric(float64(e.Stats().Bytes)/float64(test.n), "counted-B/key")
				b.ReportMetric(float64(grown)/1e6, "RSS-MB")
				e.Flush()
				runtime.KeepAlive(e)
			}
		})
	}
}

// BenchmarkGrowthPause times every decision while the table grows from nothing to 10 M keys, and reports the
// longest. With BENCH_PLOT=file it writes, for each 100 000 keys, the 99.9th percentile and the longest time,
// in ns.
func BenchmarkGrowthPause(b *testing.B) {
	const n, slice = 10_000_000, 100_000
	for b.Loop() {
		e := engine.New(engine.Options{})
		took := make([]int32, slice)
		var all, worst, plot []int32
		var buf []byte
		var d limit.Decision
		for from := 0; from < n; from += slice {
			for i := range slice {
				buf = key17(buf, from+i)
				begin := time.Now()
				if err := e.TakeAt(0, t0, buf, &once, 1, &d); err != nil {
					b.Fatal(err)
				}
				took[i] = int32(min(time.Since(begin), 1<<31-1))
			}
			slices.Sort(took)
			worst = append(worst, took[slice-1])
			plot = append(plot, took[slice*999/1000], took[slice-1])
			all = append(all, took[slice-slice/1000:]...)
		}
		slices.Sort(all)
		b.ReportMetric(float64(slices.Max(worst))/1e3, "longest-µs")
		b.ReportMetric(float64(all[len(all)-n/10_000])/1e3, "p99.99-µs")
		if path := os.Getenv("BENCH_PLOT"); path != "" {
			writePlot(b, path, slice, plot)
		}
		e.Flush()
	}
}

// writePlot writes lines of "keys p99.9 longest".
func writePlot(b *testing.B, path string, slice int, plot []int32) {
	b.Helper()
	var out []byte
	for i := 0; i < len(plot); i += 2 {
		out = strconv.AppendInt(out, int64((i/2+1)*slice), 10)
		out = strconv.AppendInt(append(out, ' '), int64(plot[i]), 10)
		out = strconv.AppendInt(append(out, ' '), int64(plot[i+1]), 10)
		out = append(out, '\n')
	}
	if err := os.WriteFile(path, out, 0o644); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkGCCycle reports the CPU time of one garbage collection with 10 M keys in the table.
func BenchmarkGCCycle(b *testing.B) {
	e := engine.New(engine.Options{})
	fill(b, e, 10_000_000, key17)
	runtime.GC()
	before := cpu()
	for b.Loop() {
		runtime.GC()
	}
	b.ReportMetric(float64(cpu()-before)/1e6/float64(b.N), "CPU-ms/cycle")
	runtime.KeepAlive(e)
}

// BenchmarkMassExpiry lets 5 M keys expire at the same instant, and removes them as the server's sweeper
// would. It reports the longest decision meanwhile on other keys, the time until all are gone, and the memory
// that is left.
func BenchmarkMassExpiry(b *testing.B) {
	const n, stay = 5_000_000, 10_000
	took := make([]time.Duration, 20_000_000)
	clear(took) // makes it resident before anything is measured
	for b.Loop() {
		took = took[:0]
		before := resident(b)
		e := engine.New(engine.Options{})
		fill(b, e, n, key17)
		full := resident(b) - before
		later := t0 + 2*once.Period
		var d limit.Decision
		keep := func(i int) []byte { return key17(nil, n+i) }
		for i := range stay {
			if err := e.TakeAt(0, later, keep(i), &once, 1, &d); err != nil {
				b.Fatal(err)
			}
		}
		done := make(chan time.Duration)
		go func() {
			begin := time.Now()
			for e.Stats().Keys > stay {
				e.Sweep(later, 20_000)
			}
			done <- time.Since(begin)
		}()
		var swept time.Duration
		for i := 0; swept == 0 && len(took) < cap(took); i++ {
			select {
			case swept = <-done:
			default:
			}
			begin := time.Now()
			if err := e.TakeAt(0, later, keep(i%stay), &once, 0, &d); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(begin))
		}
		for range 100 {
			e.Sweep(later, 100_000)
		}
		slices.Sort(took)
		b.ReportMetric(swept.Seconds(), "s-until-gone")
		b.ReportMetric(float64(took[len(took)*999/1000])/1e3, "p99.9-µs")
		b.ReportMetric(float64(took[len(took)-1])/1e3, "longest-µs")
		b.ReportMetric(float64(resident(b)-before)/float64(full)*100, "%RSS-left")
		runtime.KeepAlive(e)
	}
}

// BenchmarkLogBytes reports resident bytes for each of 10 000 users with 500 entries in the last hour, at
// random times. The figure includes everything: key, index, free space. full is measured after one hour;
// steady is measured after a second hour, in which one entry has expired for each that came.
func BenchmarkLogBytes(b *testing.B) {
	const users, entries = 10_000, 500
	l := limit.Limit{Algorithm: limit.LOG, Max: 2 * entries, Period: int64(time.Hour), Burst: 2 * entries}
	for b.Loop() {
		before := resident(b)
		e := engine.New(engine.Options{})
		r := rand.New(rand.NewPCG(1, 2))
		now := t0
		var buf []byte
		var d limit.Decision
		hour := func() {
			for range users * entries {
				now += 1 + r.Int64N(2*l.Period/(users*entries))
				buf = key17(buf, r.IntN(users))
				if err := e.TakeAt(0, now, buf, &l, 1, &d); err != nil || d.Limited {
					b.Fatal(d, err)
				}
			}
			e.Sweep(now, users)
		}
		report := func(when string) {
			b.ReportMetric(float64(resident(b)-before)/users, when+"-RSS-B/user")
			b.ReportMetric(float64(e.Stats().Bytes)/users, when+"-counted-B/user")
		}
		hour()
		report("full")
		hour()
		report("steady")
		runtime.KeepAlive(e)
	}
}
