package limit

import (
	"encoding/binary"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestSLIDINGSteps(t *testing.T) {
	tests := []struct {
		name  string
		limit string
		steps []step
	}{
		{
			// The example of Cloudflare's article: 42 in the minute before, 18 in
			// this one of which 15 s have gone: 42·¾ + 18 = 49.5.
			"42 and 18", "SLIDING 50/m",
			[]step{
				{0, 42, false, 8, Never, 120000},
				{60000, 1, false, 7, Never, 120000},
				{75000, 17, false, 0, Never, 105000},
				{75000, 11, true, 0, 15000, 105000}, // 42·½ + 18 + 11 = 50
				{89999, 11, true, 10, 1, 90001},
				{90000, 11, false, 0, Never, 90000},
			},
		},
		{
			"all at once", "SLIDING 4/m",
			[]step{
				{30000, 4, false, 0, Never, 90000},
				{30000, 1, true, 0, 45000, 90000}, // in the next minute, when 4·¾ count
				{60000, 0, false, 0, Never, 60000},
				{60000, 1, true, 0, 15000, 60000},
				{74999, 1, true, 0, 1, 45001},
				{75000, 1, false, 0, Never, 105000},
				{75000, 2, true, 0, 30000, 105000},
				{105000, 2, false, 0, Never, 75000},
				{105000, 4, true, 0, 75000, 75000}, // only when nothing counts
				{179999, 4, true, 3, 1, 1},
				{180000, 4, false, 0, Never, 120000},
			},
		},
		{
			"refund", "SLIDING 4/m",
			[]step{
				{0, -1, false, 4, Never, 0},
				{0, 2, false, 2, Never, 120000},
				{90000, 1, false, 2, Never, 90000},
				{90000, -1, false, 3, Never, 30000}, // as if it had not been
				{90000, 2, false, 1, Never, 90000},
				{90000, -3, false, 3, Never, 30000}, // 2 of this minute, and 1 of the last
				{90000, -9, false, 4, Never, 0},
				{90000, 4, false, 0, Never, 90000},
			},
		},
		{
			"the clock goes back", "SLIDING 4/m",
			[]step{
				{60000, 2, false, 2, Never, 120000},
				{0, 1, false, 1, Never, 180000},
				{0, 2, true, 1, 140000, 180000}, // in the minute after, when 3·⅔ count
				{30000, -1, false, 2, Never, 150000},
				{140000, 2, false, 0, Never, 100000},
			},
		},
		{
			"denied requests are counted", "SLIDING 4/m COUNTDENIED",
			[]step{
				{0, 4, false, 0, Never, 120000},
				{30000, 2, true, 0, 70000, 90000}, // 6·⅓ and 2
				{99999, 2, true, 0, 20001, 80001}, // would have been granted in 1 ms
				{120000, 2, false, 0, Never, 120000},
			},
		},
		{
			"limit 0 denies everything", "SLIDING 0/m",
			[]step{{0, 1, true, 0, Never, 0}, {0, 0, true, 0, Never, 0}, {0, -1, false, 0, Never, 0}},
		},
		{
			"limit 0 counts nothing", "SLIDING 0/m COUNTDENIED",
			[]step{{0, 1, true, 0, Never, 0}, {0, 0, true, 0, Never, 0}},
		},
		{
			"more than the limit", "SLIDING 4/m",
			[]step{{0, 5, true, 4, Never, 0}, {0, 1, false, 3, Never, 120000}, {0, 5, true, 3, Never, 120000}},
		},
		{
			"more than the limit is counted", "SLIDING 4/m COUNTDENIED",
			[]step{{0, 5, true, 0, Never, 120000}, {60000, 1, true, 0, 36000, 120000}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { runFrom(t, mustParse(t, tt.limit), aMinute, tt.steps) })
	}
}

// The promise is kept to the last: Max at the end of a window, and then as many
// more as there is time for.
func TestSLIDINGPromiseIsTight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := plain(SLIDING, rapid.Int64Range(1, 1000).Draw(t, "limit"), rapid.Int64Range(1, 1e6).Draw(t, "period"), 0)
		l.Burst = l.Max
		elapsed := rapid.Int64Range(0, l.Period-1).Draw(t, "elapsed")
		begins := 7 * l.Period
		state, _, err := take(&l, nil, begins-1, l.Max, nil)
		if err != nil {
			t.Fatal(err)
		}
		more := mustPeek(t, l, state, begins+elapsed, 0).Remaining
		if promise := promised(l, elapsed+1); promise.Int64() != l.Max+more {
			t.Fatalf("%v: %d in %d ns, promised are %v", l, l.Max+more, elapsed+1, promise)
		}
	})
}

