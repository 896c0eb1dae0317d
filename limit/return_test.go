package limit

import (
	"bytes"
	"errors"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// What comes back, and what is then admitted at once.
func TestReturnSteps(t *testing.T) {
	const start = int64(1.7e18) // a multiple of all periods below
	for _, tt := range []struct {
		limit           string
		taken           int64 // at 0
		other, otherAt  int64 // taken by others, in seconds
		amount, at      int64
		returned, after int64 // what is left after
	}{
		// Given back 11 s later, nothing is left of it.
		{"FIXED 10/10s", 5, 10, 11, 5, 11, 0, 0},
		{"GCRA 10/10s", 5, 10, 11, 5, 11, 0, 0},
		{"LOG 10/10s", 5, 10, 11, 5, 11, 0, 0},
		{"TOKEN 10/10s INTERVAL", 5, 10, 11, 5, 11, 0, 0},
		{"SLIDING 10/10s", 5, 5, 11, 5, 21, 0, 5},

		{"GCRA 10/10s", 5, 0, 0, 5, 0, 5, 10},
		{"GCRA 10/10s", 5, 0, 0, 4, 0, 4, 9},
		{"GCRA 10/10s", 5, 0, 0, 5, 2, 3, 10}, // two have come back by themselves
		{"GCRA 10/10s", 5, 5, 0, 5, 4, 1, 5},  // as if the others had come first
		{"LEAKY 10/10s BURST 20", 8, 8, 3, 8, 3, 5, 12},
		{"TOKEN 10/10s INTERVAL", 5, 5, 3, 5, 9, 5, 5},
		{"QUEUE 10/10s BURST 9", 5, 0, 0, 5, 2, 3, 10},
		{"QUEUE 10/10s BURST 9", 3, 2, 0, 3, 1, 0, 6}, // others have come behind
		{"WARMUP 10/10s WARM 10s", 3, 0, 0, 3, 1, 3, 10},
		{"FIXED 10/10s", 5, 5, 3, 5, 9, 5, 5},
		{"FIXED 10/10s", 5, 5, 3, 9, 9, 9, 9}, // more than was taken: the caller's fault
		{"FIXED 10/10s FIRST", 5, 5, 3, 5, 9, 5, 5},
		{"FIXED 10 CALENDAR MINUTE", 5, 5, 3, 2, 9, 2, 2},
		{"SLIDING 10/10s", 10, 0, 0, 10, 15, 10, 10}, // half of them still counted
		{"SEGMENTED 10/10s SEGMENTS 5", 4, 4, 3, 4, 9, 4, 6},
		{"SEGMENTED 10/10s SEGMENTS 5", 4, 4, 3, 4, 10, 0, 6},
		{"LOG 10/10s", 4, 4, 3, 3, 9, 3, 5},
		{"LOG 10/10s", 4, 4, 3, 4, 9, 4, 6},
	} {
		l := mustParse(t, tt.limit)
		state, d, err := take(&l, nil, start, tt.taken, nil)
		if err != nil || d.Limited {
			t.Fatalf("%s: %+v, %v", tt.limit, d, err)
		}
		back := start + d.Reset
		if tt.other > 0 {
			if state, d, err = take(&l, state, start+tt.otherAt*testSecond, tt.other, nil); err != nil || d.Limited {
				t.Fatalf("%s: %+v, %v", tt.limit, d, err)
			}
		}
		now := start + tt.at*testSecond
		next, returned, err := Return(&l, state, now, back, tt.amount, nil)
		if next != nil {
			state = next
		}
		after := mustPeek(t, l, state, now, 0).Remaining
		if returned != tt.returned || after != tt.after || err != nil || (next != nil) != (returned > 0) {
			t.Errorf("%s: %d of %d after %d s: returned %d, %d are left, %v; want %d, %d",
				tt.limit, tt.amount, tt.taken, tt.at, returned, after, err, tt.returned, tt.after)
		}
	}
}

// A request that was reserved behind a hold of WARMUP keeps its place.
func TestReturnBehindReservation(t *testing.T) {
	l := mustParse(t, "WARMUP 10/10s WARM 10s")
	now := int64(1.7e18)
	state, d, err := take(&l, nil, now, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	back := now + d.Reset
	if state, _, err = reserve(&l, state, now, 1, -1, nil); err != nil {
		t.Fatal(err)
	}
	if next, returned, err := Return(&l, state, now, back, 3, nil); next != nil || returned != 0 || err != nil {
		t.Errorf("returned %d, %v", returned, err)
	}
}

// What Take gives, Return takes back.
func TestReturnUndoesTake(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawLimit(t, a)
		state, now := drawKey(t, l)
		cost := rapid.Int64Range(1, max(1, most(t, l))).Draw(t, "cost")
		before := mustPeek(t, l, state, now, 0)
		next, d, err := take(&l, state, now, cost, nil)
		if err != nil || d.Limited {
			return
		}
		next, returned, err := Return(&l, next, now, now+d.Reset, cost, nil)
		if next == nil || returned != cost || err != nil {
			t.Fatalf("returned %d of %d, %v", returned, cost, err)
		}
		before.Wait = Never // also that of a queue that does not move
		after := mustPeek(t, l, next, now, 0)
		after.Wait = Never
		if after != before {
			t.Fatalf("before %+v, after both %+v", before, after)
		}
	})
}

