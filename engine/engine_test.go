package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"limitdb/engine/table"
	"limitdb/limit"
)

const second = int64(time.Second)

// start is the fake time at which the tests begin.
const start = 1_700_000_000 * second

// Sizes of package table.
const (
	spanSize  = 128 << 10
	maxInline = 8 << 10
	minBoxed  = 6 << 10
	sweepRest = 5 * second
)

func perSecond(n int64) *limit.Limit {
	return &limit.Limit{Algorithm: limit.GCRA, Max: n, Period: second, Burst: n}
}

func key(i int) []byte { return strconv.AppendInt([]byte("caller:"), int64(i), 10) }

// stateOf makes a state of n bytes, 8 or more, that expires at a time.
func stateOf(expires int64, n int, salt byte) []byte {
	s := bytes.Repeat([]byte{salt}, max(n, 8))
	binary.LittleEndian.PutUint64(s, uint64(expires))
	return s
}

func mustTake(t testing.TB, e *Engine, now int64, key []byte, l *limit.Limit, cost int64) limit.Decision {
	t.Helper()
	d, err := take(e, now, key, l, cost)
	if err != nil {
		t.Fatalf("Take(%q): %v", key, err)
	}
	return d
}

func TestSteps(t *testing.T) {
	l := perSecond(2)
	e := New(Options{})
	k := []byte("k")
	for i, st := range []struct {
		t       int64 // ms after start
		op      string
		cost    int64
		limited bool
		keys    int64 // in the table after the step
	}{
		{0, "peek", 1, false, 0},
		{0, "take", 3, true, 0}, // a denial on an absent key stores nothing
		{0, "take", 0, false, 0},
		{0, "refund", 1, false, 0},
		{0, "take", 1, false, 1},
		{0, "take", 1, false, 1},
		{0, "take", 1, true, 1},
		{0, "peek", 1, true, 1},
		{499, "take", 1, true, 1},
		{500, "take", 1, false, 1},
		{0, "take", 1, true, 1}, // the clock goes back: it is still 500
		{500, "refund", 1, false, 1},
		{500, "refund", 1, false, 0}, // full again
		{500, "take", 2, false, 1},
		{1499, "peek", 1, false, 1},
		{1500, "peek", 2, false, 0}, // its time has come
	} {
		now := start + st.t*second/1000
		var (
			d   limit.Decision
			err error
		)
		switch st.op {
		case "take":
			d, err = take(e, now, k, l, st.cost)
		case "peek":
			d, err = peek(e, now, k, l, st.cost)
		case "refund":
			d, err = refund(e, now, k, l, st.cost)
		}
		if err != nil || d.Limited != st.limited {
			t.Fatalf("step %d: %+v gave %+v, %v", i, st, d, err)
		}
		if got := e.Stats().Keys; got != st.keys {
			t.Fatalf("step %d: %+v left %d keys", i, st, got)
		}
	}
}

func TestErrorsChangeNothing(t *testing.T) {
	e := New(Options{})
	l := perSecond(10)
	mustTake(t, e, start, key(1), l, 4)
	before := e.Stats()
	if _, err := take(e, start, key(1), l, -1); err == nil {
		t.Error("a negative cost was taken")
	}
	if _, err := take(e, start, key(2), l, -1); err == nil {
		t.Error("a negative cost was taken from an absent key")
	}
	if after := e.Stats(); after != before {
		t.Errorf("%+v became %+v", before, after)
	}
	if d := mustTake(t, e, start, key(1), l, 1); d.Remaining != 5 {
		t.Errorf("remaining = %d, want 5", d.Remaining)
	}
}

