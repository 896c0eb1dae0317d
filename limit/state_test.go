package limit

import (
	"encoding/hex"
	"testing"
)

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
	// States of older files have the pace and the terms of the call.
	for _, tt := range []struct {
		limit, state string
		remaining    int64
	}{
		{"GCRA 100/m", "0046ed59fe9c9717", 99},
		{"GCRA 1000/m", "0046ed59fe9c9717", 990},
		{"TOKEN 10/s INTERVAL", "00cac471fe9c971703", 7},
		{"TOKEN 1000/s INTERVAL", "00cac471fe9c9717ac02", 700}, // two bytes, and no code
		{"GCRA 1000/s", "00cac471fe9c9717ac02", 0},
	} {
		l := mustParse(t, tt.limit)
		kept, _ := hex.DecodeString(tt.state)
		if d := mustPeek(t, l, kept, now, 0); d.Remaining != tt.remaining {
			t.Errorf("%s of an older file: %+v, want %d left", tt.limit, d, tt.remaining)
		}
	}
}
