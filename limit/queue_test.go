package limit

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestQUEUESteps(t *testing.T) {
	tests := []struct {
		name  string
		limit string
		steps []step
	}{
		{
			// One goes each 2 s, and three may wait.
			"paced", "QUEUE 30/m BURST 3",
			[]step{
				{0, 0, false, 4, Never, 0},
				{0, 1, false, 3, Never, 2000},
				{0, 1, false, 2, 2000, 4000},
				{500, 1, false, 1, 3500, 5500},
				{500, 2, true, 1, 1500, 5500},
				{500, 1, false, 0, 5500, 7500},
				{500, 1, true, 0, 1500, 7500},
				{500, 0, false, 0, 7500, 7500},
				{1999, 1, true, 0, 1, 6001},
				{2000, 1, false, 0, 6000, 8000},
				{9999, 1, false, 2, 1, 2001},
				{20000, 1, false, 3, Never, 2000},
			},
		},
		{
			"a cost takes as many places", "QUEUE 30/m BURST 3",
			[]step{
				{0, 5, true, 4, Never, 0},
				{0, 3, false, 1, Never, 6000},
				{0, 2, true, 1, 2000, 6000},
				{0, 1, false, 0, 6000, 8000},
				{2000, 4, true, 1, 6000, 6000},
				{8000, 4, false, 0, Never, 8000},
			},
		},
		{
			"none may wait", "QUEUE 30/m BURST 0",
			[]step{
				{0, 1, false, 0, Never, 2000},
				{0, 1, true, 0, 2000, 2000},
				{1999, 1, true, 0, 1, 1},
				{2000, 1, false, 0, Never, 2000},
				{2000, 2, true, 0, Never, 2000},
			},
		},
		{
			"as many as the limit may wait", "QUEUE 2/s",
			[]step{
				{0, 1, false, 2, Never, 500},
				{0, 1, false, 1, 500, 1000},
				{0, 1, false, 0, 1000, 1500},
				{0, 1, true, 0, 500, 1500},
			},
		},
		{
			"the last one goes home", "QUEUE 1/s BURST 2",
			[]step{
				{0, 1, false, 2, Never, 1000},
				{0, 1, false, 1, 1000, 2000},
				{0, 1, false, 0, 2000, 3000},
				{0, -1, false, 1, Never, 2000},
				{0, 1, false, 0, 2000, 3000},
				{0, -9, false, 3, Never, 0},
			},
		},
		{
			"the clock goes back", "QUEUE 1/s BURST 1",
			[]step{
				{5000, 1, false, 1, Never, 1000},
				{0, 1, true, 0, 5000, 6000},
				{5000, 1, false, 0, 1000, 2000},
			},
		},
		{
			"limit 0 denies everything", "QUEUE 0/s",
			[]step{{0, 1, true, 0, Never, 0}, {0, 0, true, 0, Never, 0}, {0, reserved + 1, true, 0, Never, 0}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { run(t, mustParse(t, tt.limit), tt.steps) })
	}
}

func TestQUEUEReserve(t *testing.T) {
	const sec = int64(time.Second)
	l := mustParse(t, "QUEUE 1/s BURST 3")
	tests := []struct {
		name                string
		state               []byte
		now, cost, mostWait int64
		want                Decision
		empty               int64 // 0: nothing changes
	}{
		{"at once", nil, 0, 1, 0, Decision{false, 4, 3, Never, sec}, sec},
		{"may wait", stateAt(sec), 0, 1, sec, Decision{false, 4, 2, sec, 2 * sec}, 2 * sec},
		{"may wait for ever", stateAt(sec), 0, 1, -1, Decision{false, 4, 2, sec, 2 * sec}, 2 * sec},
		{"may not wait", stateAt(sec), 0, 1, 0, Decision{true, 4, 3, sec, sec}, 0},
		{"1 ns too long", stateAt(sec), 0, 1, sec - 1, Decision{true, 4, 3, 1, sec}, 0},
		{"too long, a peek", stateAt(sec), 0, 0, sec - 1, Decision{true, 4, 3, 1, sec}, 0},
		{"no room", stateAt(3 * sec), 0, 2, -1, Decision{true, 4, 1, sec, 3 * sec}, 0},
		{"no room, and too long by less", stateAt(3 * sec), 0, 2, 5 * sec / 2, Decision{true, 4, 1, sec, 3 * sec}, 0},
		{"no room, and too long by more", stateAt(3 * sec), 0, 2, sec, Decision{true, 4, 1, 2 * sec, 3 * sec}, 0},
		{"never room", stateAt(3 * sec), 0, 5, 0, Decision{true, 4, 1, Never, 3 * sec}, 0},
	}
	for _, tt := range tests {
		next, d, err := reserve(&l, tt.state, tt.now, tt.cost, tt.mostWait, nil)
		empty := int64(0)
		if next != nil {
			empty = Expires(QUEUE.Kind(), next)
		}
		if err != nil || d != tt.want || empty != tt.empty {
			t.Errorf("%s:\n got %+v, empty at %d, %v\nwant %+v, empty at %d", tt.name, d, empty, err, tt.want, tt.empty)
		}
	}
}

// A plain list of departures: one each interval, and no more than Burst that
// have not departed yet.
func TestQUEUEIsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := plain(QUEUE, rapid.Int64Range(1, 20).Draw(t, "max"), rapid.Int64Range(1, 1000).Draw(t, "period"), rapid.Int64Range(0, 9).Draw(t, "burst"))
		e := interval(&l)
		var state []byte
		var departures []int64
		now := int64(1000)
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			now += rapid.Int64Range(0, 2*e).Draw(t, "later")
			at, waiting := now, int64(0)
			for _, departure := range departures {
				at = max(at, departure+e)
				if departure > now {
					waiting++
				}
			}
			next, d, err := take(&l, state, now, 1, nil)
			if err != nil || d.Limited != (at > now && waiting == l.Burst) {
				t.Fatalf("%v: with %d waiting, %d at %d: %+v, %v", l, waiting, at, now, d, err)
			}
			if d.Limited {
				continue
			}
			if max(0, d.Wait) != at-now || d.Wait == 0 {
				t.Fatalf("%v: the next departs at %d, and at %d %+v", l, at, now, d)
			}
			departures = append(departures, at)
			state = next
		}
	})
}

