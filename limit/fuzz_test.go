package limit

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// FuzzParse checks that no input panics, that an error fits on one line, and that
// a limit that parses prints in its one spelling.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"GCRA 100/m BURST 20", "gcra 100 60000 burst 20", "GCRA 5/10s", "GCRA 1 1w", "GCRA 0/d", "GCRA 1/us BURST 9",
		"GCRA 1/9223372036854775807ns", "GCRA 9223372036854775808/s", "GCRA 1/s BURST 1 BURST 1", "GCRA 1/\x00", "",
		"fixed 5 calendar day tz Europe/Berlin countdenied", "FIXED 5/m FIRST", "FIXED 5 CALENDAR", "FIXED 5/m TZ UTC",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := parse(s)
		if err != nil {
			checkErrorText(t, err)
			if l != (Limit{}) {
				t.Fatalf("%v comes with %+v", err, l)
			}
			return
		}
		if err := l.Validate(); err != nil {
			t.Fatalf("Parse(%q) = %+v: %v", s, l, err)
		}
		text := l.String()
		back, err := parse(text)
		if err != nil || back != l || back.String() != text {
			t.Fatalf("Parse(%q) = %+v, which prints %q, which is %+v, %v", s, l, text, back, err)
		}
		// Longer by the unit, if s is in plain milliseconds, and not at all else.
		if len(text) > len(s)+len("ms") {
			t.Fatalf("%q prints longer: %q", s, text)
		}
	})
}

// FuzzGCRA makes four calls on one key, with any arguments, beside the model.
func FuzzGCRA(f *testing.F) { fuzzBucket(f, GCRA) }

// FuzzLEAKY does what FuzzGCRA does.
func FuzzLEAKY(f *testing.F) { fuzzBucket(f, LEAKY) }

// FuzzQUEUE does what FuzzGCRA does.
func FuzzQUEUE(f *testing.F) { fuzzBucket(f, QUEUE) }

// FuzzTOKEN does what FuzzGCRA does. Bits of the calls choose INTERVAL.
func FuzzTOKEN(f *testing.F) {
	f.Add(int64(5), int64(60e9), int64(12), int64(0), int64(12), int64(60e9), int64(6), uint8(0), uint8(0xf))
	f.Add(int64(5), int64(60e9), int64(12), int64(1.7e18), int64(7), int64(1.7e18+70e9), int64(1), uint8(0x4a), uint8(0b1010))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(0), int64(math.MaxInt64), int64(math.MinInt64), int64(0), uint8(0), uint8(0xf))
	f.Fuzz(func(t *testing.T, most, period, burst, now1, cost1, now2, cost2 int64, calls, intervals uint8) {
		tw := twin{model: models()[TOKEN]()}
		for i, call := range []struct{ most, burst, now, cost int64 }{
			{most, burst, now1, cost1}, {most, burst, now2, cost2}, {burst, most, now1, cost2}, {most, burst, now2, cost1},
		} {
			l := plain(TOKEN, call.most, period, call.burst)
			l.Interval = intervals>>i&1 == 1
			fuzzCall(t, &tw, l, call.now, call.cost, calls>>i)
		}
	})
}

