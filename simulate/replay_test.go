package simulate

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"limitdb/limit"
)

// samples returns limits of every algorithm, with options.
func samples(t testing.TB) (limits []limit.Limit) {
	t.Helper()
	swept, err := Sweep("1,3,20/s", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"gcra 5/2s burst 2", "gcra 0/s", "token 3/s burst 5 interval", "fixed 3/s first", "fixed 3/s countdenied",
		"fixed 20 calendar minute", "log 3/s countdenied",
		"sliding 3/s countdenied", "segmented 5/s segments 4 countdenied", "warmup 5/s warm 3s cold 5",
	} {
		l, err := limit.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		swept = append(swept, l)
	}
	return swept
}

// naive computes an Outcome in another way: it keeps every admission and every wait, and adds up everything
// again each time.
func naive(l limit.Limit, requests []Request) Outcome {
	type entry struct{ at, cost int64 }
	o := Outcome{Limit: l.String(), Window: periodOf(&l)}
	states := map[string][]byte{}
	admitted := map[string][]entry{}
	asked, denied := map[string]uint64{}, map[string]uint64{}
	var waits, delays []int64
	now := requests[0].Time
	for _, r := range requests {
		key := string(r.Key)
		asked[key]++
		now = max(now, r.Time)
		var d limit.Decision
		next, err := limit.Take(&l, slices.Clone(states[key]), now, r.Cost, nil, &d)
		switch {
		case err != nil:
			o.Errors++
			o.Error = cmp.Or(o.Error, err.Error())
			continue
		case d.Limited:
			if o.Denied++; d.Wait == limit.Never {
				o.Never++
			} else {
				waits = append(waits, d.Wait)
			}
			o.DeniedCost += uint64(r.Cost)
			denied[key]++
		default:
			at := now
			if d.Wait > 0 {
				delays = append(delays, d.Wait)
				at += d.Wait
			}
			if r.Cost == 0 {
				break
			}
			admitted[key] = append(admitted[key], entry{at, r.Cost})
			sum := uint64(0)
			for _, e := range admitted[key] {
				if e.at > at-o.Window {
					sum += uint64(e.cost)
				}
			}
			if sum > o.Peak {
				o.Peak, o.PeakBy, o.PeakAt = sum, key, timeAt(at)
			}
		}
		if next != nil {
			states[key] = slices.Clone(next)
		}
	}
	o.DeniedShare = float64(o.Denied) / float64(len(requests))
	o.Callers = uint64(len(denied))
	o.CallersShare = float64(o.Callers) / float64(len(asked))
	o.Wait, o.Delay = naiveTimes(waits), naiveTimes(delays)
	for key, n := range denied {
		o.Top = append(o.Top, Caller{key, asked[key], n})
	}
	slices.SortFunc(o.Top, func(a, b Caller) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), strings.Compare(a.Caller, b.Caller))
	})
	o.Top = o.Top[:min(len(o.Top), MaxTop)]
	return o
}

func naiveTimes(list []int64) (t Times) {
	if len(list) == 0 {
		return t
	}
	slices.Sort(list)
	worst := list[len(list)-1]
	return Times{
		Count: uint64(len(list)), Worst: worst,
		Median: roundUp3(list[(len(list)*50+99)/100-1], worst),
		P90:    roundUp3(list[(len(list)*90+99)/100-1], worst),
	}
}

func TestReplayAgainstNaive(t *testing.T) {
	limits := samples(t)
	rapid.Check(t, func(t *rapid.T) {
		callers := rapid.IntRange(1, 20).Draw(t, "callers")
		now := int64(1.7e18)
		requests := make([]Request, rapid.IntRange(1, 300).Draw(t, "requests"))
		for i := range requests {
			now += rapid.Int64Range(-5e7, 3e8).Draw(t, "step") * rapid.SampledFrom([]int64{0, 0, 1, 1, 10}).Draw(t, "times")
			requests[i] = Request{Time: now, Key: fmt.Appendf(nil, "caller %d", rapid.IntRange(1, callers).Draw(t, "caller")), Cost: 1}
			if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
				requests[i].Cost = rapid.SampledFrom([]int64{0, 2, 3, 21, math.MaxInt64}).Draw(t, "cost")
			}
		}
		r, err := NewReplay(limits)
		if err != nil {
			t.Fatal(err)
		}
		for i := range requests {
			r.Add(&requests[i])
			if i%16 == 0 { // release memory far more often than usual
				for _, l := range r.lanes {
					l.sweep(r.now)
				}
			}
		}
		res := r.Result()
		for i, l := range limits {
			want := naive(l, requests)
			if got := res.Limits[i]; describe(got) != describe(want) {
				t.Fatalf("%s\ngot  %s\nwant %s", l, describe(got), describe(want))
			}
		}
		late, by := naiveLate(requests)
		if res.Late != late || res.LateBy != by {
			t.Fatalf("%d late by %d, want %d by %d", res.Late, res.LateBy, late, by)
		}
	})
}

