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

// ceil is ⌈a/b⌉.
func ceil(a, b *big.Int) *big.Int {
	n, rest := new(big.Int).DivMod(a, b, new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	return n
}

// A bucket with a count and the time of the next arrival, kept up arrival by
// arrival, holds what INTERVAL says.
func TestTOKENIntervalArrivals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := plain(TOKEN, rapid.Int64Range(1, 20).Draw(t, "max"), rapid.Int64Range(1, 1000).Draw(t, "period"), rapid.Int64Range(1, 60).Draw(t, "burst"))
		l.Interval = true
		now, tokens, arrival := int64(0), l.Burst, int64(0)
		var state []byte
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			now += rapid.Int64Range(0, 2*l.Period).Draw(t, "later")
			for tokens < l.Burst && arrival <= now {
				tokens = min(l.Burst, tokens+l.Max)
				arrival += l.Period
			}
			cost := rapid.Int64Range(1, l.Burst).Draw(t, "cost")
			next, d, err := take(&l, state, now, cost, nil)
			if err != nil || d.Limited == (cost <= tokens) {
				t.Fatalf("%v: cost %d of %d at %d: %+v, %v", l, cost, tokens, now, d, err)
			}
			if d.Limited {
				continue
			}
			if tokens == l.Burst {
				arrival = now + l.Period
			}
			tokens -= cost
			state = next
			if d.Remaining != tokens {
				t.Fatalf("%v: %d left at %d: %+v", l, tokens, now, d)
			}
		}
	})
}

// intervalState returns a state of INTERVAL.
func intervalState(full, period, missing, most int64) []byte {
	u := use{ahead: full, period: period, missing: missing, most: most}
	return u.put(nil, 0)
}

// INTERVAL and the other algorithms of the family take turns on a key: each
// reads the state that another has left.
func TestTOKENIntervalAmongOthers(t *testing.T) {
	const sec = int64(time.Second)
	each, gcra, half := mustParse(t, "TOKEN 10/s INTERVAL"), mustParse(t, "GCRA 10/s"), mustParse(t, "TOKEN 5/s INTERVAL")
	ten := func(full, missing int64) []byte { return intervalState(full, sec, missing, 10) }
	gcraAt := func(full int64) []byte { return putBucket(nil, full, sec/10, noCode) }
	tests := []struct {
		name      string
		limit     Limit
		state     []byte
		now, cost int64
		want      Decision
		next      []byte
	}{
		{"half of GCRA's", each, gcraAt(sec / 2), 0, 1, Decision{false, 10, 4, Never, sec / 2}, ten(sec/2, 6)},
		{"half of GCRA's, without a pace", each, stateAt(sec / 2), 0, 1, Decision{false, 10, 4, Never, sec / 2}, ten(sec/2, 6)},
		{"a part of one is one", each, gcraAt(1), 0, 9, Decision{false, 10, 0, Never, 1}, ten(1, 10)},
		{"a part of one is one, denied", each, gcraAt(1), 0, 10, Decision{true, 10, 9, 1, 1}, nil},
		{"until one is taken, they come one by one", each, gcraAt(sec), sec / 10, 1, Decision{false, 10, 0, Never, sec * 9 / 10}, ten(sec, 10)},
		{"the wait for the first one, too", each, gcraAt(sec), 0, 1, Decision{true, 10, 0, sec / 10, sec}, nil},
		{"GCRA's debts", each, gcraAt(5 * sec), 0, 1, Decision{true, 10, 0, 4*sec + sec/10, 5 * sec}, nil},
		{"GCRA has the tokens", gcra, ten(sec/2, 6), 0, 1, Decision{false, 10, 3, Never, sec * 7 / 10}, gcraAt(sec * 7 / 10)},
		{"GCRA waits for an arrival", gcra, ten(sec/2, 10), 0, 1, Decision{true, 10, 0, sec / 2, sec / 2}, nil},
		{"fewer a period: they arrive as before", half, ten(sec, 10), 0, 1, Decision{true, 5, 0, sec, sec}, nil},
		{"fewer a period: one more is missing", half, ten(sec, 4), 0, 1, Decision{false, 5, 0, Never, sec}, intervalState(sec, sec, 5, 5)},
		{"more a period: a denial moves to them", each, intervalState(2*sec, sec, 10, 5), 0, 1, Decision{true, 10, 0, sec, sec}, ten(sec, 10)},
	}
	for _, tt := range tests {
		next, d, err := take(&tt.limit, tt.state, tt.now, tt.cost, nil)
		if err != nil || d != tt.want || string(next) != string(tt.next) {
			t.Errorf("%s:\n got %+v, %x, %v\nwant %+v, %x", tt.name, d, next, err, tt.want, tt.next)
		}
	}
	back, d, err := refund(&each, ten(3*sec, 30), 0, 21, nil)
	if want := (Decision{false, 10, 1, Never, sec}); err != nil || d != want || string(back) != string(ten(sec, 9)) {
		t.Errorf("refund of two arrivals and one: %+v, %x, %v", d, back, err)
	}
}