func TestWrongType(t *testing.T) {
	// The check is called directly.
	e := New(Options{Shards: 1})
	mustTake(t, e, start, key(1), perSecond(1), 1)
	s, sp := e.find(key(1))
	if state, err := s.stateFor(&sp, perSecond(1)); err != nil || len(state) != fixedState {
		t.Errorf("stateFor = %v, %v", state, err)
	}
	if err := s.table.Put(start, &sp, table.Unknown(limit.LEASE), s.table.State(&sp), true); err != nil {
		t.Fatal(err)
	}
	if state, err := s.stateFor(&sp, perSecond(1)); !errors.Is(err, ErrWrongType) || state != nil {
		t.Errorf("stateFor a stranger's key = %v, %v", state, err)
	}
	sp.Forget()
	if state, err := s.stateFor(&sp, perSecond(1)); err != nil || state != nil {
		t.Errorf("stateFor no key = %v, %v", state, err)
	}
}

//test:norace
func TestKeysAreExact(t *testing.T) {
	// All keys have the same hash, so only their bytes distinguish them.
	const seed, n = 77, 1000
	e := New(Options{Seed: seed})
	h, _ := e.place(collidingKey(seed, 0))
	for i := range n {
		k := collidingKey(seed, i)
		if x, _ := e.place(k); x != h {
			t.Fatalf("key %d has hash %x, not %x", i, x, h)
		}
		if d := mustTake(t, e, start, k, perSecond(10_000), int64(i+1)); d.Remaining != int64(10_000-i-1) {
			t.Fatalf("key %d: %+v", i, d)
		}
		if i%100 == 0 {
			e.check()
		}
	}
	for i := range n {
		if d, err := peek(e, start, collidingKey(seed, i), perSecond(10_000), 0); err != nil || d.Remaining != int64(10_000-i-1) {
			t.Fatalf("key %d: %+v, %v", i, d, err)
		}
	}
	for i := n; ; i++ { // until no more keys can be distinguished
		if _, err := take(e, start, collidingKey(seed, i), perSecond(10_000), 1); err == ErrOOM {
			break
		} else if err != nil || i > 100*n {
			t.Fatalf("key %d: %v", i, err)
		}
	}
	if b := e.Stats().Bytes; b > 2<<20 {
		t.Errorf("%d bytes for keys that collide", b)
	}
	seen := 0
	for cursor := uint64(0); ; {
		if cursor = e.Range(start, cursor, 10, func([]byte, Info) { seen++ }); cursor == 0 {
			break
		}
	}
	if int64(seen) != e.Stats().Keys {
		t.Errorf("Range visited %d of %d keys", seen, e.Stats().Keys)
	}
	for i := range n {
		k := collidingKey(seed, i)
		if !e.Reset(start, k) || e.Reset(start, k) {
			t.Fatalf("key %d was not there once", i)
		}
	}
	e.check()
}

func TestKeysOfEveryLength(t *testing.T) {
	e := New(Options{})
	l := perSecond(10_000)
	for n := range 4097 {
		mustTake(t, e, start, make([]byte, n), l, int64(n+1))
	}
	for n := range 4097 {
		if d, err := peek(e, start, make([]byte, n), l, 0); err != nil || d.Remaining != int64(10_000-n-1) {
			t.Fatalf("length %d: %+v, %v", n, d, err)
		}
	}
	if n := e.Stats().Keys; n != 4097 {
		t.Errorf("%d keys", n)
	}
}

//test:norace
func TestShardsOfEveryNumber(t *testing.T) {
	for _, n := range []int{-1, 0, 1, 2, 3, 255, 1000, 1 << 16, 1 << 20} {
		e := New(Options{Shards: n})
		for i := range 100 {
			mustTake(t, e, start, key(i), perSecond(1), 1)
		}
		seen := map[string]bool{}
		for cursor := uint64(0); ; {
			cursor = e.Range(start, cursor, 1000, func(k []byte, _ Info) { seen[string(k)] = true })
			if cursor == 0 {
				break
			}
		}
		if len(seen) != 100 {
			t.Errorf("%d shards: saw %d of 100 keys", n, len(seen))
		}
	}
}

