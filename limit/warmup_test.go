package limit

import (
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// With 2 a second and 4 s to warm up, the stable interval is 500 ms, the
// threshold 4 s/1 s = 4 permits, the most 4 + 8 s/(0.5 s + 1.5 s) = 8, and each
// permit above the threshold is dearer by (1.5 s − 0.5 s)/4 = 250 ms. So the
// first, from 8 to 7, costs (1500 + 1250)/2 = 1375 ms, and the next ones 1125,
// 875, 625, 500, 500, …, as in Guava's own test with these numbers. To be cold
// again takes 4 s, or 500 ms for each permit.
func TestWarmUpSteps(t *testing.T) {
	tests := []struct {
		name  string
		limit string
		steps []step
	}{
		{
			"Guava's", "WARMUP 2/s WARM 4s",
			[]step{
				{0, 1, false, 0, Never, 1375 + 500},
				{0, 1, true, 0, 1375, 1375 + 500},
				{0, 2, true, 0, 1375, 1375 + 500},
				{0, 0, true, 0, 1375, 1375 + 500},
				{1374, 1, true, 0, 1, 1 + 500},
				{1375, 0, false, 2, Never, 500},
				{1375, 1, false, 0, Never, 1125 + 1000},
				{2500, 1, false, 0, Never, 875 + 1500},
				{3375, 1, false, 0, Never, 625 + 2000},
				{4000, 1, false, 0, Never, 500 + 2500},
				{4500, 1, false, 0, Never, 500 + 3000},
				{5000, 1, false, 0, Never, 500 + 3500},
				{5500, 1, false, 0, Never, 500 + 4000},
				{6000, 1, false, 0, Never, 500 + 4000}, // nothing is stored any more
				{6500, 0, false, 2, Never, 4000},
				{8500, 0, false, 2, Never, 2000},        // 4 permits are stored,
				{8500, 1, false, 0, Never, 500 + 2500},  // that cost no more than others
				{13000, 1, false, 0, Never, 1375 + 500}, // cold again
			},
		},
		{
			"from cold to the threshold in WARM, and in half of that to nothing", "WARMUP 20/10s WARM 4s",
			[]step{
				{0, 4, false, 0, Never, 4000 + 2000},
				{4000, 4, false, 0, Never, 2000 + 4000},
				{6000, 4, false, 0, Never, 2000 + 4000},
				{30_000, 8, false, 0, Never, 6000 + 4000},
				{40_000, 20, false, 0, Never, 6000 + 6000 + 4000},
			},
		},
		{
			"the rate does not matter for what is denied for ever", "WARMUP 5/s",
			[]step{{0, 6, true, 5, Never, 0}, {0, 5, false, 0, Never, 2500}, {100, 6, true, 0, Never, 2400}},
		},
		{
			// COLD 1 is the stable rate from the start; cooling takes two thirds of
			// the stable interval for each permit.
			"no colder", "WARMUP 1/3s WARM 60s COLD 1",
			[]step{
				{0, 1, false, 0, Never, 3000 + 2000},
				{3000, 1, false, 0, Never, 3000 + 4000},
				{8000, 1, false, 0, Never, 3000 + 4000},
			},
		},
		{
			"refund", "WARMUP 20/10s WARM 4s",
			[]step{
				{0, -1, false, 20, Never, 0},
				{0, 5, false, 0, Never, 4500 + 2500},
				{0, -1, false, 0, Never, 4000 + 2000}, // the last one cost 500 ms
				{0, -1, false, 0, Never, 3375 + 1500}, // the one before 625 ms
				{1000, -3, false, 20, Never, 0},
				{1000, 20, false, 0, Never, 12_000 + 4000},
				{1000, -2, false, 0, Never, 11_000 + 4000}, // 12 were taken that had not been stored
				{1000, -10, false, 0, Never, 6000 + 4000},
				{1000, -4, false, 0, Never, 4000 + 2000},
				{1000, -99, false, 20, Never, 0},
				{2000, 5, false, 0, Never, 4500 + 2500},
				{7500, 0, false, 20, Never, 1500},
				{7500, -1, false, 20, Never, 1000}, // it has been paid: one more is stored
				{7500, -9, false, 20, Never, 0},
			},
		},
		{
			"the clock goes back", "WARMUP 2/s WARM 4s",
			[]step{
				{5000, 1, false, 0, Never, 1375 + 500},
				{0, 1, true, 0, 6375, 6375 + 500},
				{6375, 1, false, 0, Never, 1125 + 1000},
			},
		},
		{
			"limit 0 denies everything", "WARMUP 0/s",
			[]step{{0, 1, true, 0, Never, 0}, {0, 0, true, 0, Never, 0}, {0, -1, false, 0, Never, 0}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { run(t, mustParse(t, tt.limit), tt.steps) })
	}
}

// The prices of one permit after the other from cold on, in ns: rounded up, and
// with the heat before it in whole ns.
func TestWarmUpPrices(t *testing.T) {
	tests := []struct {
		limit string
		want  []int64
	}{
		{"WARMUP 2/s WARM 4s", []int64{1375e6, 1125e6, 875e6, 625e6, 500e6, 500e6}},
		// Interval 200 ms, cold 2 s; the threshold is 10 permits, the most 10 + 8/2.2,
		// the slope 1.8/(8/2.2) = 0.495 s: 2 − 0.2475, 0.495 less each time; of the
		// fourth 7/11 are above the threshold. Cooling takes 293 333 333⅓ ns.
		{"WARMUP 5/s WARM 4s COLD 10", []int64{1_752_500_000, 1_257_500_001, 762_500_002, 300_227_274, 200e6, 200e6}},
		{"WARMUP 4/s WARM 4s", []int64{718_750_000, 656_250_000, 593_750_000, 531_250_000, 468_750_000, 406_250_000, 343_750_000, 281_250_000, 250e6}},
		{"WARMUP 3/s WARM 1ns", []int64{333_333_335, 333_333_334}},
		{"WARMUP 1000000000/s WARM 1s COLD 2", []int64{2, 2, 2}},
	}
	for _, tt := range tests {
		l := mustParse(t, tt.limit)
		var state []byte
		now := int64(1.7e18)
		for i, want := range tt.want {
			next, d, err := take(&l, state, now, 1, nil)
			if err != nil || d.Limited {
				t.Fatal(d, err)
			}
			if d, err = peek(&l, next, now, 1); err != nil || d.Wait != want {
				t.Fatalf("%s: permit %d costs %d, want %d (%v)", tt.limit, i, d.Wait, want, err)
			}
			state, now = next, now+want
		}
	}
}

// When the rate changes, Guava converts the stored permits in proportion. So does
// WARMUP, whose heat stays as it is. These are the numbers of its own test.
func TestWarmUpRateChanges(t *testing.T) {
	const ms = int64(time.Millisecond)
	slow, fast := mustParse(t, "WARMUP 2/s WARM 4s"), mustParse(t, "WARMUP 4/s WARM 4s")
	var state []byte
	now := int64(1.7e18)
	for i, step := range []struct {
		l    Limit
		wait int64 // until the next may go
	}{
		{slow, 1375 * ms},
		{slow, 1125 * ms},
		{slow, 875 * ms},
		{fast, 343_750_000},
		{fast, 281_250_000},
		{fast, 250 * ms},
		{fast, 250 * ms},
	} {
		next, d, err := take(&step.l, state, now, 1, nil)
		if err != nil || d.Limited {
			t.Fatal(i, d, err)
		}
		if d, err = peek(&step.l, next, now, 1); err != nil || d.Wait != step.wait {
			t.Fatalf("step %d: %+v, %v, want to wait %d", i, d, err, step.wait)
		}
		state, now = next, now+step.wait
	}
	// With a shorter Warm no more than that is left of the heat, but it goes only
	// when the state expires.
	ends := Expires(WARMUP.Kind(), state) - now
	if ends <= 1000*ms {
		t.Fatalf("it is cold in %d", ends)
	}
	short := mustParse(t, "WARMUP 4/s WARM 1s")
	for _, later := range []int64{0, ms, ends - ms} {
		if d, err := peek(&short, state, now+later, 0); err != nil || d.Reset != ends-later {
			t.Errorf("a shorter Warm, %d later: %+v, %v, want a reset in %d", later, d, err, ends-later)
		}
	}
	if _, d, err := take(&short, state, now, 1, nil); err != nil || d.Limited || d.Reset != 1250*ms {
		t.Errorf("taken under a shorter Warm: %+v, %v", d, err)
	}
	shut := mustParse(t, "WARMUP 0/s WARM 1s")
	if d, err := peek(&shut, state, now-ms, 1); err != nil || d != (Decision{true, 0, 0, Never, ends + ms}) {
		t.Errorf("under limit 0: %+v, %v", d, err)
	}
	if next, d, err := refund(&shut, state, now-ms, 1, nil); next != nil || err != nil || d.Reset != ends+ms {
		t.Errorf("refund under limit 0: %x, %+v, %v", next, d, err)
	}
}

// After the first denial under a faster limit, the debt comes back at its pace, and the
// key stays warm. Under a slower limit the debt keeps its pace.
func TestWarmUpPaceChanges(t *testing.T) {
	const ms = int64(time.Millisecond)
	minute, second, hour := mustParse(t, "WARMUP 60/m COLD 1 WARM 10m"), mustParse(t, "WARMUP 10/s COLD 1 WARM 1s"), mustParse(t, "WARMUP 60/h COLD 1")
	now := int64(1.7e18)
	state, _, err := take(&minute, nil, now, 60, nil)
	if err != nil {
		t.Fatal(err)
	}
	ends := Expires(WARMUP.Kind(), state) - now
	if next, d, err := take(&hour, state, now, 1, nil); next != nil || err != nil || d != (Decision{true, 60, 0, 60_000 * ms, ends}) {
		t.Errorf("under a slower limit: %x, %+v, %v", next, d, err)
	}
	// A peek at a reservation moves no debt: its wait is that of the debt at the old pace.
	if next, d, err := reserve(&second, state, now, 0, 3000*ms, nil); next != nil || err != nil || d != (Decision{true, 10, 0, 30_000 * ms, ends}) {
		t.Errorf("a peek at a reservation: %x, %+v, %v", next, d, err)
	}
	for range 2 { // the second denial changes nothing
		next, d, err := take(&second, state, now, 1, nil)
		if err != nil || d != (Decision{true, 10, 0, 6000 * ms, ends - 54_000*ms}) {
			t.Errorf("under a faster limit: %+v, %v", d, err)
		}
		if next != nil {
			state = next
		}
	}
	if d := mustPeek(t, minute, state, now, 1); d != (Decision{true, 60, 0, 6000 * ms, ends - 54_000*ms}) {
		t.Errorf("after its denial: %+v", d)
	}
	// In advance, the debt is worth as many permits as before.
	for _, tt := range []struct {
		l             Limit
		maxWait, wait int64
		limited       bool
	}{
		{minute, -1, 60_000 * ms, false},
		{minute, 59_999 * ms, 6000*ms - 5999_900_000, true},
		{second, 6000 * ms, 6000 * ms, false},
		{second, 5999 * ms, ms, true},
		{hour, -1, 3_600_000 * ms, false},
		{hour, 60_000 * ms, 5900 * ms, true}, // until 100 ms are owed
	} {
		if _, d, err := reserve(&tt.l, state, now, 1, tt.maxWait, nil); err != nil || d.Wait != tt.wait || d.Limited != tt.limited {
			t.Errorf("%v, reserved within %d: %+v, %v, want %d", tt.l, tt.maxWait, d, err, tt.wait)
		}
	}
	// A state without a debt does not say at which pace. If the clock has run backwards since, it is that of the call.
	old := binary.AppendUvarint(binary.LittleEndian.AppendUint64(nil, uint64(now+6000*ms)), uint64(1000*ms))
	for _, l := range []Limit{minute, second, hour} {
		if next, d, err := take(&l, old, now, 1, nil); next != nil || err != nil || d != (Decision{true, l.Max, 0, 5000 * ms, 6000 * ms}) {
			t.Errorf("%v, a state without a pace: %x, %+v, %v", l, next, d, err)
		}
	}
}

// In advance: each request goes when those before it have been paid.
func TestWarmUpReserve(t *testing.T) {
	const ms = int64(time.Millisecond)
	l := mustParse(t, "WARMUP 2/s WARM 4s")
	var state []byte
	for i, s := range []struct {
		now, cost, maxWait int64 // ms
		want               Decision
	}{
		{0, 1, -1, Decision{false, 2, 0, Never, 1875}},
		{0, 9, -1, Decision{false, 2, 0, 1375, 7000 + 4000}}, // more than the limit: 1125 + 875 + 625 + 6·500 ms
		{0, 1, 6999, Decision{true, 2, 0, 1, 7000 + 4000}},
		{0, 0, 7000, Decision{false, 2, 0, 7000, 7000 + 4000}},
		{0, 1, 7000, Decision{false, 2, 0, 7000, 7500 + 4000}},
		{7500, 0, 0, Decision{false, 2, 2, Never, 4000}},
		{11_500, 4, 0, Decision{false, 2, 0, Never, 4000 + 2000}},
	} {
		next, d, err := reserve(&l, state, s.now*ms, s.cost, s.maxWait*ms, nil)
		s.want.Reset *= ms
		if s.want.Wait != Never {
			s.want.Wait *= ms
		}
		if err != nil || d != s.want {
			t.Fatalf("step %d: %+v, %v, want %+v", i, d, err, s.want)
		}
		if next != nil {
			state = next
		}
	}
}

// What is taken at once costs what it costs one by one, but for rounding; and
// never less than at the stable rate, nor more than COLD times as much.
func TestWarmUpAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t, WARMUP)
		l.Max = max(1, l.Max)
		l.Cold = rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, MaxCold)).Draw(t, "cold")
		heat := rapid.Int64Range(0, l.Warm).Draw(t, "heat")
		costs := rapid.SliceOfN(rapid.Int64Range(1, 20), 1, 20).Draw(t, "costs")
		w := warmth{heat: heat}
		sum := int64(0)
		for _, cost := range costs {
			after := w
			if !after.take(&l, interval(&l), cost) {
				t.Fatalf("%+v: %d do not fit", w, cost)
			}
			price := after.owed - w.owed
			if q := cost * interval(&l); price < q || price > l.Cold*q {
				t.Fatalf("%d cost %d, %d at the stable rate", cost, price, q)
			}
			sum += cost
			w = after
		}
		at := warmth{heat: heat}
		ok := at.take(&l, interval(&l), sum)
		// Each step rounds its price up, and its heat down by less than 1 ns: then the
		// next ones, COLD·S/2 of cooling at the most, cost a little more.
		slack := int64(len(costs)) * (2 + l.Cold)
		if !ok || w.owed < at.owed || w.owed > at.owed+slack {
			t.Fatalf("%v one by one cost %d, at once %d", costs, w.owed, at.owed)
		}
	})
}

