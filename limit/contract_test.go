package limit

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// contract runs a property for each algorithm of the table.
func contract(t *testing.T, property func(t *rapid.T, a Algorithm)) {
	t.Helper()
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { property(t, a) })
		})
	}
}

// drawLimit draws a limit such as callers have, with any options that the
// algorithm has.
func drawLimit(t *rapid.T, a Algorithm) Limit {
	l := Limit{
		Algorithm: a,
		Max:       rapid.Int64Range(0, 1000).Draw(t, "max"),
		Period:    rapid.OneOf(rapid.Int64Range(1, 5000), rapid.Int64Range(1, 3600e9)).Draw(t, "period"),
		Burst:     rapid.Int64Range(1, 50).Draw(t, "burst"),
	}
	if a == QUEUE {
		l.Burst-- // none may wait
	}
	drawOptions(t, &l)
	return l
}

// drawAny draws any limit at all.
func drawAny(t *rapid.T, a Algorithm) Limit {
	anything := anyInt64()
	l := plain(a, anything.Draw(t, "max"), anything.Draw(t, "period"), anything.Draw(t, "burst"))
	drawOptions(t, &l)
	return l
}

// drawOptions draws the options that l's algorithm has. Without BURST, a limit
// is a small one, so that a few calls reach it.
func drawOptions(t *rapid.T, l *Limit) {
	has := func(o option) bool { return optionsOf[l.Algorithm]&o != 0 }
	drawn := func(o option, name string) bool { return has(o) && rapid.Bool().Draw(t, name) }
	if !has(optBurst) {
		if 0 <= l.Max && l.Max <= 1000 {
			l.Max = l.Burst % 51
		}
		l.Burst = l.Max
	}
	if drawn(optCalendar, "calendar") {
		l.Period = 0
		l.Calendar = Unit(rapid.IntRange(int(Second), int(Year)).Draw(t, "unit"))
		l.Zone = mustZone(t, rapid.SampledFrom(someZones()).Draw(t, "zone"))
	}
	l.Interval = drawn(optInterval, "interval")
	l.First = l.Calendar == NoUnit && drawn(optFirst, "first")
	l.CountDenied = drawn(optCountDenied, "count denied")
	if rapid.IntRange(0, 3).Draw(t, "block") == 0 { // which Take does not know
		l.Block = rapid.Int64Range(1, 7200e9).Draw(t, "block's length")
		l.BlockMost = rapid.SampledFrom([]int64{0, l.Block + 1, 5 * l.Block}).Draw(t, "most")
	}
	if has(optSegments) {
		l.Segments = rapid.OneOf(rapid.Int64Range(2, 6), rapid.Int64Range(2, MaxSegments)).Draw(t, "segments")
	}
	if has(optWarm) {
		l.Warm = rapid.OneOf(rapid.Int64Range(1, 5000), rapid.Int64Range(1, 3600e9)).Draw(t, "warm")
		l.Cold = rapid.Int64Range(1, 5).Draw(t, "cold")
	}
}

// someZones are UTC and zones with daylight saving of an hour, of half an hour,
// in the south, and with a day left out.
func someZones() []string {
	return []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"}
}

// span returns about as long as it takes until all that was taken is back.
func span(l Limit) int64 {
	const day = 24 * 3600e9
	switch l.Calendar {
	case NoUnit:
		return l.Period
	case Second:
		return 1e9
	case Minute:
		return 60e9
	case Hour:
		return 3600e9
	case Day:
		return day
	case Week:
		return 7 * day
	case Month:
		return 30 * day
	case Quarter:
		return 91 * day
	}
	return 365 * day
}

// most returns the most that can be taken at once.
func most(t rapid.TB, l Limit) int64 {
	return mustPeek(t, l, nil, 1_700_000_000_000_000_000, 0).Limit
}

// anyInt64 draws integers of every order of magnitude and the ends of the range.
func anyInt64() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64(),
		rapid.Int64Range(-3, 1000),
		rapid.Int64Range(math.MaxInt64-3, math.MaxInt64),
		rapid.Int64Range(math.MinInt64, math.MinInt64+3),
	)
}

