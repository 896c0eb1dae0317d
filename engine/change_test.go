package engine

import (
	"testing"

	"limitdb/internal/journal"
	"limitdb/limit"
)

// The limits of the tests in which limits change.
var (
	tenAnHour  = limit.Limit{Algorithm: limit.GCRA, Max: 10, Period: 3600 * second, Burst: 10}
	raised     = limit.Limit{Algorithm: limit.GCRA, Max: 1000, Period: second, Burst: 10}
	oneAnHour  = limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: 3600 * second, Burst: 1}
	oneASecond = limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: second, Burst: 1}
)

// A denied TAKEALL moves the keys that deny to a faster pace, and no others. Its
// wait is exact.
func TestTakeAllAfterRaise(t *testing.T) {
	e := New(Options{Shards: 4})
	keys := [][]byte{key(1), key(2)}
	for _, k := range keys {
		mustTake(t, e, start, k, &tenAnHour, 9)
	}
	ds := make([]limit.Decision, 2)
	at, err := e.TakeAll(start, keys, []limit.Limit{raised, raised}, []int64{2, 1}, ds)
	if err != nil || at != 0 || ds[0].Wait != 1e6 {
		t.Fatalf("%d, %+v, %v", at, ds, err)
	}
	if info, _ := e.Info(start, keys[0]); info.Level != 9e6 {
		t.Errorf("the key that denied is full in %d ns, want 9 ms", info.Level)
	}
	if info, _ := e.Info(start, keys[1]); info.Level != 9*360*second {
		t.Errorf("the key that did not deny is full in %d ns, want 54 min", info.Level)
	}
	e.check()
	if at, err = e.TakeAll(start+1e6-1, keys, []limit.Limit{raised, raised}, []int64{2, 1}, ds); err != nil || at != 0 {
		t.Errorf("1 ns early: %d, %+v, %v", at, ds, err)
	}
	if at, err = e.TakeAll(start+1e6, keys, []limit.Limit{raised, raised}, []int64{2, 1}, ds); err != nil || at != -1 {
		t.Errorf("after its wait: %d, %+v, %v", at, ds, err)
	}
}

// A waiter is granted at the new pace, even if another request raised the limit.
// A denied TAKEALL makes the engine look at the waiters again.
func TestWaitAfterRaise(t *testing.T) {
	for _, how := range []string{"own limit", "another waits", "a take is denied", "a takeall is denied"} {
		t.Run(how, func(t *testing.T) {
			e := New(Options{Shards: 1})
			mustTake(t, e, start, key(1), &oneAnHour, 1)
			var d limit.Decision
			w := &Waiter{Request: Request{Limit: oneAnHour, Cost: 1}, Until: start + 9000*second, Owner: nobody{}}
			if how == "own limit" {
				w.Limit = oneASecond
			}
			if !e.Ask(start, key(1), w) {
				t.Fatal("does not wait")
			}
			switch how {
			case "another waits":
				e.Ask(start, key(1), &Waiter{Request: Request{Limit: oneASecond, Cost: 1}, Until: start + 9000*second, Owner: nobody{}})
			case "a take is denied":
				if err := e.Take(start, key(1), &oneASecond, 1, &d); err != nil || !d.Limited {
					t.Fatal(d, err)
				}
			case "a takeall is denied":
				if _, err := e.TakeAll(start, [][]byte{key(1)}, []limit.Limit{oneASecond}, []int64{1}, []limit.Decision{{}}); err != nil {
					t.Fatal(err)
				}
			}
			if next := e.Wake(start); next != start+second {
				t.Errorf("the next deadline is in %d ns, want 1 s", next-start)
			}
			if e.Wake(start + second - 1); w.Done() {
				t.Error("granted 1 ns early")
			}
			if e.Wake(start + second); !w.Done() {
				t.Error("not granted in time")
			}
			e.check()
		})
	}
}

// A denial that moves a key is a change, so it is in the journal.
func TestDenialThatMovesIsKept(t *testing.T) {
	e := New(Options{Shards: 1})
	mustTake(t, e, start, key(1), &oneAnHour, 1)
	e.StartJournal(0, new(journal.Gate), func() {})
	var d limit.Decision
	for range 2 {
		if err := e.Take(start, key(1), &oneASecond, 1, &d); err != nil || !d.Limited || d.Wait != second {
			t.Fatal(d, err)
		}
	}
	if got := e.shards[0].changes.version; got != 1 {
		t.Errorf("%d changes, want 1: the second denial moves nothing", got)
	}
}