// FuzzWARMUP makes four calls on one key, with any arguments, beside the model.
// The other limit has the warm-up, the period and the cold factor of the first in
// other places.
func FuzzWARMUP(f *testing.F) {
	f.Add(int64(2), int64(1e9), int64(4e9), int64(3), int64(0), int64(1), int64(1375e6), int64(2), uint8(0))
	f.Add(int64(20), int64(10e9), int64(4e9), int64(10), int64(1.7e18), int64(20), int64(1.7e18+1), int64(3), uint8(0b1010))
	f.Add(int64(5), int64(1e9), int64(1e9), int64(1), int64(-1), int64(9), int64(1), int64(2), uint8(0x90))
	f.Add(int64(1), int64(math.MaxInt64), int64(maxWarm), int64(MaxCold), int64(math.MinInt64), int64(1), int64(math.MaxInt64), int64(1), uint8(0x40))
	f.Add(int64(0), int64(0), int64(-1), int64(0), int64(0), int64(-1), int64(0), int64(math.MinInt64), uint8(0xff))
	f.Fuzz(func(t *testing.T, most, period, warm, cold, now1, cost1, now2, cost2 int64, calls uint8) {
		l, other := plain(WARMUP, most, period, most), plain(WARMUP, cost1, warm, cost1)
		l.Warm, l.Cold = warm, cold
		other.Warm, other.Cold = period, most%8
		tw := twin{model: models()[WARMUP]()}
		for i, call := range []struct {
			l         Limit
			now, cost int64
		}{{l, now1, cost1}, {l, now2, cost2}, {other, now1, cost2}, {l, now2, cost1}} {
			fuzzCall(t, &tw, call.l, call.now, call.cost, calls>>i)
		}
	})
}

// fuzzBucket makes four calls on one key beside the model. The lower bits of
// calls make them refunds, the upper ones reservations.
func fuzzBucket(f *testing.F, a Algorithm) {
	f.Add(int64(1), int64(1e9), int64(5), int64(0), int64(1), int64(3e9), int64(6), uint8(0))
	f.Add(int64(30), int64(60e9), int64(16), int64(1.7e18), int64(16), int64(1.7e18+1), int64(1), uint8(0b1010))
	f.Add(int64(0), int64(1), int64(0), int64(-1), int64(0), int64(1), int64(2), uint8(1))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(1), int64(math.MinInt64), int64(0), uint8(3))
	f.Add(int64(3), int64(1e9), int64(-1), int64(0), int64(-1), int64(0), int64(math.MinInt64), uint8(0xff))
	f.Add(int64(3), int64(1e9), int64(2), int64(0), int64(9), int64(1), int64(2), uint8(0x90))
	f.Add(int64(1), int64(math.MaxInt64), int64(1), int64(math.MaxInt64-1), int64(0), int64(math.MinInt64), int64(31), uint8(0))
	f.Fuzz(func(t *testing.T, most, period, burst, now1, cost1, now2, cost2 int64, calls uint8) {
		l := plain(a, most, period, burst)
		other := plain(a, burst, period, most)
		tw := twin{model: models()[a]()}
		for i, call := range []struct {
			l         Limit
			now, cost int64
		}{{l, now1, cost1}, {l, now2, cost2}, {other, now1, cost2}, {l, now2, cost1}} {
			fuzzCall(t, &tw, call.l, call.now, call.cost, calls>>i)
		}
	})
}

