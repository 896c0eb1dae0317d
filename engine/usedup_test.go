package engine

import (
	"fmt"
	"testing"

	"limitdb/limit"
)

// After a crash nobody gets more than the limit allows in the period around it,
// even if the disk has nothing of what was granted before.
func TestUsedUpHoldsTheLimitAcrossACrash(t *testing.T) {
	for _, a := range limit.Algorithms() {
		for _, spelling := range []string{"10/s", "10/s BURST 3", "10/s SEGMENTS 5", "10/s BURST 30 INTERVAL"} {
			l, err := limit.Parse(a.String() + " " + spelling)
			if err != nil {
				continue
			}
			t.Run(a.String()+" "+spelling, func(t *testing.T) {
				const crash = int64(1_700_000_000_300_000_000)
				e := New(Options{})
				e.AssumeUsedUp(crash)
				key := []byte("k")
				var fresh, d limit.Decision
				if err := limit.Peek(&l, nil, crash, 0, &fresh); err != nil {
					t.Fatal(err)
				}
				if err := e.Peek(crash, key, &l, 1, &d); err != nil || !d.Limited {
					t.Fatalf("at once: %+v, %v", d, err)
				}
				for _, h := range []Hold{{ID: []byte("id"), TTL: 1e9}, {Once: &Once{ID: []byte("id"), For: 1e9}}} {
					if err := e.HoldAt(0, crash, key, &l, 1, &h, &d); err != nil || !d.Limited {
						t.Errorf("at once, by the short way: %+v, %v", d, err)
					}
				}
				if _, there := e.Info(crash, key); there {
					t.Error("a peek has made a key")
				}
				// The key behaves as if somebody had taken all at that moment.
				other := New(Options{})
				if err := other.Take(crash, key, &l, fresh.Remaining, &d); err != nil || d.Limited {
					t.Fatalf("all %d: %+v, %v", fresh.Remaining, d, err)
				}
				for now := crash; now < crash+5e9; now += 7e6 {
					var want limit.Decision
					if err := e.Take(now, key, &l, 1, &d); err != nil {
						t.Fatal(err)
					}
					if err := other.Take(now, key, &l, 1, &want); err != nil {
						t.Fatal(err)
					}
					if d != want {
						t.Fatalf("%d ms after: %+v, want %+v", (now-crash)/1e6, d, want)
					}
				}
				if err := e.Take(crash+1e15, []byte("later"), &l, fresh.Remaining, &d); err != nil || d.Limited {
					t.Errorf("long after: %+v, %v", d, err)
				}
			})
		}
	}
}

// A TakeAll keeps to it, too.
func TestUsedUpHoldsForManyKeys(t *testing.T) {
	const crash = int64(1_700_000_000_300_000_000)
	e := New(Options{})
	e.AssumeUsedUp(crash)
	l := limit.Limit{Algorithm: limit.GCRA, Max: 10, Period: 1e9, Burst: 10}
	var keys [][]byte
	for i := range 5 {
		keys = append(keys, fmt.Appendf(nil, "k%d", i))
	}
	ds := make([]limit.Decision, 5)
	costs := []int64{1, 1, 1, 1, 1}
	limits := []limit.Limit{l, l, l, l, l}
	if at, err := e.TakeAll(crash+1, keys, limits, costs, ds); err != nil || at < 0 {
		t.Errorf("at once: %d, %v", at, err)
	}
	if at, err := e.TakeAll(crash+1e8, keys, limits, costs, ds); err != nil || at >= 0 {
		t.Errorf("when one has come back: %d, %v, %+v", at, err, ds)
	}
	if at, err := e.TakeAll(crash+1e8, keys, limits, costs, ds); err != nil || at < 0 {
		t.Errorf("twice: %d, %v", at, err)
	}
}
