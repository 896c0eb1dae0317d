package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// spent is a request that counts, and when it came.
type spent struct{ at, cost int64 }

// drawSpent uses a key, and returns the requests that count.
func drawSpent(t *rapid.T, l Limit, start int64) (all []spent, now int64) {
	var state []byte
	now = start
	for range rapid.IntRange(1, 8).Draw(t, "calls") {
		now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, span(l)/2)).Draw(t, "later")
		cost := rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(1, most(t, l))).Draw(t, "cost")
		next, d, err := take(&l, state, now, cost, nil)
		if err != nil {
			t.Fatal(err)
		}
		if next != nil && (!d.Limited || l.CountDenied) {
			all = append(all, spent{now, cost})
		}
		if next != nil {
			state = next
		}
	}
	return all, now
}

// useUp makes the requests on a key that is new.
func useUp(t *rapid.T, l Limit, all []spent) (state []byte) {
	for _, s := range all {
		next, _, err := take(&l, state, s.at, s.cost, nil)
		if err != nil {
			t.Fatal(err)
		}
		if next != nil {
			state = next
		}
	}
	return state
}

// without returns the requests without the last cost of them.
func without(all []spent, cost int64) []spent {
	all = append([]spent(nil), all...)
	for cost > 0 && len(all) > 0 {
		last := &all[len(all)-1]
		part := min(cost, last.cost)
		cost -= part
		if last.cost -= part; last.cost == 0 {
			all = all[:len(all)-1]
		}
	}
	return all
}

// drawRefunds draws costs to give back, and their sum.
func drawRefunds(t *rapid.T) (costs []int64, sum int64) {
	costs = rapid.SliceOfN(rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(1, 60)), 1, 3).Draw(t, "refunds")
	for _, c := range costs {
		sum += c
	}
	return costs, sum
}

// A refund gives back no more than it says, whatever limit it names: nobody waits for
// less time than if that much had never been asked for.
func TestRefundGivesBackNoMoreThanItSays(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		const start = int64(1_700_000_000_000_000_000)
		var family []Algorithm
		for _, b := range Algorithms() {
			if SameFamily(a.Kind(), b.Kind()) {
				family = append(family, b)
			}
		}
		l, other := drawLimit(t, a), drawLimit(t, rapid.SampledFrom(family).Draw(t, "other"))
		if l.Max == 0 || l.Burst == 0 {
			return
		}
		all, now := drawSpent(t, l, start)
		state := useUp(t, l, all)
		now += rapid.Int64Range(0, span(l)).Draw(t, "later")
		costs, sum := drawRefunds(t)
		for _, cost := range costs {
			by := rapid.SampledFrom([]Limit{l, other}).Draw(t, "by")
			next, _, err := refund(&by, state, now, cost, nil)
			if err != nil {
				t.Fatal(err)
			}
			if next != nil {
				state = next
			}
		}
		less := useUp(t, l, without(all, sum))
		for range 3 {
			cost := rapid.Int64Range(1, most(t, l)).Draw(t, "ask")
			is, fair := mustPeek(t, l, state, now, cost), mustPeek(t, l, less, now, cost)
			if slack := roundingOfRefunds(l, len(all)+len(costs)); isSooner(is, fair, slack) {
				t.Fatalf("%+v and %+v, %v used, %v given back, %v left: a cost of %d waits for %+v, and without them for %+v",
					l, other, all, costs, without(all, sum), cost, is, fair)
			}
		}
	})
}

// roundingOfRefunds returns by how much less somebody may wait after so many takes and
// refunds: with WARMUP each rounds the heat by less than 1 ns, which counts up to
// COLD/2 times.
func roundingOfRefunds(l Limit, calls int) int64 {
	if l.Algorithm == WARMUP {
		return int64(calls) * (2 + l.Cold)
	}
	return 0
}

// isSooner reports whether is lets its caller go more than slack sooner than fair. A
// denial is never sooner than a grant.
func isSooner(is, fair Decision, slack int64) bool {
	never := func(d Decision) bool { return d.Limited && d.Wait == Never }
	switch {
	case is.Limited && !fair.Limited || never(is):
		return false
	case never(fair):
		return true
	}
	return max(0, is.Wait)+slack < max(0, fair.Wait)
}

