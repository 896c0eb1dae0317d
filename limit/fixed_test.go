package limit

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"time"
)

// aMinute is the beginning of a minute, in Unix ns, that begins no hour.
const aMinute = int64(1_699_999_980) * testSecond

func TestFIXEDSteps(t *testing.T) {
	tests := []struct {
		name  string
		limit string
		steps []step
	}{
		{
			"three a minute", "FIXED 3/m",
			[]step{
				{3000, 1, false, 2, Never, 57000}, // 12:00:03 is of the minute of 12:00:00
				{3000, 0, false, 2, Never, 57000},
				{59999, 2, false, 0, Never, 1},
				{59999, 1, true, 0, 1, 1},
				{60000, 3, false, 0, Never, 60000}, // twice as many in 1 ms
				{60000, 1, true, 0, 60000, 60000},
				{60000, 0, false, 0, Never, 60000},
				{60000, 4, true, 0, Never, 60000},
				{180000, 4, true, 3, Never, 0},
				{180000, 1, false, 2, Never, 60000},
				{180000, 3, true, 2, 60000, 60000},
			},
		},
		{
			"the first request begins the window", "FIXED 3/m FIRST",
			[]step{
				{59000, 1, false, 2, Never, 60000},
				{118999, 2, false, 0, Never, 1},
				{118999, 1, true, 0, 1, 1},
				{119000, 0, false, 3, Never, 0},
				{130000, 1, false, 2, Never, 60000},
			},
		},
		{
			"refund", "FIXED 5/m",
			[]step{
				{0, -1, false, 5, Never, 0},
				{0, 4, false, 1, Never, 60000},
				{1000, -1, false, 2, Never, 59000},
				{1000, 0, false, 2, Never, 59000},
				{1000, -9, false, 5, Never, 0},
				{1000, -1, false, 5, Never, 0},
				{1000, 6, true, 5, Never, 0},
				{1000, 5, false, 0, Never, 59000},
				{60000, -1, false, 5, Never, 0},
			},
		},
		{
			"all given back, FIRST", "FIXED 5/m FIRST",
			[]step{{0, 4, false, 1, Never, 60000}, {1000, -4, false, 5, Never, 0}, {2000, 1, false, 4, Never, 60000}},
		},
		{
			"the clock goes back", "FIXED 2/m",
			[]step{
				{60000, 1, false, 1, Never, 60000},
				{0, 1, false, 0, Never, 120000},
				{0, 1, true, 0, 120000, 120000},
				{119999, 1, true, 0, 1, 1},
				{120000, 2, false, 0, Never, 60000},
			},
		},
		{
			"denied requests are not counted", "FIXED 2/m",
			[]step{{0, 3, true, 2, Never, 0}, {0, 1, false, 1, Never, 60000}, {0, 2, true, 1, 60000, 60000}, {0, 1, false, 0, Never, 60000}},
		},
		{
			"denied requests are counted", "FIXED 2/m COUNTDENIED",
			[]step{
				{0, 1, false, 1, Never, 60000},
				{0, 2, true, 0, 60000, 60000},
				{0, 1, true, 0, 60000, 60000},
				{0, -3, false, 1, Never, 60000},
				{0, 0, false, 1, Never, 60000},
			},
		},
		{
			"also those above the limit, and of a fresh key", "FIXED 2/m COUNTDENIED",
			[]step{{0, 3, true, 0, Never, 60000}, {30000, 1, true, 0, 30000, 30000}, {60000, 2, false, 0, Never, 60000}},
		},
		{
			"limit 0 denies everything", "FIXED 0/m",
			[]step{{0, 1, true, 0, Never, 0}, {0, 0, true, 0, Never, 0}, {0, -1, false, 0, Never, 0}},
		},
		{
			"limit 0 counts nothing", "FIXED 0/m COUNTDENIED",
			[]step{{0, 0, true, 0, Never, 0}, {0, 2, true, 0, Never, 0}, {0, -1, false, 0, Never, 0}},
		},
		{
			"calendar minute", "FIXED 2 CALENDAR minute",
			[]step{{1000, 2, false, 0, Never, 59000}, {1000, 1, true, 0, 59000, 59000}, {60000, 1, false, 1, Never, 60000}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { runFrom(t, mustParse(t, tt.limit), aMinute, tt.steps) })
	}
}

// A calendar's day lasts until the local clock begins the next, for 23, 24 or
// 25 hours.
func TestFIXEDCalendarDays(t *testing.T) {
	const hour = int64(time.Hour)
	tests := []struct {
		limit string
		at    time.Time
		reset int64
	}{
		{"FIXED 5 CALENDAR day", time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), 23 * hour},
		{"FIXED 5 CALENDAR day TZ Europe/Berlin", time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC), 23 * hour},
		{"FIXED 5 CALENDAR day TZ Europe/Berlin", time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC), 25 * hour},
		{"FIXED 5 CALENDAR day TZ Asia/Kolkata", time.Date(2026, 3, 29, 0, 0, 0, 1, time.UTC), 18*hour + hour/2 - 1},
		{"FIXED 5 CALENDAR week TZ Europe/Berlin", time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), 22 * hour},
		{"FIXED 5 CALENDAR year", time.Date(2027, 12, 31, 23, 0, 0, 0, time.UTC), hour},
	}
	for _, tt := range tests {
		l := mustParse(t, tt.limit)
		d, err := peek(&l, nil, tt.at.UnixNano(), 5)
		if want := (Decision{false, 5, 0, Never, tt.reset}); err != nil || d != want {
			t.Errorf("%s at %v:\n got %+v, %v\nwant %+v", tt.limit, tt.at, d, err, want)
		}
	}
}

