package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/limit"
)

// What a hostile caller, or an unlucky operator, can do to the table.
// LIMITDB_LONG=1 runs each test at full size. The tests log the longest waits,
// and assert none.

// long reports whether the tests run at full size.
func long() bool { return os.Getenv("LIMITDB_LONG") == "1" }

// scaled returns small, or full where the tests run at full size.
func scaled(small, full int) int {
	if long() {
		return full
	}
	return small
}

// pauses holds the longest times that calls of one goroutine took, by the clock
// and by the processor. Beside other load, the first are mostly the scheduler's.
type pauses struct {
	from         time.Time
	cpuFrom      time.Duration
	calls, slow  int
	longest, cpu time.Duration
}

// begin comes before a call, end after it.
func (p *pauses) begin() {
	if p.calls == 0 {
		runtime.LockOSThread() // until the goroutine ends
	}
	p.from, p.cpuFrom = time.Now(), threadTime()
}

func (p *pauses) end() {
	cpu, took := threadTime()-p.cpuFrom, time.Since(p.from)
	p.calls++
	p.longest = max(p.longest, took)
	p.cpu = max(p.cpu, cpu)
	if took >= time.Millisecond {
		p.slow++
	}
}

func (p *pauses) add(o pauses) {
	p.calls += o.calls
	p.slow += o.slow
	p.longest = max(p.longest, o.longest)
	p.cpu = max(p.cpu, o.cpu)
}

func (p *pauses) String() string {
	return fmt.Sprintf("the longest of %d calls %v (%v of the processor), %d of 1 ms or more",
		p.calls, p.longest.Round(time.Microsecond), p.cpu.Round(time.Microsecond), p.slow)
}

// fillWith takes another cost from each of n keys, and then checks each key
// exactly.
func fillWith(t *testing.T, e *Engine, n int, key func(i int) []byte) {
	t.Helper()
	l := perSecond(10_000)
	cost := func(i int) int64 { return int64(i%997 + 1) }
	var (
		d     limit.Decision
		waits pauses
		began = time.Now()
	)
	for i := range n {
		k := key(i)
		waits.begin()
		if err := e.Take(start, k, l, cost(i), &d); err != nil || d.Remaining != 10_000-cost(i) {
			t.Fatalf("key %d: %+v, %v", i, d, err)
		}
		waits.end()
	}
	took, st := time.Since(began), e.Stats()
	t.Logf("%d keys in %v, %d bytes (%.1f each); %v", n, took.Round(time.Millisecond), st.Bytes, float64(st.Bytes)/float64(n), &waits)
	if st.Keys != int64(n) {
		t.Fatalf("%d keys, want %d", st.Keys, n)
	}
	for i := range n {
		if err := e.Peek(start, key(i), l, 0, &d); err != nil || d.Remaining != 10_000-cost(i) {
			t.Fatalf("key %d has changed: %+v, %v", i, d, err)
		}
	}
	e.check()
}

// spread checks that the keys are spread over the shards as chance would spread
// them.
func spread(t *testing.T, e *Engine, n int, key func(i int) []byte) {
	t.Helper()
	counts := make([]int, len(e.shards))
	hashes := make([]uint64, n)
	for i := range n {
		hashes[i], _ = e.place(key(i))
		counts[hashes[i]>>(64-e.shardBits)]++
	}
	mean := float64(n) / float64(len(counts))
	for i, c := range counts {
		if math.Abs(float64(c)-mean) > 8*math.Sqrt(mean) {
			t.Errorf("shard %d has %d keys, the mean is %.0f", i, c, mean)
		}
	}
	slices.Sort(hashes)
	// No two of 2^24 hashes of 64 bits are likely to be the same.
	if distinct := len(slices.Compact(hashes)); distinct != n {
		t.Errorf("%d hashes for %d keys", distinct, n)
	}
}

// TestKeysWithOnePrefix uses keys that differ only in their last three bytes.
//
//test:norace
func TestKeysWithOnePrefix(t *testing.T) {
	n := scaled(1<<15, 1<<24)
	k := append(fmt.Appendf(nil, "%064d", 0), 0, 0, 0)
	key := func(i int) []byte {
		k[64], k[65], k[66] = byte(i>>16), byte(i>>8), byte(i)
		return k
	}
	e := New(Options{})
	fillWith(t, e, n, key)
	spread(t, e, n, key)
}

// collidingKey returns the i-th of many keys of 32 bytes that all have the same
// hash under seed. XXH3 multiplies the first 8 bytes, after adding something
// that depends on the seed, by the next 8: a client that knows the seed can make the
// one factor 0, and the other does not matter any more.
func collidingKey(seed uint64, i int) []byte {
	k := binary.LittleEndian.AppendUint64(nil, xxh3Secret0+seed)
	k = binary.LittleEndian.AppendUint64(k, uint64(i))
	return append(k, "the other bytes."...)
}

