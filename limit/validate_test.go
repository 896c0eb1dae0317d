package limit

import (
	"errors"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A rate that whole nanoseconds cannot express is refused, with the nearest that they can.
func TestRateTooFast(t *testing.T) {
	tests := []struct {
		limit string
		want  string // of the error; empty for none
	}{
		{"GCRA 10000000/s", ""},
		{"GCRA 110000000/s", "9.09 % less than 110000000 in the period; take 100000000 or 111111112,"},
		{"GCRA 250000000/s", ""},
		{"GCRA 300000000/s", "one each 4 ns is 16.7 % less than 300000000 in the period; take 250000000 or 333333334,"},
		{"LEAKY 333333334/s", ""},
		{"QUEUE 1500000000/s", "33.3 % less than 1500000000 in the period; take 1000000000, or count in larger units (kB, not bytes)"},
		{"TOKEN 12500000000/s", "92 % less"},
		{"TOKEN 12500000000/s INTERVAL", ""},
		{"WARMUP 12500000000/s", "92 % less"},
		{"FIXED 12500000000/s", ""},
	}
	for _, tt := range tests {
		_, err := parse(tt.limit)
		if (err == nil) != (tt.want == "") || err != nil && (!errors.Is(err, ErrRate) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.limit, err, tt.want)
		}
	}
	for _, tt := range []struct {
		count int64
		want  error
	}{{10_000_000, nil}, {300_000_000, ErrRate}, {250_000_000, nil}, {1_500_000_000, ErrRate}, {3_000_000_001, ErrRate}} {
		if _, err := CellDecimal(0, tt.count, []byte("1.0")); !errors.Is(err, tt.want) {
			t.Errorf("GCRA of %d a second: %v, want %v", tt.count, err, tt.want)
		}
	}
}

// A rate is refused exactly if it loses more than 1 %. The rates that the error
// names are valid.
func TestRateLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := plain(GCRA, rapid.Int64Range(1, 2e10).Draw(t, "max"), rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, 1e10)).Draw(t, "period"), 1)
		kept := new(big.Rat).SetFrac(big.NewInt(l.Period), new(big.Int).Mul(big.NewInt(l.Max), big.NewInt(interval(&l))))
		err := l.validateRate()
		if lost := kept.Cmp(big.NewRat(99, 100)) < 0; lost != (err != nil) {
			t.Fatalf("%v keeps %v of its rate: %v", l, kept, err)
		}
		if err == nil {
			return
		}
		_, advice, _ := strings.Cut(err.Error(), "take ")
		advice, _, _ = strings.Cut(advice, ",")
		for word := range strings.SplitSeq(advice, " or ") {
			other := l
			if other.Max, err = strconv.ParseInt(word, 10, 64); err != nil || other.validateRate() != nil {
				t.Fatalf("%v: %q does not hold", l, word)
			}
		}
	})
}
