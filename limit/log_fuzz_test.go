package limit

import (
	"math"
	"testing"
)

// FuzzLOG makes four calls on one key, with any arguments, beside the model.
func FuzzLOG(f *testing.F) {
	f.Add(int64(3), int64(60e9), int64(5), int64(0), int64(1), int64(3e9), int64(3), uint8(0))
	f.Add(int64(10), int64(1e9), int64(4), int64(1.7e18), int64(4), int64(1.7e18+5e8), int64(9), uint8(0b11))
	f.Add(int64(MaxLog), int64(1), int64(MaxLog+1), int64(-1), int64(MaxLog), int64(-1), int64(1), uint8(0x20))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(1), int64(math.MaxInt64), int64(1), int64(math.MinInt64), int64(0), uint8(3))
	f.Add(int64(5), int64(math.MaxInt64), int64(7), int64(math.MinInt64), int64(1), int64(-2), int64(math.MaxInt64), uint8(0x10))
	f.Fuzz(func(t *testing.T, most, period, other, now1, cost1, now2, cost2 int64, flags uint8) {
		l, l2 := plain(LOG, most, period, most), plain(LOG, other, now2, other)
		l.CountDenied, l2.CountDenied = flags&0x10 != 0, flags&0x20 != 0
		tw := newLogTwin()
		for i, call := range []struct {
			l         Limit
			now, cost int64
		}{{l, now1, cost1}, {l, now2, cost2}, {l2, now1, cost2}, {l, now2, cost1}} {
			if err := tw.step(call.l, call.now, call.cost, flags>>i&1 == 1); err != nil {
				t.Fatal(err)
			}
			if !call.l.CountDenied {
				checkWait(t, call.l, tw.state, call.now, call.cost)
			}
		}
	})
}

// FuzzLogWalk makes many calls on one key of any size, beside the model. A step
// has four bytes: what to do, how much later as a mantissa and an exponent, and
// the cost.
func FuzzLogWalk(f *testing.F) {
	f.Add(uint16(100), uint8(20), []byte("\x00\x01\x05\x01\x00\x01\x05\x01\x01\x07\x10\x30\x02\x00\x00\x04"))
	f.Fuzz(func(t *testing.T, most uint16, period uint8, data []byte) {
		l := plain(LOG, int64(most), 1<<(period%60), int64(most))
		tw, now := newLogTwin(), int64(1.7e18)
		for data = data[:min(len(data), 160)]; len(data) >= 4; data = data[4:] {
			op, cost := data[0], int64(data[3])
			later := int64(data[1]) << (data[2] % 48)
			switch op % 16 {
			case 14:
				later = -later
			case 15:
				l.Period = max(1, later)
				later = 0
			}
			if op&0x40 != 0 {
				cost <<= 8
			}
			l.CountDenied = op&0x20 != 0
			// Many small steps follow, because no fuzzer finds its way to a long
			// log otherwise.
			for range 1 + int(op&0x10)/2 {
				now += later
				if err := tw.step(l, now, cost, op%16 > 10); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// FuzzLogState checks that a state of any bytes gets an answer or ErrState, never
// a panic, and that the next state is refused or used in the same way.
func FuzzLogState(f *testing.F) {
	l := plain(LOG, 100, 60e9, 100)
	for _, n := range []int64{1, 5, 100} {
		l.Max = n
		f.Add(fullLog(f, l, 1.7e18, 1e8), int64(1.7e18), int64(1), uint16(n))
	}
	f.Fuzz(func(t *testing.T, state []byte, now, cost int64, most uint16) {
		l := plain(LOG, int64(most), 60e9, int64(most))
		useDamaged(l, state, now, cost)
		for range 4 {
			next, _, err := take(&l, state, now, cost, state)
			if err != nil || next == nil {
				return
			}
			state = next
			useDamaged(l, state, now, cost)
		}
	})
}
