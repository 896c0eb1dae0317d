package limit

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// withSegments returns a limit of SEGMENTED.
func withSegments(most, period, n int64) Limit {
	return Limit{Algorithm: SEGMENTED, Max: most, Period: period, Burst: most, Segments: n}
}

func TestSEGMENTEDSteps(t *testing.T) {
	tests := []struct {
		name  string
		limit string
		steps []step
	}{
		{
			"three seconds as 3 × 1 s", "SEGMENTED 4/3s SEGMENTS 3",
			[]step{
				{500, 1, false, 3, Never, 2500},
				{1900, 2, false, 1, Never, 2100},
				{2000, 1, false, 0, Never, 3000},
				{2999, 1, true, 0, 1, 2001},
				{3000, 0, false, 1, Never, 2000}, // the second of the first has left
				{3000, 2, true, 1, 1000, 2000},
				{3000, 4, true, 1, 2000, 2000},
				{3000, 5, true, 1, Never, 2000},
				{3999, 1, false, 0, Never, 2001},
				{4000, 2, false, 0, Never, 3000},
				{6000, 1, false, 1, Never, 3000},
				{7000, 0, false, 3, Never, 2000},
				{9000, 4, false, 0, Never, 3000},
			},
		},
		{
			"a period that the sub-windows do not divide", "SEGMENTED 1/10ms SEGMENTS 3", // of 3333334 ns
			[]step{{0, 0, false, 1, Never, 0}},
		},
		{
			"refund", "SEGMENTED 4/3s SEGMENTS 3",
			[]step{
				{0, -1, false, 4, Never, 0},
				{0, 2, false, 2, Never, 3000},
				{2000, 1, false, 1, Never, 3000},
				{2000, -1, false, 2, Never, 1000}, // as if it had not been
				{2000, 2, false, 0, Never, 3000},
				{2000, -3, false, 3, Never, 1000}, // 2 of this second, and 1 of the first
				{2000, -9, false, 4, Never, 0},
				{2000, 4, false, 0, Never, 3000},
			},
		},
		{
			"the clock goes back", "SEGMENTED 4/3s SEGMENTS 3",
			[]step{
				{3000, 2, false, 2, Never, 3000},
				{0, 1, false, 1, Never, 6000},
				{0, 2, true, 1, 6000, 6000},
				{0, -1, false, 2, Never, 6000},
				{5999, 3, true, 2, 1, 1},
				{6000, 3, false, 1, Never, 3000},
			},
		},
		{
			"denied requests are counted", "SEGMENTED 4/3s SEGMENTS 3 COUNTDENIED",
			[]step{
				{0, 4, false, 0, Never, 3000},
				{1000, 2, true, 0, 2000, 3000}, // when the 4 have left: 2 and 2
				{2999, 2, true, 0, 1001, 2001}, // now 2, 2 and 2
				{4000, 2, false, 0, Never, 3000},
				{4000, 4, true, 0, 3000, 3000}, // now 8 in this second
			},
		},
		{
			"more than the limit is counted", "SEGMENTED 4/3s SEGMENTS 3 COUNTDENIED",
			[]step{{0, 500, true, 0, Never, 3000}, {2000, 1, true, 0, 1000, 3000}, {3000, 3, false, 0, Never, 3000}},
		},
		{
			"limit 0 denies everything", "SEGMENTED 0/3s SEGMENTS 3",
			[]step{{0, 1, true, 0, Never, 0}, {0, 0, true, 0, Never, 0}, {0, -1, false, 0, Never, 0}},
		},
		{
			"limit 0 counts nothing", "SEGMENTED 0/3s SEGMENTS 3 COUNTDENIED",
			[]step{{0, 1, true, 0, Never, 0}, {0, 0, true, 0, Never, 0}},
		},
		{
			"an hour as 60 minutes", "SEGMENTED 100/h SEGMENTS 60",
			[]step{
				{0, 60, false, 40, Never, 3600_000},
				{60_000, 40, false, 0, Never, 3600_000},
				{3599_999, 1, true, 0, 1, 60_001},
				{3600_000, 60, false, 0, Never, 3600_000},
				{3600_000, 1, true, 0, 60_000, 3600_000},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { runFrom(t, mustParse(t, tt.limit), aMinute, tt.steps) })
	}
}

// The sub-windows are rounded up to whole ns, so that n of them are no shorter
// than the period.
func TestSEGMENTEDSubWindows(t *testing.T) {
	tests := []struct{ period, n, want int64 }{
		{60e9, 60, 1e9},
		{10e6, 3, 3_333_334},
		{1, 2, 1},
		{1000, 1024, 1},
		{math.MaxInt64 - 1, 2, 1<<62 - 1},
	}
	for _, tt := range tests {
		l := withSegments(5, tt.period, tt.n)
		if got := subWindow(l.Period, l.Segments); got != tt.want {
			t.Errorf("%v: %d, want %d", l, got, tt.want)
		}
		_, d, err := take(&l, nil, 0, 1, nil)
		if err != nil || d.Reset != tt.want*tt.n {
			t.Errorf("%v: %+v, %v, want a reset in %d", l, d, err, tt.want*tt.n)
		}
	}
}

// The promise is kept to the last: Max at the end of a sub-window, and again
// when that has left.
func TestSEGMENTEDPromiseIsTight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(2, 100).Draw(t, "segments")
		l := withSegments(rapid.Int64Range(1, 1000).Draw(t, "limit"), n*rapid.Int64Range(1, 1e6).Draw(t, "length"), n)
		length := l.Period / n
		state, _, err := take(&l, nil, 7*length-1, l.Max, nil)
		if err != nil {
			t.Fatal(err)
		}
		again := 7*length - 1 + (n-1)*length + 1
		if !mustPeek(t, l, state, again-1, 1).Limited || mustPeek(t, l, state, again, l.Max).Limited {
			t.Fatalf("%v: the first have not left when the promise says", l)
		}
		if within, after := promised(l, (n-1)*length).Int64(), promised(l, (n-1)*length+1).Int64(); within != l.Max || after != 2*l.Max {
			t.Fatalf("%v: promised are %d and %d", l, within, after)
		}
	})
}