// Another limit or period keeps what is used.
func TestSLIDINGLimitChanges(t *testing.T) {
	tests := []struct {
		after     string
		remaining int64
		reset     int64
	}{
		{"SLIDING 5/m", 2, 120},
		{"SLIDING 9/m", 6, 120},
		{"SLIDING 2/m", 0, 120},
		{"SLIDING 5/m COUNTDENIED", 2, 120},
		{"SLIDING 5/2m", 2, 120},
		{"SLIDING 2/s", 0, 120},
	}
	before := mustParse(t, "SLIDING 5/m")
	state, _, err := take(&before, nil, aMinute, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		after := mustParse(t, tt.after)
		d, err := peek(&after, state, aMinute, 0)
		if err != nil || d.Remaining != tt.remaining || d.Reset != tt.reset*testSecond {
			t.Errorf("%s: %+v, %v, want %d left, reset in %d s", tt.after, d, err, tt.remaining, tt.reset)
		}
	}
}

// The waits after a change: what was used comes back at the pace of a faster limit.
func TestSLIDINGWaitsAfterAChange(t *testing.T) {
	tests := []struct {
		name   string
		before string
		at     int64 // s
		after  string
		cost   int64
		wait   int64 // s
	}{
		// All of an hour would be back after 59.5 + 60 minutes.
		{"a faster limit", "SLIDING 10/h", 30, "SLIDING 10/m", 1, 6},
		{"all of it", "SLIDING 10/h", 30, "SLIDING 10/m", 10, 60},
		{"with less at once", "SLIDING 10/h", 30, "SLIDING 5/m", 1, 72},
		{"much at once", "SLIDING 1000/h", 30, "SLIDING 20/m", 1, 981 * 3},
		{"sooner than at the end of the hour", "SLIDING 1000/h", 30, "SLIDING 10/m", 10, 6000},
		{"no sooner", "SLIDING 10/m", 30, "SLIDING 20/d", 20, 90},
		{"a slower limit", "SLIDING 10/m", 30, "SLIDING 10/h", 1, 36},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, after := mustParse(t, tt.before), mustParse(t, tt.after)
			now := int64(1_700_000_000)/3600*3600*testSecond + tt.at*testSecond
			state, _, err := take(&before, nil, now, before.Max, nil)
			if err != nil {
				t.Fatal(err)
			}
			next, d, err := take(&after, state, now, tt.cost, nil)
			if err != nil || !d.Limited || d.Wait != tt.wait*testSecond {
				t.Fatalf("%+v, %v, want to wait %d s", d, err, tt.wait)
			}
			if next != nil {
				state = next
			}
			checkWait(t, after, state, now, tt.cost)
			if len(state) > MaxState {
				t.Errorf("%d bytes", len(state))
			}
		})
	}
}

// A denial leaves every later denial as free to move to its own pace as it was.
func TestSLIDINGDenialsInTurn(t *testing.T) {
	type ask struct {
		limit    string
		at, cost int64 // ns
		wait     int64 // Never if it is granted
	}
	tests := []struct {
		name  string
		steps []ask
	}{
		{"one denial", []ask{
			{"SLIDING 4/420ns", 0, 4, Never},
			{"SLIDING 3/70ns", 521, 1, 25},
		}},
		{"with another 1 ns before", []ask{
			{"SLIDING 4/420ns", 0, 4, Never},
			{"SLIDING 4/168ns", 520, 1, 2}, // 3 and 8/168 are used
			{"SLIDING 3/70ns", 521, 1, 24}, // 3 and 4/168
		}},
		{"slower, then faster", []ask{
			{"SLIDING 4/420ns", 0, 4, Never},
			{"SLIDING 4/168ns", 520, 1, 2},
			{"SLIDING 4/400ns", 521, 2, 43},
			{"SLIDING 3/70ns", 521, 1, 24},
			{"SLIDING 3/70ns", 544, 1, 1},
			{"SLIDING 3/70ns", 545, 1, Never},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var state []byte
			for i, s := range tt.steps {
				l := mustParse(t, s.limit)
				next, d, err := take(&l, state, s.at, s.cost, nil)
				if err != nil || d.Wait != s.wait {
					t.Fatalf("step %d: %+v, %v, want to wait %d ns", i, d, err, s.wait)
				}
				if next != nil {
					state = next
				}
			}
		})
	}
}