// The area is that of the model's fractions, for any numbers that fit.
func TestWarmUpArea(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{
			Algorithm: WARMUP, Max: 1,
			Period: rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, 1e15), rapid.Int64Min(1)).Draw(t, "period"),
			Warm:   rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, 1e15), rapid.Int64Range(1, maxWarm)).Draw(t, "warm"),
			Cold:   rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, MaxCold)).Draw(t, "cold"),
		}
		heat := rapid.Int64Range(0, l.Warm).Draw(t, "heat")
		v, err := new(warmModel).view(l, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := v.price(big.NewInt(heat), 1)
		if got, ok := l.area(heat, l.Period); ok != want.IsInt64() || ok && got != want.Int64() {
			t.Fatalf("%d, %t, want %v", got, ok, want)
		}
		want = v.heats(1)
		if got, ok := l.heats(l.Period); ok != want.IsInt64() || ok && got != want.Int64() {
			t.Fatalf("heats by %d, %t, want %v", got, ok, want)
		}
	})
}

// The carries from word to word, with numbers that have them.
func TestWarmUpAreaCarries(t *testing.T) {
	for _, tt := range []struct{ f, a, warm int64 }{
		{1000, 583_629_154_438_714_900, 145_907_288_609_678_726},
		{3, 4_729_857_909_465_009_761, 1_212_764_472_382_572_610},
		{2, 4_782_277_476_566_996_248, 1_239_794_826_203_219_203},
		{2, 4, 1},
	} {
		n := new(big.Int).Mul(big.NewInt(tt.a), big.NewInt(tt.a))
		n.Mul(n, big.NewInt(tt.f-1))
		want := ceil(n, new(big.Int).Mul(big.NewInt(16*(tt.f+1)), big.NewInt(tt.warm)))
		if got := overThreshold(uint64(tt.f), uint64(tt.a), uint64(tt.warm)); got != want.Uint64() {
			t.Errorf("%+v: %d, want %d", tt, got, want)
		}
	}
}

