package limit

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// CL.THROTTLE's five integers on a fresh key, as redis-cell answers them.
func TestCellFresh(t *testing.T) {
	tests := []struct {
		maxBurst, count, period, quantity int64
		want                              [5]int64
	}{
		{15, 30, 60, 1, [5]int64{0, 16, 15, -1, 2}},
		{15, 30, 60, 16, [5]int64{0, 16, 0, -1, 32}},
		{15, 30, 60, 17, [5]int64{1, 16, 16, -1, 0}},
		{15, 30, 60, 0, [5]int64{0, 16, 16, -1, 0}},
		{0, 1, 1, 1, [5]int64{0, 1, 0, -1, 1}},
		{4, 3, 1, 1, [5]int64{0, 5, 4, -1, 1}},
		{0, 1_000_000, 1, 1, [5]int64{0, 1, 0, -1, 1}},
	}
	for _, tt := range tests {
		l, err := Cell(tt.maxBurst, tt.count, tt.period)
		if err != nil {
			t.Fatal(err)
		}
		_, d, err := take(&l, nil, 1_700_000_000_000_000_000, tt.quantity, nil)
		got := [5]int64{0, d.Limit, d.Remaining, Seconds(d.Wait), Seconds(d.Reset)}
		if d.Limited {
			got[0] = 1
		}
		if err != nil || got != tt.want {
			t.Errorf("%d %d %d %d: %v, %v, want %v", tt.maxBurst, tt.count, tt.period, tt.quantity, got, err, tt.want)
		}
	}
}

func TestCell(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	tests := []struct {
		maxBurst, count, period int64
		interval                int64
		err                     error
	}{
		{15, 30, 60, 2e9, nil},
		{0, 3, 1, 333_333_333, nil},
		{0, 7, 2, 285_714_285, nil},
		{0, 1_000_000_000, 1, 1, nil},
		{0, 1_999_999_999, 1, 0, ErrZeroRate},
		{0, 9_223_372_036, 9_223_372_036, 1e9, nil},
		{0, most, most, 1e9, nil},
		{0, most, 1, 0, ErrZeroRate},
		{0, 1_000_000_001, 1, 0, ErrZeroRate},
		{0, 0, 60, 0, ErrZeroRate},
		{0, 30, 0, 0, ErrZeroRate},
		{0, 0, 0, 0, ErrZeroRate},
		{1_000_000, 1, 3600, 3600e9, nil},           // 114 years
		{100, 1, 31_536_000, 31_536_000e9, nil},     // 101 years
		{0, 1, 6_311_520_000, 6_311_520_000e9, nil}, // 200 years
		{0, 1, 6_311_520_001, 0, ErrOverflow},
		{0, 1, 9_223_372_037, 0, ErrOverflow},
		{0, 1, most, 0, ErrOverflow},
		{0, 1 << 29, most, 0, ErrOverflow},
		{0, 1 << 33, most, 1_073_741_823_999_999_999, nil},
		{0, 1 << 34, most, 536_870_911_999_999_999, nil},
		{0, 499_999_999, most, 0, ErrOverflow}, // the high word of the product is the count
		{most, 1, 1, 0, ErrOverflow},
		{most, 1_000_000_000, 1, 0, ErrOverflow},
		{most - 1, 1_000_000_000, 1, 0, ErrOverflow},
		{MaxSpan - 1, 1_000_000_000, 1, 1, nil},
		{MaxSpan, 1_000_000_000, 1, 0, ErrOverflow},
		{6_311_519_999, 1, 1, 1e9, nil},
		{6_311_520_000, 1, 1, 0, ErrOverflow},
		{99_999, 1, 86_400, 0, ErrOverflow}, // 273 years
		{-1, 30, 60, 0, ErrNegativeBurst},
		{least, 0, 0, 0, ErrNegativeBurst},
		{15, -1, 60, 0, ErrNegativeCount},
		{15, least, 60, 0, ErrNegativeCount},
		{15, 30, -1, 0, ErrNegativePeriod},
		{15, 0, least, 0, ErrNegativePeriod},
	}
	for _, tt := range tests {
		got, err := Cell(tt.maxBurst, tt.count, tt.period)
		var want Limit
		if tt.err == nil {
			want = plain(GCRA, 1, tt.interval, tt.maxBurst+1)
		}
		if got != want || !errors.Is(err, tt.err) {
			t.Errorf("Cell(%d, %d, %d) = %+v, %v, want %+v, %v", tt.maxBurst, tt.count, tt.period, got, err, want, tt.err)
		}
	}
}