// With limits that change, what is admitted less what is given back is no more than
// the limits promise together, in any time.
func TestRefundsUnderChangingLimits(t *testing.T) {
	changing(t, func(t *rapid.T, a Algorithm) {
		k := drawChangingKey(t, a)
		for i := range k.limits {
			if a == WARMUP {
				k.limits[i].Cold = rapid.SampledFrom([]int64{1, 3, MaxCold}).Draw(t, "cold")
			}
		}
		var log []admission
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			l, cost := k.next(t)
			if rapid.IntRange(0, 2).Draw(t, "refund") == 0 {
				next, _, err := refund(&l, k.state, k.now, cost, nil)
				if err != nil {
					t.Fatal(err)
				}
				if next != nil {
					k.state = next
				}
				log = append(log, admission{k.now, -cost})
			} else if !k.take(t, l, cost).Limited {
				log = append(log, admission{k.now, cost})
			}
		}
		for i := range log {
			sum := int64(0)
			for _, adm := range log[i:] {
				sum += adm.cost
				length := adm.at - log[i].at
				if most := promisedTogether(k.limits, length); !most.IsInt64() || sum > most.Int64() {
					t.Fatalf("%d admitted in %d ns, promised are %v: %v under %+v", sum, length, most, log, k.limits)
				}
			}
		}
	})
}

// With COUNTDENIED, what was denied and counted has to be given back as well before a
// place is free.
func TestRefundOfWhatWasDenied(t *testing.T) {
	const now = int64(1_700_000_000_000_000_000)
	for _, text := range []string{
		"FIXED 10/h COUNTDENIED", "SLIDING 10/h COUNTDENIED", "SEGMENTED 10/h SEGMENTS 6 COUNTDENIED", "LOG 10/h COUNTDENIED",
	} {
		l, state := mustParse(t, text), []byte(nil)
		for i := range int64(30) { // 10 granted, and 20 denied
			state, _, _ = take(&l, state, now+i, 1, nil)
		}
		for given := range 21 {
			if d := mustPeek(t, l, state, now+30, 1); !d.Limited || d.Remaining != 0 {
				t.Errorf("%s, %d given back: %+v", text, given, d)
			}
			state, _, _ = refund(&l, state, now+30, 1, nil)
		}
		if d := mustPeek(t, l, state, now+30, 1); d.Limited || d.Remaining != 0 {
			t.Errorf("%s, 21 given back: %+v", text, d)
		}
	}
}

// A refund under the longer Period does not shorten the time for which its units count,
// although the newest unit that is left came under a shorter one.
func TestRefundKeepsTheLongerPeriod(t *testing.T) {
	const now = int64(1_700_000_000_000_000_000)
	short, long := mustParse(t, "LOG 2/2s"), mustParse(t, "LOG 19/3s")
	state, _, _ := take(&long, nil, now, 5, nil)
	state, _, _ = take(&short, state, now+2*second, 2, nil)
	state, _, _ = refund(&long, state, now+2*second, 1, nil)
	state, _, _ = take(&short, state, now+2*second, 1, nil)
	if d := mustPeek(t, long, state, now+2*second, 0); d.Remaining != 12 {
		t.Errorf("%+v, 5 and 2 are in use", d)
	}
}

// The debt of a WARMUP remembers what took it.
func TestWarmUpRefundsUnderAnotherLimit(t *testing.T) {
	const now, ms = int64(1_700_000_000_000_000_000), int64(time.Millisecond)
	tests := []struct {
		took, by string
		back     int64 // ms
	}{
		{"WARMUP 10/s COLD 1", "WARMUP 10/s COLD 1", 100},
		{"WARMUP 10/s COLD 1", "WARMUP 10/m COLD 1", 100},
		{"WARMUP 10/s COLD 1", "WARMUP 10/s COLD 1000", 100},
		{"WARMUP 10/s COLD 1", "WARMUP 1000/s", 100},
		{"WARMUP 2/s WARM 4s", "WARMUP 2/s COLD 1000 WARM 1h", 1125}, // the second one
		{"WARMUP 2/s WARM 4s", "WARMUP 2/s COLD 1", 1125},
	}
	for _, tt := range tests {
		l, by := mustParse(t, tt.took), mustParse(t, tt.by)
		state, d, err := take(&l, nil, now, l.Max, nil)
		if err != nil || d.Limited {
			t.Fatal(d, err)
		}
		was := mustPeek(t, l, state, now, 1).Wait
		if state, _, err = refund(&by, state, now, 1, nil); err != nil {
			t.Fatal(err)
		}
		if back := was - mustPeek(t, l, state, now, 1).Wait; back != tt.back*ms {
			t.Errorf("%s, 1 given back by %s: %d ns", tt.took, tt.by, back)
		}
	}
	// In advance, under several limits: each permit has cost the stable interval at least.
	cheap, dear := mustParse(t, "WARMUP 10/s COLD 1"), mustParse(t, "WARMUP 10/s COLD 1000")
	state, _, _ := take(&cheap, nil, now, 10, nil)
	state, _, _ = reserve(&dear, state, now, 1, -1, nil)
	was := mustPeek(t, dear, state, now, 1).Wait
	state, _, _ = refund(&dear, state, now, 2, nil)
	if is := mustPeek(t, dear, state, now, 1).Wait; was-is != 200*ms {
		t.Errorf("2 of several limits gave back %d ns", was-is)
	}
}