// The wait is exact on a key that was used without INTERVAL, and the other way
// round.
func TestTOKENIntervalWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t, TOKEN)
		state, now := drawDebts(t, l)
		l.Interval = !l.Interval
		cost := rapid.Int64Range(0, l.Burst+1).Draw(t, "cost")
		checkWait(t, l, state, now, cost)
		state, d := keepReserve(t, l, state, now, cost, 0)
		if !d.Limited || d.Wait == Never {
			return
		}
		if _, then := mustReserve(t, l, state, now+d.Wait, cost, 0); then.Limited || then.Wait != Never {
			t.Fatalf("%+v, and then %+v", d, then)
		}
		if _, then := keepReserve(t, l, state, now+d.Wait-1, cost, 0); !then.Limited || then.Wait != 1 {
			t.Fatalf("%+v, and 1 ns before %+v", d, then)
		}
	})
}

func TestTOKENIntervalExtremes(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	interval := func(limit, period, burst int64) Limit {
		l := plain(TOKEN, limit, period, burst)
		l.Interval = true
		return l
	}
	state := func(full int64, missing uint64) []byte { // with a Period and a Max of 1
		b := binary.AppendUvarint(append(stateAt(full), 1, 0, 0, 0, 0, 0, 0, 0), missing)
		return append(b, 1)
	}
	tests := []struct {
		name      string
		limit     Limit
		state     []byte
		now, cost int64
		want      Decision
		err       error
	}{
		{"everything at once", interval(most, most, most), nil, 0, most, Decision{false, most, 0, Never, most}, nil},
		{"the end of time", interval(1, 1, 5), nil, most - 5, 5, Decision{false, 5, 0, Never, 5}, nil},
		{"past the end of time", interval(1, 1, 5), nil, most - 4, 5, Decision{}, ErrOverflow},
		{"too many missing", interval(most, 1, most), intervalState(1, 1, most, most), 0, 1, Decision{true, most, 0, 1, 1}, nil},
		{"as many as can be", interval(1, 1, most), state(most-1, most-1), 0, 1, Decision{false, most, 0, Never, most}, nil},
		{"arrivals for ever", interval(1, 2, most), nil, 0, 1 << 62, Decision{}, ErrOverflow},
		{"a state too far ahead", interval(1, 1, 1), state(0, 1), least, 1, Decision{}, ErrOverflow},
		{"a state long past", interval(1, 1, 1), state(least, 1), most - 1, 1, Decision{false, 1, 0, Never, 1}, nil},
		{"nothing missing", interval(1, 1, 1), state(5, 0), 0, 1, Decision{}, ErrState},
		{"missing too much", interval(1, 1, 1), state(5, 1<<63), 0, 1, Decision{}, ErrState},
		{"two numbers more", interval(1, 1, 1), append(state(5, 1), 1, 1), 0, 1, Decision{}, ErrState},
		{"no period", interval(1, 1, 1), intervalState(5, 0, 1, 1), 0, 1, Decision{}, ErrState},
		{"no size of an arrival", interval(1, 1, 1), intervalState(5, 1, 1, 0), 0, 1, Decision{}, ErrState},
		{"no pace", interval(1, 1, 1), append(stateAt(5), 0, 0), 0, 1, Decision{}, ErrState},
		{"half a number", interval(1, 1, 1), append(stateAt(5), 0x80), 0, 1, Decision{}, ErrState},
		{"a damaged state of another", plain(GCRA, 1, 1, 1), append(stateAt(5), 0x80), 0, 1, Decision{}, ErrState},
		{"a state too far ahead, of another", plain(GCRA, 1, 1, 1), state(0, 1), least, 1, Decision{}, ErrOverflow},
		{"negative cost", interval(1, 1, 1), nil, 0, -1, Decision{}, ErrCost},
		{"negative burst", interval(1, 1, -1), nil, 0, 1, Decision{}, ErrBurst},
	}
	for _, tt := range tests {
		_, d, err := take(&tt.limit, tt.state, tt.now, tt.cost, nil)
		if d != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v, %v", tt.name, d, err, tt.want, tt.err)
		}
		if tt.cost != -1 && errors.Is(tt.err, ErrState) {
			if _, _, err := refund(&tt.limit, tt.state, tt.now, 1, nil); !errors.Is(err, tt.err) {
				t.Errorf("%s: refund: %v", tt.name, err)
			}
			if _, _, err := reserve(&tt.limit, tt.state, tt.now, 1, 0, nil); !errors.Is(err, tt.err) {
				t.Errorf("%s: reserve: %v", tt.name, err)
			}
		}
	}
}

