package engine

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/limit"
)

// counter counts how many waiters have been notified.
type counter struct{ n *atomic.Int64 }

func (c counter) Wake() { c.n.Add(1) }

// A hundred thousand waiters cost memory, and nothing else.
//
//test:norace
func TestHundredThousandWait(t *testing.T) {
	const n = 100_000
	for _, tt := range []struct {
		name string
		keys int
		most uint64 // bytes for each
	}{{"one key", 1, 332}, {"a key each", n, 800}} {
		t.Run(tt.name, func(t *testing.T) {
			e := New(Options{})
			l := limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: ms, Burst: 1}
			for i := range tt.keys {
				mustTake(t, e, start, key(i), &l, 1)
			}
			var told atomic.Int64
			waiters := make([]*Waiter, n)
			goroutines := runtime.NumGoroutine()
			before := heapInUse()
			for i := range waiters {
				waiters[i] = &Waiter{Request: Request{Limit: l, Cost: 1}, Until: math.MaxInt64, Owner: counter{&told}}
				if !e.Ask(start, key(i%tt.keys), waiters[i]) {
					t.Fatalf("%d does not wait", i)
				}
			}
			each := (heapInUse() - before) / n
			t.Logf("%d bytes each", each)
			if each > tt.most {
				t.Errorf("%d bytes for each that waits", each)
			}
			if more := runtime.NumGoroutine() - goroutines; more > 0 {
				t.Errorf("%d goroutines", more)
			}
			if st := e.Stats(); st.Waiting != n || st.WaitingKeys != int64(tt.keys) || st.Waited != n {
				t.Errorf("%+v", st)
			}
			// Each key grants one a millisecond, in order.
			now := start
			for i := range n / tt.keys {
				now += ms
				next := e.Wake(now)
				if got := told.Load(); got != int64(tt.keys*(i+1)) || !waiters[i].Done() || i < n/tt.keys-1 && next != now+ms {
					t.Fatalf("after %d ms %d are granted, the next in %d ns", i+1, got, next-now)
				}
			}
			runtime.KeepAlive(waiters)
			if st := e.Stats(); st.Waiting != 0 || st.WaitingKeys != 0 || st.Allowed != uint64(n+tt.keys) {
				t.Errorf("at the end: %+v", st)
			}
			e.check()
		})
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Callers that do not wait, and come back exactly when they were told, ask at most once for each grant to the queue, and at
// most once each millisecond. Once the queue has gone, they are served.
func TestLongQueueCausesNoStorm(t *testing.T) {
	const queued, callers = 500, 40
	for _, tt := range []struct {
		name  string
		every int64 // ns for each grant
		cost  int64 // of one that waits
		most  int   // asks of a caller until the queue has gone
	}{
		{"10 a second", second / 10, 1, queued + 1},
		{"a million a second", 1000, 1, 2},
		{"100 s for each", second / 10, 1000, queued + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := New(Options{Shards: 1})
			l := limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: tt.every, Burst: max(1, tt.cost)}
			mustTake(t, e, start, key(1), &l, l.Burst)
			var told atomic.Int64
			for range queued {
				e.Ask(start, key(1), &Waiter{Request: Request{Limit: l, Cost: tt.cost}, Until: math.MaxInt64, Owner: counter{&told}})
			}
			var back [callers]int64 // when each asks again
			for i := range back {
				back[i] = start
			}
			asks, left, next := 0, callers, e.Wake(start)
			for left > 0 {
				now := min(next, slices.Min(back[:]))
				next = e.Wake(now)
				behind := told.Load() < queued
				for i, at := range back {
					if at > now {
						continue
					}
					d := mustTake(t, e, now, key(1), &l, 1)
					switch {
					case !d.Limited && behind:
						t.Fatal("a caller has overtaken the queue")
					case !d.Limited:
						back[i] = math.MaxInt64
						left--
					case d.Wait < 1:
						t.Fatalf("told to wait %d", d.Wait)
					default:
						back[i] = now + d.Wait
					}
					if behind {
						asks++
					}
				}
			}
			if t.Logf("%d asks of %d callers behind %d that wait", asks, callers, queued); asks > tt.most*callers {
				t.Errorf("%d asks, at most %d of each caller", asks, tt.most)
			}
		})
	}
}