// drawKey draws the state of a key that has been used for a while, by a clock
// that may go back, and the time of its last use.
func drawKey(t *rapid.T, l Limit) (state []byte, now int64) {
	now = 1_700_000_000_000_000_000
	for range rapid.IntRange(0, 20).Draw(t, "calls") {
		now += rapid.Int64Range(-span(l)/8, span(l)/2).Draw(t, "later")
		next, _, err := take(&l, state, now, rapid.Int64Range(0, most(t, l)).Draw(t, "cost"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if next != nil {
			state = next
		}
	}
	return state, now
}

// In any time t, at most Burst + Max/Period·t are admitted, whatever the clock
// does.
func TestContractPromise(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawLimit(t, a)
		var log []admission
		var state []byte
		now := int64(1_700_000_000_000_000_000)
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			now += rapid.Int64Range(-span(l)/8, span(l)/4).Draw(t, "later")
			cost := rapid.Int64Range(1, most(t, l)+1).Draw(t, "cost")
			next, d, err := take(&l, state, now, cost, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !d.Limited {
				log = appendAdmissions(log, l, now, cost, d)
			}
			if next != nil {
				state = next
			}
		}
		for i := range log {
			first, last, sum := log[i].at, log[i].at, int64(0)
			for _, adm := range log[i:] {
				first, last, sum = min(first, adm.at), max(last, adm.at), sum+adm.cost
				if most := promised(l, last-first); big.NewInt(sum).Cmp(most) > 0 {
					t.Fatalf("%v: %d admitted in %d ns, promised are %v", l, sum, last-first, most)
				}
			}
		}
	})
}

// admission is how many go ahead at a time.
type admission struct{ at, cost int64 }

// appendAdmissions appends the times at which granted requests go ahead: at once, but in a
// queue one by one.
func appendAdmissions(log []admission, l Limit, now, cost int64, d Decision) []admission {
	if l.Algorithm != QUEUE {
		return append(log, admission{now, cost})
	}
	for i := range cost {
		log = append(log, admission{now + max(0, d.Wait) + i*interval(&l), 1})
	}
	return log
}

// promised returns the most that may be admitted in a length of time: what each
// algorithm promises.
func promised(l Limit, length int64) *big.Int {
	if l.Max == 0 {
		return new(big.Int)
	}
	switch l.Algorithm {
	case FIXED:
		// Max in each window that is touched.
		return timesWindows(l.Max, length, shortest(l))
	case SEGMENTED:
		// Max in each n sub-windows that follow each other.
		n := timesWindows(1, length, subWindow(l.Period, l.Segments))
		n = ceil(n, big.NewInt(l.Segments))
		return n.Mul(n, big.NewInt(l.Max))
	case SLIDING:
		// Max + Max/Period·(t − 1 ns)
		n := new(big.Int).Mul(big.NewInt(l.Max), big.NewInt(max(0, length-1)))
		n.Quo(n, big.NewInt(l.Period))
		return n.Add(n, big.NewInt(l.Max))
	case GCRA, TOKEN, LEAKY:
		if l.Interval {
			// Burst + Max·⌈t/Period⌉, where Max is at most Burst.
			n := ceil(big.NewInt(length), big.NewInt(l.Period))
			return n.Mul(n, big.NewInt(min(l.Max, l.Burst))).Add(n, big.NewInt(l.Burst))
		}
		// Burst + t/E, the interval E being rounded up.
		n := big.NewInt(length / interval(&l))
		return n.Add(n, big.NewInt(l.Burst))
	case QUEUE:
		// 1 + t/E
		return big.NewInt(1 + length/interval(&l))
	case WARMUP:
		// Max + t/S, the interval S being rounded up.
		n := big.NewInt(length / interval(&l))
		return n.Add(n, big.NewInt(l.Max))
	case LOG:
		// Max·(⌊t/Period⌋ + 1)
		n := big.NewInt(length/l.Period + 1)
		return n.Mul(n, big.NewInt(l.Max))
	}
	panic("no promise is written down for " + l.Algorithm.String())
}

// timesWindows returns n times the largest number of windows of a length that a time can touch.
func timesWindows(n, time, window int64) *big.Int {
	touched := big.NewInt(1)
	if time > 0 {
		touched.SetInt64(2 + (time-1)/window)
	}
	return touched.Mul(touched, big.NewInt(n))
}

// shortest returns the length of the shortest window of l in someZones.
func shortest(l Limit) int64 {
	const hour = 3600e9
	switch l.Calendar {
	case NoUnit:
		return l.Period
	case Second, Minute:
		return span(l)
	case Hour:
		return hour / 2
	case Month:
		return 28*24*hour - hour
	case Quarter:
		return 90*24*hour - hour
	}
	return span(l) - hour
}

