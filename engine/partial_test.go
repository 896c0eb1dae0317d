package engine

import (
	"testing"

	"pgregory.net/rapid"

	"limitdb/limit"
)

// everyLimit returns so many a second in the words of each algorithm, with every
// option of it that goes alone or with another.
func everyLimit(tb testing.TB, rate string) []limit.Limit {
	tb.Helper()
	var all []limit.Limit
	for _, a := range limit.Algorithms() {
		before := len(all)
		for _, more := range []string{"", " BURST 4", " INTERVAL", " FIRST", " COUNTDENIED", " SEGMENTS 4", " SEGMENTS 4 COUNTDENIED"} {
			if l, err := limit.Parse(a.String() + " " + rate + more); err == nil {
				all = append(all, l)
			}
		}
		if len(all) == before {
			tb.Fatalf("%s has no limit here", a)
		}
	}
	return all
}

// A partial request gets the most that would have been granted at once. One that
// gets nothing learns exactly when something is available.
func takePartial(e *Engine, now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) (granted int64, err error) {
	return e.TakeFor(now, key, &Request{Limit: *l, Cost: cost, Partial: true}, d)
}

func TestTakePartial(t *testing.T) {
	for _, l := range everyLimit(t, "10/s") {
		t.Run(l.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				e := New(Options{Shards: 1})
				now := start
				for range rapid.IntRange(1, 30).Draw(rt, "steps") {
					now += rapid.Int64Range(0, second/2).Draw(rt, "dt")
					cost := rapid.SampledFrom([]int64{1, 2, 3, 5, 9, 10, 11, 50, 1 << 62}).Draw(rt, "cost")
					want := int64(0)
					for n := range min(cost, 20) {
						if d, err := peek(e, now, key(1), &l, n+1); err != nil {
							rt.Fatal(err)
						} else if !d.Limited {
							want = n + 1
						}
					}
					wantWait, _ := peek(e, now, key(1), &l, max(1, want))
					var d limit.Decision
					got, err := takePartial(e, now, key(1), &l, cost, &d)
					if err != nil || got != want || d != wantWait || d.Limited != (want == 0) {
						rt.Fatalf("at +%d, %d: granted %d with %+v, %v; want %d with %+v", now-start, cost, got, d, err, want, wantWait)
					}
				}
			})
		})
	}
}

func TestTakePartialErrors(t *testing.T) {
	e := New(Options{Shards: 1})
	var d limit.Decision
	if _, err := takePartial(e, start, key(1), perSecond(5), -1, &d); err != limit.ErrCost {
		t.Errorf("cost -1: %v", err)
	}
	if got, err := takePartial(e, start, key(1), perSecond(5), 0, &d); got != 0 || err != nil || d.Remaining != 5 {
		t.Errorf("cost 0: %d, %+v, %v", got, d, err)
	}
	if got, err := takePartial(e, start, key(1), &limit.Limit{Algorithm: limit.GCRA, Period: second}, 3, &d); got != 0 || err != nil || !d.Limited || d.Wait != limit.Never {
		t.Errorf("limit 0: %d, %+v, %v", got, d, err)
	}
	if st := e.Stats(); st.Keys != 0 || st.Limited != 1 || st.Allowed != 1 {
		t.Errorf("%+v", st)
	}
}

// What goes beyond the memory budget is refused, and counted, however it is taken.
func TestRefusedHoweverTaken(t *testing.T) {
	e := New(Options{Shards: 1})
	mustTake(t, e, start, key(1), perSecond(5), 1)
	e.SetMaxMemory(1, NoEviction)
	var d limit.Decision
	if _, err := takePartial(e, start, key(2), perSecond(5), 9, &d); err != ErrOOM {
		t.Errorf("TakePartial: %v", err)
	}
	if err := e.Reserve(start, key(2), perSecond(5), 9, -1, &d); err != ErrOOM {
		t.Errorf("Reserve: %v", err)
	}
	if st := e.Stats(); st.Refused != 2 || st.Keys != 1 {
		t.Errorf("%+v", st)
	}
	if got, err := takePartial(e, start, key(1), perSecond(5), 9, &d); got != 4 || err != nil {
		t.Errorf("a key that exists: %d, %v", got, err)
	}
}

func TestReserve(t *testing.T) {
	e := New(Options{Shards: 1})
	l := perSecond(5)
	for i, st := range []struct {
		ms, cost, maxWait int64
		limited           bool
		wait              int64 // ms; -1: none
	}{
		{0, 12, -1, false, -1},  // more than is available, at once
		{0, 1, -1, false, 1400}, // and the next one pays
		{0, 1, 1599, true, 1},   // 1600 are longer than that
		{0, 1, 1600, false, 1600},
		{200, 1, 0, true, 1600},
		{1800, 0, 0, false, -1},
	} {
		now := start + st.ms*second/1000
		maxWait := st.maxWait
		if maxWait > 0 {
			maxWait *= second / 1000
		}
		var d limit.Decision
		err := e.Reserve(now, key(1), l, st.cost, maxWait, &d)
		if err != nil || d.Limited != st.limited || limit.Milliseconds(d.Wait) != st.wait {
			t.Fatalf("step %d: %+v gave %+v, %v", i, st, d, err)
		}
	}
	if st := e.Stats(); st.Allowed != 4 || st.Limited != 2 {
		t.Errorf("%+v", st)
	}
}
