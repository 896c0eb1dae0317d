package limit

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestLogSteps(t *testing.T) {
	tests := []struct {
		name  string
		limit string
		steps []step
	}{
		{
			"README", "LOG 3/m",
			[]step{
				{0, 1, false, 2, Never, 60_000},
				{20_000, 1, false, 1, Never, 60_000},
				{30_000, 1, false, 0, Never, 60_000},
				{40_000, 1, true, 0, 20_000, 50_000},
				{59_999, 1, true, 0, 1, 30_001},
				{60_000, 1, false, 0, Never, 60_000}, // the one at 0 has gone
				{60_000, 1, true, 0, 20_000, 60_000},
				{90_000, 2, false, 0, Never, 60_000}, // those at 20 and 30 s have
				{150_000, 3, false, 0, Never, 60_000},
			},
		},
		{
			"a cost waits for its last unit", "LOG 10/s",
			[]step{
				{0, 4, false, 6, Never, 1000},
				{100, 3, false, 3, Never, 1000},
				{200, 3, false, 0, Never, 1000},
				{300, 4, true, 0, 700, 900},
				{300, 5, true, 0, 800, 900},
				{300, 7, true, 0, 800, 900},
				{300, 8, true, 0, 900, 900},
				{300, 10, true, 0, 900, 900},
				{300, 11, true, 0, Never, 900},
				{1000, 5, true, 4, 100, 200},
				{1100, 5, false, 2, Never, 1000},
			},
		},
		{
			"more than the limit, fresh", "LOG 5/s",
			[]step{{0, 6, true, 5, Never, 0}, {0, 5, false, 0, Never, 1000}},
		},
		{
			"a peek", "LOG 5/s",
			[]step{{0, 0, false, 5, Never, 0}, {0, 5, false, 0, Never, 1000}, {400, 0, false, 0, Never, 600}},
		},
		{
			"refund of the newest", "LOG 5/s",
			[]step{
				{0, -1, false, 5, Never, 0},
				{0, 2, false, 3, Never, 1000},
				{100, 3, false, 0, Never, 1000},
				{200, -2, false, 2, Never, 900},
				{200, -1, false, 3, Never, 800}, // all of those at 100 ms
				{200, -1, false, 4, Never, 800},
				{300, 1, false, 3, Never, 1000},
				{300, -9, false, 5, Never, 0},
				{300, 5, false, 0, Never, 1000},
				{9000, -1, false, 5, Never, 0},
			},
		},
		{
			"the clock goes back", "LOG 2/s",
			[]step{
				{5000, 1, false, 1, Never, 1000},
				{4500, 1, false, 0, Never, 1500}, // as if at 5 s
				{4500, 1, true, 0, 1500, 1500},
				{0, 1, true, 0, 6000, 6000},
				{6000, 2, false, 0, Never, 1000},
			},
		},
		{
			"denied requests count", "LOG 3/s COUNTDENIED",
			[]step{
				{0, 2, false, 1, Never, 1000},
				{100, 2, true, 0, 1000, 1000},  // 1 at 0, 2 at 100 ms
				{200, 1, true, 0, 900, 1000},   // 2 at 100, 1 at 200 ms
				{200, 0, true, 0, 900, 1000},   // a third at 100: 4 are counted
				{300, 4, true, 0, Never, 1000}, // 4 at 300 ms
				{1299, 1, true, 0, 1, 1000},
				{1300, 1, false, 1, Never, 1000},
				{1300, -1, false, 2, Never, 999},
			},
		},
		{
			"limit 0 denies everything", "LOG 0/s COUNTDENIED",
			[]step{{0, 1, true, 0, Never, 0}, {0, 0, true, 0, Never, 0}, {0, -1, false, 0, Never, 0}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { run(t, mustParse(t, tt.limit), tt.steps) })
	}
}

// Another limit or period applies to the log as it is. A unit that has left a shorter
// window stays for as long as a longer one counts it, and the log ends at the time
// that was reported.
func TestLogLimitChanges(t *testing.T) {
	const sec = int64(time.Second)
	minute, short, long := mustParse(t, "LOG 4/m"), mustParse(t, "LOG 4/10s"), mustParse(t, "LOG 4/h")
	tight, shut := mustParse(t, "LOG 2/m"), mustParse(t, "LOG 0/m")
	var state []byte
	for _, at := range []int64{0, 20, 40} {
		next, _, err := take(&minute, state, at*sec, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		state = next
	}
	tests := []struct {
		limit     Limit
		now, cost int64
		want      Decision
	}{
		{minute, 45 * sec, 1, Decision{false, 4, 0, Never, 60 * sec}},
		{short, 45 * sec, 1, Decision{false, 4, 2, Never, 10 * sec}},
		{short, 50 * sec, 0, Decision{false, 4, 4, Never, 0}},
		{tight, 45 * sec, 1, Decision{true, 2, 0, 35 * sec, 55 * sec}},
		{tight, 45 * sec, 0, Decision{true, 2, 0, 15 * sec, 55 * sec}},
		{long, 45 * sec, 2, Decision{true, 4, 1, 55 * sec, 55 * sec}}, // all is over at 100 s
		{long, 99 * sec, 2, Decision{true, 4, 1, sec, sec}},
		{long, 100 * sec, 4, Decision{false, 4, 0, Never, 3600 * sec}},
		{shut, 45 * sec, 1, Decision{true, 0, 0, Never, 55 * sec}},
	}
	for _, tt := range tests {
		got, err := peek(&tt.limit, state, tt.now, tt.cost)
		if err != nil || got != tt.want {
			t.Errorf("%v at %d, cost %d:\n got %+v, %v\nwant %+v", tt.limit, tt.now, tt.cost, got, err, tt.want)
		}
	}
	// The short window drops nothing that the minute still counts.
	state, _, err := take(&short, state, 45*sec, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := peek(&minute, state, 45*sec, 0); err != nil || d != (Decision{false, 4, 0, Never, 55 * sec}) {
		t.Errorf("after a shorter window: %+v, %v", d, err)
	}
	if next, d, err := refund(&shut, state, 45*sec, 1, nil); next != nil || d != (Decision{Wait: Never, Reset: 55 * sec}) || err != nil {
		t.Errorf("refund under limit 0: %v, %+v, %v", next, d, err)
	}
}

// Two limits in turn: the units that the longer period counts are not lost when the
// shorter one changes the log, and nothing is held for longer than that.
func TestLogTwoLimitsInTurn(t *testing.T) {
	const sec = int64(time.Second)
	minute, hour := mustParse(t, "LOG 10/m"), mustParse(t, "LOG 1000/h")
	var state []byte
	now, hours := int64(1.7e18), int64(0)
	ask := func(l Limit, cost int64) bool {
		next, d, err := take(&l, state, now, cost, nil)
		if err != nil {
			t.Fatal(err)
		}
		if next != nil {
			state = next
		}
		return !d.Limited
	}
	for range 3600 { // an hour's worth of them once, and then what leaves
		if now += sec; ask(hour, 1000-min(hours, 999)) {
			hours += 1000 - min(hours, 999)
		}
		ask(minute, 1)
	}
	if hours != 1000 {
		t.Errorf("%d in an hour under %v", hours, hour)
	}
	now += 3600 * sec
	for range 600 {
		now += 6 * sec
		if !ask(minute, 1) {
			t.Fatal("denied after the hour")
		}
	}
	if d := mustPeek(t, hour, state, now, 0); d.Remaining != 990 || len(state) > 60 {
		t.Errorf("an hour later %+v and %d bytes", d, len(state))
	}
}

func TestLogErrors(t *testing.T) {
	good := mustParse(t, "LOG 5/s")
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
		{"negative limit", plain(LOG, -1, 1, -1), nil, 0, 1, ErrMax},
		{"too large a limit", plain(LOG, MaxLog+1, 1, MaxLog+1), nil, 0, 1, ErrMax},
		{"no period", plain(LOG, 1, 0, 1), nil, 0, 1, ErrPeriod},
		{"negative cost", good, nil, 0, -1, ErrCost},
		{"least cost", good, state, 0, least, ErrCost},
		{"short state", good, []byte{1}, 0, 1, ErrState},
		{"the end of time", good, nil, most, 1, ErrOverflow},
		{"the end of time less 1 s", good, nil, most - 1e9 + 1, 1, ErrOverflow},
		{"a state too far ahead", good, state, least, 1, ErrOverflow},
		{"a state that expires too late to tell", good, state, 1e9 - 1<<63 - 1, 0, ErrOverflow},
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
	// A cost of any size is an answer, not an error.
	if d, err := peek(&good, state, 0, most); err != nil || d != (Decision{true, 5, 3, Never, 1e9}) {
		t.Errorf("the largest cost: %+v, %v", d, err)
	}
	longest := plain(LOG, 5, most, 5)
	if _, d, err := take(&longest, nil, 0, 1, nil); err != nil || d != (Decision{false, 5, 4, Never, most}) {
		t.Errorf("the longest period: %+v, %v", d, err)
	}
}

func TestLogLevel(t *testing.T) {
	const sec = int64(time.Second)
	l := mustParse(t, "LOG 100/m")
	var state []byte
	for i := range int64(30) {
		next, _, err := take(&l, state, i*sec, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		state = next
	}
	for _, tt := range []struct{ now, want int64 }{
		{0, 60}, {29 * sec, 60}, {59 * sec, 60}, {60 * sec, 58}, {70*sec - 1, 40}, {88 * sec, 2}, {89 * sec, 0}, {1 << 62, 0},
	} {
		if got := Level(LOG.Kind(), state, tt.now); got != tt.want {
			t.Errorf("at %d: %d, want %d", tt.now, got, tt.want)
		}
	}
}