func TestSweepDropsOnlyWhatHasExpired(t *testing.T) {
	e := New(Options{})
	const n = 20_000
	for i := range n {
		mustTake(t, e, start, key(i), perSecond(10), 5)    // full after 0.5 s
		mustTake(t, e, start, key(n+i), perSecond(10), 10) // and after 1 s
	}
	full := e.Stats()
	if got := e.Sweep(start+second/2-1, 1<<30); got != 0 {
		t.Fatalf("dropped %d before their time", got)
	}
	dropped := 0
	for range 1000 { // each continues where the one before stopped
		dropped += e.Sweep(start+second/2, 100)
	}
	if dropped != n {
		t.Errorf("dropped %d, want %d", dropped, n)
	}
	if st := e.Stats(); st.Keys != n || st.Expired != n || st.Bytes >= full.Bytes {
		t.Errorf("%+v became %+v", full, st)
	}
	for i := range n {
		if _, ok := e.Info(start+second/2, key(n+i)); !ok {
			t.Fatalf("key %d is gone before its time", n+i)
		}
	}
	if got := e.Sweep(start+second, 1<<30); got != n {
		t.Errorf("dropped %d, want %d", got, n)
	}
	for range 3 { // the last spans go when nobody has wanted one for a while
		e.Sweep(start+second, 1<<30)
	}
	if st, empty := e.Stats(), New(Options{}).Stats(); st.Keys != 0 || st.Bytes != empty.Bytes {
		t.Errorf("%+v after everything has expired, %+v at first", st, empty)
	}
}

// TestSweepGoesRoundOnce begins in the middle of a segment: the two segments
// between which the last sweep stopped have been merged.
func TestSweepGoesRoundOnce(t *testing.T) {
	e := New(Options{Shards: 1})
	for i := range 20_000 {
		mustTake(t, e, start, key(i), perSecond(1), 1)
	}
	for range 7 {
		e.Sweep(start, 1)
	}
	if e.sweepAt.Load() == 0 {
		t.Fatal("the sweep is at the line's beginning")
	}
	e.Flush()
	swept := make(chan int)
	go func() { swept <- e.Sweep(start, 1<<40) }()
	select {
	case <-swept:
	case <-time.After(2 * time.Minute):
		t.Fatal("the sweep goes round and round")
	}
	if at := e.sweepAt.Load(); at != 0 {
		t.Errorf("the sweep is at %x of an empty table", at)
	}
}

// giveBack sweeps until nothing more goes back to the system.
func giveBack(e *Engine, now int64) {
	for before, idle := int64(-1), 0; idle < 2; {
		e.Sweep(now, 1)
		if after := e.Stats().Bytes; after != before {
			before, idle = after, 0
		} else {
			idle++
		}
	}
}

func TestStatsInSteps(t *testing.T) {
	e := New(Options{Seed: 7, Shards: 16})
	for i := range 100 {
		mustTake(t, e, start, key(i), perSecond(1), 1)
	}
	var sum Stats
	steps := 1
	for at := e.AddStats(&sum, 0, 5); at != 0; at = e.AddStats(&sum, at, 5) {
		steps++
	}
	if steps != 4 || sum != e.Stats() || sum.Keys != 100 {
		t.Errorf("%d steps: %+v, want %+v", steps, sum, e.Stats())
	}
}

func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(Options{Shards: rapid.SampledFrom([]int{1, 4}).Draw(t, "shards"), Seed: rapid.Uint64().Draw(t, "seed")})
		now := start
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{
				op:    rapid.Byte().Draw(t, "op"),
				key:   rapid.ByteRange(0, 40).Draw(t, "key"),
				limit: rapid.Byte().Draw(t, "limit"),
				cost:  rapid.Byte().Draw(t, "cost"),
				dt:    rapid.Int64Range(-200, 600).Draw(t, "dt"),
			}
		}), 100, 400).Draw(t, "steps")
		for i, st := range steps {
			now += st.dt
			if err := p.run(now, st); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
		if err := p.all(now, 100); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzAgainstModel(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		p := newPair(Options{Shards: 2, Seed: 1})
		now := start
		for i := 0; len(data) >= 6; i, data = i+1, data[6:] {
			st := step{op: data[0], key: data[1], limit: data[2], cost: data[3], dt: int64(int16(binary.BigEndian.Uint16(data[4:])))}
			now += st.dt
			if err := p.run(now, st); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
		if err := p.all(now, 100); err != nil {
			t.Fatal(err)
		}
	})
}

