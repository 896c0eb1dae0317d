package limit

import (
	"errors"
	"math"
	"testing"
	"time"
)

// step is one call on a key and what must come of it. Times are in ms.
type step struct {
	at      int64
	cost    int64 // below 0: a refund; from reserved on: a reservation
	limited bool
	remain  int64
	wait    int64 // Never or ms
	reset   int64
}

// reserved marks a step's cost as reserved, whatever the wait.
const reserved = 1 << 32

// run takes the steps on one key, one after the other. Their times are from no
// round number, so that no step is by chance at 0.
func run(t *testing.T, l Limit, steps []step) {
	t.Helper()
	runFrom(t, l, 1_700_000_000_123_456_789, steps)
}

// runFrom is run with times from a given one on.
func runFrom(t *testing.T, l Limit, epoch int64, steps []step) {
	t.Helper()
	var state []byte
	for i, s := range steps {
		now := epoch + s.at*int64(time.Millisecond)
		var next []byte
		var got Decision
		var err error
		switch {
		case s.cost >= reserved:
			next, got, err = reserve(&l, state, now, s.cost-reserved, -1, nil)
		case s.cost >= 0:
			next, got, err = take(&l, state, now, s.cost, nil)
		default:
			next, got, err = refund(&l, state, now, -s.cost, nil)
		}
		if err != nil {
			t.Fatalf("step %d %+v: %v", i, s, err)
		}
		want := Decision{s.limited, l.Burst, s.remain, s.wait, s.reset * int64(time.Millisecond)}
		if l.Algorithm == QUEUE {
			want.Limit++
		}
		if l.Max == 0 {
			want.Limit = 0
		}
		if s.wait != Never {
			want.Wait = s.wait * int64(time.Millisecond)
		}
		if got != want {
			t.Fatalf("step %d %+v:\n got %+v\nwant %+v", i, s, got, want)
		}
		if next != nil {
			state = next
		}
	}
}

