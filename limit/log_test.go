package limit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
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
				{100, 2, true, 0, 1000, 1000}, // 1 at 0, 2 at 100 ms
				{200, 1, true, 0, 900, 1000},  // 2 at 100, 1 at 200 ms
				{200, 0, false, 0, Never, 1000},
				{300, 4, true, 0, Never, 1000}, // 3 at 300 ms
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

// Another limit or period applies to the log as it is; what has left a shorter
// window stays for as long as a longer one counts it, and the log ends at the time
// that was told for its end.
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

// What a state costs, in bytes.
func TestLogSize(t *testing.T) {
	tests := []struct {
		limit string
		units int64 // one after the other, evenly over the period
		most  int
	}{
		{"LOG 5/m", 1, 10},
		{"LOG 5/m", 2, 16},
		{"LOG 5/m", 5, 30},
		{"LOG 1000/90s", 1, 16}, // a period that has no short form
		{"LOG 500/h", 500, 500*5 + 39 + 5*chunkHead + 20},
		{"LOG 65536/h", MaxLog, MaxLog * 41 / 10},
		{"LOG 65536/d", MaxLog, MaxLog * 52 / 10},
	}
	for _, tt := range tests {
		l := mustParse(t, tt.limit)
		var state []byte
		for i := range tt.units {
			next, d, err := take(&l, state, 1.7e18+i*(l.Period/tt.units), 1, state)
			if err != nil || d.Limited {
				t.Fatal(d, err)
			}
			state = next
		}
		if len(state) > tt.most {
			t.Errorf("%s: %d units have %d bytes, want %d at most", tt.limit, tt.units, len(state), tt.most)
		}
	}
	l := mustParse(t, "LOG 65536/h")
	state, _, err := take(&l, nil, 1.7e18, MaxLog/2, nil)
	for range 1000 {
		if err != nil {
			t.Fatal(err)
		}
		state, _, err = take(&l, state, 1.7e18, 1, nil)
	}
	if len(state) > 12 {
		t.Errorf("units of one time have %d bytes", len(state))
	}
}

// checkLog walks a state from end to end and tells what is wrong with it.
func checkLog(state []byte, now int64) error {
	var g entries
	if err := g.open(state, now); err != nil || g.count == 0 {
		return err
	}
	body := state[g.at:]
	if long := len(state) > shortLog; g.long != (state[8] == longTag || state[8] == heldTag) || long && !g.long {
		return fmt.Errorf("%d bytes, long: %t", len(state), g.long)
	}
	if g.long && g.start*deadShare >= len(body)-g.start {
		return fmt.Errorf("%d bytes of %d are dead", g.start, len(body))
	}
	count, at, latest := int64(0), g.start, g.oldest
	for at < len(body) {
		if at > g.start && ((g.phase+at)%chunk == 0 || body[at] == 0) {
			for ; (g.phase+at)%chunk != 0; at++ {
				if body[at] != 0 {
					return fmt.Errorf("filled with %x at %d", body[at], at)
				}
			}
			if n, time := g.head(body, at); n != count || time != latest {
				return fmt.Errorf("the chunk at %d tells of %d units until %d, there are %d until %d", at, n, time, count, latest)
			}
			at += chunkHead
		}
		v, n := binary.Uvarint(body[at:])
		switch {
		case n <= 0 || v < 2 || (g.phase+at)%chunk+n > chunk:
			return fmt.Errorf("no token at %d", at)
		case v&1 == 1:
			count += int64(v >> 1)
		case at == g.start && g.long:
			return errors.New("begins with a time")
		default:
			count++
			latest += int64(v >> 1)
		}
		at += n
	}
	if count != g.count || latest != g.newest {
		return fmt.Errorf("%d units until %d, counted %d until %d", count, latest, g.count, g.newest)
	}
	return nil
}

// logTwin is a twin that also keeps a state which is changed in place, and checks
// the layout.
type logTwin struct {
	twin
	place []byte
}

func newLogTwin() *logTwin { return &logTwin{twin: twin{model: new(logModel)}} }