// A denial, a peek and an error change nothing; Peek answers as Take does. Only an
// admission has a next state, or a denial that counts or is made by another limit
// than the last one.
func TestContractChangesNothing(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawLimit(t, a)
		state, now := drawKey(t, l)
		changed := rapid.Bool().Draw(t, "extreme")
		if changed {
			l, now = drawAny(t, a), anyInt64().Draw(t, "now")
		}
		cost := rapid.OneOf(rapid.Int64Range(0, 60), anyInt64()).Draw(t, "cost")
		before, dst := bytes.Clone(state), []byte("12345678")
		told, peekErr := peek(&l, state, now, cost)
		next, d, err := take(&l, state, now, cost, dst)
		if told != d || !errors.Is(err, peekErr) {
			t.Fatalf("Peek: %+v, %v; Take: %+v, %v", told, peekErr, d, err)
		}
		changes := err == nil && cost > 0 && (!d.Limited || l.CountDenied && l.Max > 0)
		if moves := changed && err == nil && d.Wait >= 0; changes != (next != nil) && !moves {
			t.Fatalf("%+v, %v: next state %x", d, err, next)
		}
		if next == nil && (!bytes.Equal(state, before) || string(dst) != "12345678") {
			t.Fatalf("%+v, %v: changed %x to %x and dst to %q", d, err, before, state, dst)
		}
		if err != nil && d != (Decision{}) {
			t.Fatalf("%v comes with %+v", err, d)
		}
	})
}

// The same request succeeds after Wait and not 1 ns before. Until then Wait
// counts down and never grows. If denials count, Wait includes this denial, and a
// later one begins afresh.
func TestContractWaitIsExact(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawLimit(t, a)
		state, now := drawKey(t, l)
		cost := rapid.Int64Range(0, most(t, l)+1).Draw(t, "cost")
		d := mustPeek(t, l, state, now, cost)
		if !d.Limited {
			if queued := l.Algorithm == QUEUE && d.Wait > 0 && d.Wait == d.Reset-cost*interval(&l); d.Wait != Never && !queued {
				t.Fatalf("not limited, and wait %d", d.Wait)
			}
			return
		}
		if d.Wait == Never {
			if l.Max > 0 && cost <= most(t, l) {
				t.Fatalf("cost %d of %v: never", cost, l)
			}
			for _, later := range []int64{1, span(l), d.Reset, 1e18} {
				if d := mustPeek(t, l, state, now+later, cost); !d.Limited || d.Wait != Never {
					t.Fatalf("never, and %d ns later %+v", later, d)
				}
			}
			return
		}
		if d.Wait < 1 {
			t.Fatalf("limited, and wait %d", d.Wait)
		}
		if l.CountDenied {
			if next, _, err := take(&l, state, now, cost, nil); err != nil {
				t.Fatal(err)
			} else if next != nil {
				state = next
			}
		}
		if at := mustPeek(t, l, state, now+d.Wait, cost); at.Limited {
			t.Fatalf("%+v, and then %+v", d, at)
		}
		if before := mustPeek(t, l, state, now+d.Wait-1, cost); !before.Limited || before.Wait != 1 && !l.CountDenied {
			t.Fatalf("%+v, and 1 ns before %+v", d, before)
		}
		if l.CountDenied {
			return
		}
		later := rapid.Int64Range(0, d.Wait-1).Draw(t, "later")
		if between := mustPeek(t, l, state, now+later, cost); between.Wait > d.Wait {
			t.Fatalf("%+v, and %d ns later %+v", d, later, between)
		}
	})
}

func mustPeek(t rapid.TB, l Limit, state []byte, now, cost int64) Decision {
	t.Helper()
	d, err := peek(&l, state, now, cost)
	if err != nil {
		t.Fatalf("%v at %d, cost %d: %v", l, now, cost, err)
	}
	return d
}

// Remaining is what can be taken, and no more. With WARMUP it is all that can be
// taken at once, or nothing while something is owed.
func TestContractRemaining(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawLimit(t, a)
		state, now := drawKey(t, l)
		d := mustPeek(t, l, state, now, 1)
		left := d.Remaining
		if a == WARMUP {
			left = mustPeek(t, l, state, now, 0).Remaining
		} else if !d.Limited {
			left++
		}
		if left > 0 && mustPeek(t, l, state, now, left).Limited {
			t.Fatalf("%+v, and %d are denied", d, left)
		}
		if !mustPeek(t, l, state, now, left+1).Limited {
			t.Fatalf("%+v, and %d go", d, left+1)
		}
	})
}

// A clock that goes back never gives anything.
func TestContractClockBack(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawLimit(t, a)
		state, now := drawKey(t, l)
		cost := rapid.Int64Range(0, most(t, l)+1).Draw(t, "cost")
		back := rapid.Int64Range(0, 2*span(l)).Draw(t, "back")
		d, earlier := mustPeek(t, l, state, now, cost), mustPeek(t, l, state, now-back, cost)
		if d.Limited && !earlier.Limited {
			t.Fatalf("at %d %+v, and %d ns before %+v", now, d, back, earlier)
		}
		d, earlier = mustPeek(t, l, state, now, 0), mustPeek(t, l, state, now-back, 0)
		if d.Remaining < earlier.Remaining {
			t.Fatalf("at %d %+v, and %d ns before %+v", now, d, back, earlier)
		}
	})
}