// Words of XXH3's own secret, by their offsets in it, and two of its factors.
const (
	xxh3Secret0  uint64 = 0xbe4ba423396cfeb8
	xxh3Secret8  uint64 = 0x1cad21f72c81017c
	xxh3Secret16 uint64 = 0xdb979083e96dd4de
	xxh3Prime    uint64 = 0x9e3779b185ebca87
	xxh3Mix      uint64 = 0x165667919e3779f9
)

// keyOfHash returns the key of 32 bytes that has hash h under seed: the first
// 8 bytes make a factor 1 and so let the next 8 through as they are, the third
// 8 make the other product 0, and the rest is a bijection.
func keyOfHash(dst []byte, seed, h uint64) []byte {
	h ^= h >> 32
	h *= inverse(xxh3Mix)
	h ^= h >> 37
	length := uint64(32)
	h -= length * xxh3Prime
	dst = binary.LittleEndian.AppendUint64(dst[:0], (xxh3Secret0+seed)^1)
	dst = binary.LittleEndian.AppendUint64(dst, h^(xxh3Secret8-seed))
	dst = binary.LittleEndian.AppendUint64(dst, xxh3Secret16+seed)
	return append(dst, "8 bytes."...)
}

// inverse of an odd number modulo 2^64, by Newton's method.
func inverse(x uint64) uint64 {
	y := x
	for range 6 {
		y *= 2 - x*y
	}
	return y
}

// TestKnownCollisionsSpread uses keys that all have one hash without a seed.
func TestKnownCollisionsSpread(t *testing.T) {
	n := scaled(20_000, 1<<24)
	key := func(i int) []byte { return collidingKey(0, i) }
	e := New(Options{})
	fillWith(t, e, n, key)
	spread(t, e, n, key)
}

// TestHashesWithOnePrefix knows the seed. It makes keys whose hashes all begin
// with the same 12 bits, which crowd into a sixteenth of one shard. Under another
// seed the same keys spread.
//
//test:norace
func TestHashesWithOnePrefix(t *testing.T) {
	const seed, bits = 99, 12
	n := scaled(1<<16, 1<<24)
	var k []byte
	key := func(i int) []byte {
		low := uint64(i) * 0x9e3779b97f4a7c15 >> bits
		k = keyOfHash(k, seed, uint64(0xabc)<<(64-bits)|low)
		return k
	}
	e := New(Options{Seed: seed})
	for i := range 1000 {
		if h, _ := e.place(key(i)); h>>(64-bits) != 0xabc {
			t.Fatalf("key %d has hash %x", i, h)
		}
	}
	fillWith(t, e, n, key)
	spread(t, New(Options{}), n, key)
}

// TestManyLimits uses as many limits as keys, and then all of them on one key.
func TestManyLimits(t *testing.T) {
	n := scaled(20_000, 1_000_000)
	limitOf := func(i int) *limit.Limit {
		return &limit.Limit{Algorithm: limit.GCRA, Max: int64(i%1000 + 1), Period: second + int64(i/1000), Burst: int64(i%7 + 1)}
	}
	e := New(Options{})
	seen := map[limit.Limit]bool{}
	var waits pauses
	began := time.Now()
	for i := range n {
		l := limitOf(i)
		seen[*l] = true
		var d, want limit.Decision
		for range 2 {
			waits.begin()
			if err := e.Take(start, key(i), l, 1, &d); err != nil {
				t.Fatal(err)
			}
			waits.end()
		}
		state, err := limit.Take(l, nil, start, 1, nil, &want)
		if err == nil {
			_, err = limit.Take(l, state, start, 1, nil, &want)
		}
		if err != nil || d != want {
			t.Fatalf("%v: %+v, want %+v, %v", l, d, want, err)
		}
	}
	if len(seen) != n {
		t.Fatalf("%d limits, want %d", len(seen), n)
	}
	st := e.Stats()
	t.Logf("%d keys with a limit each in %v, %d bytes (%.1f each); %v", n, time.Since(began).Round(time.Millisecond), st.Bytes, float64(st.Bytes)/float64(n), &waits)
	e.check()
	changingLimits(t, n, limitOf, 1)
}

// TestLimitChangesAtEveryCall gives another limit at every call on a few keys, of
// all algorithms that read each other's state.
//
//test:norace
func TestLimitChangesAtEveryCall(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var l limit.Limit
	changingLimits(t, scaled(100_000, 10_000_000), func(int) *limit.Limit {
		for {
			l = limit.Limit{Algorithm: bucketOf(r), Max: r.Int64N(1000), Period: 1 + r.Int64N(10*second), Burst: 1 + r.Int64N(1000)}
			if l.Validate() == nil {
				return &l
			}
		}
	}, 100)
}

