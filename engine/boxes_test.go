package engine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"limitdb/engine/table"
	"limitdb/limit"
)

// logLimit returns a LOG of that many an hour.
func logLimit(most int64) *limit.Limit {
	return &limit.Limit{Algorithm: limit.LOG, Max: most, Period: 3600 * second, Burst: most}
}

// boxCount returns how many states are in boxes.
func boxCount(e *Engine) (n int) {
	for i := range e.shards {
		n += e.shards[i].table.Stats().Boxes
	}
	return n
}

// logWalk drives logs of all lengths through an engine and its model.
type logWalk struct {
	*pair
	*rand.Rand
	now           int64
	boxed, opened int // how often states have gone into a box, and come out of one
}

// step makes one call on one of the keys. Each key has a rate of its own, so some
// logs have a few bytes and some a hundred thousand. They grow during a rush, and
// shrink after it.
func (w *logWalk) step(rush bool) error {
	defer w.e.check()
	i := w.IntN(7)
	l := logLimit(5 << (2 * i)) // 5 to 20480
	l.CountDenied = i == 3
	k := key(i)
	before := boxCount(w.e)
	op, cost := byte(0), int64(1)
	switch n := w.IntN(100); {
	case n < 6:
		op, cost = 4, 1+w.Int64N(1+l.Max/20)
	case n < 10:
		op = 3
	case n < 12:
		cost = w.Int64N(l.Max + 2)
	case n == 12 && w.IntN(20) == 0:
		w.e.Reset(w.now, k)
		delete(w.m.keys, string(k))
		return nil
	case n == 13:
		// Other keys come and go, so that segments are split and records move.
		for j := range 40 {
			if err := w.decide(w.now, 0, key(100+w.IntN(3000)+j), perSecond(1), 1); err != nil {
				return err
			}
		}
		w.sweep()
	}
	repeat := 1
	if op == 0 && cost == 1 && rush {
		repeat = 1 + int(l.Max/50)
	}
	for range repeat {
		w.now += w.Int64N(1 + second/1000)
		if err := w.decide(w.now, op, k, l, cost); err != nil {
			return err
		}
	}
	if !rush {
		w.now += w.Int64N(60 * second)
	}
	w.boxed += max(0, boxCount(w.e)-before)
	w.opened += max(0, before-boxCount(w.e))
	return nil
}

// sweep drops what has expired on both sides.
func (w *logWalk) sweep() {
	w.e.Sweep(w.now, 1<<40)
	for i := range w.e.shards {
		w.m.clamp(&w.e.shards[i], w.now)
	}
	for k := range w.m.keys {
		w.m.live(w.now, []byte(k))
	}
}

// TestLogsGrowShrinkAndMove checks that decisions and states are those of the
// model, whether a log's state is in a record, moves to a box, or moves back.
//
//test:norace
func TestLogsGrowShrinkAndMove(t *testing.T) {
	for seed := range uint64(2) {
		w := &logWalk{pair: newPair(Options{Shards: 2, Seed: seed + 1}), Rand: rand.New(rand.NewPCG(seed, 1)), now: start}
		empty := w.e.Stats().Bytes
		for i := range 1200 {
			if err := w.step(i/150%2 == 0); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, i, err)
			}
		}
		if w.boxed < 3 || w.opened < 3 {
			t.Errorf("seed %d: %d states went into a box and %d came out", seed, w.boxed, w.opened)
		}
		if err := w.all(w.now, 100); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		w.e.Flush()
		giveBack(w.e, w.now)
		w.e.check()
		if got := w.e.Stats().Bytes; got != empty || boxCount(w.e) != 0 {
			t.Errorf("seed %d: %d bytes and %d boxes after a flush, %d bytes at first", seed, got, boxCount(w.e), empty)
		}
	}
}

// TestLogsAreEvicted keeps to a budget with states in boxes.
//
//test:norace
func TestLogsAreEvicted(t *testing.T) {
	e := New(Options{Shards: 2})
	allowed := e.Stats().Bytes + 500_000
	e.SetMaxMemory(allowed, LeastDebt)
	const keys = 100
	l := logLimit(limit.MaxLog)
	now := start
	for i := range keys {
		// Each takes about 10 kB, and less than half of them can stay.
		for range 2500 {
			now += second / 100
			mustTake(t, e, now, key(i), l, 1)
		}
		e.check()
		e.Sweep(now, 1000)
		// A key that was evicted while it grew begins afresh, and may stay short.
		if b := e.Stats().Bytes; b > allowed+spanSize {
			t.Fatalf("%d bytes, %d allowed", b, allowed)
		}
	}
	e.check()
	st := e.Stats()
	if st.Evicted < 40 || st.Keys+int64(st.Evicted) < keys || boxCount(e) < int(st.Keys)/2 {
		t.Errorf("%+v, %d boxes", st, boxCount(e))
	}
	for i := range keys {
		e.Reset(now, key(i))
	}
	e.check()
	if boxCount(e) != 0 {
		t.Errorf("%d boxes without keys", boxCount(e))
	}
}