func TestSEGMENTEDLimitChanges(t *testing.T) {
	tests := []struct {
		after     string
		remaining int64
		reset     int64
	}{
		{"SEGMENTED 5/m SEGMENTS 6", 2, 60},
		{"SEGMENTED 9/m SEGMENTS 6", 6, 60},
		{"SEGMENTED 2/m SEGMENTS 6", 0, 60},
		{"SEGMENTED 5/m SEGMENTS 6 COUNTDENIED", 2, 60},
		{"SEGMENTED 5/m SEGMENTS 5", 2, 60},
		{"SEGMENTED 5/2m SEGMENTS 6", 2, 60},
		{"SEGMENTED 5/2m SEGMENTS 12", 2, 60}, // sub-windows of 10 s as well
	}
	before := mustParse(t, "SEGMENTED 5/m SEGMENTS 6")
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

// The waits after a change: all that counts leaves together, if that is before the
// first of it would.
func TestSEGMENTEDWaitsAfterAChange(t *testing.T) {
	tests := []struct {
		name   string
		before string
		takes  []int64 // at these seconds of an hour, one each
		after  string
		wait   int64 // s from the last
	}{
		{"a faster limit", "SEGMENTED 3/h SEGMENTS 60", []int64{5, 6, 7}, "SEGMENTED 3/m SEGMENTS 60", 60},
		{"half as much", "SEGMENTED 3/h SEGMENTS 60", []int64{5, 6, 7}, "SEGMENTED 2/m SEGMENTS 60", 120 - 1},
		{"not before the first", "SEGMENTED 3/h SEGMENTS 60", []int64{0, 3559, 3560}, "SEGMENTED 3/m SEGMENTS 60", 40},
		{"a slower limit", "SEGMENTED 3/m SEGMENTS 60", []int64{5, 6, 7}, "SEGMENTED 3/h SEGMENTS 60", 58},
		{"other parts", "SEGMENTED 3/m SEGMENTS 2", []int64{5, 6, 7}, "SEGMENTED 3/m SEGMENTS 60", 53},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, after := mustParse(t, tt.before), mustParse(t, tt.after)
			var state []byte
			now := int64(0)
			for _, at := range tt.takes {
				now = int64(1_700_000_000)/3600*3600*testSecond + at*testSecond
				next, _, err := take(&before, state, now, 1, nil)
				if err != nil {
					t.Fatal(err)
				}
				state = next
			}
			next, d, err := take(&after, state, now, 1, nil)
			if err != nil || !d.Limited || d.Wait != tt.wait*testSecond {
				t.Fatalf("%+v, %v, want to wait %d s", d, err, tt.wait)
			}
			if next != nil {
				state = next
			}
			checkWait(t, after, state, now, 1)
		})
	}
}