// Two limits in turn share what is used, and it continues to come back however often
// the limit changes.
func TestSLIDINGTwoLimitsInTurn(t *testing.T) {
	limits := [2]Limit{mustParse(t, "SLIDING 100/m"), mustParse(t, "SLIDING 100/h")}
	var state []byte
	total := 0
	for i := range int64(2 * 3600 * 10) { // two hours, ten a second
		next, d, err := take(&limits[i%2], state, aMinute+i*testSecond/10, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if next != nil {
			state = next
		}
		if !d.Limited {
			total++
		}
	}
	if slow, fast := 100*2, 100+100*120; total < slow || total > fast {
		t.Errorf("%d in two hours, want %d to %d", total, slow, fast)
	}
}

func TestSLIDINGStateSize(t *testing.T) {
	tests := []struct {
		limit string
		cost  int64
		want  int
	}{
		{"SLIDING 100/m", 100, 11},
		{"SLIDING 5000/h", 5000, 13},
		{"SLIDING 1000000/d", 1_000_000, 15},
		{"SLIDING 9223372036854775807/946727999999999999ns", math.MaxInt64, 36},
	}
	for _, tt := range tests {
		l := mustParse(t, tt.limit)
		state, _, err := take(&l, nil, 1, tt.cost, nil)
		if err != nil {
			t.Fatal(err)
		}
		// Half as much in the next window, at its end.
		state, d, err := take(&l, state, 2*l.Period-1, tt.cost/2, nil)
		if err != nil || d.Limited || len(state) != tt.want || len(state) > MaxState {
			t.Errorf("%s: %d bytes, %+v, %v, want %d", tt.limit, len(state), d, err, tt.want)
		}
	}
}

func TestSLIDINGErrors(t *testing.T) {
	good := plain(SLIDING, 5, 1e9, 5)
	const most, least = math.MaxInt64, math.MinInt64
	at := func(end int64, rest ...byte) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, uint64(end)), rest...)
	}
	testRefused(t, []refusal{
		{"negative limit", plain(SLIDING, -1, 1, -1), nil, 0, 1, ErrMax},
		{"no period", plain(SLIDING, 1, 0, 1), nil, 0, 1, ErrPeriod},
		{"negative period", plain(SLIDING, 1, least, 1), nil, 0, 1, ErrPeriod},
		{"negative cost", good, nil, 0, -1, ErrCost},
		{"a bucket's state", good, stateAt(5), 0, 1, ErrState},
		{"a state of one count", good, at(5, 0x01, 0x01), 0, 1, ErrState},
		{"a state with half a count", good, at(5, 0x01, 0x01, 0x80), 0, 1, ErrState},
		{"a state with more behind it", good, at(5, 0x01, 0x01, 0x01, 0x00), 0, 1, ErrState},
		{"a state with a bad tag", good, at(5, 0x40, 0x01, 0x01), 0, 1, ErrState},
		{"a state of the calendar's", good, at(5, 0x3f, 0x01, 0x01), 0, 1, ErrState},
		{"a state with an empty tag", good, at(5, 0x20, 0x01, 0x01), 0, 1, ErrState},
		{"a state too far ahead", good, at(most, 0x01, 0x01, 0x01), -1, 1, ErrOverflow},
		{"the end of time", good, nil, most, 1, ErrOverflow},
		{"the last window but one", good, nil, most - 1e9, 1, ErrOverflow},
		{"into the last window but one", good, at(most-854_775_807, 0x01, 0x00, 0x01), most - 1_854_775_807, 1, ErrOverflow},
		{"a period too long", plain(SLIDING, 5, most, 5), nil, 0, 1, ErrOverflow},
		{"a reset too far ahead", plain(SLIDING, 5, most, 5), nil, -1, 1, ErrOverflow},
		{"a reset too far ahead by 1 ns", plain(SLIDING, 5, 1<<62, 5), nil, -1 << 62, 1, ErrOverflow},
	})
}

// Arguments just within the range get exact answers.
func TestSLIDINGExtremes(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	full := func(end, prev, cur int64, period int64) []byte {
		b := appendTag(stateAt(end), windowTag{period: period})
		return binary.AppendUvarint(binary.AppendUvarint(b, uint64(prev)), uint64(cur))
	}
	const half = int64(1 << 62)
	tests := []struct {
		name      string
		limit     Limit
		state     []byte
		now, cost int64
		want      Decision
	}{
		{"the last windows of all", plain(SLIDING, 5, 1e9, 5), nil, most - 1_854_775_808, 1, Decision{false, 5, 4, Never, 1_000_000_001}},
		{"denied at the end of time", plain(SLIDING, 5, 1e9, 5), nil, most, 6, Decision{true, 5, 5, Never, 0}},
		{"the first window of all", plain(SLIDING, 5, 1e9, 5), nil, least, 1, Decision{false, 5, 4, Never, 1_854_775_808}},
		{"the longest period", plain(SLIDING, 5, most, 5), nil, least, 0, Decision{false, 5, 5, Never, 0}},
		{"the longest that can be counted", plain(SLIDING, 5, half, 5), nil, 1 - half, 1, Decision{false, 5, 4, Never, most}},
		{"the largest counts", plain(SLIDING, most, half, most), full(most, most, most, half), 0, 1, Decision{true, most, 0, half, most}},
		{"the largest product", plain(SLIDING, most, half, most), full(most, most, 1, half), half/2 - 1, 1, Decision{false, most, half - 3, Never, most - half/2 + 1}},
		{"the largest limit", plain(SLIDING, most, 1e9, most), nil, 0, most, Decision{false, most, 0, Never, 2e9}},
	}
	for _, tt := range tests {
		_, got, err := take(&tt.limit, tt.state, tt.now, tt.cost, nil)
		if err != nil || got != tt.want {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", tt.name, got, err, tt.want)
		}
	}
}
