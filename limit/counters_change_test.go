package limit

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// What holds for the counters and WARMUP when the limit changes between the calls
// on one key; see "When a limit changes" in docs/algorithms.md.

// changing runs a property for each algorithm whose rows these are.
func changing(t *testing.T, property func(t *rapid.T, a Algorithm)) {
	t.Helper()
	for _, a := range []Algorithm{FIXED, SLIDING, SEGMENTED, LOG, WARMUP} {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { property(t, a) })
		})
	}
}

// drawLimits draws a few limits of an algorithm with periods of about the same
// length.
func drawLimits(t *rapid.T, a Algorithm) []Limit {
	scale := rapid.SampledFrom([]int64{1, 7, 1000, testSecond, testMinute, 60 * testMinute}).Draw(t, "scale")
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Limit {
		l := Limit{
			Algorithm: a,
			Period:    scale * rapid.OneOf(rapid.Int64Range(1, 12), rapid.SampledFrom([]int64{24, 60})).Draw(t, "period"),
			Burst:     rapid.OneOf(rapid.Int64Range(1, 8), rapid.Int64Range(1, 50)).Draw(t, "most"),
		}
		drawOptions(t, &l)
		l.CountDenied = false
		l.Segments = min(l.Segments, 9)
		if a == WARMUP {
			l.Warm = scale * rapid.Int64Range(1, 12).Draw(t, "warm")
		}
		if l.Calendar > Minute && scale < testMinute {
			l.Calendar = Second
		}
		return l
	}), 1, 4).Draw(t, "limits")
}

// changingKey is a key that is used under limits that change.
type changingKey struct {
	limits []Limit
	state  []byte
	now    int64
}

func drawChangingKey(t *rapid.T, a Algorithm) *changingKey {
	// Near the changes of clocks in March 2026.
	hours := rapid.Int64Range(-30, 5).Draw(t, "hours")
	return &changingKey{limits: drawLimits(t, a), now: (1_774_746_000 + hours*3600) * testSecond}
}

// next lets time pass and draws a limit and a cost.
func (k *changingKey) next(t *rapid.T) (l Limit, cost int64) {
	l = rapid.SampledFrom(k.limits).Draw(t, "limit")
	longest := rapid.SampledFrom([]int64{1, 1, 8, 50}).Draw(t, "often")
	k.now += rapid.Int64Range(0, span(l)/longest).Draw(t, "later")
	cost = rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(1, l.Max)).Draw(t, "cost")
	return l, cost
}

// take asks, and keeps the next state.
func (k *changingKey) take(t *rapid.T, l Limit, cost int64) Decision {
	next, d, err := take(&l, k.state, k.now, cost, nil)
	if err != nil {
		t.Fatal(err)
	}
	if next != nil {
		k.state = next
	}
	return d
}

// promisedTogether returns the most that limits which change may admit in a length of
// time, with the largest Max M.
func promisedTogether(limits []Limit, length int64) *big.Int {
	most, sum, fastest, least := int64(0), new(big.Int), new(big.Int), int64(math.MaxInt64)
	for _, l := range limits {
		most = max(most, l.Max)
		switch l.Algorithm {
		case FIXED: // M + ΣMaxᵢ·(⌊t/Periodᵢ⌋ + 1)
			sum.Add(sum, big.NewInt(l.Max*(length/shortest(l)+1)))
		case SLIDING: // M + t·Max/Period, the fastest
			n := new(big.Int).Mul(big.NewInt(l.Max), big.NewInt(length))
			fastest = larger(fastest, n.Quo(n, big.NewInt(l.Period)))
		case WARMUP: // M + t/S, with the shortest S
			fastest = larger(fastest, big.NewInt(length/interval(&l)))
		case LOG: // ΣMaxᵢ·(⌊t/Periodᵢ⌋ + 1)
			sum.Add(sum, big.NewInt(l.Max*(length/l.Period+1)))
		case SEGMENTED: // M·(⌊t/D⌋ + 1), with the least D = (n−1)·S
			least = min(least, (l.Segments-1)*subWindow(l.Period, l.Segments))
		default:
			panic("no promise is written down for changes of " + l.Algorithm.String())
		}
	}
	if limits[0].Algorithm == LOG {
		most = 0
	}
	n := new(big.Int).Mul(big.NewInt(most), big.NewInt(length/least+1))
	return n.Add(n, sum.Add(sum, fastest))
}

// rounding returns by how much a wait may be longer for a denial of l, since what is
// used is rounded up at each change: in SLIDING, by 1/Period of a unit.
func rounding(l, other Limit) int64 {
	switch l.Algorithm {
	case WARMUP:
		return 1
	case SLIDING:
		return 1 + other.Period/(other.Max*l.Period)
	}
	return 0
}

func larger(a, b *big.Int) *big.Int {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

// In any time no more is admitted than the limits promise together.
func TestChangingLimitsPromise(t *testing.T) {
	changing(t, func(t *rapid.T, a Algorithm) {
		k := drawChangingKey(t, a)
		var log []admission
		for range rapid.IntRange(1, 80).Draw(t, "calls") {
			l, cost := k.next(t)
			if !k.take(t, l, cost).Limited {
				log = append(log, admission{k.now, cost})
			}
		}
		for i := range log {
			sum := int64(0)
			for _, adm := range log[i:] {
				sum += adm.cost
				if most := promisedTogether(k.limits, adm.at-log[i].at); big.NewInt(sum).Cmp(most) > 0 {
					t.Fatalf("%d admitted in %d ns, promised are %v", sum, adm.at-log[i].at, most)
				}
			}
		}
	})
}

// A denial's wait is exact once the denial has been stored, and it harms nobody:
// whatever is asked next is granted if it was before, and waits no longer.
func TestChangingLimitsDenials(t *testing.T) {
	changing(t, func(t *rapid.T, a Algorithm) {
		k := drawChangingKey(t, a)
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			l, cost := k.next(t)
			before := k.state
			d := k.take(t, l, cost)
			if !d.Limited {
				continue
			}
			checkWait(t, l, k.state, k.now, cost)
			if d.Wait != mustPeek(t, l, k.state, k.now, cost).Wait {
				t.Fatalf("told %+v, and then %+v", d, mustPeek(t, l, k.state, k.now, cost))
			}
			other := rapid.SampledFrom(append(drawLimits(t, a), k.limits...)).Draw(t, "other")
			ask := rapid.Int64Range(0, other.Max).Draw(t, "ask")
			at := k.now + rapid.Int64Range(0, d.Wait).Draw(t, "at")
			was, is := mustPeek(t, other, before, at, ask), mustPeek(t, other, k.state, at, ask)
			if was.Wait > 0 {
				was.Wait += rounding(l, other)
			}
			if is.Limited && (!was.Limited || is.Wait > was.Wait) {
				t.Fatalf("%v denied %d at %d; then %v, cost %d at +%d: %+v, and it was %+v",
					l, cost, k.now, other, ask, at-k.now, is, was)
			}
		}
	})
}
