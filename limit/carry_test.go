package limit

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A limit is used up, and the next request comes at once under another limit.
func TestLimitChangesSteps(t *testing.T) {
	const start = int64(1.7e18)
	tests := []struct {
		used, then  string
		limited     bool
		remaining   int64
		wait, reset time.Duration
	}{
		{"GCRA 10/h", "GCRA 1000/s", false, 989, -1, 11 * time.Millisecond},
		{"GCRA 10/h", "GCRA 1000/s BURST 10", true, 0, time.Millisecond, 10 * time.Millisecond},
		{"GCRA 1000/s", "GCRA 10/h", true, 0, 991 * time.Millisecond, time.Second},
		{"GCRA 1000/h", "GCRA 20/m", true, 0, 2943 * time.Second, 3000 * time.Second},
		{"GCRA 10/m", "GCRA 10/h", true, 0, 6 * time.Second, time.Minute},
		{"GCRA 10/h", "GCRA 100/10h", true, 0, 0, 0}, // the pace is the same: below
		{"TOKEN 100/h INTERVAL", "TOKEN 10/h INTERVAL", true, 0, time.Hour, time.Hour},
		{"TOKEN 10/h INTERVAL", "TOKEN 20/h INTERVAL", false, 9, -1, time.Hour},
		{"TOKEN 10/h INTERVAL", "TOKEN 10/s INTERVAL", true, 0, time.Second, time.Second},
		{"TOKEN 10/h INTERVAL", "LEAKY 1000/s BURST 10", true, 0, time.Millisecond, 10 * time.Millisecond},
		{"QUEUE 1/h", "QUEUE 1000/s BURST 7199999", false, 3599999, time.Hour, time.Hour + time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.used+", "+tt.then, func(t *testing.T) {
			l, then := mustParse(t, tt.used), mustParse(t, tt.then)
			cost := l.Burst
			if tt.wait == 0 { // 10/h and 100/10h
				tt.limited, tt.remaining, tt.wait, tt.reset = false, 89, -1, 11*360*time.Second
			}
			state, d, err := take(&l, nil, start, cost, nil)
			if err != nil || d.Limited {
				t.Fatal(d, err)
			}
			_, got, err := take(&then, state, start, 1, nil)
			want := Decision{Limited: tt.limited, Limit: got.Limit, Remaining: tt.remaining, Wait: int64(tt.wait), Reset: int64(tt.reset)}
			if err != nil || got != want {
				t.Errorf("%+v, %v\nwant %+v", got, err, want)
			}
		})
	}
}

// drawBucket draws a limit of a bucket that is used by the test.
func drawBucket(t *rapid.T, algorithms ...Algorithm) Limit {
	l := plain(rapid.SampledFrom(algorithms).Draw(t, "algorithm"), rapid.Int64Range(1, 20).Draw(t, "max"),
		rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, 100_000)).Draw(t, "period"), rapid.Int64Range(1, 30).Draw(t, "burst"))
	return l
}

// inTurn draws steps under limits that change, and checks each.
func inTurn(t *rapid.T, limits []Limit, check func(l Limit, now, cost int64, state, next []byte, d Decision)) {
	var state []byte
	now := int64(1.7e18)
	for range rapid.IntRange(1, 60).Draw(t, "calls") {
		l := rapid.SampledFrom(limits).Draw(t, "limit")
		now += rapid.OneOf(rapid.Int64Range(0, 50), rapid.Int64Range(0, l.Period)).Draw(t, "later")
		cost := rapid.Int64Range(1, l.Burst+1).Draw(t, "cost")
		next, d, err := take(&l, state, now, cost, nil)
		if err != nil {
			t.Fatal(err)
		}
		check(l, now, cost, state, next, d)
		if next != nil {
			state = next
		}
	}
}

// In any time t, at most the largest burst and t times the fastest rate; with
// INTERVAL, at most the largest burst and the largest arrival for each of the
// shortest periods.
func TestLimitChangesPromise(t *testing.T) {
	for _, together := range []bool{false, true} {
		t.Run(fmt.Sprintf("interval %t", together), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				limits := make([]Limit, rapid.IntRange(1, 4).Draw(t, "limits"))
				burst, pace, most, period := int64(0), int64(math.MaxInt64), int64(0), int64(math.MaxInt64)
				for i := range limits {
					limits[i] = drawBucket(t, GCRA, TOKEN, LEAKY)
					l := &limits[i]
					if l.Interval = together; together {
						l.Algorithm = TOKEN
						most, period = max(most, min(l.Max, l.Burst)), min(period, l.Period)
					}
					burst, pace = max(burst, l.Burst), min(pace, interval(l))
				}
				var log []admission
				inTurn(t, limits, func(_ Limit, now, cost int64, _, _ []byte, d Decision) {
					if !d.Limited {
						log = append(log, admission{now, cost})
					}
				})
				for i := range log {
					sum := int64(0)
					for _, a := range log[i:] {
						sum += a.cost
						length := a.at - log[i].at
						promised := burst + length/pace
						if together {
							promised = burst + most*((length+period-1)/period)
						}
						if sum > promised {
							t.Fatalf("%d in %d ns with %+v, promised %d", sum, length, limits, promised)
						}
					}
				}
			})
		})
	}
}