func TestGCRASteps(t *testing.T) {
	tests := []struct {
		name  string
		limit string
		steps []step
	}{
		{
			// The steps of redis-cell's own test, which are those of the Go
			// library throttled before it.
			"redis-cell", "GCRA 1/s BURST 5",
			[]step{
				{0, 6, true, 5, Never, 0},
				{0, 1, false, 4, Never, 1000},
				{0, 1, false, 3, Never, 2000},
				{0, 1, false, 2, Never, 3000},
				{0, 1, false, 1, Never, 4000},
				{0, 1, false, 0, Never, 5000},
				{0, 1, true, 0, 1000, 5000},
				{3000, 1, false, 2, Never, 3000},
				{3100, 1, false, 1, Never, 3900},
				{4000, 1, false, 1, Never, 4000},
				{8000, 1, false, 4, Never, 1000},
				{9500, 1, false, 4, Never, 1000},
				{9500, 0, false, 4, Never, 1000},
				{9500, 2, false, 2, Never, 3000},
				{9500, 5, true, 2, 3000, 3000},
			},
		},
		{
			"README", "GCRA 30/m BURST 16",
			[]step{
				{0, 1, false, 15, Never, 2000},
				{0, 15, false, 0, Never, 32000},
				{0, 1, true, 0, 2000, 32000},
				{1999, 1, true, 0, 1, 30001},
				{2000, 1, false, 0, Never, 32000},
			},
		},
		{
			"more than the burst, fresh", "GCRA 30/m BURST 16",
			[]step{{0, 17, true, 16, Never, 0}, {0, 16, false, 0, Never, 32000}},
		},
		{
			"a peek, fresh", "GCRA 30/m BURST 16",
			[]step{{0, 0, false, 16, Never, 0}, {0, 16, false, 0, Never, 32000}},
		},
		{
			"a peek of what is used up", "GCRA 1/s",
			[]step{{0, 1, false, 0, Never, 1000}, {0, 0, false, 0, Never, 1000}, {999, 1, true, 0, 1, 1}},
		},
		{
			"idle for ever fills no further than full", "GCRA 1/s BURST 2",
			[]step{{0, 2, false, 0, Never, 2000}, {1e9, 3, true, 2, Never, 0}, {1e9, 2, false, 0, Never, 2000}},
		},
		{
			"the rest is counted in whole units", "GCRA 1/s BURST 3",
			[]step{{0, 3, false, 0, Never, 3000}, {999, 0, false, 0, Never, 2001}, {1000, 0, false, 1, Never, 2000}},
		},
		{
			"refund", "GCRA 1/s BURST 5",
			[]step{
				{0, -1, false, 5, Never, 0},
				{0, 5, false, 0, Never, 5000},
				{0, -2, false, 2, Never, 3000},
				{500, -1, false, 3, Never, 1500},
				{500, -9, false, 5, Never, 0},
				{500, 6, true, 5, Never, 0},
				{500, 5, false, 0, Never, 5000},
				{9000, -1, false, 5, Never, 0},
			},
		},
		{
			// Ten at once where five are stored, then one: it waits for the five
			// that the ten have borrowed.
			"reserve", "GCRA 1/s BURST 5",
			[]step{
				{0, reserved + 10, false, 0, Never, 10000},
				{0, reserved + 1, false, 0, 5000, 11000},
				{1000, reserved + 0, false, 0, 5000, 10000},
				{1000, 1, true, 0, 6000, 10000},
				{1000, -1, false, 0, Never, 9000},
				{5000, reserved + 1, false, 0, Never, 6000},
				{7000, 1, false, 0, Never, 5000},
			},
		},
		{
			"the clock goes back", "GCRA 1/s BURST 2",
			[]step{
				{5000, 1, false, 1, Never, 1000},
				{0, 1, true, 0, 5000, 6000},
				{0, 0, true, 0, 4000, 6000},
				{5000, 1, false, 0, Never, 2000},
			},
		},
		{
			"limit 0 denies everything", "GCRA 0/s",
			[]step{{0, 1, true, 0, Never, 0}, {0, 0, true, 0, Never, 0}, {0, -1, false, 0, Never, 0}},
		},
		{
			"limit 0 with a burst denies everything", "GCRA 0/s BURST 9",
			[]step{{0, 1, true, 0, Never, 0}, {1e9, 1, true, 0, Never, 0}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { run(t, mustParse(t, tt.limit), tt.steps) })
	}
}

// Each call may name another limit for a key: what was used stays used.
func TestGCRALimitChanges(t *testing.T) {
	const sec = int64(time.Second)
	wide, narrow, shut := mustParse(t, "GCRA 10/s BURST 100"), mustParse(t, "GCRA 1/s BURST 2"), mustParse(t, "GCRA 0/s")
	state, _, err := take(&wide, nil, 0, 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		limit     Limit
		now, cost int64
		want      Decision
	}{
		{narrow, 0, 1, Decision{true, 2, 0, 9*sec + 9*sec/10, 10 * sec}},
		{narrow, 0, 0, Decision{true, 2, 0, 9*sec + 8*sec/10, 10 * sec}},
		{narrow, 9*sec + 9*sec/10, 1, Decision{false, 2, 0, Never, 2 * sec}},
		{wide, 0, 1, Decision{true, 100, 0, sec / 10, 10 * sec}},
		{shut, 4 * sec, 1, Decision{true, 0, 0, Never, 6 * sec}},
	}
	for _, tt := range tests {
		got, err := peek(&tt.limit, state, tt.now, tt.cost)
		if err != nil || got != tt.want {
			t.Errorf("%v at %d, cost %d:\n got %+v, %v\nwant %+v", tt.limit, tt.now, tt.cost, got, err, tt.want)
		}
	}
	if next, d, err := refund(&shut, state, 4*sec, 1, nil); next != nil || d != (Decision{Wait: Never, Reset: 6 * sec}) || err != nil {
		t.Errorf("refund under limit 0: %v, %+v, %v", next, d, err)
	}
}

func TestGCRAReserve(t *testing.T) {
	const sec = int64(time.Second)
	l, shut := mustParse(t, "GCRA 1/s BURST 2"), mustParse(t, "GCRA 0/s")
	owing := stateAt(5 * sec) // 3 s of debt at 0
	tests := []struct {
		name                string
		limit               Limit
		state               []byte
		now, cost, mostWait int64
		want                Decision
		full                int64 // 0: nothing changes
		err                 error
	}{
		{"fresh", l, nil, 0, 1, 0, Decision{false, 2, 1, Never, sec}, sec, nil},
		{"fresh, above the burst", l, nil, 0, 9, 0, Decision{false, 2, 0, Never, 9 * sec}, 9 * sec, nil},
		{"empty, no debt", l, stateAt(2 * sec), 0, 1, 0, Decision{false, 2, 0, Never, 3 * sec}, 3 * sec, nil},
		{"a debt of 1 ns", l, stateAt(2*sec + 1), 0, 1, 1, Decision{false, 2, 0, 1, 3*sec + 1}, 3*sec + 1, nil},
		{"a debt of 1 ns, and no time", l, stateAt(2*sec + 1), 0, 1, 0, Decision{true, 2, 0, 1, 2*sec + 1}, 0, nil},
		{"in debt", l, owing, 0, 1, -1, Decision{false, 2, 0, 3 * sec, 6 * sec}, 6 * sec, nil},
		{"in debt, just long enough", l, owing, 0, 1, 3 * sec, Decision{false, 2, 0, 3 * sec, 6 * sec}, 6 * sec, nil},
		{"in debt, 1 ns too long", l, owing, 0, 1, 3*sec - 1, Decision{true, 2, 0, 1, 5 * sec}, 0, nil},
		{"in debt, a peek", l, owing, 0, 0, -1, Decision{false, 2, 0, 3 * sec, 5 * sec}, 0, nil},
		{"limit 0", shut, owing, 0, 1, -1, Decision{true, 0, 0, Never, 5 * sec}, 0, nil},
		{"a negative cost", l, owing, 0, -1, -1, Decision{}, 0, ErrCost},
		{"a bad state", l, owing[:7], 0, 1, -1, Decision{}, 0, ErrState},
		{"a cost beyond the end of time", l, owing, 0, math.MaxInt64, -1, Decision{}, 0, ErrOverflow},
		{"no period", plain(GCRA, 1, 0, 1), nil, 0, 1, -1, Decision{}, 0, ErrPeriod},
	}
	for _, tt := range tests {
		next, d, err := reserve(&tt.limit, tt.state, tt.now, tt.cost, tt.mostWait, nil)
		full := int64(0)
		if next != nil {
			full = Expires(GCRA.Kind(), next)
		}
		if d != tt.want || full != tt.full || !errors.Is(err, tt.err) {
			t.Errorf("%s:\n got %+v, full at %d, %v\nwant %+v, full at %d, %v", tt.name, d, full, err, tt.want, tt.full, tt.err)
		}
	}
}

// The interval is rounded up, so the rate is never above the one asked for.
func TestGCRAInterval(t *testing.T) {
	const most = math.MaxInt64
	tests := []struct{ max, period, want int64 }{
		{1, 1e9, 1e9},
		{1000, 1e9, 1e6},
		{3, 1e9, 333_333_334},
		{7, 1e9, 142_857_143},
		{999_999_999, 1e9, 2},
		{1_000_000_000, 1e9, 1},
		{1_000_000_001, 1e9, 1},
		{most, 1, 1},
		{most, most, 1},
		{most - 1, most, 2},
		{10, most, most/10 + 1},
	}
	for _, tt := range tests {
		l := plain(GCRA, tt.max, tt.period, 1)
		if got := interval(&l); got != tt.want {
			t.Errorf("%v: interval %d, want %d", l, got, tt.want)
		}
	}
}

func TestGCRAErrors(t *testing.T) {
	good := plain(GCRA, 1, 1e9, 5)
	const most, least = math.MaxInt64, math.MinInt64
	testRefused(t, []refusal{
		{"no algorithm", plain(None, 1, 1, 1), nil, 0, 1, ErrAlgorithm},
		{"unknown algorithm", plain(255, 1, 1, 1), nil, 0, 1, ErrAlgorithm},
		{"negative limit", plain(GCRA, -1, 1, 1), nil, 0, 1, ErrMax},
		{"no period", plain(GCRA, 1, 0, 1), nil, 0, 1, ErrPeriod},
		{"negative period", plain(GCRA, 1, least, 1), nil, 0, 1, ErrPeriod},
		{"no period at limit 0", plain(GCRA, 0, 0, 1), nil, 0, 1, ErrPeriod},
		{"negative burst", plain(GCRA, 1, 1, -1), nil, 0, 1, ErrBurst},
		{"negative cost", good, nil, 0, -1, ErrCost},
		{"least cost", good, nil, 0, least, ErrCost},
		{"short state", good, []byte{1}, 0, 1, ErrState},
		{"long state", good, make([]byte, 9), 0, 1, ErrState},
		{"the burst takes too long", plain(GCRA, 1, 1<<32, 1<<31), nil, 0, 1, ErrOverflow},
		{"so does the burst by far", plain(GCRA, 1, most, most), nil, 0, 1, ErrOverflow},
		{"the end of time", good, nil, most, 1, ErrOverflow},
		{"the end of time less 1 ns", good, nil, most - 1e9 + 1, 1, ErrOverflow},
		{"a state too far ahead", good, stateAt(1), least + 1, 1, ErrOverflow},
		{"a state as far as can be", good, stateAt(most), least, 0, ErrOverflow},
	})
}

// Arguments just within the range get exact answers.
func TestGCRAExtremes(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	tests := []struct {
		name      string
		limit     Limit
		state     []byte
		now, cost int64
		want      Decision
	}{
		{"just before the end of time", plain(GCRA, 1, 1e9, 5), nil, most - 1e9, 1, Decision{false, 5, 4, Never, 1e9}},
		{"the longest interval", plain(GCRA, 1, most, 1), nil, 0, 1, Decision{false, 1, 0, Never, most}},
		{"the shortest interval", plain(GCRA, most, 1, most), nil, 0, most, Decision{false, most, 0, Never, most}},
		{"a fresh key before the epoch", plain(GCRA, 1, 1e9, 5), nil, least, 1, Decision{false, 5, 4, Never, 1e9}},
		{"a state as far ahead as fits, and a cost", plain(GCRA, 1, 1e9, 5), stateAt(most), 1, 1, Decision{true, 5, 0, most - 1 - 4e9, most - 1}},
		{"a state as far ahead as fits", plain(GCRA, 1, 1e9, 5), stateAt(most), 0, 0, Decision{true, 5, 0, most - 5e9, most}},
		{"a state long ago", plain(GCRA, 1, 1e9, 5), stateAt(least), most - 1e9, 1, Decision{false, 5, 4, Never, 1e9}},
		{"no burst", plain(GCRA, 1, 1e9, 0), nil, 0, 1, Decision{true, 0, 0, Never, 0}},
	}
	for _, tt := range tests {
		_, got, err := take(&tt.limit, tt.state, tt.now, tt.cost, nil)
		if err != nil || got != tt.want {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", tt.name, got, err, tt.want)
		}
	}
}