// A refund gives back no more than was taken, and never fills above full.
func TestContractRefund(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawLimit(t, a)
		state, now := drawKey(t, l)
		cost := rapid.Int64Range(0, most(t, l)+9).Draw(t, "cost")
		before := mustPeek(t, l, state, now, 0)
		fresh := mustPeek(t, l, nil, now, 0)
		next, d, err := refund(&l, state, now, cost, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d.Limited || d.Wait != Never {
			t.Fatalf("a refund is limited: %+v", d)
		}
		tooMuch := d.Remaining > fresh.Remaining || a != WARMUP && d.Remaining > before.Remaining+cost
		if tooMuch || d.Remaining < before.Remaining {
			t.Fatalf("refund of %d: %+v, before %+v", cost, d, before)
		}
		if next == nil {
			if after := mustPeek(t, l, state, now, 0); after != before {
				t.Fatalf("the refund changed %+v to %+v in place", before, after)
			}
			return
		}
		if cost == 0 || before.Reset == 0 {
			t.Fatalf("refund of %d changed what was %+v", cost, before)
		}
		if after := mustPeek(t, l, next, now, 0); after.Remaining != d.Remaining || after.Reset != d.Reset {
			t.Fatalf("the refund told %+v, and left %+v", d, after)
		}
		// As much as comes by itself until Reset, and more, is back to full; where
		// denied requests are counted, or something has been used that was stored,
		// that may be anything.
		all := 1 + promised(l, d.Reset).Int64()
		if l.CountDenied || a == WARMUP {
			all = math.MaxInt64
		}
		full, d, err := refund(&l, next, now, all, nil)
		if err != nil || d.Remaining != fresh.Remaining || d.Reset != 0 {
			t.Fatalf("refund of everything: %+v, %v", d, err)
		}
		if full != nil && Expires(a.Kind(), full) > now {
			t.Fatalf("full, and not forgotten before %d", Expires(a.Kind(), full)-now)
		}
	})
}

// What Take gives, Refund takes back.
func TestContractRefundUndoesTake(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawLimit(t, a)
		state, now := drawKey(t, l)
		cost := rapid.Int64Range(1, max(1, most(t, l))).Draw(t, "cost")
		before := mustPeek(t, l, state, now, 0)
		next, d, err := take(&l, state, now, cost, nil)
		if err != nil || d.Limited {
			return
		}
		before.Wait = Never // also that of a queue that does not move
		if _, d, err = refund(&l, next, now, cost, nil); err != nil || d != before {
			t.Fatalf("before %+v, after both %+v, %v", before, d, err)
		}
	})
}

// From Expires on, and not before, a state behaves like no state. Reset says when
// that is.
func TestContractExpires(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawLimit(t, a)
		state, now := drawKey(t, l)
		if state == nil {
			return
		}
		expires := Expires(a.Kind(), state)
		if d := mustPeek(t, l, state, now, 0); d.Reset != max(0, expires-now) {
			t.Fatalf("reset in %d, expires in %d", d.Reset, expires-now)
		}
		if d := mustPeek(t, l, state, expires-1, 0); d.Reset != 1 {
			t.Fatalf("1 ns before it expires: %+v", d)
		}
		later := expires + rapid.Int64Range(0, span(l)).Draw(t, "later")
		cost := rapid.Int64Range(0, most(t, l)+1).Draw(t, "cost")
		next, d, err := take(&l, state, later, cost, nil)
		wantNext, want, wantErr := take(&l, nil, later, cost, nil)
		if !bytes.Equal(next, wantNext) || d != want || err != nil || wantErr != nil {
			t.Fatalf("expired: %x, %+v, %v\n  none: %x, %+v, %v", next, d, err, wantNext, want, wantErr)
		}
	})
}

// A cost above the limit is denied for ever, however large it is. A refund of more than is in use makes the limit full, however
// large it is.
func TestContractHugeCosts(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawLimit(t, a)
		l.CountDenied = false
		state, now := drawKey(t, l)
		huge := rapid.OneOf(rapid.Just(int64(math.MaxInt64)), rapid.Int64Range(most(t, l)+1, math.MaxInt64)).Draw(t, "cost")
		next, d, err := take(&l, state, now, huge, nil)
		if err != nil || !d.Limited || d.Wait != Never || next != nil {
			t.Fatalf("take %d: %v, %+v, %v", huge, next, d, err)
		}
		all, full, err := refund(&l, state, now, 10_000, nil)
		if err != nil {
			t.Fatal(err)
		}
		if next, d, err = refund(&l, state, now, math.MaxInt64, nil); err != nil || d != full || !bytes.Equal(next, all) {
			t.Fatalf("refund: %v, %+v, %v; want %v, %+v", next, d, err, all, full)
		}
	})
}