// The departures of a QUEUE are never closer than the shortest interval, also where the
// last places are given back.
func TestLimitChangesQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := []Limit{drawBucket(t, QUEUE), drawBucket(t, QUEUE), drawBucket(t, QUEUE)}
		type place struct {
			l          Limit
			cost, done int64
		}
		line := []place{{done: math.MinInt64}}
		var state []byte
		now := int64(1.7e18)
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			l := rapid.SampledFrom(limits).Draw(t, "limit")
			now += rapid.OneOf(rapid.Int64Range(0, 50), rapid.Int64Range(0, l.Period)).Draw(t, "later")
			last := line[len(line)-1]
			if last.cost > 0 && rapid.IntRange(0, 2).Draw(t, "refund") == 0 {
				next, _, err := refund(&last.l, state, now, last.cost, nil)
				if err != nil {
					t.Fatal(err)
				}
				if next != nil {
					state = next
				}
				line = line[:len(line)-1]
				continue
			}
			cost := rapid.Int64Range(1, l.Burst+1).Draw(t, "cost")
			next, d, err := take(&l, state, now, cost, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d.Limited {
				continue
			}
			state = next
			at := now + max(0, d.Wait)
			if at < last.done {
				t.Fatalf("departs at %d, and the one before is not done until %d", at, last.done)
			}
			line = append(line, place{l, cost, at + cost*interval(&l)})
		}
	})
}

// A place that is given back takes no more of the queue than it took, although the last
// one to be taken took longer.
func TestRefundOfAFasterPlace(t *testing.T) {
	const ms = int64(time.Millisecond)
	fast, slow := mustParse(t, "QUEUE 1000/s"), mustParse(t, "QUEUE 1/h")
	state, _, _ := take(&fast, nil, 0, 1000, nil)
	state, _, _ = take(&slow, state, 0, 1, nil)
	for _, l := range []*Limit{&slow, &fast} { // the last places, one by one
		state, _, _ = refund(l, state, 0, 1, nil)
	}
	if _, d, err := take(&fast, state, 0, 1, nil); err != nil || d.Limited || d.Wait != 999*ms {
		t.Errorf("%+v, %v; 999 places are left, of 1 ms each", d, err)
	}
}

// A denial's wait is exact for the limit that was denied. A denial moves the key
// only to a pace that brings every token back no later, and makes nobody wait
// longer, but for the rounding. Where INTERVAL is among the limits, two of them can
// each be faster than the pace of the state, and neither faster than the other. The
// first to be denied decides then, so the last promise holds for its callers only.
func TestLimitChangesDenial(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := make([]Limit, 3)
		mixed := false
		for i := range limits {
			limits[i] = drawBucket(t, GCRA, TOKEN, LEAKY)
			if l := &limits[i]; l.Algorithm == TOKEN && rapid.Bool().Draw(t, "interval") {
				l.Interval, mixed = true, true
				l.Period *= together(l) // so that one each E is as fast
			}
		}
		inTurn(t, limits, func(l Limit, now, cost int64, state, next []byte, d Decision) {
			if !d.Limited {
				return
			}
			checkWait(t, l, state, now, cost)
			if next == nil {
				return
			}
			checkNoLater(t, state, next, now)
			for _, other := range limits {
				if mixed && other != l {
					continue
				}
				for n := range other.Burst {
					before, after := mustPeek(t, other, state, now, n+1), mustPeek(t, other, next, now, n+1)
					// If a caller moves on to a pace of its own, its wait is rounded up twice.
					if max(0, after.Wait) > max(0, before.Wait)+1 || after.Limited && !before.Limited {
						t.Fatalf("a denial of %d under %+v: %+v is told %+v, and was %+v", cost, l, other, after, before)
					}
				}
			}
		})
	})
}

// checkNoLater checks that every token of a state comes back no later after a
// denial, whatever the pace is now.
func checkNoLater(t rapid.TB, state, next []byte, now int64) {
	t.Helper()
	var was, is use
	before, _ := bucketAhead(state, now)
	after, _ := bucketAhead(next, now)
	if !useAt(&was, state, before, 1) || !useAt(&is, next, after, 1) || is.missing != was.missing {
		t.Fatalf("%x becomes %x: %d are missing, and were %d", state, next, is.missing, was.missing)
	}
	for room := range was.missing {
		if is.until(room) > was.until(room) {
			t.Fatalf("%x becomes %x: no more than %d are missing in %d, and were in %d", state, next, room, is.until(room), was.until(room))
		}
	}
}