// Many waiters that give up at one instant do not hold up one caller for long, and
// none is forgotten.
func TestAllGiveUp(t *testing.T) {
	const n = 5 * serveMost
	e := New(Options{Shards: 1})
	l := limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: second, Burst: 1}
	mustTake(t, e, start, key(1), &l, 1)
	var told atomic.Int64
	for range n {
		if !e.Ask(start, key(1), &Waiter{Request: Request{Limit: l, Cost: 1}, Until: start + ms, Owner: counter{&told}}) {
			t.Fatal("it does not wait")
		}
	}
	e.serve(start+ms, e.shards[0].waits.Find(key(1)))
	if got := told.Load(); got != serveMost {
		t.Errorf("%d have been told by one call", got)
	}
	if next := e.Wake(start + ms); next != math.MaxInt64 || told.Load() != n {
		t.Errorf("%d have been told, the next at %d", told.Load(), next)
	}
}

// chanOwner notifies its waiter over a channel.
type chanOwner chan struct{}

func (c chanOwner) Wake() { close(c) }

// Goroutines take, wait, give back and leave, and one calls Wake. Each request is
// decided once, and no more is granted than the limit allows.
func TestWaitRace(t *testing.T) {
	e := New(Options{Shards: 4})
	l := limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: 20_000, Burst: 3}
	begin := time.Now()
	clock := func() int64 { return start + int64(time.Since(begin)) }
	stop := make(chan struct{})
	var waker, workers sync.WaitGroup
	waker.Go(func() {
		timer := time.NewTimer(0)
		defer timer.Stop()
		for {
			select {
			case <-stop:
				return
			case <-timer.C:
			case <-e.Sooner():
			}
			next := e.Wake(clock())
			timer.Reset(time.Duration(min(next-clock(), second)))
		}
	})
	var granted, refunded, left atomic.Int64
	const goroutines, rounds, keys = 16, 300, 3
	for g := range goroutines {
		workers.Go(func() {
			// Who leaves in time is luck, so the rounds go on until one has.
			for i := 0; i < rounds || left.Load() == 0; i++ {
				k := key((g + i) % keys)
				w := &Waiter{Request: Request{Limit: l, Cost: 1 + int64(i%2)}, Until: clock() + int64(i%7)*200_000, Owner: make(chanOwner)}
				if e.Ask(clock(), k, w) {
					if i%5 == 4 {
						if e.Cancel(clock(), w, errLeft) {
							left.Add(1)
							continue
						}
					}
					select {
					case <-w.Owner.(chanOwner):
					case <-time.After(2 * time.Minute):
						t.Error("a waiter was forgotten")
						return
					}
				}
				d, n, err := w.Result()
				if err != nil || !w.Done() || d.Limited == (n > 0) {
					t.Errorf("%+v, %d, %v", d, n, err)
				}
				granted.Add(n)
				switch {
				case i%11 == 10 && n > 0:
					if err := e.Refund(clock(), k, &l, n, &d); err != nil {
						t.Error(err)
					}
					refunded.Add(n)
				case i%37 == 36:
					if err := e.Take(clock(), k, &l, 1, &d); err != nil {
						t.Error(err)
					} else if !d.Limited {
						granted.Add(1)
					}
				}
			}
		})
	}
	workers.Wait()
	took := clock() - start
	close(stop)
	waker.Wait()
	most := keys*(3+took/20_000+1) + refunded.Load()
	if granted.Load() > most {
		t.Errorf("%d granted, at most %d could be", granted.Load(), most)
	}
	if st := e.Stats(); st.Waiting != 0 || st.WaitingKeys != 0 || st.Waited == 0 {
		t.Errorf("%+v", st)
	}
	e.check()
}