// The clock goes back until a debt, in the terms of another limit, is longer than any wait.
func TestTOKENIntervalLongestDebt(t *testing.T) {
	l := mustParse(t, "TOKEN 15/s INTERVAL")
	tw := twin{model: models()[TOKEN]()}
	if err := tw.reserve(l, 0, 117, -1); err != nil { // for 8 s
		t.Fatal(err)
	}
	l.Burst = 1 // for 117 s
	for _, now := range []int64{8e9 - math.MaxInt64, 124e9 - math.MaxInt64, 125e9 - math.MaxInt64} {
		for _, maxWait := range []int64{math.MaxInt64, math.MaxInt64 - 1, 115e9 + 1, 115e9, 115e9 - 1, -1} {
			for _, cost := range []int64{0, 1} {
				if err := tw.reserve(l, now, cost, maxWait); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// A state that grows by a byte has no room where it is, and stays as it is there.
func TestTOKENIntervalGrows(t *testing.T) {
	l := mustParse(t, "TOKEN 1000/s INTERVAL")
	for _, state := range []string{string(stateAt(1e6)), string(intervalState(1e9, 1e9, 127, 1000))} {
		tight := append(make([]byte, 0, len(state)), state...)
		next, _, err := take(&l, tight, 0, 200, tight)
		if err != nil || len(next) <= len(state) || string(tight) != state {
			t.Errorf("%x became %x, and the next is %x, %v", state, tight, next, err)
		}
	}
}

func TestTOKENIntervalAllocatesNothing(t *testing.T) {
	l := mustParse(t, "TOKEN 1000/ms INTERVAL")
	if n := testing.AllocsPerRun(100, func() {
		var buf [MaxState]byte
		state, _, err := take(&l, nil, 0, 300, buf[:])
		if err != nil || len(state) != 20 {
			t.Fatal(len(state), err)
		}
		if state, _, err = reserve(&l, state, 0, 1e15, 0, state); err != nil || len(state) != 16+8+2 {
			t.Fatal(len(state), err)
		}
		if state, _, err = refund(&l, state, 0, 1e15, state); err != nil || len(state) != 20 {
			t.Fatal(len(state), err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