// The counters are then as if the units had never been taken.
func TestReturnForgets(t *testing.T) {
	for _, a := range []Algorithm{FIXED, SLIDING, SEGMENTED, LOG} {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				l := drawLimit(t, a)
				l.CountDenied, l.First = false, false // such a window would have begun later
				all := useOften(t, l)
				if len(all) == 0 {
					return
				}
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				amount := rapid.Int64Range(1, all[i].cost).Draw(t, "amount")
				state := useUp(t, l, costs(all))
				now := all[len(all)-1].at + rapid.Int64Range(0, span(l)).Draw(t, "later")
				next, returned, err := Return(&l, state, now, all[i].back, amount, nil)
				if err != nil {
					t.Fatal(err)
				}
				if counts := now < all[i].back; counts != (returned == amount) || !counts && next != nil {
					t.Fatalf("returned %d of %d, %d ns before the end", returned, amount, all[i].back-now)
				}
				all[i].cost -= returned
				if next != nil {
					state = next
				}
				want := useUp(t, l, costs(all))
				for range 3 {
					got, want := mustPeek(t, l, state, now, 1), mustPeek(t, l, want, now, 1)
					if got != want {
						t.Fatalf("%+v, and if %d had not been taken %+v", got, returned, want)
					}
					now += rapid.Int64Range(0, span(l)).Draw(t, "later")
				}
			})
		})
	}
}

// outstanding is what a Take has taken, and when that has come back.
type outstanding struct{ at, cost, back int64 }

// useOften uses a key that is new, by a clock that does not go back, and returns what was taken.
func useOften(t *rapid.T, l Limit) (all []outstanding) {
	var state []byte
	now := int64(1_700_000_000_000_000_000)
	for range rapid.IntRange(1, 30).Draw(t, "calls") {
		now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, span(l)/8), rapid.Int64Range(0, span(l)/2)).Draw(t, "later")
		cost := rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(1, max(1, most(t, l)))).Draw(t, "cost")
		next, d, err := take(&l, state, now, cost, nil)
		if err != nil {
			t.Fatal(err)
		}
		if next != nil {
			state = next
			all = append(all, outstanding{now, cost, now + d.Reset})
		}
	}
	return all
}

func costs(all []outstanding) (spents []spent) {
	for _, o := range all {
		if o.cost > 0 {
			spents = append(spents, spent{o.at, o.cost})
		}
	}
	return spents
}