// A state has the counts from the oldest to the newest, as wide as the largest
// needs, and no wider once that has left.
func TestSEGMENTEDStateSize(t *testing.T) {
	l := mustParse(t, "SEGMENTED 9223372036854775807/m SEGMENTS 60")
	const head = 8 + 1 + 2
	tests := []struct {
		at   int64 // s
		cost int64 // negative: a refund
		want int
	}{
		{0, 255, head + 1},
		{3, 255, head + 4},
		{59, 255, head + 60},
		{60, 1, head + 58}, // the first has left, and 1 and 2 are empty
		{60, 255, head + 2*58},
		{61, 65_000, head + 2*59},
		{61, 65_000, head + 4*59},
		{62, 1 << 32, head + 8*60},
		{62, -(1 << 32), head + 8*59},
		{63, 1, head + 4*5}, // 59 to 63
		{119, 1, head + 4*60},
		{120, 1, head + 4*60},
		{121, 1, head + 59}, // 63 to 121
		{179, 1, head + 60},
		{300, 1, head + 1},
		{310, 1, head + 11},
		{320, 2, head + 21},
		{360, -1, head + 11}, // the first has left, and the second is the oldest
		{360, -9, head},
	}
	var state []byte
	for i, tt := range tests {
		now := aMinute + tt.at*testSecond
		call, cost := take, tt.cost
		if cost < 0 {
			call, cost = refund, -cost
		}
		next, d, err := call(&l, state, now, cost, nil)
		if err != nil || d.Limited || len(next) != tt.want {
			t.Fatalf("step %d: %d bytes, %+v, %v, want %d\n%x", i, len(next), d, err, tt.want, next)
		}
		state = next
	}
}

// A state is the same wherever it is written: over the old one, into another
// buffer with room, or elsewhere.
func TestSEGMENTEDAnyRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := withSegments(math.MaxInt64, 60e9, rapid.Int64Range(2, 40).Draw(t, "segments"))
		length := subWindow(l.Period, l.Segments)
		var state []byte
		now := aMinute
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			now += rapid.Int64Range(0, 3).Draw(t, "later") * length / 2
			cost := rapid.SampledFrom([]int64{1, 200, 300, 70_000, 1 << 33}).Draw(t, "cost")
			call := take
			if rapid.IntRange(0, 3).Draw(t, "refund") == 0 {
				call = refund
			}
			want, wantD, err := call(&l, state, now, cost, nil)
			if err != nil {
				t.Fatal(err)
			}
			size := max(len(want), len(state))
			room := append(make([]byte, 0, size), state...)
			other := bytes.Repeat([]byte{0xee}, size)
			for _, dst := range [][]byte{room[:0], other[:0], other[:0:0]} {
				next, d, err := call(&l, room, now, cost, dst)
				if !bytes.Equal(next, want) || d != wantD || err != nil {
					t.Fatalf("%x, %+v, %v, want %x, %+v", next, d, err, want, wantD)
				}
				if cap(dst) >= len(want) && len(want) > 0 && &next[0] != &dst[:1][0] {
					t.Fatalf("a state of %d bytes has moved", len(next))
				}
				room = append(room[:0], state...)
			}
			if want != nil {
				state = want
			}
		}
	})
}

