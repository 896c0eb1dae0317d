//go:build linux

package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"limitdb/internal/journal"
	"limitdb/limit"
)

// cpuClock reports the processor time of the benchmark's own thread. It can be
// compared even on a busy machine.
type cpuClock struct{ from time.Duration }

func startCPU(b *testing.B) *cpuClock {
	runtime.LockOSThread()
	b.Cleanup(runtime.UnlockOSThread)
	return &cpuClock{threadTime()}
}

func (c *cpuClock) report(b *testing.B) {
	used := threadTime() - c.from
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/used.Seconds()/1e6, "M/cpu-s")
}

func benchKeys(n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = benchKey(nil, i)
	}
	return keys
}

func filled(b *testing.B, keys [][]byte) *Engine {
	e := New(Options{})
	for _, k := range keys {
		mustTake(b, e, start, k, &benchLimit, 1_000_000)
	}
	return e
}

// benchOrder returns 1<<20 keys that lie one behind another in memory, as they
// come from a socket. So the benchmark measures cache misses of the table, not of
// the keys.
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

// benchTakes measures a table of 1 M keys. It warms batches of so many keys, or
// none if batch is 0.
func benchTakes(b *testing.B, batch int, pick func(r *rand.Rand, n int) int) {
	keys := benchKeys(1_000_000)
	e := filled(b, keys)
	order := benchOrder(keys, pick)
	b.ReportAllocs()
	clock := startCPU(b)
	var d limit.Decision
	var places [64]Place
	for i := 0; b.Loop(); i++ {
		at := i & (len(order) - 1)
		var place Place
		if batch > 0 {
			if at%batch == 0 {
				e.Warm(order[at:at+batch], places[:], false)
			}
			place = places[at%batch]
		}
		if err := e.TakeAt(place, start, order[at], &benchLimit, 1, &d); err != nil {
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

// BenchmarkTakeAll takes from several of 1 M keys, at once or one by one. An
// operation takes from all of them.
func BenchmarkTakeAll(b *testing.B) {
	keys := benchKeys(1_000_000)
	e := filled(b, keys)
	order := benchOrder(keys, uniform)
	for _, n := range []int{1, 3, 8} {
		limits, costs, ds := make([]limit.Limit, n), make([]int64, n), make([]limit.Decision, n)
		for i := range n {
			limits[i], costs[i] = benchLimit, 1
		}
		at := 0
		run := func(name string, take func(keys [][]byte) error) {
			b.Run(strconv.Itoa(n)+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				clock := startCPU(b)
				for b.Loop() {
					if err := take(order[at : at+n]); err != nil && err != ErrDuplicate {
						b.Fatal(err)
					}
					if at += n; at+n > len(order) {
						at = 0
					}
				}
				clock.report(b)
			})
		}
		run("together", func(keys [][]byte) error {
			_, err := e.TakeAll(start, keys, limits, costs, ds)
			return err
		})
		run("apart", func(keys [][]byte) error {
			for i, key := range keys {
				if err := e.Take(start, key, &limits[i], 1, &ds[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// BenchmarkTakeLog takes from full logs of one key: of a few bytes, in a record,
// and in a box. Either one unit comes for each that goes, or the request is
// denied.
func BenchmarkTakeLog(b *testing.B) {
	for _, most := range []int64{5, 500, 10_000, limit.MaxLog} {
		l := logLimit(most)
		each := l.Period/most + 1
		e, now, k := New(Options{}), start, key(1)
		for range most {
			now += each
			mustTake(b, e, now, k, l, 1)
		}
		name := strconv.FormatInt(most, 10)
		b.Run(name+"/denied", func(b *testing.B) {
			b.ReportAllocs()
			clock := startCPU(b)
			var d limit.Decision
			for b.Loop() {
				if err := e.Take(now, k, l, 1, &d); err != nil || !d.Limited {
					b.Fatal(d, err)
				}
			}
			clock.report(b)
		})
		b.Run(name+"/allowed", func(b *testing.B) {
			b.ReportAllocs()
			clock := startCPU(b)
			var d limit.Decision
			for b.Loop() {
				now += each
				if err := e.Take(now, k, l, 1, &d); err != nil || d.Limited {
					b.Fatal(d, err)
				}
			}
			clock.report(b)
		})
	}
}

// BenchmarkMemory reports how many bytes a GCRA key of 17 bytes takes in a table
// of a million keys. Run it with -benchtime 1x.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(bytesPerKey(b, 1_000_000), "B/key")
	}
}

// BenchmarkFarMemory reads 128 MB in random order; each read says where the next
// one is. A decision on a key in far memory takes two such reads and some
// arithmetic. Where this benchmark is slow, so is everything else, so figures of
// two days or two machines can be compared by it.
func BenchmarkFarMemory(b *testing.B) {
	next := make([]uint32, 32<<20)
	for i := range next {
		next[i] = uint32(i)
	}
	// Sattolo's shuffle makes one cycle through all.
	r := rand.New(rand.NewPCG(1, 2))
	for i := len(next) - 1; i > 0; i-- {
		j := r.IntN(i)
		next[i], next[j] = next[j], next[i]
	}
	clock := startCPU(b)
	at := uint32(0)
	for b.Loop() {
		at = next[at]
	}
	clock.report(b)
	runtime.KeepAlive(at)
}

// BenchmarkTakeGoroutines shares 1 M keys between 1 and 2 goroutines. The wall
// clock counts only on a machine of its own.
func BenchmarkTakeGoroutines(b *testing.B) {
	keys := benchKeys(1_000_000)
	e := filled(b, keys)
	order := benchOrder(keys, uniform)
	for _, n := range []int{1, 2} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var all sync.WaitGroup
			before := processTime(b)
			for g := range n {
				all.Go(func() {
					mine := order[g*len(order)/n : (g+1)*len(order)/n]
					var d limit.Decision
					for i := range b.N / n {
						if err := e.Take(start, mine[i%len(mine)], &benchLimit, 1, &d); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64((processTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
		})
	}
}

// BenchmarkTenMillionKeys fills an engine. It reports the longest and the 99.9 %
// slowest Take in processor time, so that other programs do not count, the memory
// for each key, and what a garbage collection costs. Run it with -benchtime 1x.
func BenchmarkTenMillionKeys(b *testing.B) {
	const n = 10_000_000
	for b.Loop() {
		var buf [32]byte
		waits := hdrhistogram.New(1, int64(time.Minute), 3)
		before := residentBytes(b)
		e := New(Options{})
		runtime.LockOSThread()
		last := threadTime()
		for i := range n {
			if i == n/2 {
				b.ReportMetric(float64(residentBytes(b)-before)/float64(i), "rss-B/key-5M")
				last = threadTime()
			}
			mustTake(b, e, start, benchKey(buf[:], i), &benchLimit, 1_000_000)
			now := threadTime()
			if err := waits.RecordValue(int64(now - last)); err != nil {
				b.Fatal(err)
			}
			last = now
		}
		runtime.UnlockOSThread()
		b.ReportMetric(float64(residentBytes(b)-before)/n, "rss-B/key-10M")
		b.ReportMetric(float64(e.Stats().Bytes)/n, "B/key")
		b.ReportMetric(float64(waits.Max())/1e3, "max-us")
		b.ReportMetric(float64(waits.ValueAtQuantile(99.99))/1e3, "p99.99-us")
		b.ReportMetric(float64(waits.ValueAtQuantile(99.9))/1e3, "p99.9-us")
		runtime.GC()
		gc := processTime(b)
		for range 10 {
			runtime.GC()
		}
		b.ReportMetric(float64(processTime(b)-gc)/10/1e6, "gc-cpu-ms")
		runtime.KeepAlive(e)
	}
}

func processTime(b *testing.B) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// residentBytes returns the process's memory outside of files, from /proc/self/statm.
func residentBytes(b *testing.B) int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared); err != nil {
		b.Fatal(err)
	}
	return (resident - shared) * int64(os.Getpagesize())
}

// BenchmarkJournal measures decisions, of a short state and of a LOG of 500 requests, whose records are drained from
// time to time.
func BenchmarkJournal(b *testing.B) {
	for _, l := range []limit.Limit{
		{Algorithm: limit.GCRA, Max: 1, Period: 1, Burst: 1 << 40},
		{Algorithm: limit.LOG, Max: 500, Period: 10e9},
	} {
		for _, on := range []bool{false, true} {
			b.Run(fmt.Sprint(l.Algorithm, "/", on), func(b *testing.B) {
				e := New(Options{})
				if on {
					e.StartJournal(0, new(journal.Gate), func() {})
				}
				var keys [1024][]byte
				for i := range keys {
					keys[i] = fmt.Appendf(nil, "user:%012d", i)
				}
				var d limit.Decision
				var out journal.Buffer
				take := func(i int) {
					now := 1e18 + int64(i)*20e3 // some 490 requests of a key in 10 s
					if err := e.Take(now, keys[i%len(keys)], &l, 1, &d); err != nil || d.Limited {
						b.Fatal(err, d)
					}
					if i%16384 == 0 {
						out.Reset(0)
						drain(e, &out)
					}
				}
				i := 0
				for ; i < 500*len(keys); i++ {
					take(i)
				}
				b.ReportAllocs()
				for ; b.Loop(); i++ {
					take(i)
				}
			})
		}
	}
}

// BenchmarkParts measures what it saves to record the parts of long states that have changed, rather than whole states: the bytes of the
// log and the time for each change. Of 16 keys, each holds a full LOG of 1 000 requests, or a sorted set of 1 000 members in which the newest takes the
// place of the oldest, or a string of 64 kB of which 16 bytes change. The log is written when each key has changed that often.
func BenchmarkParts(b *testing.B) {
	const keys = 16
	logged := limit.Limit{Algorithm: limit.LOG, Max: 1000, Period: 10 * second}
	const each = 10*second/1000 + 1
	take := func(t *Txn, key []byte, _ int) error {
		var d limit.Decision
		if err := t.Decide(key, &logged, 1, &d); err != nil || d.Limited {
			return fmt.Errorf("%+v, %w", d, err)
		}
		return nil
	}
	change := func(kind limit.Kind, size int, splices func(i int) []byte) func(t *Txn, key []byte, i int) error {
		return func(t *Txn, key []byte, i int) error {
			has, state, err := t.Get(key)
			if err != nil {
				return err
			}
			if has == 0 {
				return t.Put(key, kind, valueState(kind, start+1e17, make([]byte, size)))
			}
			return t.Splice(key, kind, state[:journal.HeadSize(byte(kind))], splices(i))
		}
	}
	member := make([]byte, 24)
	for _, test := range []struct {
		name string
		step func(t *Txn, key []byte, i int) error
	}{
		{"LOG of 1000", take},
		{"sorted set of 1000", change(limit.SORTEDSET, 1000*len(member), func(int) []byte {
			return journal.AppendSplice(journal.AppendSplice(nil, 0, len(member), nil), 999*len(member), 0, member)
		})},
		{"string of 64 kB", change(stringOf(make([]byte, 64<<10), false), 64<<10, func(i int) []byte {
			return journal.AppendSplice(nil, i*16%(64<<10), 16, member[:16])
		})},
	} {
		for _, often := range []int{1, 16} {
			for _, how := range []string{"in parts", "whole"} {
				b.Run(fmt.Sprintf("%s/%d in a cut/%s", test.name, often, how), func(b *testing.B) {
					e := New(Options{})
					e.StartJournal(0, new(journal.Gate), func() {})
					if how == "whole" {
						e.RecordWhole(math.MaxInt64)
					}
					var out journal.Buffer
					now, i, bytes := start, 0, 0
					step := func() {
						k := key(i % keys)
						if i%keys == 0 {
							now += each
						}
						if err := e.Update(now, [][]byte{k}, func(t *Txn) error { return test.step(t, k, i) }); err != nil {
							b.Fatal(err)
						}
						if i++; i%(keys*often) == 0 {
							out.Reset(0)
							drain(e, &out)
							bytes += len(out.Bytes)
						}
					}
					for range 1000 * keys {
						step()
					}
					from := i
					bytes = 0
					b.ReportAllocs()
					for b.Loop() {
						step()
					}
					b.ReportMetric(float64(bytes)/float64(i-from), "log-B/op")
				})
			}
		}
	}
}

// BenchmarkRestore restores a million keys again and again, 500 in an operation:
// into a table that grows, into one that knows how many will come, and over keys
// that are there.
func BenchmarkRestore(b *testing.B) {
	const keys = 1_000_000
	changes := someChanges(0, keys)
	rand.New(rand.NewPCG(1, 2)).Shuffle(keys, func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
	for _, how := range []string{"new", "expected", "again"} {
		b.Run(how, func(b *testing.B) {
			b.ReportAllocs()
			const some = 500
			clock := startCPU(b)
			var e *Engine
			for i := 0; b.Loop(); i += some {
				at := i % keys
				if at == 0 && (e == nil || how != "again") {
					e = New(Options{})
					if how == "expected" {
						if err := e.Expect(start, keys); err != nil {
							b.Fatal(err)
						}
					}
				}
				if err := e.Restore(changes[at:at+some], 0, 1); err != nil {
					b.Fatal(err)
				}
			}
			clock.report(b)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/some, "ns/key")
		})
	}
}

// BenchmarkCopy copies a table of a million keys, as a snapshot does. An
// operation is one hold of a shard's lock.
func BenchmarkCopy(b *testing.B) {
	e := New(Options{})
	if err := e.Restore(someChanges(0, 1_000_000), 0, 1); err != nil {
		b.Fatal(err)
	}
	var out journal.Buffer
	var cursor uint64
	keys := 0
	b.ReportAllocs()
	for b.Loop() {
		if len(out.Bytes) > 1<<20 {
			keys += out.Records
			out.Reset(0)
		}
		cursor = e.Copy(1e18, cursor, &out)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(keys+out.Records), "ns/key")
}

// BenchmarkWait grants one request that waits, and has another one wait, while
// 100 000 wait: all for one key, or each for its own. An operation does both.
func BenchmarkWait(b *testing.B) {
	const waiting = 100_000
	for _, keys := range []int{1, waiting} {
		b.Run(strconv.Itoa(keys), func(b *testing.B) {
			e := New(Options{})
			l := limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: second, Burst: 1}
			names := benchKeys(keys)
			for i, k := range names {
				mustTake(b, e, start+int64(i), k, &l, 1)
			}
			ask := func(now int64, i int) {
				w := &Waiter{Request: Request{Limit: l, Cost: 1}, Until: math.MaxInt64, Owner: nobody{}}
				if !e.Ask(now, names[i%keys], w) {
					b.Fatal("it does not wait")
				}
			}
			now := start + int64(keys)
			for i := range waiting {
				ask(now, i)
			}
			b.ReportAllocs()
			clock := startCPU(b)
			for i := 0; b.Loop(); i++ {
				now = e.Wake(now)
				e.Wake(now)
				ask(now, i)
			}
			clock.report(b)
		})
	}
}