// fuzzCall makes a call on both sides: a reservation if bit 4 of kind is set, a
// refund if bit 0 is.
func fuzzCall(t *testing.T, tw *twin, l Limit, now, cost int64, kind uint8) {
	t.Helper()
	var err error
	if kind>>4&1 == 1 {
		// As long as a few of the interval: 0, or some of the debts there are.
		err = tw.reserve(l, now, cost, l.Period&0xff_ffff)
	} else {
		err = tw.step(l, now, cost, kind&1 == 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	if taken := kind&0b1_0001 == 0 && cost > 0; taken { // else a denial has not been stored
		checkWait(t, l, tw.state, now, cost)
	}
}

// FuzzFIXED makes four calls on one key, with any arguments, beside the model.
func FuzzFIXED(f *testing.F) { fuzzCounter(f, FIXED) }

// FuzzSLIDING does what FuzzFIXED does.
func FuzzSLIDING(f *testing.F) { fuzzCounter(f, SLIDING) }

// FuzzSEGMENTED does what FuzzFIXED does.
func FuzzSEGMENTED(f *testing.F) { fuzzCounter(f, SEGMENTED) }

// fuzzCounter makes four calls on one key beside the model. The bits of calls
// make them refunds; those of options choose among what the algorithm has, from
// the lowest on: COUNTDENIED, FIRST, the calendar's unit (4), the zone (3), the
// segments (7). The upper bits of calls make one limit another kind of window.
func fuzzCounter(f *testing.F, a Algorithm) {
	const calendarDay, berlin = uint16(Day) << 2, 1 << 6
	f.Add(int64(3), int64(60e9), int64(0), int64(2), int64(59e9), int64(1), uint8(0), uint16(0))
	f.Add(int64(3), int64(1), int64(math.MaxInt64), int64(3), int64(math.MinInt64), int64(1), uint8(0b1010), uint16(1))
	f.Add(int64(0), int64(1e9), int64(-1), int64(1), int64(1), int64(0), uint8(0b0100), uint16(1))
	f.Add(int64(9), int64(1e9), int64(1.7e18), int64(9), int64(1.7e18+1e9), int64(9), uint8(0b0010), uint16(2))
	f.Add(int64(9), int64(1e9), int64(1.7e18), int64(9), int64(1.7e18+1e9), int64(9), uint8(0), calendarDay|berlin)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(0), int64(math.MaxInt64), int64(1), int64(1), uint8(0b1000), uint16(5<<9))
	f.Add(int64(9), int64(3600e9), int64(1.7e18), int64(9), int64(1.7e18+1e9), int64(1), uint8(0x10), uint16(2))
	f.Add(int64(9), int64(3600e9), int64(1.7e18), int64(2), int64(1.7e18+1e9), int64(5), uint8(0x30), uint16(2))
	f.Add(int64(9), int64(3600e9), int64(1.7e18), int64(2), int64(1.7e18+1e9), int64(5), uint8(0x40), calendarDay|berlin)
	// Another period, where the first is used up: denied under a faster and a slower
	// one, with counts and times near the ends, and parts that do not divide them.
	for _, most := range []int64{3, 7, math.MaxInt64 / 3, math.MaxInt64} {
		for _, period := range []int64{42, 43 * 256, 60e9, math.MaxInt64 / 4, math.MaxInt64} {
			for _, calls := range []uint8{0x10, 0x14, 0x1c} {
				f.Add(most, period, int64(1.7e18), most-1, 1.7e18+period/3, int64(2), calls, uint16(2<<9))
				f.Add(most, period, int64(math.MinInt64), most, math.MinInt64+period, most/2+1, calls, uint16(0))
				f.Add(most, period, math.MaxInt64-period, most, int64(math.MaxInt64), most, calls, uint16(1022<<6))
			}
		}
	}
	f.Fuzz(func(t *testing.T, most, period, now1, cost1, now2, cost2 int64, calls uint8, options uint16) {
		has := func(o option) bool { return optionsOf[a]&o != 0 }
		l := plain(a, most, period, most)
		l.CountDenied = has(optCountDenied) && options&1 != 0
		if unit := Unit(options >> 2 & 15); has(optCalendar) && unit > 0 && unit <= Year {
			l.Period, l.Calendar, l.Zone = 0, unit, mustZone(t, someZones()[int(options>>6&7)%5])
		}
		l.First = has(optFirst) && options&2 != 0 && l.Calendar == NoUnit
		if has(optSegments) {
			l.Segments = 2 + int64(options>>9)
		}
		other := l
		other.Max, other.Burst = cost1, cost1
		if calls&0x10 != 0 && l.Calendar == NoUnit {
			other.Period = period>>8 + 1
		}
		other.First = l.First != (has(optFirst) && calls&0x20 != 0 && l.Calendar == NoUnit)
		if calls&0x40 != 0 && l.Calendar != NoUnit {
			other.Calendar, other.Zone = l.Calendar%Year+1, nil
		}
		tw := twin{model: models()[a]()}
		for i, call := range []struct {
			l         Limit
			now, cost int64
		}{{l, now1, cost1}, {l, now2, cost2}, {other, now1, cost2}, {l, now2, cost1}} {
			if err := tw.step(call.l, call.now, call.cost, calls>>i&1 == 1); err != nil {
				t.Fatal(err)
			}
			peeked := calls>>i&1 == 1 || call.cost == 0         // a denial that is not stored
			if !peeked && (a == FIXED || !call.l.CountDenied) { // else the peeks' own counts make it longer
				checkWait(t, call.l, tw.state, call.now, call.cost)
			}
		}
	})
}

// FuzzState makes a call on a state of any bytes. The call returns an error, or
// an answer whose state can be read again.
func FuzzState(f *testing.F) {
	f.Add(uint8(FIXED), []byte("12345678\x01\x07"), int64(0), int64(1), uint8(0))
	f.Add(uint8(GCRA), []byte("12345678"), int64(math.MaxInt64), int64(1), uint8(1))
	for _, hostile := range hostileStates() {
		for kind := range uint8(8) {
			f.Add(uint8(hostile.a), hostile.state, int64(0), int64(1+kind), kind)
		}
	}
	f.Fuzz(func(t *testing.T, number uint8, state []byte, now, cost int64, kind uint8) {
		a := Algorithm(number)
		if !a.Valid() {
			return
		}
		l := sample(t, a)
		if kind&2 != 0 { // not the period of the seeds
			l.Period = l.Period/7 + 1
		}
		l.Interval = kind&4 != 0 && a == TOKEN
		l.First = kind&4 != 0 && a == FIXED
		call := take
		if kind&1 == 1 {
			call = refund
		}
		before := string(state)
		next, _, err := call(&l, state, now, cost, nil)
		if string(state) != before {
			t.Fatalf("the state was changed in place from %x to %x", before, state)
		}
		Level(a.Kind(), state, now)
		if err != nil || next == nil {
			return
		}
		if _, err := peek(&l, next, now, 1); err != nil && !errors.Is(err, ErrOverflow) {
			t.Fatalf("%v of %x left %x: %v", a, state, next, err)
		}
	})
}

// hostileState is a state with one thing wrong, or as large as it can be.
type hostileState struct {
	a     Algorithm
	state []byte
}

// hostileStates returns states of every form, whole, cut short at each byte, with a
// byte more, and with each byte as large as can be. They end late, so that they are
// in force at 0.
func hostileStates() (all []hostileState) {
	const (
		huge = "\xff\xff\xff\xff\xff\xff\xff\xff\x7f" // the largest count
		end  = "\x00\x00\x00\x00\x00\x00\x00\x10"
		late = "\xff\xff\xff\xff\xff\xff\xff\x7f"
	)
	for _, form := range []struct {
		a    Algorithm
		tail string
	}{
		{GCRA, "\x06\x40"},
		{GCRA, "\x38\x80"},
		{GCRA, "\x00\x00\x00\x00\x49\x96\x02\xd3"},
		{GCRA, "\x00\x80"},
		{GCRA, "\x01\x00\x00\x00\x00\x00\x00\x00\x05\x02"},
		{QUEUE, "\x24\x58"},
		{LEAKY, "\x06\x40"},
		{TOKEN, "\x01\x00\x00\x00\x00\x00\x00\x00" + huge + huge},
		{TOKEN, "\x00\xca\x9a\x3b\x00\x00\x00\x00\x01\x0a"},
		{WARMUP, "\x05\x00\x06\x40"},
		{WARMUP, huge + huge + "\x06\x40"},
		{WARMUP, "\x05\x00" + late},
		{WARMUP, "\x05\x00\x00\x80"},
		{FIXED, "\x20\x04"},
		{FIXED, "\xa2\x04"},
		{FIXED, "\x20" + huge},
		{FIXED, "\x80" + huge + huge},
		{SLIDING, "\x80" + huge + huge + huge},
		{SLIDING, "\x80\x01" + huge + huge},
		{SLIDING, "\xc1\x00\x04"},
		{SEGMENTED, "\x22\x10\x04"},
		{SEGMENTED, "\x00" + huge + "\x13" + late + late},
		{SEGMENTED, "\x00\x01\x08\xff\xff"},
		{LOG, "\x80\x01\x41\x00\x09"},
		{LOG, "\x80" + huge + "\x41" + huge + "\x09"},
		{LOG, "\x81\x00" + huge + "\x00\x09\x02"},
		{LOG, "\x1f\x0c\x00" + strings.Repeat("\x01", 40)},
		{LOG, "\x3f\x0c\x00" + strings.Repeat("\x7f", 60)},
	} {
		for _, expires := range []string{end, late} {
			whole := expires + form.tail
			add := func(state string) { all = append(all, hostileState{form.a, []byte(state)}) }
			add(whole + "\x01")
			for i := range form.tail {
				add(whole[:8+i])
				add(whole[:8+i] + "\xff" + whole[9+i:])
			}
			add(whole)
		}
	}
	return all
}

// checkWait asks again when a denial says, and 1 ns before.
func checkWait(t rapid.TB, l Limit, state []byte, now, cost int64) {
	t.Helper()
	d, err := peek(&l, state, now, cost)
	if err != nil || !d.Limited || d.Wait == Never {
		return
	}
	if l.CountDenied = false; true { // a denial may move to a faster pace
		if next, _, err := take(&l, state, now, cost, nil); err == nil && next != nil {
			state = next
		}
	}
	if now > math.MaxInt64-d.Wait {
		t.Fatalf("%+v cost %d at %d: the wait ends after the end of time: %+v", l, cost, now, d)
	}
	then, err := peek(&l, state, now+d.Wait, cost)
	if errors.Is(err, ErrOverflow) {
		return // what is granted then ends after the end of time
	}
	if err != nil || then.Limited {
		t.Fatalf("%+v cost %d at %d: %+v, and then %+v, %v", l, cost, now, d, then, err)
	}
	if then, err = peek(&l, state, now+d.Wait-1, cost); err != nil || !then.Limited || then.Wait != 1 {
		t.Fatalf("%+v cost %d at %d: %+v, and 1 ns before %+v, %v", l, cost, now, d, then, err)
	}
}

// FuzzSeconds checks that a period in seconds is refused or exact.
func FuzzSeconds(f *testing.F) {
	for _, s := range []string{"60", "0.5", ".5", "1.5e-3", "+2E1", "1e12", "999999999999.9999999999", "0.0000000001", "1e", "inf", "0x1p4", "-1", "1_0"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, word []byte) {
		hi, lo, ok := parseSeconds(word)
		if !ok {
			if _, err := CellDecimal(0, 1, word); err == nil {
				t.Fatalf("%q is a period", word)
			}
			return
		}
		if len(bytes.Trim(word, "+-.0123456789eE")) > 0 {
			t.Fatalf("%q is a number", word)
		}
		if _, exponent, _ := splitExponent(word); exponent < -1000 || exponent > 1000 {
			return // too long for a fraction
		}
		ns, fits := new(big.Rat).SetString(string(word))
		if !fits || ns.Sign() <= 0 || ns.Cmp(big.NewRat(1e12, 1)) >= 0 {
			t.Fatalf("%q is in range", word)
		}
		ns.Mul(ns, big.NewRat(1e9, 1))
		got := new(big.Int).SetUint64(hi)
		got.Or(got.Lsh(got, 64), new(big.Int).SetUint64(lo))
		rounding := new(big.Rat).Sub(new(big.Rat).SetInt(got), ns)
		if rounding.Sign() < 0 || rounding.Cmp(big.NewRat(1, 1)) >= 0 {
			t.Fatalf("%q is %v ns", word, got)
		}
	})
}