func TestSumBytes(t *testing.T) {
	all := bytes.Repeat([]byte{0xff}, MaxSegments)
	for n := range len(all) + 1 {
		if got := sumBytes(all[:n]); got != uint64(n)*0xff {
			t.Fatalf("%d bytes of 255 are %d", n, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, MaxSegments).Draw(t, "bytes")
		want := uint64(0)
		for _, c := range b {
			want += uint64(c)
		}
		if got := sumBytes(b); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}

// A count is as wide as it must be, and reads back.
func TestCountWidths(t *testing.T) {
	for count, width := range map[int64]int{
		0: 1, 1: 1, 255: 1, 256: 2, 65_535: 2, 65_536: 4, 1<<32 - 1: 4, 1 << 32: 8, math.MaxInt64: 8,
	} {
		if got := widthOf(count); got != width {
			t.Errorf("%d has %d bytes, want %d", count, got, width)
		}
		counts := make([]byte, 3*width)
		putCount(counts, 1, width, count)
		if a, b, c := getCount(counts, 0, width), getCount(counts, 1, width), getCount(counts, 2, width); a != 0 || b != count || c != 0 {
			t.Errorf("0, %d, 0 are %d, %d, %d", count, a, b, c)
		}
	}
}

// segmentState returns a state with a head as it is written, and counts.
func segmentState(end int64, tag byte, n, log2 uint64, counts ...byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(end))
	return append(binary.AppendUvarint(append(b, tag), n<<2|log2), counts...)
}

func TestSEGMENTEDErrors(t *testing.T) {
	good := withSegments(5, 2e9, 2)
	const most, least = math.MaxInt64, math.MinInt64
	full := bytes.Repeat([]byte{0xff}, 8)
	testRefused(t, []refusal{
		{"negative limit", withSegments(-1, 1, 2), nil, 0, 1, ErrMax},
		{"no period", withSegments(1, 0, 2), nil, 0, 1, ErrPeriod},
		{"negative period", withSegments(1, least, 2), nil, 0, 1, ErrPeriod},
		{"no sub-windows", withSegments(1, 1, 0), nil, 0, 1, ErrSegments},
		{"one sub-window", withSegments(1, 1, 1), nil, 0, 1, ErrSegments},
		{"too many sub-windows", withSegments(1, 1, MaxSegments+1), nil, 0, 1, ErrSegments},
		{"negative sub-windows", withSegments(1, 1, least), nil, 0, 1, ErrSegments},
		{"negative cost", good, nil, 0, -1, ErrCost},
		{"a bucket's state", good, stateAt(5), 0, 1, ErrState},
		{"a state with a bad tag", good, segmentState(5, 0x20, 2, 0, 1), 0, 1, ErrState},
		{"a state of the calendar's", good, segmentState(5, 0x3f, 2, 0, 1), 0, 1, ErrState},
		{"a state that begins with a request", good, segmentState(5, 0x82, 2, 0, 1), 0, 1, ErrState},
		{"a state of one sub-window", good, segmentState(5, 0x02, 1, 0, 1), 0, 1, ErrState},
		{"a state of too many", good, segmentState(5, 0x02, 1025, 0, 1), 0, 1, ErrState},
		{"a state with half a number", good, append(stateAt(5), 0x02, 0x80), 0, 1, ErrState},
		{"more counts than sub-windows", good, segmentState(5, 0x02, 2, 0, 1, 1, 1), 0, 1, ErrState},
		{"half a count", good, segmentState(5, 0x02, 2, 1, 1), 0, 1, ErrState},
		{"a count that is no int64", good, segmentState(5, 0x02, 2, 3, full...), 0, 1, ErrState},
		{"a state too far ahead", good, segmentState(most, 0x02, 2, 0, 1), -1, 1, ErrOverflow},
		{"the end of time", good, nil, most, 1, ErrOverflow},
		{"the last sub-window but one", good, nil, most - 854_775_807, 1, ErrOverflow},
		{"into the last sub-window but one", good, segmentState(most-854_775_807, 0x02, 2, 0, 1), most - 854_775_808, 1, ErrOverflow},
		{"sub-windows longer than time", withSegments(5, most, 2), nil, 0, 0, ErrOverflow},
	})
}

// Arguments just within the range get exact answers.
func TestSEGMENTEDExtremes(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	full := bytes.Repeat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, 3)
	tests := []struct {
		name      string
		limit     Limit
		state     []byte
		now, cost int64
		want      Decision
	}{
		{"the last sub-windows of all", withSegments(5, 2e9, 2), nil, most - 2_854_775_807, 1, Decision{false, 5, 4, Never, 2e9}},
		{"denied at the end of time", withSegments(5, 2e9, 2), nil, most, 6, Decision{true, 5, 5, Never, 0}},
		{"the first sub-window of all", withSegments(5, 2e9, 2), nil, least, 1, Decision{false, 5, 4, Never, 1_854_775_808}},
		{"the longest period", withSegments(5, most-1, 2), nil, 0, 1, Decision{false, 5, 4, Never, most - 1}},
		{"the largest limit", withSegments(most, 3e9, 3), nil, 0, most, Decision{false, most, 0, Never, 3e9}},
		{"the largest counts", withSegments(most, 3e9, 3), segmentState(3e9, 0x03, 3, 3, full...), 0, 0, Decision{true, most, 0, 2e9, 3e9}},
		{"the largest counts, one more", withSegments(most, 3e9, 3), segmentState(3e9, 0x03, 3, 3, full...), 0, 1, Decision{true, most, 0, 3e9, 3e9}},
		{"the largest counts, 1 s later", withSegments(most, 3e9, 3), segmentState(3e9, 0x03, 3, 3, full...), 1e9, 0, Decision{true, most, 0, 1e9, 2e9}},
	}
	for _, tt := range tests {
		_, got, err := take(&tt.limit, tt.state, tt.now, tt.cost, nil)
		if err != nil || got != tt.want {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", tt.name, got, err, tt.want)
		}
	}
}