// Limits in turn give nothing that either alone would not.
func TestLimitChangesInTurn(t *testing.T) {
	for _, pair := range [][2]string{{"GCRA 10/m", "GCRA 10/h"}, {"GCRA 1000/s", "GCRA 1000/h"}, {"TOKEN 100/h INTERVAL", "TOKEN 10/h INTERVAL"}} {
		limits := []Limit{mustParse(t, pair[0]), mustParse(t, pair[1])}
		var state []byte
		granted := int64(0)
		for i := range 1000 {
			next, d, err := take(&limits[i&1], state, 1.7e18, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			if next != nil {
				state = next
			}
			if !d.Limited {
				granted++
			}
		}
		if most := max(limits[0].Burst, limits[1].Burst); granted > most {
			t.Errorf("%v in turn admit %d, the larger alone %d", pair, granted, most)
		}
	}
}

// Without a change, nothing differs from the formulas at the head of gcra.go.
func TestLimitThatStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawBucket(t, GCRA, TOKEN, LEAKY)
		e, tat := interval(&l), int64(0)
		inTurn(t, []Limit{l}, func(_ Limit, now, cost int64, _, _ []byte, d Decision) {
			ahead := max(tat, now) - now
			dvt, after := e*l.Burst, ahead+e*cost
			want := Decision{Limit: l.Burst, Wait: Never, Reset: after}
			if after > dvt {
				want.Limited, want.Reset = true, ahead
				if cost <= l.Burst {
					want.Wait = after - dvt
				}
			} else {
				tat = now + after
			}
			want.Remaining = max(0, (dvt-want.Reset)/e)
			if d != want {
				t.Fatalf("%+v, want %+v", d, want)
			}
		})
	})
}

// A pace is read as it was written, in two bytes where it is a usual one.
func TestPaceCode(t *testing.T) {
	check := func(t rapid.TB, e int64) (length int) {
		state := putBucket(nil, 5, e, noCode)
		var u use
		if !useAt(&u, state, 1, 1) || u.e != e {
			t.Fatalf("pace %d: %x is %d", e, state, u.e)
		}
		if _, same := hasPace(state, e); !same {
			t.Fatalf("pace %d is not that of %x", e, state)
		}
		for _, other := range []int64{e - 1, e + 1} {
			if _, same := hasPace(state, other); same {
				t.Fatalf("pace %d is that of %x, of %d", other, state, e)
			}
		}
		if len(state) == bucketLen && codeIn(state).isNone() {
			t.Fatalf("pace %d: %x has no code", e, state)
		}
		return len(state)
	}
	for _, unit := range tagUnits {
		for n := int64(1); n < codeNumbers; n++ {
			for _, e := range []int64{unit / n, (unit + n - 1) / n} {
				if check(t, e) != bucketLen {
					t.Fatalf("%d of %d has no code", n, unit)
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.Int64Min(1).Draw(t, "e")) })
	// Any two bytes, and any pace, agree.
	rapid.Check(t, func(t *rapid.T) {
		c := paceCode(rapid.Uint16().Draw(t, "code"))
		if e := c.pace(); !c.isNone() && e > 0 && !c.is(e) {
			t.Fatalf("%#x is %d, and is not", c, e)
		}
	})
}

// A time that does not fit saturates; the denial is still exact.
func TestLimitChangesExtremes(t *testing.T) {
	slow, fast := plain(GCRA, 1, math.MaxInt64/4, 2), plain(GCRA, 1, 1, math.MaxInt64/2)
	state, _, err := take(&fast, nil, 0, math.MaxInt64/2, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, d, err := take(&slow, state, 0, 1, nil)
	if want := (Decision{true, 2, 0, math.MaxInt64/2 - 1, math.MaxInt64 / 2}); err != nil || d != want {
		t.Errorf("%+v, %v, want %+v", d, err, want)
	}
	if _, _, err := reserve(&slow, state, 0, 1, -1, nil); err != ErrOverflow {
		t.Errorf("a reservation of what never comes back: %v", err)
	}
	if got := scaleUp(math.MaxInt64, math.MaxInt64, math.MaxInt64-1); got != math.MaxInt64 {
		t.Errorf("scaleUp = %d", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := rapid.Int64Min(0).Draw(t, "a"), rapid.Int64Min(0).Draw(t, "b"), rapid.Int64Min(1).Draw(t, "c")
		want := ceil(new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), big.NewInt(c))
		if got := scaleUp(a, b, c); want.IsInt64() && got != want.Int64() || !want.IsInt64() && got != math.MaxInt64 {
			t.Fatalf("%d, want %v", got, want)
		}
	})
}
