package simulate

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseTime(t *testing.T) {
	for _, test := range []struct {
		text string
		unit Unit
		want int64
		err  error
	}{
		{"0", AutoUnit, 0, nil},
		{"1700000000", AutoUnit, 1700000000e9, nil},
		{"1700000000.123456789", AutoUnit, 1700000000123456789, nil},
		{"1700000000.1234567899", AutoUnit, 1700000000123456789, nil},
		{"-1.5", AutoUnit, -1500000000, nil},
		{"99999999999", Milliseconds, 99999999999e6, nil},
		{"9223372036", AutoUnit, 9223372036e9, nil},
		{"9223372036.854775807", AutoUnit, math.MaxInt64, nil},
		{"9223372036.854775808", AutoUnit, 0, errTimeRange},
		{"9223372037", AutoUnit, 0, errTimeRange},
		{"1700000000123", AutoUnit, 1700000000123e6, nil},
		{"1700000000123456", AutoUnit, 1700000000123456e3, nil},
		{"1700000000123456789", AutoUnit, 1700000000123456789, nil},
		{"12.5", Milliseconds, 12500000, nil},
		{"7.9", Nanoseconds, 7, nil},
		{"99999999999999999999", AutoUnit, 0, errTimeRange},
		{"2023-11-14T22:13:20Z", AutoUnit, 1700000000e9, nil},
		{"2023-11-14t22:13:20.5z", AutoUnit, 1700000000e9 + 5e8, nil},
		{"2023-11-14 22:13:20,123", AutoUnit, 1700000000e9 + 123e6, nil},
		{"2023-11-15T00:13:20+02:00", AutoUnit, 1700000000e9, nil},
		{"2023-11-14T14:13:20-0800", AutoUnit, 1700000000e9, nil},
		{"2016-12-31T23:59:60Z", AutoUnit, time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), nil},
		{"1970-01-01", AutoUnit, 0, errTime},
		{"2023-02-29T00:00:00Z", AutoUnit, 0, errTime},
		{"2023-11-14T24:00:00Z", AutoUnit, 0, errTime},
		{"2023-11-14T22:13:20.Z", AutoUnit, 0, errTime},
		{"2023-11-14T22:13:20+2:00", AutoUnit, 0, errTime},
		{"2023-11-14T22:13:20*02:00", AutoUnit, 0, errTime},
		{"3000-01-01T00:00:00Z", AutoUnit, 0, errTimeRange},
		{"0000-01-01T00:00:00Z", AutoUnit, 0, errTimeRange},
		{"", AutoUnit, 0, errTime},
		{"-", AutoUnit, 0, errTime},
		{".5", AutoUnit, 0, errTime},
		{"5.", AutoUnit, 0, errTime},
		{"1e9", AutoUnit, 0, errTime},
		{"yesterday", AutoUnit, 0, errTime},
	} {
		got, err := parseTime([]byte(test.text), test.unit)
		if got != test.want || !errors.Is(err, test.err) || err != nil && test.err == nil {
			t.Errorf("parseTime(%q): %d, %v; want %d, %v", test.text, got, err, test.want, test.err)
		}
	}
}

// Dates agree with package time for everything that int64 nanoseconds can hold.
func TestTimesAgreeWithTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Int64Range(math.MinInt64+2e9, math.MaxInt64-2e9).Draw(t, "ns")
		zone := time.FixedZone("", 60*rapid.IntRange(-23*60-59, 23*60+59).Draw(t, "minutes"))
		at := time.Unix(0, ns).In(zone)
		if text := at.Format(time.RFC3339Nano); at.Year() > 1677 && at.Year() < 2262 {
			if got, err := parseTime([]byte(text), AutoUnit); err != nil || got != ns {
				t.Fatalf("%s: %d, %v; want %d", text, got, err, ns)
			}
			text = at.Format("02/Jan/2006:15:04:05 -0700")
			if got, err := parseCLF([]byte(text)); err != nil || got != at.Truncate(time.Second).UnixNano() {
				t.Fatalf("%s: %d, %v; want %d", text, got, err, at.Truncate(time.Second).UnixNano())
			}
		}
	})
}