// TestNeverOneTooMany has 64 goroutines take from one key, round after round, at
// a time that stands still. It knows exactly how many takes must be granted.
// LIMITDB_LONG=1 makes it run for 10 s.
func TestNeverOneTooMany(t *testing.T) {
	const goroutines, each = 64, 50
	var lasts time.Duration
	if long() {
		lasts = 10 * time.Second
	}
	e := New(Options{})
	k := []byte("the one key")
	l := perSecond(1000)
	began, now := time.Now(), start
	for round := int64(0); round < 100 || time.Since(began) < lasts; round++ {
		// At first 1 000, then what 0.5 s, 0.25 s or 0.1 s give back.
		want, step := int64(1000), int64(0)
		if round > 0 {
			step = []int64{second / 2, second / 4, second / 10}[round%3]
			want = 1000 * step / second
		}
		now += step
		var (
			got   atomic.Int64
			all   sync.WaitGroup
			ready = make(chan struct{})
		)
		for range goroutines {
			all.Go(func() {
				<-ready
				for range each {
					if d := mustTake(t, e, now, k, l, 1); !d.Limited {
						got.Add(1)
					}
				}
			})
		}
		close(ready)
		all.Wait()
		if got.Load() != want {
			t.Fatalf("round %d: %d got through, want %d", round, got.Load(), want)
		}
	}
}

// Under the race detector, pools forget some of what they are given, so it runs without.
//
//test:norace
func TestAllocatesNothing(t *testing.T) {
	e := New(Options{})
	l := perSecond(1000)
	k, other, nobody := key(1), key(2), []byte("nobody")
	mustTake(t, e, start, k, l, 1)
	now := start
	var d limit.Decision
	resized := &limit.Limit{Algorithm: limit.TOKEN, Max: 1000, Period: second, Burst: 1000, Interval: true}
	for name, call := range map[string]func(){
		"Take":   func() { now++; mustTake(t, e, now, k, l, 1) },
		"Peek":   func() { _, _ = peek(e, now, k, l, 1) },
		"absent": func() { _, _ = peek(e, now, nobody, l, 1) },
		"Refund": func() { mustTake(t, e, now, k, l, 2); _, _ = refund(e, now, k, l, 1) },
		"Info":   func() { e.Info(now, k) },
		"a state that grows and shrinks": func() {
			mustTake(t, e, start, other, resized, 300)
			_, _ = refund(e, start, other, resized, 299)
			mustTake(t, e, start, other, resized, 299)
			_, _ = refund(e, start, other, resized, 300)
		},
		"TakePartial": func() {
			now += second / 1000
			if _, err := takePartial(e, now, k, l, 3, &d); err != nil {
				t.Fatal(err)
			}
		},
		"Reserve": func() {
			now += second / 1000
			if err := e.Reserve(now, k, l, 1, -1, &d); err != nil {
				t.Fatal(err)
			}
		},
	} {
		if n := allocations(1000, call); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// take, peek and refund call the engine and return the decision, which is zero
// after an error.
func take(e *Engine, now int64, key []byte, l *limit.Limit, cost int64) (d limit.Decision, err error) {
	if err = e.Take(now, key, l, cost, &d); err != nil {
		d = limit.Decision{}
	}
	return d, err
}

func peek(e *Engine, now int64, key []byte, l *limit.Limit, cost int64) (d limit.Decision, err error) {
	err = e.Peek(now, key, l, cost, &d)
	return d, err
}

func refund(e *Engine, now int64, key []byte, l *limit.Limit, cost int64) (d limit.Decision, err error) {
	err = e.Refund(now, key, l, cost, &d)
	return d, err
}