// bucketOf returns one of the algorithms that share GCRA's state and take its
// options.
func bucketOf(r *rand.Rand) limit.Algorithm {
	all := limit.Algorithms()
	for {
		if a := all[r.IntN(len(all))]; limit.SameFamily(a.Kind(), limit.GCRA.Kind()) {
			return a
		}
	}
}

// changingLimits calls n times on that many keys, with the n-th limit at the n-th
// call, and compares the answers with those of the algorithm itself.
func changingLimits(t *testing.T, n int, limitOf func(i int) *limit.Limit, keys int) {
	e := New(Options{})
	states := make([][]byte, keys)
	var waits pauses
	began, now := time.Now(), int64(start)
	for i := range n {
		l, k := limitOf(i), i%keys
		var d, want limit.Decision
		waits.begin()
		err := e.Take(now, key(k), l, int64(i%3), &d)
		waits.end()
		if len(states[k]) > 0 && limit.Expires(l.Algorithm.Kind(), states[k]) <= now {
			states[k] = nil
		}
		next, wantErr := limit.Take(l, states[k], now, int64(i%3), nil, &want)
		if err != wantErr || err == nil && d != want {
			t.Fatalf("call %d with %v: %+v, %v, want %+v, %v", i, l, d, err, want, wantErr)
		}
		if next != nil {
			states[k] = next
		}
		now += int64(i % 5 * 1_000_000)
	}
	t.Logf("%d limits on %d keys in %v, %d bytes; %v", n, keys, time.Since(began).Round(time.Millisecond), e.Stats().Bytes, &waits)
	e.check()
}

// TestMassExpiry has every key expire at one instant. It sweeps as the server
// does, with traffic in between.
//
//test:norace
func TestMassExpiry(t *testing.T) {
	const sweep = 4000
	n := scaled(300_000, 10_000_000)
	e := New(Options{})
	empty := e.Stats().Bytes
	l, d := perSecond(1), limit.Decision{}
	for i := range n {
		if err := e.Take(start, key(i), l, 1, &d); err != nil {
			t.Fatal(err)
		}
	}
	full := e.Stats()
	if got := e.Sweep(start+second-1, 1<<40); got != 0 {
		t.Fatalf("%d expired too early", got)
	}
	now, dropped := start+second, 0
	var takes, sweeps pauses
	began := time.Now()
	for i := 0; i < 4*n/sweep+100 && dropped < n; i++ {
		takes.begin()
		if err := e.Take(now, key(n+i%10), l, 0, &d); err != nil {
			t.Fatal(err)
		}
		takes.end()
		sweeps.begin()
		dropped += e.Sweep(now, sweep)
		sweeps.end()
	}
	t.Logf("%d keys, %d bytes, gone in %v; sweeps: %v; takes: %v", n, full.Bytes, time.Since(began).Round(time.Millisecond), &sweeps, &takes)
	if dropped != n {
		t.Fatalf("dropped %d of %d in %d sweeps of %d slots", dropped, n, sweeps.calls, sweep)
	}
	for range 3 {
		e.Sweep(now, 1<<40)
	}
	if got := e.Stats(); got.Bytes != empty || got.Expired != uint64(n) {
		t.Errorf("%+v, %d bytes at first", got, empty)
	}
}

// In TestExpiredAtOnceUnderTraffic all keys expire at one instant while another
// goroutine takes from them and from new ones.
func TestExpiredAtOnceUnderTraffic(t *testing.T) {
	n := scaled(100_000, 10_000_000)
	e := New(Options{})
	l, d := perSecond(1), limit.Decision{}
	for i := range n {
		if err := e.Take(start, key(i), l, 1, &d); err != nil {
			t.Fatal(err)
		}
	}
	now, stop := start+second, atomic.Bool{}
	var waits pauses
	var traffic sync.WaitGroup
	traffic.Go(func() {
		for i := 0; !stop.Load(); i++ {
			var d limit.Decision
			waits.begin()
			// Each key has expired. It behaves like a new one, whether or not it
			// has been swept.
			if err := e.Take(now, key(i%(2*n)), l, 1, &d); err != nil || d.Limited != (i >= 2*n) {
				t.Errorf("take %d: %+v, %v", i, d, err)
				return
			}
			waits.end()
		}
	})
	began := time.Now()
	for dropped := 1; dropped > 0; {
		dropped = e.Sweep(now, 1<<40)
	}
	took := time.Since(began)
	stop.Store(true)
	traffic.Wait()
	t.Logf("%d keys gone in %v; takes meanwhile: %v", n, took.Round(time.Millisecond), &waits)
	if st := e.Stats(); st.Expired != uint64(n) || st.Keys != int64(min(waits.calls, 2*n)) {
		t.Errorf("%+v after %d takes", st, waits.calls)
	}
	e.check()
}