// A count does not wrap, nor does the sum.
func TestSEGMENTEDCountsNoFurther(t *testing.T) {
	l := withSegments(5, 3e9, 3)
	l.CountDenied = true
	var state []byte
	for _, at := range []int64{0, 0, 1e9, 1e9, 2e9} {
		next, d, err := take(&l, state, at, math.MaxInt64-1, nil)
		if err != nil || !d.Limited || d.Remaining != 0 {
			t.Fatal(d, err)
		}
		state = next
	}
	if got := Level(SEGMENTED.Kind(), state, 2e9); got != math.MaxInt64 {
		t.Errorf("%d are counted", got)
	}
	for _, want := range []int64{0, 0, 5} {
		next, d, err := refund(&l, state, 2e9, math.MaxInt64, nil)
		if err != nil || d.Remaining != want {
			t.Fatalf("%+v, %v, want %d left", d, err, want)
		}
		state = next
	}
}

func TestSEGMENTEDAllocatesNothing(t *testing.T) {
	l := mustParse(t, "SEGMENTED 100000/m SEGMENTS 60 COUNTDENIED")
	buf := make([]byte, 0, 512)
	now, state := aMinute, buf
	if n := testing.AllocsPerRun(1000, func() {
		now += 4e8
		next, _, err := take(&l, state, now, 300, buf)
		if err != nil {
			t.Fatal(err)
		}
		if next, _, err = refund(&l, next, now, 10, next); err != nil {
			t.Fatal(err)
		}
		state = next
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