// The limit may be another at each call: what was used stays used.
func TestFIXEDLimitChanges(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	const hour = int64(time.Hour)
	tests := []struct {
		name      string
		before    string
		after     string
		remaining int64
		reset     int64 // of one more
	}{
		{"a larger limit", "FIXED 5/d", "FIXED 9/d", 6, 12 * hour},
		{"a smaller limit", "FIXED 5/d", "FIXED 2/d", 0, 12 * hour},
		{"denied ones counted from now on", "FIXED 5/d", "FIXED 5/d COUNTDENIED", 2, 12 * hour},
		{"another period", "FIXED 5/d", "FIXED 5/2d", 2, 36 * hour},
		{"a shorter period", "FIXED 5/d", "FIXED 5/8h", 2, 4 * hour},
		{"from the first on", "FIXED 5/d", "FIXED 5/d FIRST", 2, 24 * hour},
		{"from the same first on", "FIXED 5/d FIRST", "FIXED 5/8h FIRST", 2, 8 * hour},
		{"no longer from the first on", "FIXED 5/d FIRST", "FIXED 5/d", 2, 12 * hour},
		{"of the calendar", "FIXED 5/d", "FIXED 5 CALENDAR day", 2, 12 * hour},
		{"another unit", "FIXED 5 CALENDAR day", "FIXED 5 CALENDAR week", 2, 3*24*hour + 12*hour},
		{"a zone with other days", "FIXED 5 CALENDAR day", "FIXED 5 CALENDAR day TZ Asia/Tokyo", 2, 3 * hour},
		{"a zone with the same days", "FIXED 5 CALENDAR day", "FIXED 5 CALENDAR day TZ Africa/Abidjan", 2, 12 * hour},
	}
	for _, tt := range tests {
		before, after := mustParse(t, tt.before), mustParse(t, tt.after)
		state, was, err := take(&before, nil, noon, 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := peek(&after, state, noon, 0); err != nil || d.Remaining != tt.remaining || d.Reset != was.Reset {
			t.Errorf("%s: %+v, %v, want %d left, reset in %d", tt.name, d, err, tt.remaining, was.Reset)
		}
		_, d, err := take(&after, state, noon, 1, nil)
		if err != nil || d.Limited != (tt.remaining == 0) || d.Reset != tt.reset {
			t.Errorf("%s: %+v, %v, want a reset in %d", tt.name, d, err, tt.reset)
		}
	}
}

// The waits after a change, and what a denial leaves for the limit before it.
func TestFIXEDWaitsAfterAChange(t *testing.T) {
	const hour = 60 * testMinute
	hours := int64(1_700_000_000) / 3600 * hour
	tests := []struct {
		name   string
		before string
		at     int64
		after  string
		wait   int64
	}{
		{"a shorter window", "FIXED 10/h", 330 * testSecond, "FIXED 10/m", 30 * testSecond},
		{"as many of them as admit it", "FIXED 10/h", 330 * testSecond, "FIXED 5/m", 90 * testSecond},
		{"one more for the rest", "FIXED 10/h", 330 * testSecond, "FIXED 9/m", 90 * testSecond},
		{"a longer window", "FIXED 10/m", 30 * testSecond, "FIXED 10/h", 30 * testSecond},
		{"much at once", "FIXED 1000/h", 330 * testSecond, "FIXED 10/m", hour - 330*testSecond},
		{"the first of a minute", "FIXED 10/h FIRST", 330 * testSecond, "FIXED 10/m FIRST", testMinute},
		{"the first of a minute that counts on", "FIXED 10/h", 330 * testSecond, "FIXED 10/m FIRST", testMinute},
		{"of the calendar", "FIXED 10/h", 330 * testSecond, "FIXED 5 CALENDAR minute", 90 * testSecond},
		{"from a day of the calendar", "FIXED 64 CALENDAR day", 330 * testSecond, "FIXED 1 CALENDAR second", 64 * testSecond},
		{"too many of the calendar", "FIXED 65 CALENDAR year", 0, "FIXED 1 CALENDAR second", -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, after := mustParse(t, tt.before), mustParse(t, tt.after)
			now := hours + tt.at
			state, was, err := take(&before, nil, now, before.Max, nil)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.wait
			if want < 0 {
				want = was.Reset
			}
			next, d, err := take(&after, state, now, 1, nil)
			if err != nil || !d.Limited || d.Wait != want || d.Reset != want {
				t.Fatalf("%+v, %v, want to wait %d", d, err, want)
			}
			if (next != nil) != (want != was.Reset) || next != nil && Expires(FIXED.Kind(), next) != now+want {
				t.Fatalf("left %x", next)
			}
		})
	}
}