// TestBoxStaysWhereItIs takes from a full log of half a megabyte as often as it
// has units, alone and together with another key. Each time one unit comes and
// one goes. Bytes are copied only to cut off what has gone, nothing is allocated,
// and the box stays the same.
//
//test:norace
func TestBoxStaysWhereItIs(t *testing.T) {
	e := New(Options{Shards: 1})
	l := logLimit(limit.MaxLog)
	each := l.Period/l.Max + 1
	now := start
	k := key(1)
	for range l.Max {
		now += each
		if d := mustTake(t, e, now, k, l, 1); d.Limited {
			t.Fatalf("%+v", d)
		}
	}
	box := func() []byte {
		s, sp := e.find(k)
		return s.table.State(&sp)
	}
	at, moves := unsafe.SliceData(box()), 0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	keys, limits, ds := [][]byte{key(2), k}, []limit.Limit{*perSecond(1_000_000), *l}, make([]limit.Decision, 2)
	for i := range l.Max {
		now += each
		if i%2 == 0 {
			if d := mustTake(t, e, now, k, l, 1); d.Limited {
				t.Fatalf("%+v", d)
			}
		} else if at, err := e.TakeAll(now, keys, limits, []int64{1, 1}, ds); at >= 0 || err != nil {
			t.Fatalf("%d, %v", at, err)
		}
		if p := unsafe.SliceData(box()); p != at {
			at = p
			moves++
		}
	}
	runtime.ReadMemStats(&after)
	if moves > 2 {
		t.Errorf("the box has moved %d times", moves)
	}
	// A copy of the state would take some 300 kB. Under the race detector, pools
	// drop their contents, so TakeAll allocates buffers that it would borrow.
	if each := (after.TotalAlloc - before.TotalAlloc) / uint64(l.Max); each > 1000 {
		t.Errorf("%d bytes allocated each time", each)
	}
	if b := box(); len(b) < 4*limit.MaxLog || cap(b) > len(b)*5/4 {
		t.Errorf("%d bytes in a box of %d", len(b), cap(b))
	}
	// Peeks and denials leave the box as it is.
	for _, cost := range []int64{0, 2} {
		before := string(box())
		if at, err := e.TakeAll(now, keys, limits, []int64{1, cost}, ds); err != nil || (at >= 0) != (cost > 0) {
			t.Errorf("cost %d: %d, %v", cost, at, err)
		}
		if string(box()) != before {
			t.Errorf("cost %d has changed the state", cost)
		}
	}
	e.check()
}

// TestBoxShrinks checks that a state gets a smaller box when its box has become
// too large.
func TestBoxShrinks(t *testing.T) {
	e := New(Options{Shards: 1})
	l := logLimit(limit.MaxLog)
	now := start
	for range l.Max / 2 {
		now += l.Period / l.Max
		mustTake(t, e, now, key(1), l, 1)
	}
	large := e.Stats().Bytes
	for _, later := range []int64{l.Period * 4 / 5, l.Period / 10} {
		now += later
		mustTake(t, e, now, key(1), l, 1)
		e.check()
		s, sp := e.find(key(1))
		box := s.table.State(&sp)
		if cap(box) > 2*len(box) || len(box) < minBoxed {
			t.Errorf("a box of %d bytes for %d", cap(box), len(box))
		}
	}
	if now := e.Stats().Bytes; now > large/2 {
		t.Errorf("%d bytes, %d when it was full", now, large)
	}
	mustTake(t, e, now+l.Period/11, key(1), l, 1)
	if e.check(); boxCount(e) != 0 {
		t.Errorf("%d boxes", boxCount(e))
	}
}

// TestStateAroundABound takes and gives back while a state is a byte above or
// below a bound: of a record, of a length, of any record. The table does not
// rewrite the record each time.
func TestStateAroundABound(t *testing.T) {
	for _, bound := range []int{128, 256, 2048, maxInline, minBoxed} {
		t.Run(fmt.Sprint(bound), func(t *testing.T) {
			e := New(Options{Shards: 1, Seed: 1})
			s := boundary{T: t, e: e, t: &e.shards[0].table, l: logLimit(limit.MaxLog), now: start}
			s.growTo(bound)
			if bound == minBoxed {
				for len(s.state()) <= maxInline {
					s.take()
				}
				for len(s.state()) > bound {
					s.refund()
				}
			}
			place, moves := unsafe.SliceData(s.state()), 0
			for i := range 1000 {
				if i%50 == 0 { // and does not become the last by moving there
					mustTake(t, e, s.now, key(100+i), perSecond(1), 1)
				}
				s.take()
				above := len(s.state())
				s.refund()
				s.refund()
				if below := len(s.state()); below >= bound || above <= bound {
					t.Fatalf("from %d bytes to %d, want from above %d to below", above, below, bound)
				}
				s.take()
				if p := unsafe.SliceData(s.state()); p != place {
					place = p
					moves++
				}
			}
			e.check()
			// One byte more of length does move the record.
			if moves > 5 && bound != 128 {
				t.Errorf("moved %d times", moves)
			}
		})
	}
}

// boundary has a log of one key.
type boundary struct {
	*testing.T
	e *Engine
	t *table.Table
	l *limit.Limit

	now, later int64 // each unit comes a nanosecond after the one before
}

func (s *boundary) state() []byte {
	_, sp := s.e.find(key(1))
	if !sp.Found() {
		return nil
	}
	return s.t.State(&sp)
}

func (s *boundary) take() {
	s.Helper()
	s.later++
	mustTake(s, s.e, s.now+s.later, key(1), s.l, 1)
}

func (s *boundary) refund() {
	s.Helper()
	if _, err := refund(s.e, s.now, key(1), s.l, 1); err != nil {
		s.Fatal(err)
	}
	s.later--
}

// growTo takes until the state has that many bytes. The last tokens have one
// byte.
func (s *boundary) growTo(n int) {
	s.Helper()
	for len(s.state()) < n-60 {
		s.now += second / 10
		s.take()
	}
	for len(s.state()) < n {
		s.take()
	}
	if got := len(s.state()); got != n {
		s.Fatalf("%d bytes, want %d", got, n)
	}
}