// In any time t, what is used of what was taken is at most what the limit promises in t
// and the longest time that anything was held. Where Return forgets units, or one Take at a time is
// out, it is what the limit promises in t.
func TestReturnPromise(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawLimit(t, a)
		single := rapid.Bool().Draw(t, "one at a time")
		exact := single && !l.Interval || a == FIXED || a == SLIDING || a == SEGMENTED || a == LOG || a == WARMUP || a == QUEUE
		var state []byte
		var used []outstanding // back: when it was given back, if any was
		var out []int
		var backs []int64
		held := int64(0)
		now := int64(1_700_000_000_000_000_000)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, span(l)/8), rapid.Int64Range(0, span(l)/2)).Draw(t, "later")
			if len(out) > 0 && rapid.Bool().Draw(t, "return") {
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				u := &used[out[i]]
				amount := rapid.OneOf(rapid.Just(u.cost), rapid.Int64Range(0, u.cost)).Draw(t, "amount")
				next, returned, err := Return(&l, state, now, backs[i], amount, nil)
				if err != nil || returned < 0 || returned > amount {
					t.Fatalf("returned %d of %d, %v", returned, amount, err)
				}
				if next != nil {
					state = next
				}
				if u.cost -= returned; returned > 0 {
					held = max(held, now-u.at)
				}
				out, backs = append(out[:i:i], out[i+1:]...), append(backs[:i:i], backs[i+1:]...)
				continue
			}
			cost := rapid.Int64Range(1, most(t, l)+1).Draw(t, "cost")
			next, d, err := take(&l, state, now, cost, nil)
			if err != nil {
				t.Fatal(err)
			}
			if next != nil {
				state = next
			}
			if d.Limited {
				continue
			}
			goes := now
			if a == QUEUE {
				goes += max(0, d.Wait)
			}
			used = append(used, outstanding{at: goes, cost: cost})
			if rapid.Bool().Draw(t, "hold") && (!single || len(out) == 0) {
				out, backs = append(out, len(used)-1), append(backs, now+d.Reset)
			}
		}
		var log []admission
		for _, u := range used {
			for i := range u.cost {
				at := u.at
				if a == QUEUE {
					at += i * interval(&l)
				}
				log = append(log, admission{at, 1})
			}
		}
		if exact {
			held = 0
		}
		for i := range log {
			first, last, sum := log[i].at, log[i].at, int64(0)
			for _, adm := range log[i:] {
				first, last, sum = min(first, adm.at), max(last, adm.at), sum+adm.cost
				if most := promised(l, last-first+held); big.NewInt(sum).Cmp(most) > 0 {
					t.Fatalf("%v: %d used in %d ns, promised are %v", l, sum, last-first, most)
				}
			}
		}
	})
}

// The same, while the limit changes.
func TestReturnChangingLimits(t *testing.T) {
	changing(t, func(t *rapid.T, a Algorithm) {
		k := drawChangingKey(t, a)
		type hold struct {
			l    Limit
			i    int
			back int64
		}
		var log []outstanding
		var holds []hold
		held := int64(0)
		for range rapid.IntRange(1, 80).Draw(t, "calls") {
			l, cost := k.next(t)
			if len(holds) > 0 && rapid.Bool().Draw(t, "return") {
				i := rapid.IntRange(0, len(holds)-1).Draw(t, "which")
				h, u := holds[i], &log[holds[i].i]
				next, returned, err := Return(&h.l, k.state, k.now, h.back, u.cost, nil)
				if err != nil || returned < 0 || returned > u.cost {
					t.Fatal(returned, err)
				}
				if next != nil {
					k.state = next
					held = max(held, k.now-u.at)
				}
				u.cost -= returned
				holds = append(holds[:i:i], holds[i+1:]...)
				continue
			}
			if d := k.take(t, l, cost); !d.Limited {
				log = append(log, outstanding{at: k.now, cost: cost})
				holds = append(holds, hold{l, len(log) - 1, k.now + d.Reset})
			}
		}
		for i := range log {
			sum := int64(0)
			for _, u := range log[i:] {
				sum += u.cost
				if most := promisedTogether(k.limits, u.at-log[i].at+held); big.NewInt(sum).Cmp(most) > 0 {
					t.Fatalf("%d used in %d ns, held for %d, promised are %v", sum, u.at-log[i].at, held, most)
				}
			}
		}
	})
}

// The same for buckets, whose states one algorithm has from another.
func TestReturnChangingBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := make([]Limit, rapid.IntRange(1, 4).Draw(t, "limits"))
		burst, pace := int64(0), int64(1<<62)
		for i := range limits {
			limits[i] = drawBucket(t, GCRA, TOKEN, LEAKY)
			limits[i].Interval = false
			burst, pace = max(burst, limits[i].Burst), min(pace, interval(&limits[i]))
		}
		var state []byte
		var log []outstanding
		var out []int
		held, now := int64(0), int64(1.7e18)
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			l := rapid.SampledFrom(limits).Draw(t, "limit")
			now += rapid.Int64Range(0, l.Period/4).Draw(t, "later")
			if len(out) > 0 && rapid.Bool().Draw(t, "return") {
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				u := &log[out[i]]
				out = append(out[:i:i], out[i+1:]...)
				next, returned, err := Return(&l, state, now, u.back, u.cost, nil)
				if err != nil || returned > u.cost {
					t.Fatal(returned, err)
				}
				if next != nil {
					state, held = next, max(held, now-u.at)
				}
				u.cost -= returned
				continue
			}
			cost := rapid.Int64Range(1, max(1, l.Burst)).Draw(t, "cost")
			next, d, err := take(&l, state, now, cost, nil)
			if err != nil {
				t.Fatal(err)
			}
			if next != nil {
				state = next
			}
			if !d.Limited {
				out, log = append(out, len(log)), append(log, outstanding{now, cost, now + d.Reset})
			}
		}
		for i := range log {
			sum := int64(0)
			for _, u := range log[i:] {
				sum += u.cost
				if length := u.at - log[i].at + held; sum > burst+length/pace {
					t.Fatalf("%d used in %d ns with %+v, held for %d, promised %d", sum, u.at-log[i].at, limits, held, burst+length/pace)
				}
			}
		}
	})
}