func TestRoundUp(t *testing.T) {
	tests := []struct{ ns, ms, s int64 }{
		{Never, Never, Never},
		{math.MinInt64, Never, Never},
		{0, 0, 0},
		{1, 1, 1},
		{999_999, 1, 1},
		{1_000_000, 1, 1},
		{1_000_001, 2, 1},
		{999_999_999, 1000, 1},
		{1_000_000_000, 1000, 1},
		{1_000_000_001, 1001, 2},
		{math.MaxInt64, 9_223_372_036_855, 9_223_372_037},
	}
	for _, tt := range tests {
		if got := Milliseconds(tt.ns); got != tt.ms {
			t.Errorf("Milliseconds(%d) = %d, want %d", tt.ns, got, tt.ms)
		}
		if got := Seconds(tt.ns); got != tt.s {
			t.Errorf("Seconds(%d) = %d, want %d", tt.ns, got, tt.s)
		}
	}
}

func TestCellDecimal(t *testing.T) {
	const most = math.MaxInt64
	tests := []struct {
		maxBurst, count int64
		period          string
		interval        int64
		err             error
	}{
		{15, 30, "60", 2e9, nil},
		{15, 30, "60.0", 2e9, nil},
		{0, 1, "0.5", 5e8, nil},
		{0, 1, ".5", 5e8, nil},
		{0, 1, "5.", 5e9, nil},
		{0, 1, "+5", 5e9, nil},
		{0, 1, "1e3", 1e12, nil},
		{0, 1, "1E+3", 1e12, nil},
		{0, 1, "1.5e-3", 1_500_000, nil},
		{0, 1, "0.000000001", 1, nil},
		{0, 1, "0.0000000001", 1, nil},
		{0, 1, "0.1000000001", 100_000_001, nil},
		{0, 1, "0.10000000010", 100_000_001, nil},
		{0, 1, "1e-999999999999999999999", 1, nil},
		{0, 3, "1", 333_333_334, nil},
		{0, 1, "000123.4560", 123_456_000_000, nil},
		{0, 1, "946728000", 946_728_000e9, nil},
		{0, 1, "6311520000.0000000001", 0, ErrOverflow},
		{0, 1, "9223372036.854775807", 0, ErrOverflow},
		{0, 1, "9223372036.854775808", 0, ErrOverflow},
		{0, 1, "9223372036.8547758070000001", 0, ErrOverflow},
		{0, 2000, "999999999999.999999999", 5e17, nil},
		{0, 4000, "999999999999.9999999999", 25e16, nil},
		{0, 2, "999999999999", 0, ErrOverflow},
		{0, most, "0.001", 0, ErrRate},
		{0, 1_000_000, "0.001", 1, nil},
		{0, most, "999999999999.999999999", 109, nil},
		{0, 30, "18446744073.709551615", 614_891_469_123_651_721, nil}, // the low word is full
		{0, 32, "18446744073.709551616", 1 << 59, nil},                 // the last digit carries
		{0, 54, "999999999999", 0, ErrOverflow},                        // the high word is the count
		{most, 1, "1", 0, ErrOverflow},
		{9_223_372_036, 1, "1", 0, ErrOverflow},
		{0, 1, strings.Repeat("0", 5000) + "1" + strings.Repeat("0", 5000) + "e-5000", 1e9, nil},
		{0, 1, "0." + strings.Repeat("0", 5000) + "1e5001", 1e9, nil},

		{-1, 1, "1", 0, ErrNegativeBurst},
		{0, 0, "1", 0, ErrZeroRate},
		{0, -1, "1", 0, ErrZeroRate},
		{0, 1, "0", 0, ErrSeconds},
		{0, 1, "0.0e9", 0, ErrSeconds},
		{0, 1, "-1", 0, ErrSeconds},
		{0, 1, "-0", 0, ErrSeconds},
		{0, 1, "1000000000000", 0, ErrSeconds},
		{0, 1, "1e12", 0, ErrSeconds},
		{0, 1, "1e999999999999999999999", 0, ErrSeconds},
		{0, 1, "", 0, ErrSeconds},
		{0, 1, "+", 0, ErrSeconds},
		{0, 1, ".", 0, ErrSeconds},
		{0, 1, "e", 0, ErrSeconds},
		{0, 1, "1e", 0, ErrSeconds},
		{0, 1, "1e+", 0, ErrSeconds},
		{0, 1, "e1", 0, ErrSeconds},
		{0, 1, "1e1.5", 0, ErrSeconds},
		{0, 1, "1e1e1", 0, ErrSeconds},
		{0, 1, "1..2", 0, ErrSeconds},
		{0, 1, "1.2.3", 0, ErrSeconds},
		{0, 1, " 1", 0, ErrSeconds},
		{0, 1, "1 ", 0, ErrSeconds},
		{0, 1, "1_0", 0, ErrSeconds},
		{0, 1, "++1", 0, ErrSeconds},
		{0, 1, "0x10", 0, ErrSeconds},
		{0, 1, "inf", 0, ErrSeconds},
		{0, 1, "nan", 0, ErrSeconds},
		{0, 1, "1\x00", 0, ErrSeconds},
	}
	for _, tt := range tests {
		got, err := CellDecimal(tt.maxBurst, tt.count, []byte(tt.period))
		var want Limit
		if tt.err == nil {
			want = plain(GCRA, 1, tt.interval, tt.maxBurst+1)
		}
		if got != want || !errors.Is(err, tt.err) {
			t.Errorf("CellDecimal(%d, %d, %.30q) = %+v, %v, want %+v, %v", tt.maxBurst, tt.count, tt.period, got, err, want, tt.err)
		}
	}
}