func naiveLate(requests []Request) (late uint64, by int64) {
	latest := requests[0].Time
	for _, r := range requests {
		if r.Time < latest {
			late++
			by = max(by, latest-r.Time)
		}
		latest = max(latest, r.Time)
	}
	return late, by
}

// describe prints the exported fields that a naive Outcome has.
func describe(o Outcome) string {
	o.Wait.curve, o.Delay.curve = nil, nil
	o.algorithm, o.max = "", 0
	if o.Peak == 0 {
		o.PeakAt = timeAt(0)
	}
	return fmt.Sprintf("%+v", o)
}

func TestReplayRefuses(t *testing.T) {
	if _, err := NewReplay(nil); err == nil {
		t.Error("no limits are no error")
	}
	if _, err := NewReplay(make([]limit.Limit, MaxLimits+1)); err == nil {
		t.Error("too many limits are no error")
	}
	if _, err := NewReplay([]limit.Limit{{Algorithm: limit.GCRA, Max: 1}}); err == nil || !strings.Contains(err.Error(), "period") {
		t.Errorf("an invalid limit: %v", err)
	}
}

func TestSweep(t *testing.T) {
	for _, test := range []struct {
		rates      string
		algorithms []string
		want       string
	}{
		{"50,100/m", []string{"gcra"}, "GCRA 50/m|GCRA 100/m"},
		{"1/s, 50,100/m", []string{"gcra burst 7", "GCRA"}, "GCRA 1/s BURST 7|GCRA 50/m BURST 7|GCRA 100/m BURST 7|GCRA 1/s|GCRA 50/m|GCRA 100/m"},
	} {
		limits, err := Sweep(test.rates, test.algorithms)
		var got []string
		for _, l := range limits {
			got = append(got, l.String())
		}
		if strings.Join(got, "|") != test.want || err != nil {
			t.Errorf("%s: %v, %v", test.rates, got, err)
		}
	}
	every, err := Sweep("10/s", nil)
	if err != nil || len(every) != len(limit.Algorithms()) {
		t.Errorf("every algorithm: %v, %v", every, err)
	}
	if _, err := Sweep("100000/m", nil); err != nil {
		t.Errorf("LOG cannot hold that, but was not asked for: %v", err)
	}
	for _, bad := range [][]string{{"50,100"}, {""}, {","}, {"/m"}, {"50,100/m,"}, {"x/m"}, {"5/x"}, {"5/m", "bucket"}, {"5/m", ""}, {"5/m", "gcra burst"}} {
		if limits, err := Sweep(bad[0], bad[1:]); err == nil {
			t.Errorf("%q: %v", bad, limits)
		}
	}
}

// Memory grows with the callers and with what they were admitted in a period, not with the requests.
func TestMemoryIsThatOfCallers(t *testing.T) {
	l, err := limit.Parse("gcra 100/m")
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReplay([]limit.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	const callers, rounds = 20_000, 30
	var key [8]byte
	add := func(from, to int64) {
		for i := from; i < to; i++ {
			copy(key[:], fmt.Sprintf("%08d", i%callers))
			r.Add(&Request{Time: i * 1e6, Key: key[:], Cost: 1})
		}
	}
	add(0, 2*callers)
	before := liveHeap()
	add(2*callers, rounds*callers)
	after := liveHeap()
	each := float64(after) / callers
	t.Logf("%.0f bytes a caller after 2 requests of each, %.0f after %d", float64(before)/callers, each, rounds)
	if after > before+before/5 {
		t.Errorf("%d bytes have become %d", before, after)
	}
	if each > 430 {
		t.Errorf("%.0f bytes a caller", each)
	}
	runtime.KeepAlive(r)
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
