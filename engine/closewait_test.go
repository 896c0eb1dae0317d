package engine

import (
	"errors"
	"math"
	"sync"
	"testing"

	"limitdb/limit"
)

// wakeFunc is a Waker.
type wakeFunc func()

func (f wakeFunc) Wake() { f() }

// lineOf is a limit whose requests wait in a line of turns.
var lineOf = limit.Limit{Algorithm: limit.QUEUE, Max: 10, Burst: 4000, Period: second}

// askMany has n requests wait for key(1) under l, and returns them.
func askMany(t *testing.T, e *Engine, l *limit.Limit, n int, owner Waker) []*Waiter {
	t.Helper()
	mustTake(t, e, start, key(1), l, 1)
	ws := make([]*Waiter, n)
	for i := range ws {
		ws[i] = &Waiter{Request: Request{Limit: *l, Cost: 1}, Until: math.MaxInt64, Owner: owner}
		if !e.Ask(start, key(1), ws[i]) {
			t.Fatalf("%d does not wait", i)
		}
	}
	return ws
}

// mustBeOver checks that every request has been decided or ended, and that nothing is left of
// them.
func mustBeOver(t *testing.T, e *Engine, ws []*Waiter) {
	t.Helper()
	for i, w := range ws {
		if _, _, err := w.Result(); !w.Done() || err != nil && !errors.Is(err, ErrClosed) {
			t.Fatalf("waiter %d: %v, %v", i, w.Done(), err)
		}
	}
	if st := e.Stats(); st.Waiting != 0 || st.WaitingKeys != 0 {
		t.Errorf("%+v", st)
	}
	e.check()
}

// In TestCloseInTheMiddle another request leaves, or has its turn, while Close is between two
// of a line.
func TestCloseInTheMiddle(t *testing.T) {
	for name, between := range map[string]func(e *Engine, ws []*Waiter){
		"one leaves":      func(e *Engine, ws []*Waiter) { e.Cancel(start, ws[len(ws)-1], nil) },
		"all leave":       func(e *Engine, ws []*Waiter) { cancelAll(e, ws) },
		"a turn comes":    func(e *Engine, _ []*Waiter) { e.Wake(start + 500*ms) },
		"all turns come":  func(e *Engine, _ []*Waiter) { e.Wake(math.MaxInt64) },
		"the key is gone": func(e *Engine, _ []*Waiter) { e.Reset(start, key(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			e := New(Options{Shards: 1})
			var ws []*Waiter
			calls := 0
			ws = askMany(t, e, &lineOf, 10, wakeFunc(func() {
				if calls++; calls == 1 {
					between(e, ws)
				}
			}))
			e.Cancel(start, ws[4], nil) // its turn is a hole
			e.Close()
			mustBeOver(t, e, ws)
		})
	}
}

func cancelAll(e *Engine, ws []*Waiter) {
	for _, w := range ws {
		e.Cancel(start, w, nil)
	}
}

// TestCloseAgainstOthers closes an engine with 2 000 that wait for one key, while they leave or
// have their turns. Everybody's wait ends, once Close and the others have returned.
func TestCloseAgainstOthers(t *testing.T) {
	const n = 2000
	one := limit.Limit{Algorithm: limit.GCRA, Max: 10, Burst: 1, Period: second}
	for limits, l := range map[string]*limit.Limit{"turns": &lineOf, "waits": &one} {
		for name, other := range map[string]func(e *Engine, ws []*Waiter){
			"cancel": cancelAll,
			"wake": func(e *Engine, _ []*Waiter) {
				for i := range int64(n) {
					e.Wake(start + i*100*ms)
				}
			},
		} {
			t.Run(limits+"/"+name, func(t *testing.T) {
				for range 5 {
					e := New(Options{Shards: 1})
					ws := askMany(t, e, l, n, wakeFunc(func() {}))
					var all sync.WaitGroup
					begin := make(chan struct{})
					for range 2 {
						all.Go(func() { <-begin; other(e, ws) })
					}
					all.Go(func() { <-begin; e.Close() })
					close(begin)
					all.Wait()
					mustBeOver(t, e, ws)
				}
			})
		}
	}
}

// TestCloseWhileAQueueIsServed has Wake take a queue out of the alarms just before Close. Those
// that Wake does not come to under its lock are told as well.
func TestCloseWhileAQueueIsServed(t *testing.T) {
	l := limit.Limit{Algorithm: limit.GCRA, Max: 1, Burst: 1, Period: second}
	for _, n := range []int{1, serveMost, 3 * serveMost} {
		e := New(Options{Shards: 1})
		told := 0
		ws := askMany(t, e, &l, n, wakeFunc(func() { told++ }))
		q, _ := e.alarms.Pop(math.MaxInt64)
		e.Close()
		e.serve(start+second, q)
		e.Wake(start + second)
		if told != n {
			t.Errorf("%d of %d told", told, n)
		}
		mustBeOver(t, e, ws)
	}
}
