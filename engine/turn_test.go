package engine

import (
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"limitdb/internal/journal"
	"limitdb/limit"
)

// TestTurnsAreGivenBack has ten requests leave in several orders. All places are
// free again, whichever request went first.
func TestTurnsAreGivenBack(t *testing.T) {
	l := limit.Limit{Algorithm: limit.QUEUE, Max: 10, Burst: 20, Period: second}
	for name, order := range map[string][]int{
		"as they came": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, "backwards": {9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
		"mixed": {4, 5, 0, 9, 2, 8, 1, 7, 3, 6},
	} {
		e := New(Options{Shards: 1})
		mustTake(t, e, start, key(1), &l, 1)
		var told wakes
		ws := make([]*Waiter, 10)
		for i := range ws {
			ws[i] = &Waiter{Request: Request{Limit: l, Cost: 1}, Until: start + 10*second, Owner: &told}
			if !e.Ask(start, key(1), ws[i]) {
				t.Fatal("it does not wait")
			}
		}
		for _, i := range order {
			if !e.Cancel(start, ws[i], nil) {
				t.Fatal("it had been decided")
			}
		}
		if d, err := peek(e, start, key(1), &l, 0); err != nil || d.Remaining != 20 {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		if _, keys, _ := e.shards[0].waits.Figures(); keys != 0 {
			t.Errorf("%s: a line is left", name)
		}
		e.check()
	}
}

// In TestTurnsAreApart requests ask, leave, are refunded and go, at random. No
// two go closer together than the interval. When all waiters have left or gone, a
// new request waits only for the last one.
func TestTurnsAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const each = 100
		l := limit.Limit{Algorithm: limit.QUEUE, Max: 1, Burst: 50, Period: each}
		e := New(Options{Shards: 1})
		now := start
		var went []int64
		var waiters []*Waiter
		var told wakes
		advance := func(to int64) {
			for next := e.Wake(now); next <= to; next = e.Wake(now) {
				now = next
				e.Wake(now)
				waiters = slices.DeleteFunc(waiters, func(w *Waiter) bool {
					if w.Done() {
						went = append(went, now)
					}
					return w.Done()
				})
			}
			now = to
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0, 1:
				w := &Waiter{Request: Request{Limit: l, Cost: 1}, Until: math.MaxInt64, Owner: &told}
				if e.Ask(now, key(1), w) {
					waiters = append(waiters, w)
				} else if d, _, err := w.Result(); err != nil {
					t.Fatal(err)
				} else if !d.Limited {
					went = append(went, now)
				}
			case 2:
				if len(waiters) > 0 {
					i := rapid.IntRange(0, len(waiters)-1).Draw(t, "who")
					e.Cancel(now, waiters[i], nil)
					waiters = slices.Delete(waiters, i, i+1)
				}
			case 3:
				if len(waiters) > 0 {
					var d limit.Decision
					if err := e.Refund(now, key(1), &l, rapid.Int64Range(1, 5).Draw(t, "refund"), &d); err != nil {
						t.Fatal(err)
					}
				}
			default:
				advance(now + rapid.Int64Range(0, 3*each).Draw(t, "time"))
			}
			e.check()
		}
		advance(now + 100*each)
		slices.Sort(went)
		for i := 1; i < len(went); i++ {
			if went[i]-went[i-1] < each {
				t.Fatalf("two went at %d and %d", went[i-1]-start, went[i]-start)
			}
		}
		if _, keys, _ := e.shards[0].waits.Figures(); keys != 0 {
			t.Fatal("a line is left")
		}
	})
}

// TestTurnsStay checks that nobody goes close to a turn that somebody waits for,
// whatever makes the engine forget the key. The journal has what keeps others
// away.
func TestTurnsStay(t *testing.T) {
	l := limit.Limit{Algorithm: limit.QUEUE, Max: 10, Burst: 20, Period: second}
	for name, forget := range map[string]func(e *Engine){
		"reset": func(e *Engine) { e.Reset(start, key(1)) },
		"flush": func(e *Engine) { e.Flush() },
		"eviction": func(e *Engine) {
			e.SetMaxMemory(1, LeastDebt)
			e.Sweep(start, 1<<20)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(Options{Shards: 1})
			e.StartJournal(0, new(journal.Gate), func() {})
			mustTake(t, e, start, key(1), &l, 1)
			mustTake(t, e, start, key(2), &l, 1)
			var told wakes
			w := &Waiter{Request: Request{Limit: l, Cost: 1}, Until: start + second, Owner: &told}
			if !e.Ask(start, key(1), w) {
				t.Fatal("it does not wait")
			}
			forget(e)
			if _, there := e.Info(start, key(2)); there && name != "reset" {
				t.Error("the other key is still there")
			}
			d := mustTake(t, e, start, key(1), &l, 1)
			if d.Limited || d.Wait != 200*ms {
				t.Errorf("the next: %+v, want a wait of 200 ms", d)
			}
			var log journal.Buffer
			drain(e, &log)
			again := New(Options{Shards: 1, Seed: e.seed})
			if err := replay(again, start, nil, log.Bytes); err != nil {
				t.Fatal(err)
			}
			if got, want := contents(again, start), contents(e, start); !maps.Equal(got, want) {
				t.Errorf("the journal gives %v, there is %v", got, want)
			}
			e.check()
		})
	}
}