// Return changes no state in place but dst, reads what it has written, and answers any
// state and any integers.
func TestReturnOfAnything(t *testing.T) {
	states := hostileStates()
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawAny(t, a)
		if rapid.Bool().Draw(t, "usual") {
			l = drawLimit(t, a)
		}
		state, now := rapid.SampledFrom(states).Draw(t, "state").state, anyInt64().Draw(t, "now")
		if l.Validate() == nil && rapid.Bool().Draw(t, "sound") && l.Max <= 1000 && span(l) < 1<<60 {
			state, now = drawKey(t, l)
			now += rapid.Int64Range(0, span(l)).Draw(t, "later")
		}
		back := rapid.OneOf(anyInt64(), rapid.Just(Expires(a.Kind(), state)), rapid.Custom(func(t *rapid.T) int64 { return now + rapid.Int64Range(0, 1<<40).Draw(t, "behind") })).Draw(t, "back")
		amount := rapid.OneOf(anyInt64(), rapid.Int64Range(0, 20)).Draw(t, "amount")
		before := bytes.Clone(state)
		next, returned, err := Return(&l, state, now, back, amount, nil)
		if !bytes.Equal(state, before) {
			t.Fatalf("the state was changed in place from %x to %x", before, state)
		}
		if returned < 0 || returned > max(0, amount) || (next != nil) != (returned > 0) || err != nil && next != nil {
			t.Fatalf("returned %d of %d and %x, %v", returned, amount, next, err)
		}
		room := append(make([]byte, 0, MaxState), state...)
		again, n, err2 := Return(&l, room, now, back, amount, room)
		if !bytes.Equal(again, next) || n != returned || !errors.Is(err2, err) {
			t.Fatalf("in place: %x, %d, %v, else %x, %d, %v", again, n, err2, next, returned, err)
		}
		var d, want Decision
		if err == nil {
			left := state
			if next != nil {
				left = next
			}
			want, err = peek(&l, left, now, 0)
		}
		if also, n, err2 := ReturnAndPeek(&l, state, now, back, amount, nil, &d); !errors.Is(err2, err) || err == nil && (!bytes.Equal(also, next) || n != returned || d != want) {
			t.Fatalf("ReturnAndPeek: %x, %d, %+v, %v; want %x, %d, %+v, %v", also, n, d, err2, next, returned, want, err)
		}
		if next == nil {
			return
		}
		if _, err := peek(&l, next, now, 1); err != nil && !errors.Is(err, ErrOverflow) && err != ErrCost {
			t.Fatalf("%+v of %x left %x: %v", l, state, next, err)
		}
	})
}

