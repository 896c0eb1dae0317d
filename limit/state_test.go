package limit

import (
	"encoding/hex"
	"strings"
	"testing"
)

// changedStates has states, as on disks, of limits that have changed: 4 were taken under
// the first limit, and a second later 1 was asked for under the second.
var changedStates = []struct {
	first, then string
	state       string
	remaining   int64
	wait        int64 // of the second, −1 if it is granted
}{
	{"WARMUP 100/m", "WARMUP 200/m", "0049dfb3ff9c971780b0b4f808008301210340", 0, 3_004_000_000}, // expires, heat, spent, COLD, Warm, pace
	{"FIXED 10/h", "FIXED 3/m", "00e8a07e159d97172004", 0, 99_000_000_000},                       // the empty tag
	{"FIXED 10/h FIRST", "FIXED 3/m FIRST", "00b0b8261a9d9717a204", 0, 119_000_000_000},          // since when it counts
	{"SLIDING 10/h", "SLIDING 3/m", "00ea2312119d9717a10003", 0, 40_000_000_000},                 // with the bit of FIRST
	{"SEGMENTED 10/h SEGMENTS 6", "SEGMENTED 3/m SEGMENTS 4", "00e8a07e159d9717221004", 0, 99_000_000_000},
	{"LOG 10/h", "LOG 30/m", "00a0e26644a097178080acf7a8df6841000980a8d6b907", 25, -1}, // held for an hour
}

// The bytes of the counters and of WARMUP stay readable for good, also where the
// limit has changed.
func TestChangedStatesOnDisk(t *testing.T) {
	const now = 1_700_000_000_000_000_000
	for _, tt := range changedStates {
		l, then := mustParse(t, tt.first), mustParse(t, tt.then)
		state, _, err := take(&l, nil, now, 4, nil)
		if err != nil {
			t.Fatal(err)
		}
		state, d, err := take(&then, state, now+second, 1, nil)
		if got := hex.EncodeToString(state); err != nil || got != tt.state || d.Remaining != tt.remaining || d.Wait != tt.wait {
			t.Errorf("%s, %s: %s, %+v, %v, want %+v", tt.first, tt.then, got, d, err, tt)
		}
		kept, _ := hex.DecodeString(tt.state)
		if again := mustPeek(t, then, kept, now+second, 1); d.Limited && again != d {
			t.Errorf("%s: read as %+v, written as %+v", tt.then, again, d)
		}
	}
}

// The bytes of a bucket's state are on disks: they stay readable for good.
func TestStatesOnDisk(t *testing.T) {
	const now = 1_700_000_000_000_000_000 // 00002a36fe9c9717
	tests := []struct{ limit, state string }{
		{"GCRA 100/m", "0046ed59fe9c97170640"},                          // 6·10⁸ ns
		{"GCRA 7/s", "b7d3ad3efe9c97173880"},                            // ⌈1 s/7⌉
		{"LEAKY 1/1234567891ns", "d302c07ffe9c971700000000499602d3"},    // eight bytes, big-endian
		{"QUEUE 1/h", "00a0e26644a097172458"},                           // 36·10¹¹ ns
		{"TOKEN 10/s INTERVAL", "00cac471fe9c971700ca9a3b00000000010a"}, // period, missing, an arrival
		{"TOKEN 1000/s INTERVAL", "00cac471fe9c971700ca9a3b0000000001e807"},
	}
	for _, tt := range tests {
		l := mustParse(t, tt.limit)
		state, taken, err := take(&l, nil, now, 1, nil)
		if got := hex.EncodeToString(state); err != nil || got != tt.state {
			t.Errorf("%s: %s, %v, want %s", tt.limit, got, err, tt.state)
		}
		kept, _ := hex.DecodeString(tt.state)
		if d := mustPeek(t, l, kept, now, 0); d.Remaining != taken.Remaining || d.Reset != taken.Reset {
			t.Errorf("%s: read as %+v, written as %+v", tt.limit, d, taken)
		}
	}
	// A state that is a time alone, as RL.IMPORT writes it, has the pace of the call.
	for _, tt := range []struct {
		limit, state string
		remaining    int64
	}{
		{"GCRA 100/m", "0046ed59fe9c9717", 99},
		{"GCRA 1000/m", "0046ed59fe9c9717", 990},
	} {
		l := mustParse(t, tt.limit)
		kept, _ := hex.DecodeString(tt.state)
		if d := mustPeek(t, l, kept, now, 0); d.Remaining != tt.remaining {
			t.Errorf("%s of a time alone: %+v, want %d left", tt.limit, d, tt.remaining)
		}
	}
}

// What no version has written is damaged.
func TestDamagedStates(t *testing.T) {
	const now = 1_700_000_000_000_000_000
	tokens := strings.Repeat("8098dc9334", 13)
	for _, tt := range []struct{ limit, state string }{
		{"TOKEN 10/s INTERVAL", "00cac471fe9c971703"},
		{"TOKEN 1000/s INTERVAL", "00cac471fe9c9717ac02"}, // two bytes, and no code
		{"GCRA 1000/s", "00cac471fe9c9717ac02"},
		{"GCRA 1000/s", "00cac471fe9c9717ac0201"},
		{"GCRA 1000/s", "00cac471fe9c9717ffffffffffffffff"},          // a pace below 0
		{"WARMUP 100/m COLD 10", "0049dfb3ff9c971780b0b4f808000340"}, // a pace without COLD and Warm
		{"LOG 14/h", "00f423385ba097171f0c0000000000000000000e000000008665d7ff9c971700546b07159d971703" + tokens},
		{"LOG 14/h", "00f423385ba097173f0c00000000000000000011000000008665d7ff9c971700daa6a8169d971700a0b8304603000000f423385ba0971703" + tokens + "8098dc933405"},
	} {
		l := mustParse(t, tt.limit)
		state, err := hex.DecodeString(tt.state)
		if err != nil {
			t.Fatal(err)
		}
		var d Decision
		if err := Peek(&l, state, now, 1, &d); err != ErrState {
			t.Errorf("%s, %s: %+v, %v", tt.limit, tt.state, d, err)
		}
	}
}