func TestWarmUpErrors(t *testing.T) {
	good := mustParse(t, "WARMUP 5/s")
	with := func(change func(l *Limit)) Limit {
		l := good
		change(&l)
		return l
	}
	const most, least = math.MaxInt64, math.MinInt64
	state, _, err := take(&good, nil, 0, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name      string
		limit     Limit
		state     []byte
		now, cost int64
		want      error
	}{
		{"negative limit", with(func(l *Limit) { l.Max = -1 }), nil, 0, 1, ErrMax},
		{"no period", with(func(l *Limit) { l.Period = 0 }), nil, 0, 1, ErrPeriod},
		{"no warm-up", with(func(l *Limit) { l.Warm = 0 }), nil, 0, 1, ErrWarm},
		{"negative warm-up", with(func(l *Limit) { l.Warm = least }), nil, 0, 1, ErrWarm},
		{"too long a warm-up", with(func(l *Limit) { l.Warm = maxWarm + 1 }), nil, 0, 1, ErrOverflow},
		{"cold 0", with(func(l *Limit) { l.Cold = 0 }), nil, 0, 1, ErrCold},
		{"too cold", with(func(l *Limit) { l.Cold = MaxCold + 1 }), nil, 0, 1, ErrCold},
		{"negative cost", good, nil, 0, -1, ErrCost},
		{"short state", good, []byte{1}, 0, 1, ErrState},
		{"half a heat", good, append(stateAt(5), 0x80), 0, 1, ErrState},
		{"more than a state", good, append(stateAt(5), 1, 1, 1, 1, 1), 0, 1, ErrState},
		{"too much heat", good, append(stateAt(5), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), 0, 1, ErrState},
		{"heat from before time", good, append(stateAt(least+1), 2), least, 1, ErrState},
		{"more heat than fits", good, binary.AppendUvarint(binary.AppendUvarint(stateAt(1<<62), 1<<62), most), -1, 1, ErrState},
		{"the end of time", good, nil, most, 1, ErrOverflow},
		{"a state too far ahead", good, state, least, 1, ErrOverflow},
		{"a period too long", with(func(l *Limit) { l.Max, l.Burst, l.Period = 1, 1, most }), nil, 1, 1, ErrOverflow},
	}
	for _, tt := range tests {
		dst := []byte("unharmed")
		next, d, err := take(&tt.limit, tt.state, tt.now, tt.cost, dst)
		if !errors.Is(err, tt.want) || next != nil || d != (Decision{}) || string(dst) != "unharmed" {
			t.Errorf("%s: Take: %v, %+v, %v (dst %q), want %v", tt.name, next, d, err, dst, tt.want)
		}
		if d, err := peek(&tt.limit, tt.state, tt.now, tt.cost); !errors.Is(err, tt.want) || d != (Decision{}) {
			t.Errorf("%s: Peek: %+v, %v, want %v", tt.name, d, err, tt.want)
		}
	}
	// Three times 2⁶¹ ns at nearly twice the heat: the time fits, the heat does not.
	hot := with(func(l *Limit) { l.Max, l.Burst, l.Period, l.Cold = 1, 1, 1<<61, MaxCold })
	state = nil
	for i, want := range []error{nil, nil, ErrOverflow} {
		next, _, err := reserve(&hot, state, 0, 1, -1, nil)
		if !errors.Is(err, want) {
			t.Fatalf("request %d in advance: %v, want %v", i, err, want)
		}
		state = next
	}
	// What is not granted costs nothing, so it fits.
	state, _, err = take(&good, nil, 0, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := peek(&good, state, 0, most); err != nil || !d.Limited || d.Wait != Never {
		t.Errorf("the largest cost: %+v, %v", d, err)
	}
	if _, _, err := reserve(&good, state, 0, most, -1, nil); !errors.Is(err, ErrOverflow) {
		t.Errorf("the largest cost, in advance: %v", err)
	}
}

func TestWarmUpSize(t *testing.T) {
	l := mustParse(t, "WARMUP 100/m")
	state, longest := []byte(nil), 0
	now := int64(1.7e18)
	for range 1000 {
		d, err := peek(&l, state, now, 1)
		if err != nil {
			t.Fatal(err)
		}
		now += max(0, d.Wait)
		next, _, err := take(&l, state, now, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		state, longest = next, max(longest, len(next))
	}
	if longest > 25 {
		t.Errorf("%d bytes", longest)
	}
}