// A rolling deploy: two limits in turn are not both granted in full.
func TestFIXEDTwoLimitsInTurn(t *testing.T) {
	tests := []struct {
		limits  [2]string
		seconds int64
		most    int64 // in each clock minute
	}{
		{[2]string{"FIXED 10/m", "FIXED 10/h"}, 1, 10},
		{[2]string{"FIXED 10/m", "FIXED 10/h"}, 3, 10},
		{[2]string{"FIXED 10 CALENDAR minute", "FIXED 10/h"}, 1, 10},
		{[2]string{"FIXED 10 CALENDAR minute", "FIXED 10 CALENDAR day TZ Asia/Tokyo"}, 1, 10},
	}
	for _, tt := range tests {
		limits := [2]Limit{mustParse(t, tt.limits[0]), mustParse(t, tt.limits[1])}
		var state []byte
		minute := map[int64]int64{}
		total := int64(0)
		for i := range int64(3600) {
			now := aMinute + i*tt.seconds*testSecond
			next, d, err := take(&limits[i%2], state, now, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			if next != nil {
				state = next
			}
			if !d.Limited {
				total++
				if minute[now/testMinute]++; minute[now/testMinute] > tt.most {
					t.Fatalf("%v: %d in a minute", tt.limits, minute[now/testMinute])
				}
			}
		}
		if total < tt.most {
			t.Errorf("%v: only %d in all", tt.limits, total)
		}
	}
}

// The state is as small as the table of algorithms says.
func TestFIXEDStateSize(t *testing.T) {
	tests := []struct {
		limit string
		cost  int64
		want  int
	}{
		{"FIXED 100/m", 100, 10},
		{"FIXED 5000/h FIRST", 5000, 11},
		{"FIXED 1000000/d", 1_000_000, 12},
		{"FIXED 100000 CALENDAR month TZ Europe/Berlin", 100_000, 12},
		{"FIXED 100/90s", 100, 16},
		{"FIXED 9223372036854775807/946727999999999999ns", math.MaxInt64, 27},
	}
	for _, tt := range tests {
		l := mustParse(t, tt.limit)
		state, _, err := take(&l, nil, 1, tt.cost, nil)
		if err != nil || len(state) != tt.want || len(state) > MaxState {
			t.Errorf("%s: %d bytes, %v, want %d", tt.limit, len(state), err, tt.want)
		}
	}
}

func TestFIXEDErrors(t *testing.T) {
	good := plain(FIXED, 5, 1e9, 5)
	const most, least = math.MaxInt64, math.MinInt64
	at := func(end int64, rest ...byte) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, uint64(end)), rest...)
	}
	testRefused(t, []refusal{
		{"negative limit", plain(FIXED, -1, 1, -1), nil, 0, 1, ErrMax},
		{"no period", plain(FIXED, 1, 0, 1), nil, 0, 1, ErrPeriod},
		{"negative period", plain(FIXED, 1, least, 1), nil, 0, 1, ErrPeriod},
		{"no unit of the calendar", Limit{Algorithm: FIXED, Max: 1, Burst: 1, Calendar: 200}, nil, 0, 1, ErrCalendar},
		{"negative cost", good, nil, 0, -1, ErrCost},
		{"a bucket's state", good, stateAt(5), 0, 1, ErrState},
		{"a state without a count", good, at(5, 0x01), 0, 1, ErrState},
		{"a state with half a count", good, at(5, 0x01, 0x80), 0, 1, ErrState},
		{"a state with more behind it", good, at(5, 0x01, 0x01, 0x00), 0, 1, ErrState},
		{"a state with half a tag", good, at(5, 0x00, 0x80), 0, 1, ErrState},
		{"a state with a bad tag", good, at(5, 0x40, 0x01), 0, 1, ErrState},
		{"a count above all", good, at(5, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01), 0, 1, ErrState},
		{"a state too far ahead", good, at(most, 0x01, 0x01), -1, 1, ErrOverflow},
		{"the end of time", good, nil, most, 1, ErrOverflow},
		{"the end of time, FIRST", mustParse(t, "FIXED 5/s FIRST"), nil, most - 1e9 + 1, 1, ErrOverflow},
		{"the last year of all", mustParse(t, "FIXED 5 CALENDAR year"), nil, most - 1e9, 1, ErrOverflow},
		{"the last year of all in a zone", mustParse(t, "FIXED 5 CALENDAR year TZ Europe/Berlin"), nil, most, 1, ErrOverflow},
		{"denied and counted at the end of time", mustParse(t, "FIXED 5/s COUNTDENIED"), nil, most, 6, ErrOverflow},
	})
}