// TestMaxMemoryLoweredBelowUse lowers the budget to a third of what is used.
//
//test:norace
func TestMaxMemoryLoweredBelowUse(t *testing.T) {
	n := scaled(100_000, 10_000_000)
	filled := func(p Policy) (*Engine, int64) {
		e := New(Options{})
		empty := e.Stats().Bytes
		var d limit.Decision
		for i := range n {
			if err := e.Take(start, key(i), &slow, 1+int64(i%100), &d); err != nil {
				t.Fatal(err)
			}
		}
		low := empty + (e.Stats().Bytes-empty)/3
		e.SetMaxMemory(low, p)
		return e, low
	}
	e, low := filled(LeastDebt)
	high := e.Stats().Bytes
	var sweeps, takes pauses
	began := time.Now()
	for i := 0; e.Stats().Bytes > low; i++ {
		sweeps.begin()
		dropped := e.Sweep(start, 4000)
		sweeps.end()
		if dropped < 4000/20 && e.Stats().Bytes > low { // the server would not hurry
			t.Fatalf("a sweep dropped %d keys of %d bytes, %d allowed", dropped, e.Stats().Bytes, low)
		}
		takes.begin()
		mustTake(t, e, start, fmt.Appendf(nil, "new:%d", i), &slow, 100)
		takes.end()
		if i > n/10 {
			t.Fatalf("%d bytes, %d allowed", e.Stats().Bytes, low)
		}
	}
	st := e.Stats()
	t.Logf("%d keys, from %d to %d bytes in %v, %d evicted; sweeps: %v; new keys: %v",
		n, high, st.Bytes, time.Since(began).Round(time.Millisecond), st.Evicted, &sweeps, &takes)
	e.check()
	if st.Keys == 0 || st.Evicted == 0 || st.Expired != 0 {
		t.Errorf("%+v", st)
	}

	e, _ = filled(NoEviction)
	e.Sweep(start, 1<<40)
	if _, err := take(e, start, []byte("new"), &slow, 1); !errors.Is(err, ErrOOM) {
		t.Errorf("a new key above the budget: %v", err)
	}
	if st := e.Stats(); st.Keys != int64(n) || st.Evicted != 0 {
		t.Errorf("%+v", st)
	}
	mustTake(t, e, start, key(7), &slow, 1)
	e.SetMaxMemory(0, NoEviction)
	mustTake(t, e, start, []byte("new"), &slow, 1)
}

// TestFlushDuringGrowth flushes, warms, ranges and sweeps while keys are added.
func TestFlushDuringGrowth(t *testing.T) {
	var (
		batches = scaled(300, 60_000)
		keys    = scaled(60_000, 20_000_000)
		budget  = int64(scaled(4<<20, 200<<20))
		e       = New(Options{Shards: scaled(2, 256)})
		all     sync.WaitGroup
		busy    atomic.Int32
		mu      sync.Mutex // guards takes and flushes
		most    int64
		takes   pauses
		flushes pauses
	)
	e.SetMaxMemory(budget, LeastDebt)
	busy.Store(4)
	for g := range 4 {
		all.Go(func() {
			defer busy.Add(-1)
			r := rand.New(rand.NewPCG(uint64(g), 1))
			batch, places := make([][]byte, 100), make([]Place, 100)
			var waits, flush pauses
			var d limit.Decision
			for b := range batches {
				for i := range batch {
					batch[i] = key(r.IntN(keys))
				}
				e.Warm(batch, places, false)
				for i, k := range batch {
					waits.begin()
					if err := e.TakeAt(places[i], start, k, &slow, 1, &d); err != nil {
						t.Errorf("Take: %v", err)
						return
					}
					waits.end()
				}
				if g == 0 && b%(batches/10) == batches/20 {
					n := e.Stats().Keys
					flush.begin()
					e.Flush()
					flush.end()
					mu.Lock()
					most = max(most, n)
					mu.Unlock()
				}
			}
			mu.Lock()
			takes.add(waits)
			flushes.add(flush)
			mu.Unlock()
		})
	}
	for busy.Load() > 0 {
		e.Range(start, 0, 1000, func([]byte, Info) {})
		e.Sweep(start, 1000)
	}
	all.Wait()
	t.Logf("up to %d keys; flushes: %v; takes: %v", most, &flushes, &takes)
	if flushes.calls != 10 || most == 0 {
		t.Errorf("%d flushes, of %d keys at most", flushes.calls, most)
	}
	e.check()
	e.Flush()
	giveBack(e, start)
	if st := e.Stats(); st.Keys != 0 || st.Bytes != New(Options{Shards: len(e.shards)}).Stats().Bytes {
		t.Errorf("%+v", st)
	}
}
