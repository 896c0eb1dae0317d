package engine

import (
	"errors"
	"strconv"
	"testing"

	"limitdb/limit"
)

// TestShortWayGrantsAHoldAgain checks that the short way answers a hold that is sent again as a step does: it takes nothing, and is not another
// hold with its id.
func TestShortWayGrantsAHoldAgain(t *testing.T) {
	const now = int64(1.7e18)
	for _, returns := range []bool{false, true} {
		e := New(Options{Shards: 1})
		defer e.Close()
		limits := parsed(t, "FIXED 10/d", "FIXED 11/d")
		l, other := limits[0], limits[1]
		h := Hold{ID: []byte("request"), TTL: 60e9, Returns: returns}
		var d, inStep limit.Decision
		for i := range 4 {
			if err := e.HoldAt(0, now+int64(i), key(0), &l, 3, &h, &d); err != nil || d.Limited || d.Remaining != 7 || h.Again != (i > 0) {
				t.Fatalf("request %d: %+v, again %t, %v", i, d, h.Again, err)
			}
		}
		if s := e.Stats(); s.Allowed != 4 || s.HoldsTaken != 1 {
			t.Errorf("%d requests are allowed, %d holds taken; want 4 and 1", s.Allowed, s.HoldsTaken)
		}
		if err := e.Update(now+3, [][]byte{key(0)}, func(txn *Txn) error {
			_, err := txn.Take(key(0), &Request{Limit: l, Cost: 3, Hold: &Hold{ID: h.ID, TTL: h.TTL, Returns: returns}}, &inStep)
			return err
		}); err != nil || d != inStep {
			t.Errorf("%+v, and %+v in a step: %v", d, inStep, err)
		}
		k := key(0)
		if n := testing.AllocsPerRun(10, func() { _ = e.HoldAt(0, now+4, k, &l, 3, &h, &d) }); n != 0 && !raceDetector {
			t.Errorf("a hold that is sent again allocates %v times: it was a step", n)
		}
		for i, try := range []struct {
			l    *limit.Limit
			cost int64
			h    Hold
			now  int64
		}{
			{&other, 3, h, now + 5},
			{&l, 2, h, now + 5},
			{&l, 3, Hold{ID: h.ID, TTL: h.TTL + 1, Returns: returns}, now + 5},
			{&l, 3, Hold{ID: h.ID, TTL: h.TTL, Returns: !returns}, now + 5},
			{&l, 3, Hold{ID: h.ID, TTL: h.TTL, Returns: returns}, now + h.TTL},
		} {
			if err := e.HoldAt(0, try.now, key(0), try.l, try.cost, &try.h, &d); !errors.Is(err, ErrHeld) {
				t.Errorf("another hold, %d: %v", i, err)
			}
		}
	}
}

// TestShortWayGivesBackFirst checks that the short way returns the estimates of ended holds before it decides or settles.
func TestShortWayGivesBackFirst(t *testing.T) {
	e := New(Options{Shards: 1})
	defer e.Close()
	l, err := limit.Parse("FIXED 10/d")
	if err != nil {
		t.Fatal(err)
	}
	now, key := int64(1.7e18), []byte("tenant")
	held := func(id string, cost int64, returns bool) bool {
		var d limit.Decision
		if err := e.HoldAt(0, now, key, &l, cost, &Hold{ID: []byte(id), TTL: 1e9, Returns: returns}, &d); err != nil {
			t.Fatal(id, err)
		}
		return !d.Limited
	}
	if !held("first", 10, true) || held("second", 1, false) {
		t.Fatal("the first must take all")
	}
	now += 1e9
	if !held("third", 8, true) {
		t.Error("the third is denied, although the first has gone back")
	}
	now += 1e9
	var s Settlement
	if err := e.SettleAt(0, now, key, []byte("third"), 3, &s); err != nil || s.Charged != 3 || s.Decision.Remaining != 7 {
		t.Errorf("the third was settled when it had gone back: %+v, %v", s, err)
	}
}

// TestHoldsTakenWhenTheKeyIsReset checks that of holds taken at the time of a reset, those before it do not go back, and those after it do, however many are known.
func TestHoldsTakenWhenTheKeyIsReset(t *testing.T) {
	const now = int64(1.7e18)
	l := parsed(t, "FIXED 1000/d")[0]
	for _, known := range []int{1, 15, 16, 17, 100} {
		for way := range 2 {
			for _, returns := range []bool{false, true} {
				e := New(Options{Shards: 1})
				defer e.Close()
				take := func(id int, cost int64) {
					h := Hold{ID: strconv.AppendInt(nil, int64(id), 10), TTL: 1e9, Returns: returns}
					var d limit.Decision
					err := error(nil)
					if way == 0 {
						err = e.HoldAt(0, now, key(0), &l, cost, &h, &d)
					} else {
						_, err = e.TakeFor(now, key(0), &Request{Limit: l, Cost: cost, Hold: &h}, &d)
					}
					if err != nil || d.Limited {
						t.Fatal(id, d, err)
					}
				}
				gives := func(now int64, id int) int64 {
					var s Settlement
					if err := e.GiveUpAt(0, now, key(0), strconv.AppendInt(nil, int64(id), 10), &s); err != nil {
						t.Fatal(id, err)
					}
					return -s.Charged
				}
				for id := range known {
					take(id, 1)
				}
				e.Reset(now, key(0))
				take(known, 5)
				take(known+1, 3)
				if got := gives(now, 0); got != 0 {
					t.Errorf("%d known: one of before the reset gives %d back", known, got)
				}
				if got := gives(now, known); got != 5 {
					t.Errorf("%d known: one of after the reset gives %d back, want 5", known, got)
				}
				want := int64(1000 - 3)
				if returns {
					want = 1000
				}
				if d, err := peek(e, now+1e9, key(0), &l, 0); err != nil || d.Remaining != want {
					t.Errorf("%d known, returns %t: %d are left when their time is over, want %d", known, returns, d.Remaining, want)
				}
			}
		}
	}
}
