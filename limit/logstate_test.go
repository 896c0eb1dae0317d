package limit

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// TestLogStatesOnDisk checks the bytes of a log, which are on disks: every form stays as it is and
// readable for good. Of a long state the test has the length and the SHA-256.
func TestLogStatesOnDisk(t *testing.T) {
	type calls struct {
		limit       string
		times       int
		later, cost int64 // before each, in ms; given back if it is below 0
	}
	tests := []struct {
		name  string
		calls []calls
		state string
		level int64
	}{
		{"short", []calls{{"LOG 5/m", 3, 1000, 1}}, "00b641e10c9d9717210380a8d6b90780a8d6b907", 3},
		{"one time", []calls{{"LOG 900/m", 3, 0, 200}}, "0058712e0c9d971721b109", 600},
		{"a period without a short tag", []calls{{"LOG 5/90s", 2, 7, 2}}, "80a36a2b139d9717008088aca3cf020580bfd60603", 4},
		{"short, held for longer", []calls{{"LOG 10/h", 2, 20, 3}, {"LOG 100/m", 1, 1000, 2}}, "00fa446944a097178080acf7a8df6841000780b489130580a8d6b90703", 8},
		{"all refunded", []calls{{"LOG 10/h", 2, 20, 3}, {"LOG 10/h", 1, 20, -6}}, "0087bd39fe9c9717", 0},
		{"long", []calls{{"LOG 100/h", 100, 1000, 1}}, "540 bytes, 238b4e6212374205", 100},
		{"long, held for longer", []calls{{"LOG 100/h", 100, 1000, 1}, {"LOG 200/m", 3, 1000, 5}}, "590 bytes, 5a44dd7064c750a2", 115},
		{"chunks", []calls{{"LOG 900/h", 420, 1234, 2}}, "2628 bytes, e21136c1fb49a658", 840},
		{"cut off in front", []calls{{"LOG 500/h", 700, 9000, 1}}, "2323 bytes, 6344d6b950f967aa", 400},
		{"dropped in front", []calls{{"LOG 500/h", 430, 9000, 1}}, "2242 bytes, d57dc06784f51ef8", 400},
		{"refunded in an earlier chunk", []calls{{"LOG 900/h", 420, 1234, 2}, {"LOG 900/h", 1, 5, -301}, {"LOG 900/h", 2, 5, 70}}, "1713 bytes, 3f30cb4393a93760", 679},
		{"short again", []calls{{"LOG 900/h", 420, 1234, 2}, {"LOG 900/h", 1, 5, -831}}, "805aa5d645a09717410580e2ea98090380e2ea98090380e2ea98090380e2ea9809", 9},
	}
	for _, tt := range tests {
		var state []byte
		now := int64(1.7e18)
		for _, c := range tt.calls {
			l, call := mustParse(t, c.limit), take
			if c.cost < 0 {
				call = refund
			}
			for range c.times {
				now += c.later * 1e6
				next, d, err := call(&l, state, now, max(c.cost, -c.cost), nil)
				if err != nil || d.Limited {
					t.Fatalf("%s: %+v, %v", tt.name, d, err)
				}
				state = next
			}
		}
		got := hex.EncodeToString(state)
		if len(state) > shortLog {
			got = fmt.Sprintf("%d bytes, %.8x", len(state), sha256.Sum256(state))
		}
		if got != tt.state {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.state)
		}
		if level := Level(LOG.Kind(), state, now); level != tt.level {
			t.Errorf("%s: %d units, want %d", tt.name, level, tt.level)
		}
	}
}

// The size of a state, in bytes.
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
		{"LOG 500/h", 500, 500*5 + longHead + 5*chunkHead + 20},
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

// checkLog walks a state from end to end and returns its first fault.
func checkLog(state []byte, now int64) error {
	var g entries
	if err := g.open(state, now); err != nil || g.count == 0 {
		return err
	}
	body := state[g.at:]
	if long := len(state) > shortLog; g.long != (state[8]&^heldBit == longTag) || long && !g.long {
		return fmt.Errorf("%d bytes, long: %t", len(state), g.long)
	}
	if g.long && g.start*deadShare >= len(body)-g.start {
		return fmt.Errorf("%d bytes of %d are dead", g.start, len(body))
	}
	count, at, latest := g.first, g.start, g.oldest
	for at < len(body) {
		if (g.phase+at)%chunk == 0 || body[at] == 0 {
			for ; (g.phase+at)%chunk != 0; at++ {
				if body[at] != 0 {
					return fmt.Errorf("filled with %x at %d", body[at], at)
				}
			}
			if n, time := g.head(body, at); n != count || time != latest {
				return fmt.Errorf("the chunk at %d says %d units until %d, there are %d until %d", at, n, time, count, latest)
			}
			at += chunkHead
		}
		v, n := binary.Uvarint(body[at:])
		switch {
		case n <= 0 || v < 2 || (g.phase+at)%chunk+n > chunk:
			return fmt.Errorf("no token at %d", at)
		case v&1 == 1:
			count += int64(v >> 1)
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
//
//test:norace
func TestLogLong(t *testing.T) {
	s := walkSeed()
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
				t.Fatalf("RAPID_SEED=%d, LOG %d, step %d: %v", s, most, i, err)
			}
		}
	}
}

// TestLogAtChunkEnds puts the end of a chunk at every byte of what may be there:
// tokens that grow, logs that become short, refunds.
//
//test:norace
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
//
//test:norace
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
			before := binary.LittleEndian.Uint32(state[17:])
			at := &state[0]
			next, d, err := take(&l, state, now, 1, state)
			if err != nil || d.Limited {
				t.Fatal(d, err)
			}
			if state = next; &state[0] != at {
				t.Fatalf("LOG %d: the state has moved", most)
			}
			if binary.LittleEndian.Uint32(state[17:]) < before {
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
//
//test:norace
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

// useDamaged makes every call with a state, and returns how many refuse it.
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