func (tw *logTwin) step(l Limit, now, cost int64, giveBack bool) error {
	if err := tw.twin.step(l, now, cost, giveBack); err != nil {
		return err
	}
	call := take
	if giveBack {
		call = refund
	}
	if next, _, _ := call(&l, tw.place, now, cost, tw.place); next != nil {
		tw.place = next
	}
	if !bytes.Equal(tw.place, tw.state) {
		return fmt.Errorf("in place %x, else %x", tw.place, tw.state)
	}
	if err := checkLog(tw.state, now); err != nil && !errors.Is(err, ErrOverflow) {
		return fmt.Errorf("after %d units more at %d, refund %t: %w: %x", cost, now, giveBack, err, tw.state)
	}
	return nil
}

// TestLogLong walks with logs of many chunks beside the model.
func TestLogLong(t *testing.T) {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	w := walk{rand.New(rand.NewPCG(s, 0)), t}
	for _, most := range []int64{12, 60, 300, 900, MaxLog} {
		l := plain(LOG, most, int64(time.Minute)<<w.IntN(20), most)
		l.CountDenied = w.IntN(2) == 0
		typical := max(1, most/500)
		tw, now := newLogTwin(), int64(1.7e18)
		for i := range 3000 {
			cost := 1 + w.Int64N(2*typical)
			// Times when it fills, and times when it empties.
			rush := int64(1)
			if i/400%3 == 2 {
				rush = 40
			}
			now += w.Int64N(1 + 2*l.Period*typical/most*rush/3)
			giveBack := w.IntN(6) == 0
			switch w.IntN(60) {
			case 0:
				cost = w.Int64N(most + 2)
			case 1:
				now -= w.Int64N(l.Period)
			case 2:
				l.Period = min(max(8, l.Period+w.Int64N(l.Period/4)-l.Period/8), int64(time.Minute)<<19)
			case 3:
				now += l.Period / 2
			case 4:
				giveBack, cost = true, w.Int64N(most/2+2)
			}
			if w.IntN(3) == 0 {
				now -= now % 1_000_000 // several at one time
			}
			if err := tw.step(l, now, cost, giveBack); err != nil {
				t.Fatalf("-seed %d, LOG %d, step %d: %v", s, most, i, err)
			}
		}
	}
}

// TestLogAtChunkEnds has the end of a chunk at every byte of what may be there:
// tokens that grow, logs that become short, refunds.
func TestLogAtChunkEnds(t *testing.T) {
	l := mustParse(t, "LOG 1000/m")
	for n := range int64(100) {
		// One byte for each token, but for the last.
		tw, now := newLogTwin(), int64(1.7e18)
		for range 440 + n {
			now++
			next, _, err := take(&l, tw.place, now, 1, tw.place)
			if err != nil {
				t.Fatal(err)
			}
			tw.place = next
			tw.model.(*logModel).log = append(tw.model.(*logModel).log, admitted{big.NewInt(now), 1})
		}
		tw.model.(*logModel).end = big.NewInt(now + l.Period)
		tw.state = bytes.Clone(tw.place)
		for i, s := range []struct {
			later, cost int64
			giveBack    bool
		}{
			{0, 40, false},
			{0, 40, false}, // 64 and more have two bytes
			{0, 30, true},
			{0, 60, true}, // the token is gone, and some before it
			{200, 2, false},
			{0, 2, true},
			{1 << 30, 1, false},
			{0, 1, true},
			{l.Period - 1<<30 - 212 - n%7, 1, false}, // what stays is short
			{5, 1, false},
			{0, 3, true},
		} {
			now += s.later
			if err := tw.step(l, now, s.cost, s.giveBack); err != nil {
				t.Fatalf("%d tokens, step %d: %v", 440+n, i, err)
			}
		}
	}
}