func TestQUEUEExtremes(t *testing.T) {
	const most = math.MaxInt64
	tests := []struct {
		name      string
		limit     Limit
		now, cost int64
		want      Decision
		err       error
	}{
		{"the longest queue", plain(QUEUE, most, 1, most-1), 0, most, Decision{false, most, 0, Never, most}, nil},
		{"too long a queue", plain(QUEUE, most, 1, most), 0, 1, Decision{}, ErrOverflow},
		{"too long a queue by far", plain(QUEUE, 1, 3, most), 0, 1, Decision{}, ErrOverflow},
		{"limit 0 has no queue", plain(QUEUE, 0, 1, most), 0, 1, Decision{true, 0, 0, Never, 0}, nil},
		{"negative burst", plain(QUEUE, 1, 1, -1), 0, 1, Decision{}, ErrBurst},
	}
	for _, tt := range tests {
		_, d, err := take(&tt.limit, nil, tt.now, tt.cost, nil)
		if d != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v, %v", tt.name, d, err, tt.want, tt.err)
		}
		if _, d, err := refund(&tt.limit, nil, tt.now, 1, nil); d.Remaining < 0 || !errors.Is(err, tt.err) {
			t.Errorf("%s: refund: %+v, %v", tt.name, d, err)
		}
	}
}

// A cost above the limit is denied for ever, even if one place takes the longest time that there is.
func TestQUEUEOfTheLongestTime(t *testing.T) {
	l := plain(QUEUE, 1, math.MaxInt64, 0)
	for ahead, remaining := range map[int64]int64{0: 1, 5: 0} {
		next, d, err := take(&l, putTime(nil, ahead), 0, 3, nil)
		if want := (Decision{Limited: true, Limit: 1, Remaining: remaining, Wait: Never, Reset: ahead}); err != nil || next != nil || d != want {
			t.Errorf("%d ns ahead: %x, %+v, %v, want %+v", ahead, next, d, err, want)
		}
	}
}