// However many are denied and counted, a LOG keeps no more than its limit has units, and
// counts MaxLog.
func TestCountedDenialsAreBounded(t *testing.T) {
	now := int64(1_700_000_000_000_000_000)
	l, state := mustParse(t, "LOG 10/h COUNTDENIED"), []byte(nil)
	for range 2 * MaxLog {
		now += 1e6
		state, _, _ = take(&l, state, now, 1, nil)
		if len(state) > 128 {
			t.Fatalf("%d bytes", len(state))
		}
	}
	if n := Level(LOG.Kind(), state, now); n != MaxLog {
		t.Errorf("%d counted", n)
	}
}

// What was taken in advance under several limits is given back no sooner than if that much had not been taken, as the last
// limit sees it.
func TestRefundOfWhatSeveralLimitsReserved(t *testing.T) {
	const now = int64(1_700_000_000_000_000_000)
	for _, a := range []Algorithm{GCRA, TOKEN, WARMUP} {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				limits := []Limit{drawLimit(t, a), drawLimit(t, a)}
				for i := range limits {
					limits[i].Max, limits[i].Burst = max(1, limits[i].Max), max(1, limits[i].Burst)
					limits[i].Interval = false // of two, neither need be faster
				}
				type reserved struct {
					l    Limit
					cost int64
				}
				all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) reserved {
					return reserved{rapid.SampledFrom(limits).Draw(t, "limit"), rapid.Int64Range(1, 20).Draw(t, "cost")}
				}), 1, 5).Draw(t, "reserved")
				state := func(all []reserved) (state []byte) {
					for _, r := range all {
						next, _, err := reserve(&r.l, state, now, r.cost, -1, nil)
						if err != nil {
							t.Fatal(err)
						}
						state = next
					}
					return state
				}
				last := all[len(all)-1]
				back := rapid.Int64Range(1, 30).Draw(t, "back")
				by := rapid.SampledFrom(limits).Draw(t, "by")
				is, _, err := refund(&by, state(all), now, back, nil)
				if err != nil {
					t.Fatal(err)
				}
				less := append([]reserved(nil), all...)
				for back > 0 && len(less) > 0 {
					r := &less[len(less)-1]
					part := min(back, r.cost)
					back -= part
					if r.cost -= part; r.cost == 0 {
						less = less[:len(less)-1]
					}
				}
				slack := int64(len(all)+1) * (3 + last.l.Cold)
				if got, fair := mustPeek(t, last.l, is, now, 1), mustPeek(t, last.l, state(less), now, 1); isSooner(got, fair, slack) {
					t.Fatalf("%+v less by %+v: %+v, want %+v", all, by, got, fair)
				}
			})
		})
	}
}

// Tokens that come back one by one go on to do so after a refund by a limit whose tokens arrive together.
func TestRefundByTokensThatArriveTogether(t *testing.T) {
	const now = int64(1_700_000_000_000_000_000)
	queue, by := mustParse(t, "QUEUE 1/2s BURST 3"), mustParse(t, "TOKEN 3/6s INTERVAL")
	state, _, _ := take(&queue, nil, now, 4, nil)
	state, _, _ = refund(&by, state, now, 1, nil)
	if d := mustPeek(t, queue, state, now, 1); d.Wait != 6*second {
		t.Errorf("%+v: three of 2 s are before it", d)
	}
}

// A log that was held for the longest of three periods is held for the next one when that is over.
func TestLogOfThreePeriods(t *testing.T) {
	const now = int64(1_700_000_000_000_000_000)
	long, middle, short := mustParse(t, "LOG 1/420ns"), mustParse(t, "LOG 11/168ns"), mustParse(t, "LOG 1/56ns")
	state, _, _ := take(&long, nil, now, 1, nil)
	state, _, _ = take(&middle, state, now+313, 4, nil)
	state, _, _ = take(&short, state, now+420, 1, nil)
	if d := mustPeek(t, middle, state, now+420, 0); d.Remaining != 6 {
		t.Errorf("%+v: 4 and 1 are in use", d)
	}
}