// For the counters and WARMUP, the wait that a denial in a TakeAll reports is
// exact, also for a long state, which is not copied.
func TestTakeAllAfterAChangeOfWindows(t *testing.T) {
	for _, tt := range []struct {
		before, after string
		each          int64 // ns between two requests
	}{
		{"FIXED 10/h", "FIXED 10/m", 0},
		{"SLIDING 10/h", "SLIDING 10/m", 0},
		{"WARMUP 10/h", "WARMUP 10/m", 0},
		{"SEGMENTED 10/h SEGMENTS 60", "SEGMENTED 10/m SEGMENTS 60", 0},
		{"SEGMENTED 1000/d SEGMENTS 1000", "SEGMENTED 1000/m SEGMENTS 60", 85e9},
		{"LOG 1000/h", "LOG 10/m", 1e6},
	} {
		e := New(Options{})
		before, err := limit.Parse(tt.before)
		after, err2 := limit.Parse(tt.after)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		now := int64(1.7e18)
		var d limit.Decision
		times, cost := int64(1), before.Max
		if tt.each > 0 {
			times, cost = before.Max, 1
		}
		for range times {
			now += tt.each
			if err := e.Take(now, []byte("k"), &before, cost, &d); err != nil || d.Limited {
				t.Fatal(tt, d, err)
			}
		}
		ds := make([]limit.Decision, 1)
		at, err := e.TakeAll(now, [][]byte{[]byte("k")}, []limit.Limit{after}, []int64{1}, ds)
		if err != nil || at != 0 || !ds[0].Limited {
			t.Fatal(tt, at, ds, err)
		}
		if err := e.Peek(now+ds[0].Wait-1, []byte("k"), &after, 1, &d); err != nil || !d.Limited {
			t.Errorf("%+v: told %+v, and 1 ns before %+v, %v", tt, ds[0], d, err)
		}
		if err := e.Take(now+ds[0].Wait, []byte("k"), &after, 1, &d); err != nil || d.Limited {
			t.Errorf("%+v: told %+v, and then %+v, %v", tt, ds[0], d, err)
		}
	}
}

// Replace starts afresh only where the key holds another family. A denied request
// leaves the key as it was.
func TestReplace(t *testing.T) {
	window := limit.Limit{Algorithm: limit.FIXED, Max: 5, Period: 3600 * second, Burst: 5}
	bucket := limit.Limit{Algorithm: limit.GCRA, Max: 5, Period: 3600 * second, Burst: 5}
	line := limit.Limit{Algorithm: limit.QUEUE, Max: 5, Period: 3600 * second, Burst: 5}
	e := New(Options{Shards: 1})
	e.StartJournal(0, new(journal.Gate), func() {})
	replace := func(l limit.Limit, cost int64) (d limit.Decision) {
		t.Helper()
		granted, err := e.TakeFor(start, key(1), &Request{Limit: l, Cost: cost, Replace: true}, &d)
		if err != nil || d.Limited != (granted == 0) {
			t.Fatal(d, granted, err)
		}
		return d
	}
	holds := func(a limit.Kind) {
		t.Helper()
		if info, ok := e.Info(start, key(1)); !ok || info.Kind != a {
			t.Fatalf("%+v, %v, want %v", info, ok, a)
		}
		e.check()
	}
	mustTake(t, e, start, key(1), &window, 4)
	if d := replace(window, 2); !d.Limited {
		t.Error("replaced its own family")
	}
	if d := replace(bucket, 6); !d.Limited {
		t.Error(d)
	}
	holds(limit.FIXED.Kind())
	var d limit.Decision
	if err := e.Take(start, key(1), &bucket, 1, &d); err != ErrWrongType {
		t.Errorf("without it: %v", err)
	}
	if d := replace(bucket, 1); d.Remaining != 4 {
		t.Error(d)
	}
	holds(limit.GCRA.Kind())
	if d := replace(bucket, 1); d.Remaining != 3 {
		t.Errorf("it began anew in its own family: %+v", d)
	}
	// A waiter learns that its key holds something else now.
	replace(bucket, 3)
	w := &Waiter{Request: Request{Limit: bucket, Cost: 1}, Until: start + 9000*second, Owner: nobody{}}
	if !e.Ask(start, key(1), w) {
		t.Fatal("does not wait")
	}
	if d := replace(window, 1); d.Remaining != 4 {
		t.Error(d)
	}
	if _, _, err := w.Result(); !w.Done() || err != ErrWrongType {
		t.Errorf("who waited: %v, %v", w.Done(), err)
	}
	holds(limit.FIXED.Kind())
	// The same for a QUEUE with WAIT.
	if w := (&Waiter{Request: Request{Limit: line, Cost: 2, Replace: true}, Until: start + second, Owner: nobody{}}); e.Ask(start, key(1), w) {
		t.Error("waits for nothing")
	} else if d, granted, err := w.Result(); err != nil || granted != 2 || d.Limited {
		t.Error(d, granted, err)
	}
	holds(limit.QUEUE.Kind())
}

// nobody is an owner that ignores the end of a wait.
type nobody struct{}

func (nobody) Wake() {}

// A raise helps a limit that cannot deny as it helps one that can: the denial moves its key
// to the faster pace, although it stops nobody.
func TestSoftLimitsAfterRaise(t *testing.T) {
	for _, peek := range []bool{false, true} {
		e := New(Options{Shards: 4})
		keys := [][]byte{key(1), key(2)}
		mustTake(t, e, start, keys[1], &tenAnHour, 10)
		ds, granted := make([]limit.Decision, 2), 0
		for i := range int64(300) {
			at, err := e.Together(start+i*second, &Together{
				Keys: keys, Limits: []limit.Limit{raised, raised}, Costs: []int64{1, 1}, Decisions: ds, Soft: []bool{false, true}, Peek: peek,
			})
			if err != nil || at >= 0 {
				t.Fatal(at, ds, err)
			}
			if !ds[1].Limited {
				granted++
			} else if ds[1].Wait != 1e6 && !peek {
				t.Fatalf("after %d s: %+v, want to wait 1 ms", i, ds[1])
			}
		}
		if want := map[bool]int{false: 299, true: 0}[peek]; granted != want {
			t.Errorf("peek %t: %d of 300 granted, want %d", peek, granted, want)
		}
		if st := e.Stats(); st.Limited != 0 || peek && st.Peeked != 300 || !peek && st.Allowed != 1+300 { // each request is one decision
			t.Errorf("peek %t: %+v", peek, st)
		}
		e.check()
	}
}