// TestLogLongest is at the limit of LOG: beside the model there are some steps
// from a log of 65 536 units, no two of them at one time.
func TestLogLongest(t *testing.T) {
	l := plain(LOG, MaxLog, 3600e9, MaxLog)
	now := int64(1.7e18)
	tw := newLogTwin()
	m := tw.model.(*logModel)
	tw.place = fullLog(t, l, now, l.Period/MaxLog)
	for i := int64(MaxLog) - 1; i >= 0; i-- {
		m.log = append(m.log, admitted{big.NewInt(now - i*(l.Period/MaxLog)), 1})
	}
	m.end = big.NewInt(now + l.Period)
	if len(tw.place) < 4*MaxLog {
		t.Fatalf("only %d bytes", len(tw.place))
	}
	tw.state = bytes.Clone(tw.place)
	for i, s := range []struct {
		later, cost int64
		giveBack    bool
	}{
		{0, 1, false},
		{0, MaxLog, false},
		{0, MaxLog / 3, false},
		{l.Period / 7, 100, false},
		{0, 50_000, false},
		{0, 20_000, true},
		{l.Period / 2, 1, false},
		{-l.Period, 1, false},
		{l.Period, MaxLog / 2, true},
		{l.Period / 3, 1, true},
	} {
		if now += s.later; tw.step(l, now, s.cost, s.giveBack) != nil {
			t.Fatalf("step %d: %v", i, tw.step(l, now, s.cost, s.giveBack))
		}
	}
}

// TestLogMovesLittle counts the bytes that are moved to cut off what has been
// dropped: in place nothing else moves anything. However long the log, they are
// a few for each byte that has been appended.
func TestLogMovesLittle(t *testing.T) {
	for _, most := range []int64{100, 5000, MaxLog} {
		l := plain(LOG, most, 3600e9, most)
		each := (l.Period + most - 1) / most
		now := int64(1.7e18)
		state := fullLog(t, l, now, each)
		first := len(state)
		moved, cuts := 0, 0
		for range most {
			now += each
			before := binary.LittleEndian.Uint32(state[11:])
			at := &state[0]
			next, d, err := take(&l, state, now, 1, state)
			if err != nil || d.Limited {
				t.Fatal(d, err)
			}
			if state = next; &state[0] != at {
				t.Fatalf("LOG %d: the state has moved", most)
			}
			if binary.LittleEndian.Uint32(state[11:]) < before {
				moved += len(state)
				cuts++
			}
		}
		appended := int(most) * 5
		if moved > (deadShare+2)*appended || cuts == 0 {
			t.Errorf("LOG %d: %d bytes moved in %d cuts for %d appended", most, moved, cuts, appended)
		}
		if len(state) > first*9/8+100 {
			t.Errorf("LOG %d: grown from %d bytes to %d", most, first, len(state))
		}
	}
}

// Bytes that LOG has not made are refused or answered, never a panic.
func TestLogDamaged(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	l := plain(LOG, 300, 60e9, 300)
	now := int64(1.7e18)
	refused := 0
	for _, n := range []int64{1, 4, 20, 300} {
		l.Max = n
		whole := bytes.Clone(fullLog(t, l, now, 1e8))
		for range 20_000 {
			state := bytes.Clone(whole)
			for range 1 + r.IntN(3) {
				state[8+r.IntN(len(state)-8)] = byte(r.Uint32())
			}
			if r.IntN(4) == 0 {
				state = state[:r.IntN(len(state))]
			}
			refused += useDamaged(l, state, now+r.Int64N(l.Period), r.Int64N(n+2))
		}
	}
	if refused < 10_000 {
		t.Errorf("only %d states are refused", refused)
	}
}

// useDamaged makes every call with a state, and tells how many refuse it.
func useDamaged(l Limit, state []byte, now, cost int64) (refused int) {
	for _, countDenied := range []bool{false, true} {
		l.CountDenied = countDenied
		if _, _, err := take(&l, state, now, cost, nil); errors.Is(err, ErrState) {
			refused++
		}
	}
	if _, err := peek(&l, state, now, cost); errors.Is(err, ErrState) {
		refused++
	}
	if _, _, err := refund(&l, state, now, cost, nil); errors.Is(err, ErrState) {
		refused++
	}
	Level(LOG.Kind(), state, now)
	return refused
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