// A long log loses the units of one time, wherever that is in it, and the edits since
// any earlier state make it.
//
//test:norace
func TestReturnOfLongLogs(t *testing.T) {
	s := walkSeed()
	returns, edits := 0, 0
	for round := range uint64(60) {
		w := walk{rand.New(rand.NewPCG(s, round)), t}
		l := plain(LOG, []int64{60, 300, 3000, MaxLog}[w.IntN(4)], int64(60e9), 0)
		var state, was []byte
		var since Since
		var all []outstanding
		now := int64(1.7e18)
		for i := range 400 {
			now += w.Int64N(1+40*l.Period/l.Max) * int64(w.IntN(3)/2)
			if w.IntN(20) == 0 {
				since.Note(LOG.Kind(), state)
				was = bytes.Clone(state)
			}
			var next []byte
			if len(all) > 0 && w.IntN(4) == 0 {
				j := w.IntN(len(all))
				if w.IntN(2) == 0 {
					j = len(all) - 1
				}
				var returned int64
				var err error
				dst := [][]byte{nil, state, make([]byte, 0, 64)}[w.IntN(3)]
				next, returned, err = Return(&l, state, now, all[j].back, 1+w.Int64N(all[j].cost), dst)
				if err != nil {
					t.Fatal(err)
				}
				if all[j].cost -= returned; all[j].cost == 0 {
					all = append(all[:j], all[j+1:]...)
				}
				returns++
			} else {
				cost := 1 + w.Int64N(max(1, l.Max/20))
				var d Decision
				var err error
				if next, d, err = take(&l, state, now, cost, state); err != nil {
					t.Fatal(err)
				}
				if next != nil {
					all = append(all, outstanding{now, cost, now + d.Reset})
				}
			}
			if next == nil {
				continue
			}
			state = next
			if err := checkLog(state, now); err != nil {
				t.Fatalf("RAPID_SEED=%d, round %d, step %d: %v", s, round, i, err)
			}
			live := int64(0)
			for _, o := range all {
				if o.back > now {
					live += o.cost
				}
			}
			if got := l.Max - mustPeek(t, l, state, now, 0).Remaining; got != live {
				t.Fatalf("RAPID_SEED=%d, round %d, step %d: %d units, want %d", s, round, i, got, live)
			}
			if LOG.Kind().Recorded(state) != longLog {
				since = Since{}
			}
			if since.Size() == 0 {
				continue
			}
			since.Changed(state)
			if got, _ := since.apply(was, state); !bytes.Equal(got, state) {
				t.Fatalf("RAPID_SEED=%d, round %d, step %d: the edits make\n%x\nwant\n%x\nof\n%x", s, round, i, got, state, was)
			}
			edits++
		}
	}
	if returns < 1000 || edits < 1000 {
		t.Errorf("%d returns, %d edits", returns, edits)
	}
}

// What is charged while there is room is what Take takes. Beyond that it is in use as
// well, so that as much less is left later.
func TestCharge(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawLimit(t, a)
		l.CountDenied = false
		state, now := drawKey(t, l)
		cost := rapid.Int64Range(0, 3*most(t, l)+3).Draw(t, "cost")
		var d Decision
		next, err := Charge(&l, state, now, cost, nil, &d)
		if errors.Is(err, ErrOverflow) {
			return
		}
		if err != nil || d.Limited || d.Wait != Never || (next != nil) != (cost > 0 && l.Max > 0) {
			t.Fatalf("%x, %+v, %v", next, d, err)
		}
		before := mustPeek(t, l, state, now, 0)
		if next == nil {
			return
		}
		after := mustPeek(t, l, next, now, 0)
		if d.Remaining != after.Remaining || d.Reset != after.Reset || a != WARMUP && d.Remaining > max(0, before.Remaining-cost) {
			t.Fatalf("%d charged to %+v: %+v, and left %+v", cost, before, d, after)
		}
		if asked, want, _ := take(&l, state, now, cost, nil); !want.Limited {
			if want.Wait = Never; !bytes.Equal(asked, next) || d != want {
				t.Fatalf("charged %x, %+v; taken %x, %+v", next, d, asked, want)
			}
			return
		}
		// In two parts it is the same, but for the heat of WARMUP, and for LOG, which
		// counts no further than MaxLog.
		part := rapid.Int64Range(1, max(1, cost-1)).Draw(t, "part")
		if a == WARMUP || a == LOG || part >= cost {
			return
		}
		first, err := Charge(&l, state, now, part, nil, &d)
		if err != nil {
			t.Fatal(err)
		}
		if both, err := Charge(&l, first, now, cost-part, nil, &d); err != nil || !bytes.Equal(both, next) {
			t.Fatalf("%d and %d make %x, together %x, %v", part, cost-part, both, next, err)
		}
	})
}

// A plain Return of a number that does not grow allocates nothing.
func TestReturnAllocatesNothing(t *testing.T) {
	for _, a := range Algorithms() {
		given := sample(t, a)
		if n := testing.AllocsPerRun(100, func() {
			l := given
			var buf [MaxState]byte
			state, d, err := take(&l, nil, 1, 2, buf[:])
			if err != nil || d.Limited {
				t.Fatal("not taken")
			}
			if _, returned, err := Return(&l, state, 1, 1+d.Reset, 1, state); err != nil || returned != 1 {
				t.Fatal("not returned")
			}
			if _, err := Charge(&l, state, 1, 1, state, &d); err != nil {
				t.Fatal("not charged")
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations", a, n)
		}
	}
}