// Arguments just within the range get exact answers.
func TestFIXEDExtremes(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	full := func(text string, cost int64) []byte {
		l := mustParse(t, text)
		state, _, err := take(&l, nil, 0, cost, nil)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	tests := []struct {
		name      string
		limit     string
		state     []byte
		now, cost int64
		want      Decision
	}{
		{"the last second of all", "FIXED 5/s", nil, most - 1e9, 1, Decision{false, 5, 4, Never, 145_224_193}},
		{"denied at the end of time", "FIXED 5/s", nil, most, 6, Decision{true, 5, 5, Never, 0}},
		{"asked at the end of time", "FIXED 5/s", nil, most, 0, Decision{false, 5, 5, Never, 0}},
		{"the first second of all", "FIXED 5/s", nil, least, 1, Decision{false, 5, 4, Never, 854_775_808}},
		{"the first day of all", "FIXED 5 CALENDAR day", nil, least, 1, Decision{false, 5, 4, Never, 85_636_854_775_808}},
		{"the longest window", "FIXED 5/262980h", nil, 0, 1, Decision{false, 5, 4, Never, MaxPeriod}},
		{"the longest window before 0", "FIXED 5/262980h", nil, -1, 1, Decision{false, 5, 4, Never, 1}},
		{"the largest limit", "FIXED 9223372036854775807/s", nil, 0, most, Decision{false, most, 0, Never, 1e9}},
		{"the largest cost", "FIXED 5/s", full("FIXED 5/s", 5), 0, most, Decision{true, 5, 0, Never, 1e9}},
		{"counted beyond the largest", "FIXED 5/s COUNTDENIED", full("FIXED 5/s", 5), 0, most, Decision{true, 5, 0, Never, 1e9}},
	}
	for _, tt := range tests {
		l := mustParse(t, tt.limit)
		_, got, err := take(&l, tt.state, tt.now, tt.cost, nil)
		if err != nil || got != tt.want {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", tt.name, got, err, tt.want)
		}
	}
}

// A count does not wrap.
func TestFIXEDCountsNoFurther(t *testing.T) {
	l := mustParse(t, "FIXED 5/s COUNTDENIED")
	var state []byte
	for range 3 {
		next, d, err := take(&l, state, 0, math.MaxInt64-1, nil)
		if err != nil || !d.Limited {
			t.Fatal(d, err)
		}
		state = next
	}
	if got := Level(FIXED.Kind(), state, 0); got != math.MaxInt64 {
		t.Errorf("%d are counted", got)
	}
}

// A state that has no room in dst is written elsewhere, and dst is left alone.
func TestFIXEDGrowsElsewhere(t *testing.T) {
	l := mustParse(t, "FIXED 500/m")
	state, _, err := take(&l, nil, 0, 127, nil)
	if err != nil {
		t.Fatal(err)
	}
	room := bytes.Clone(state)[:len(state):len(state)]
	next, d, err := take(&l, room, 0, 1, room[:0])
	if err != nil || d.Remaining != 372 || len(next) != len(state)+1 || !bytes.Equal(room, state) {
		t.Errorf("%x to %x, %+v, %v", room, next, d, err)
	}
}