// The interval is exact: that of an integer or a fraction without bounds.
func TestCellAgainstFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxBurst := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Min(0)).Draw(t, "burst")
		count := rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Min(1)).Draw(t, "count")

		period := rapid.OneOf(rapid.Int64Range(1, 1e6), rapid.Int64Min(1)).Draw(t, "period")
		e := new(big.Int).Mul(big.NewInt(period), big.NewInt(1e9))
		e.Quo(e, big.NewInt(count))
		got, err := Cell(maxBurst, count, period)
		checkCell(t, got, err, e, maxBurst)

		text := rapid.StringMatching(`[+]?([0-9]{1,13}(\.[0-9]{0,12})?|\.[0-9]{1,25})([eE][+-]?[0-9]{1,2})?`).Draw(t, "text")
		checkDecimal(t, maxBurst, count, text)
	})
}

// fataler is the common part of a rapid.T, a testing.T and a fuzz target's T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkDecimal compares CellDecimal with big.Rat, for a text that is a decimal
// number.
func checkDecimal(t fataler, maxBurst, count int64, text string) {
	t.Helper()
	seconds, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%q is no fraction", text)
	}
	got, err := CellDecimal(maxBurst, count, []byte(text))
	if seconds.Sign() <= 0 || seconds.Cmp(big.NewRat(1e12, 1)) >= 0 {
		if !errors.Is(err, ErrSeconds) {
			t.Fatalf("%q: %+v, %v", text, got, err)
		}
		return
	}
	seconds.Mul(seconds, big.NewRat(1e9, 1))
	ns := ceil(seconds.Num(), seconds.Denom())
	seconds.Mul(seconds, big.NewRat(1, count))
	e, rest := new(big.Int).QuoRem(seconds.Num(), seconds.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		e.Add(e, big.NewInt(1))
	}
	kept := new(big.Rat).SetFrac(ns, new(big.Int).Mul(e, big.NewInt(count)))
	if ns.IsInt64() && kept.Cmp(big.NewRat(99, 100)) < 0 {
		if !errors.Is(err, ErrRate) {
			t.Fatalf("%q for %d keeps %v of its rate: %+v, %v", text, count, kept, got, err)
		}
		return
	}
	checkCell(t, got, err, e, maxBurst)
}

// checkCell compares a cell limit with the interval that it should have.
func checkCell(t fataler, got Limit, err error, e *big.Int, maxBurst int64) {
	t.Helper()
	burst := new(big.Int).Add(big.NewInt(maxBurst), big.NewInt(1))
	switch {
	case e.Sign() == 0:
		if !errors.Is(err, ErrZeroRate) {
			t.Fatalf("interval 0: %+v, %v", got, err)
		}
	case !burst.IsInt64() || !e.IsInt64() || burst.Mul(burst, e).Cmp(big.NewInt(MaxSpan)) > 0:
		if !errors.Is(err, ErrOverflow) {
			t.Fatalf("interval %v, max_burst %d: %+v, %v", e, maxBurst, got, err)
		}
	case err != nil || got != plain(GCRA, 1, e.Int64(), maxBurst+1):
		t.Fatalf("interval %v, max_burst %d: %+v, %v", e, maxBurst, got, err)
	}
}

func TestCellAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Cell(15, 30, 60); err != nil {
			t.Fatal(err)
		}
		if _, err := CellDecimal(15, 30, []byte("6.0e1")); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
