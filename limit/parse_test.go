package limit

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

const (
	testSecond = int64(1e9)
	testMinute = 60 * testSecond
	testDay    = 24 * 60 * testMinute
)

func TestParse(t *testing.T) {
	tests := []struct {
		in   string
		want Limit
		text string // as it prints
	}{
		{"GCRA 100 60000", plain(GCRA, 100, testMinute, 100), "GCRA 100/m"},
		{"gcra 100 60000 burst 20", plain(GCRA, 100, testMinute, 20), "GCRA 100/m BURST 20"},
		{"Gcra 100 1m Burst 20", plain(GCRA, 100, testMinute, 20), "GCRA 100/m BURST 20"},
		{"GCRA 100/m BURST 20", plain(GCRA, 100, testMinute, 20), "GCRA 100/m BURST 20"},
		{"GCRA 100/m BURST 100", plain(GCRA, 100, testMinute, 100), "GCRA 100/m"},
		{"GCRA 100/M", plain(GCRA, 100, testMinute, 100), "GCRA 100/m"},
		{"GCRA 5/10s", plain(GCRA, 5, 10*testSecond, 5), "GCRA 5/10s"},
		{"GCRA 5/10S", plain(GCRA, 5, 10*testSecond, 5), "GCRA 5/10s"},
		{"GCRA 5/500", plain(GCRA, 5, testSecond/2, 5), "GCRA 5/500ms"},
		{"GCRA 5/1000", plain(GCRA, 5, testSecond, 5), "GCRA 5/s"},
		{"GCRA 1000/d", plain(GCRA, 1000, testDay, 1000), "GCRA 1000/d"},
		{"GCRA 1 500ms", plain(GCRA, 1, testSecond/2, 1), "GCRA 1/500ms"},
		{"GCRA 1 10s", plain(GCRA, 1, 10*testSecond, 1), "GCRA 1/10s"},
		{"GCRA 1 1h", plain(GCRA, 1, 60*testMinute, 1), "GCRA 1/h"},
		{"GCRA 1 24h", plain(GCRA, 1, testDay, 1), "GCRA 1/d"},
		{"GCRA 1 36h", plain(GCRA, 1, testDay*3/2, 1), "GCRA 1/36h"},
		{"GCRA 1 7d", plain(GCRA, 1, 7*testDay, 1), "GCRA 1/w"},
		{"GCRA 1 2w", plain(GCRA, 1, 14*testDay, 1), "GCRA 1/2w"},
		{"GCRA 1 90s", plain(GCRA, 1, 90*testSecond, 1), "GCRA 1/90s"},
		{"GCRA 1/ms", plain(GCRA, 1, 1e6, 1), "GCRA 1/ms"},
		{"GCRA 1/us", plain(GCRA, 1, 1e3, 1), "GCRA 1/us"},
		{"GCRA 1/1500ns", plain(GCRA, 1, 1500, 1), "GCRA 1/1500ns"},
		{"GCRA 1/333333333ns BURST 16", plain(GCRA, 1, 333_333_333, 16), "GCRA 1/333333333ns BURST 16"},
		{"GCRA 0/m", plain(GCRA, 0, testMinute, 0), "GCRA 0/m"},
		{"GCRA 0/m BURST 0", plain(GCRA, 0, testMinute, 0), "GCRA 0/m"},
		{"GCRA 0/m BURST 7", plain(GCRA, 0, testMinute, 7), "GCRA 0/m BURST 7"},
		{"GCRA 007/001m BURST 05", plain(GCRA, 7, testMinute, 5), "GCRA 7/m BURST 5"},
		{"\t GCRA  1/s\r\n", plain(GCRA, 1, testSecond, 1), "GCRA 1/s"},
		{"GCRA 1 6311520000000000000ns", plain(GCRA, 1, MaxSpan, 1), "GCRA 1/73050d"},
		{"WARMUP 5/s", warmLimit(5, testSecond, testSecond, 3), "WARMUP 5/s"},
		{"WARMUP 5/s WARM 1s COLD 3", warmLimit(5, testSecond, testSecond, 3), "WARMUP 5/s"},
		{"warmup 5 1m cold 10 warm 4000", warmLimit(5, testMinute, 4*testSecond, 10), "WARMUP 5/m WARM 4s COLD 10"},
		{"WARMUP 5/s WARM 2m COLD 1", warmLimit(5, testSecond, 2*testMinute, 1), "WARMUP 5/s WARM 2m COLD 1"},
		{"WARMUP 0/s COLD 1000", warmLimit(0, testSecond, testSecond, 1000), "WARMUP 0/s COLD 1000"},
		{"LOG 5 60000", plain(LOG, 5, testMinute, 5), "LOG 5/m"},
		{"log 5/m countdenied", logLimit(5, testMinute, true), "LOG 5/m COUNTDENIED"},
		{"LOG 65536/d", plain(LOG, MaxLog, testDay, MaxLog), "LOG 65536/d"},
		{"LOG 0/d COUNTDENIED", logLimit(0, testDay, true), "LOG 0/d COUNTDENIED"},
		{"LOG 65536/946728000000000000ns", plain(LOG, MaxLog, MaxPeriod, MaxLog), "LOG 65536/262980h"},
		{"GCRA 1/ns BURST 6311520000000000000", plain(GCRA, 1, 1, MaxSpan), "GCRA 1/ns BURST 6311520000000000000"},
		{"GCRA 1/ns BURST 9", plain(GCRA, 1, 1, 9), "GCRA 1/ns BURST 9"},
		{"token 30 1m burst 5", plain(TOKEN, 30, testMinute, 5), "TOKEN 30/m BURST 5"},
		{"TOKEN 30/m INTERVAL", Limit{Algorithm: TOKEN, Max: 30, Period: testMinute, Burst: 30, Interval: true}, "TOKEN 30/m INTERVAL"},
		{"TOKEN 30 1m interval burst 5", Limit{Algorithm: TOKEN, Max: 30, Period: testMinute, Burst: 5, Interval: true}, "TOKEN 30/m BURST 5 INTERVAL"},
		{
			"TOKEN 6311520000000000000 6311520000000000000ns INTERVAL",
			Limit{Algorithm: TOKEN, Max: MaxSpan, Period: MaxSpan, Burst: MaxSpan, Interval: true},
			"TOKEN 6311520000000000000/73050d INTERVAL",
		},
		{"QUEUE 30/m", plain(QUEUE, 30, testMinute, 30), "QUEUE 30/m"},
		{"QUEUE 30/m BURST 0", plain(QUEUE, 30, testMinute, 0), "QUEUE 30/m BURST 0"},
		{"QUEUE 0/m BURST 5", plain(QUEUE, 0, testMinute, 5), "QUEUE 0/m BURST 5"},
		{"FIXED 100/m", plain(FIXED, 100, testMinute, 100), "FIXED 100/m"},
		{"fixed 100 1h first", Limit{Algorithm: FIXED, Max: 100, Period: 60 * testMinute, Burst: 100, First: true}, "FIXED 100/h FIRST"},
		{"FIXED 5/10s countdenied FIRST", Limit{Algorithm: FIXED, Max: 5, Period: 10 * testSecond, Burst: 5, First: true, CountDenied: true}, "FIXED 5/10s FIRST COUNTDENIED"},
		{"fixed 9 calendar month", Limit{Algorithm: FIXED, Max: 9, Burst: 9, Calendar: Month}, "FIXED 9 CALENDAR MONTH"},
		{"FIXED 9 CALENDAR day TZ utc", Limit{Algorithm: FIXED, Max: 9, Burst: 9, Calendar: Day}, "FIXED 9 CALENDAR DAY"},
		{"FIXED 0 Calendar Quarter CountDenied Tz Asia/Tokyo", Limit{Algorithm: FIXED, Calendar: Quarter, Zone: mustZone(t, "Asia/Tokyo"), CountDenied: true}, "FIXED 0 CALENDAR QUARTER TZ Asia/Tokyo COUNTDENIED"},
		{"SEGMENTED 100 1h SEGMENTS 60", withSegments(100, 60*testMinute, 60), "SEGMENTED 100/h SEGMENTS 60"},
		{"segmented 4/3s countdenied segments 3", Limit{Algorithm: SEGMENTED, Max: 4, Period: 3e9, Burst: 4, Segments: 3, CountDenied: true}, "SEGMENTED 4/3s SEGMENTS 3 COUNTDENIED"},
		{"sliding 100 1m", plain(SLIDING, 100, testMinute, 100), "SLIDING 100/m"},
		{"fixed 100/m upto 2h block 15m CountDenied", Limit{Algorithm: FIXED, Max: 100, Period: testMinute, Burst: 100, CountDenied: true, Block: 15 * testMinute, BlockMost: 120 * testMinute}, "FIXED 100/m COUNTDENIED BLOCK 15m UPTO 2h"},
		{"GCRA 100/m BLOCK 900000", Limit{Algorithm: GCRA, Max: 100, Period: testMinute, Burst: 100, Block: 15 * testMinute}, "GCRA 100/m BLOCK 15m"},
		{"GCRA 100/m BLOCK 60s UPTO 1m", Limit{Algorithm: GCRA, Max: 100, Period: testMinute, Burst: 100, Block: testMinute}, "GCRA 100/m BLOCK 1m"},
		{"SLIDING 100/m COUNTDENIED", Limit{Algorithm: SLIDING, Max: 100, Period: testMinute, Burst: 100, CountDenied: true}, "SLIDING 100/m COUNTDENIED"},
		{"FIXED 9223372036854775807/946728000000000000ns", plain(FIXED, math.MaxInt64, MaxPeriod, math.MaxInt64), "FIXED 9223372036854775807/262980h"},
		{"leaky 30 1m burst 5", plain(LEAKY, 30, testMinute, 5), "LEAKY 30/m BURST 5"},
	}
	for _, tt := range tests {
		got, err := parse(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", tt.in, got, err, tt.want)
		}
		if text := tt.want.String(); text != tt.text {
			t.Errorf("%+v prints %q, want %q", tt.want, text, tt.text)
		}
	}
}

func warmLimit(most, period, warm, cold int64) Limit {
	l := plain(WARMUP, most, period, most)
	l.Warm, l.Cold = warm, cold
	return l
}

func logLimit(most, period int64, countDenied bool) Limit {
	l := plain(LOG, most, period, most)
	l.CountDenied = countDenied
	return l
}

func TestParseErrors(t *testing.T) {
	const there = "; there are GCRA, TOKEN, LEAKY, QUEUE, WARMUP, FIXED, SLIDING, SEGMENTED, LOG"
	tests := []struct {
		in   string
		want error
		text string
	}{
		{"", ErrSyntax, `syntax error: a limit is written ALGORITHM limit period`},
		{"100/m", ErrAlgorithm, `unknown algorithm: "100/m"` + there},
		{"GCR 1/s", ErrAlgorithm, `unknown algorithm: "GCR"` + there},
		{"GCRA", ErrSyntax, `syntax error: limit and period are missing after "GCRA"`},
		{"GCRA 100", ErrSyntax, `syntax error: period is missing after "100"`},
		{"GCRA x", ErrMax, `limit must be an integer from 0 to 9223372036854775807: "x"`},
		{"GCRA -1 1s", ErrMax, `limit must be an integer from 0 to 9223372036854775807: "-1"`},
		{"GCRA +1/s", ErrMax, `limit must be an integer from 0 to 9223372036854775807: "+1"`},
		{"GCRA 1.5/s", ErrMax, `limit must be an integer from 0 to 9223372036854775807: "1.5"`},
		{"GCRA /s", ErrMax, `limit must be an integer from 0 to 9223372036854775807: ""`},
		{"GCRA 9223372036854775808/s", ErrMax, `limit must be an integer from 0 to 9223372036854775807: "9223372036854775808"`},
		{"GCRA 1/", ErrPeriod, `period must be positive milliseconds, or have a unit (ms s m h d w): ""`},
		{"GCRA 1/0", ErrPeriod, `period must be positive milliseconds, or have a unit (ms s m h d w): "0"`},
		{"GCRA 1/0s", ErrPeriod, `period must be positive milliseconds, or have a unit (ms s m h d w): "0s"`},
		{"GCRA 1/y", ErrPeriod, `period must be positive milliseconds, or have a unit (ms s m h d w): "y"`},
		{"GCRA 1/1h30m", ErrPeriod, `period must be positive milliseconds, or have a unit (ms s m h d w): "1h30m"`},
		{"GCRA 1/m/s", ErrPeriod, `period must be positive milliseconds, or have a unit (ms s m h d w): "m/s"`},
		{"GCRA 1 m", ErrPeriod, `period must be positive milliseconds, or have a unit (ms s m h d w): "m"`},
		{"GCRA 1 -5", ErrPeriod, `period must be positive milliseconds, or have a unit (ms s m h d w): "-5"`},
		{"GCRA 1 1.5s", ErrPeriod, `period must be positive milliseconds, or have a unit (ms s m h d w): "1.5s"`},
		{"GCRA 1 15251w", ErrOverflow, `out of range: period, burst and cost must stay within 292 years of nanoseconds: "15251w"`},
		{"GCRA 1 30501w", ErrOverflow, `out of range: period, burst and cost must stay within 292 years of nanoseconds: "30501w"`},
		{"GCRA 1 9223372036854775808ns", ErrOverflow, `out of range: period, burst and cost must stay within 292 years of nanoseconds: "9223372036854775808ns"`},
		{"GCRA 1/s BURST", ErrSyntax, `syntax error: a value is missing after "BURST"`},
		{"GCRA 1/s BURST 0", ErrBurst, `BURST must be an integer from 1 to 9223372036854775807: "0"`},
		{"GCRA 1/s BURST -1", ErrBurst, `BURST must be an integer from 1 to 9223372036854775807: "-1"`},
		{"GCRA 1/s BURST 1 burst 1", ErrSyntax, `syntax error: "burst" is given twice`},
		{"GCRA 1/s BURST 1 BURST", ErrSyntax, `syntax error: "BURST" is given twice`},
		{"GCRA 1/s COST 1", ErrSyntax, `syntax error: GCRA has no option "COST"`},
		{"GCRA 1/s 1s", ErrSyntax, `syntax error: GCRA has no option "1s"`},
		{"GCRA 1/s BURST 9223372036854775807", ErrOverflow, `out of range: the burst must be full again within 200 years`},
		{"TOKEN 1/s INTERVAL INTERVAL", ErrSyntax, `syntax error: "INTERVAL" is given twice`},
		{"TOKEN 1/s INTERVAL 5", ErrSyntax, `syntax error: TOKEN has no option "5"`},
		{"TOKEN 1/s FIRST", ErrSyntax, `syntax error: TOKEN has no option "FIRST"`},
		{"TOKEN 3/2ns BURST 9223372036854775807 INTERVAL", ErrOverflow, `out of range: the burst must be full again within 200 years`},
		{"TOKEN 9223372036854775807 6311520000000000000ns INTERVAL", ErrOverflow, `out of range: the burst must be full again within 200 years`},
		{"TOKEN 1/2ns BURST 9223372036854775807 INTERVAL", ErrOverflow, `out of range: the burst must be full again within 200 years`},
		{"GCRA 1/s INTERVAL", ErrSyntax, `syntax error: GCRA has no option "INTERVAL"`},
		{"FIXED 1/s BURST 2", ErrSyntax, `syntax error: FIXED has no option "BURST"`},
		{"FIXED 1/s INTERVAL", ErrSyntax, `syntax error: FIXED has no option "INTERVAL"`},
		{"FIXED 1/s SEGMENTS 2", ErrSyntax, `syntax error: FIXED has no option "SEGMENTS"`},
		{"FIXED 1/s FIRST first", ErrSyntax, `syntax error: "first" is given twice`},
		{"FIXED 1/s COUNTDENIED COUNTDENIED", ErrSyntax, `syntax error: "COUNTDENIED" is given twice`},
		{"FIXED 1 CALENDAR", ErrSyntax, `syntax error: a value is missing after "CALENDAR"`},
		{"FIXED 1 CALENDAR fortnight", ErrCalendar, `CALENDAR must be second, minute, hour, day, week, month, quarter or year: "fortnight"`},
		{"FIXED x CALENDAR day", ErrMax, `limit must be an integer from 0 to 9223372036854775807: "x"`},
		{"FIXED 1/s CALENDAR day", ErrSyntax, `syntax error: "CALENDAR" takes the place of the period`},
		{"FIXED 1 CALENDAR day CALENDAR week", ErrSyntax, `syntax error: "CALENDAR" is given twice`},
		{"FIXED 1 CALENDAR day FIRST", ErrSyntax, `syntax error: "FIRST" does not work with CALENDAR`},
		{"FIXED 1 CALENDAR day TZ", ErrSyntax, `syntax error: a value is missing after "TZ"`},
		{"FIXED 1 CALENDAR day TZ Mars/Olympus", ErrZone, `unknown time zone: "Mars/Olympus"`},
		{"FIXED 1 CALENDAR day TZ Local", ErrZone, `unknown time zone: "Local"`},
		{"FIXED 1 CALENDAR day TZ ../../etc/passwd", ErrZone, `unknown time zone: "../../etc/passwd"`},
		{"FIXED 1 CALENDAR day TZ europe/berlin", ErrZone, `unknown time zone: "europe/berlin"`},
		{"FIXED 1/s TZ UTC", ErrSyntax, `syntax error: "TZ" works only with CALENDAR`},
		{"SEGMENTED 1/s", ErrSyntax, `syntax error: SEGMENTED needs SEGMENTS n`},
		{"SEGMENTED 1/s SEGMENTS", ErrSyntax, `syntax error: a value is missing after "SEGMENTS"`},
		{"SEGMENTED 1/s SEGMENTS 1", ErrSegments, `SEGMENTS must be an integer from 2 to 1024: "1"`},
		{"SEGMENTED 1/s SEGMENTS 1025", ErrSegments, `SEGMENTS must be an integer from 2 to 1024: "1025"`},
		{"SEGMENTED 1/s SEGMENTS x", ErrSegments, `SEGMENTS must be an integer from 2 to 1024: "x"`},
		{"SEGMENTED 1/s SEGMENTS 9223372036854775808", ErrSegments, `SEGMENTS must be an integer from 2 to 1024: "9223372036854775808"`},
		{"SEGMENTED 1/s SEGMENTS 2 SEGMENTS 2", ErrSyntax, `syntax error: "SEGMENTS" is given twice`},
		{"SEGMENTED 1/s SEGMENTS 2 BURST 2", ErrSyntax, `syntax error: SEGMENTED has no option "BURST"`},
		{"SEGMENTED 1/946728000000000001ns SEGMENTS 2", ErrOverflow, `out of range: the period must be at most 30 years`},
		{"SLIDING 1/946728000000000001ns", ErrOverflow, `out of range: the period must be at most 30 years`},
		{"FIXED 0/946728000000000001ns", ErrOverflow, `out of range: the period must be at most 30 years`},
		{"SLIDING 1/s BURST 2", ErrSyntax, `syntax error: SLIDING has no option "BURST"`},
		{"SLIDING 1/s FIRST", ErrSyntax, `syntax error: SLIDING has no option "FIRST"`},
		{"SLIDING 1/s SEGMENTS 2", ErrSyntax, `syntax error: SLIDING has no option "SEGMENTS"`},
		{"SLIDING 1 CALENDAR day", ErrPeriod, `period must be positive milliseconds, or have a unit (ms s m h d w): "CALENDAR"`},
		{"GCRA 1 CALENDAR day", ErrPeriod, `period must be positive milliseconds, or have a unit (ms s m h d w): "CALENDAR"`},
		{"GCRA 1/s FIRST", ErrSyntax, `syntax error: GCRA has no option "FIRST"`},
		{"GCRA 1/s COUNTDENIED", ErrSyntax, `syntax error: GCRA has no option "COUNTDENIED"`},
		{"LEAKY 1/s INTERVAL", ErrSyntax, `syntax error: LEAKY has no option "INTERVAL"`},
		{"QUEUE 1/s BURST -1", ErrBurst, `BURST must be an integer from 0 to 9223372036854775807: "-1"`},
		{"QUEUE 9223372036854775807/ns", ErrOverflow, `out of range: the burst must be full again within 200 years`},
		{"LEAKY 1/s BURST x", ErrBurst, `BURST must be an integer from 1 to 9223372036854775807: "x"`},
		{"GCRA 1/s \x00\"\xff\u2028", ErrSyntax, `syntax error: GCRA has no option "\x00\"\xff\u2028"`},
		{"WARMUP 5/s WARM 0", ErrWarm, `WARM must be positive milliseconds, or have a unit (ms s m h d w): "0"`},
		{"WARMUP 5/s WARM s", ErrWarm, `WARM must be positive milliseconds, or have a unit (ms s m h d w): "s"`},
		{"WARMUP 5/s WARM", ErrSyntax, `syntax error: a value is missing after "WARM"`},
		{"WARMUP 5/s COLD 0", ErrCold, `COLD must be an integer from 1 to 1000: "0"`},
		{"WARMUP 5/s COLD 1001", ErrCold, `COLD must be an integer from 1 to 1000: "1001"`},
		{"WARMUP 5/s COLD 1.5", ErrCold, `COLD must be an integer from 1 to 1000: "1.5"`},
		{"WARMUP 5/s COLD 2 COLD 2", ErrSyntax, `syntax error: "COLD" is given twice`},
		{"WARMUP 5/s BURST 5", ErrSyntax, `syntax error: WARMUP has no option "BURST"`},
		{"WARMUP 5/s WARM 30w WARM 30w", ErrSyntax, `syntax error: "WARM" is given twice`},
		{"WARMUP 5/s WARM 16000d", ErrOverflow, `out of range: WARM must be at most 30 years`},
		{"WARMUP 5/16000d", ErrOverflow, `out of range: the period must be at most 30 years`},
		{"WARMUP 5/16000d WARM 1s", ErrOverflow, `out of range: the period must be at most 30 years`},
		{"WARMUP 5/10000d", ErrOverflow, `out of range: a key must be cold again within 30 years: give a shorter period or WARM`},
		{"GCRA 5/s WARM 5s", ErrSyntax, `syntax error: GCRA has no option "WARM"`},
		{"LOG 65537/s", ErrMax, `limit of LOG must be an integer from 0 to 65536: "65537"`},
		{"LOG x 1s", ErrMax, `limit of LOG must be an integer from 0 to 65536: "x"`},
		{"LOG 65537", ErrMax, `limit of LOG must be an integer from 0 to 65536: "65537"`},
		{"LOG 5/946728000000000001ns", ErrOverflow, `out of range: the period must be at most 30 years`},
		{"LOG 5/s BURST 5", ErrSyntax, `syntax error: LOG has no option "BURST"`},
		{"LOG 5/s COUNTDENIED COUNTDENIED", ErrSyntax, `syntax error: "COUNTDENIED" is given twice`},
		{"GCRA 5/s COUNTDENIED", ErrSyntax, `syntax error: GCRA has no option "COUNTDENIED"`},
		{strings.Repeat("x", 129), ErrAlgorithm, `unknown algorithm: "` + strings.Repeat("x", 128) + `"...` + there},
		{strings.Repeat("x", 128), ErrAlgorithm, `unknown algorithm: "` + strings.Repeat("x", 128) + `"` + there},
	}
	for _, tt := range tests {
		l, err := Parse(tt.in)
		if !errors.Is(err, tt.want) || err.Error() != tt.text || l != (Limit{}) {
			t.Errorf("Parse(%q) = %+v\n got %v\nwant %v", tt.in, l, err, tt.text)
		}
	}
}

// A command reads the limit's words among its own.
func TestParseTime(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want int64
		text string
	}{
		{"0", 0, ""},
		{"00h", 0, ""},
		{"15", 15e6, ""},
		{"2S", 2e9, ""},
		{"7ns", 7, ""},
		{"", 0, `a time must be 0 or more milliseconds, or have a unit (ms s m h d w): ""`},
		{"s", 0, `a time must be 0 or more milliseconds, or have a unit (ms s m h d w): "s"`},
		{"-1", 0, `a time must be 0 or more milliseconds, or have a unit (ms s m h d w): "-1"`},
		{"9999999999999", 0, `out of range: period, burst and cost must stay within 292 years of nanoseconds: "9999999999999"`},
	} {
		got, err := ParseTime([]byte(tt.in))
		if got != tt.want || (err == nil) != (tt.text == "") || err != nil && err.Error() != tt.text {
			t.Errorf("ParseTime(%q) = %d, %v", tt.in, got, err)
		}
	}
}

func TestParserAmongOtherWords(t *testing.T) {
	tests := []struct {
		words string
		want  string
		cost  string
	}{
		{"GCRA 100/m COST 5", "GCRA 100/m", "5"},
		{"GCRA 100/m COST 5 BURST 20", "GCRA 100/m BURST 20", "5"},
		{"GCRA 100 1m BURST 20 COST 5", "GCRA 100/m BURST 20", "5"},
	}
	for _, tt := range tests {
		words := split(tt.words)
		var p Parser
		n, err := p.Head(words)
		cost := ""
		for words = words[n:]; err == nil && len(words) > 0; words = words[n:] {
			if n, err = p.Option(words); n == 0 && err == nil {
				cost, n = string(words[1]), 2
			}
		}
		if err != nil {
			t.Fatalf("%q: %v", tt.words, err)
		}
		l, err := p.Finish()
		if err != nil || l.String() != tt.want || cost != tt.cost {
			t.Errorf("%q: %v, cost %s, %v", tt.words, l, cost, err)
		}
	}
}

// Head forgets what the parser has read before, also after an error.
func TestParserIsReusable(t *testing.T) {
	var p Parser
	for range 2 {
		if n, err := p.Head(split("GCRA 100/m BURST 20")); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := p.Option(split("BURST 20")); n != 2 || err != nil {
			t.Fatal(n, err)
		}
	}
	if n, err := p.Head(split("nonsense")); n != 0 || err == nil {
		t.Fatal(n, err)
	}
	if n, err := p.Option(split("BURST 20")); n != 0 || err != nil {
		t.Errorf("an option of no algorithm: %d, %v", n, err)
	}
	if l, err := p.Finish(); err == nil {
		t.Errorf("a limit of no algorithm: %v", l)
	}
	if n, err := p.Option(nil); n != 0 || err != nil {
		t.Errorf("no words: %d, %v", n, err)
	}
}

func TestParserAllocatesNothing(t *testing.T) {
	words := split("gcra 100 1m burst 20 COST 5")
	text := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() {
		var p Parser
		n, err := p.Head(words)
		if err != nil {
			t.Fatal(err)
		}
		used, err := p.Option(words[n:])
		if err != nil || used != 2 {
			t.Fatal(err)
		}
		if other, err := p.Option(words[n+used:]); err != nil || other != 0 {
			t.Fatal(err)
		}
		l, err := p.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if text, err = l.AppendText(text[:0]); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if string(text) != "GCRA 100/m BURST 20" {
		t.Errorf("printed %q", text)
	}
}

// drawValid draws any valid limit, of any order of magnitude.
func drawValid(t *rapid.T) Limit {
	l := drawAny(t, rapid.SampledFrom(Algorithms()).Draw(t, "algorithm"))
	if rapid.Bool().Draw(t, "usual") {
		l = drawLimit(t, l.Algorithm)
		u := rapid.SampledFrom(units[:]).Draw(t, "unit")
		if l.Calendar == NoUnit {
			l.Period = u.ns * rapid.Int64Range(1, 100).Draw(t, "of it")
		}
	}
	if l.Validate() != nil {
		t.Skip("not valid")
	}
	return l
}

// Every valid limit reads back as it prints, and prints the shortest way.
func TestSpellingRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawValid(t)
		text := l.String()
		back, err := parse(text)
		if err != nil || back != l {
			t.Fatalf("%+v prints %q, which is %+v, %v", l, text, back, err)
		}
		other := strings.ToLower(text)
		if rapid.Bool().Draw(t, "upper") {
			other = strings.ToUpper(text)
		}
		if l.Zone != nil { // a zone's name is in one case only
			name := l.Zone.String()
			other = strings.NewReplacer(strings.ToLower(name), name, strings.ToUpper(name), name).Replace(other)
		}
		if back, err := parse(other); err != nil || back != l {
			t.Fatalf("%q is %+v, %v", other, back, err)
		}
		if marshaled, err := l.AppendText([]byte("limit: ")); err != nil || string(marshaled) != "limit: "+text {
			t.Fatalf("AppendText: %q, %v", marshaled, err)
		}
		_, period, _ := strings.Cut(strings.Fields(text)[1], "/")
		for _, u := range units {
			other := strconv.FormatInt(l.Period/u.ns, 10) + u.name
			if l.Period%u.ns == 0 && len(other) < len(period) {
				t.Fatalf("%q is longer than %q", period, other)
			}
		}
	})
}

// What cannot be parsed prints, too.
func TestStringOfAnyLimit(t *testing.T) {
	tests := []struct {
		l    Limit
		want string
	}{
		{Limit{}, "Algorithm(0) 0/0ns"},
		{plain(200, -1, -60e9, -5), "Algorithm(200) -1/-1m BURST -5"},
		{plain(GCRA, math.MinInt64, math.MinInt64, 0), "GCRA -9223372036854775808/-9223372036854775808ns BURST 0"},
	}
	for _, tt := range tests {
		if got := tt.l.String(); got != tt.want {
			t.Errorf("%+v prints %q, want %q", tt.l, got, tt.want)
		}
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		l    Limit
		want error
	}{
		{plain(GCRA, 1, 1, 1), nil},
		{plain(GCRA, 0, 1, 0), nil},
		{plain(GCRA, 0, math.MaxInt64, math.MaxInt64), nil},
		{Limit{}, ErrAlgorithm},
		{plain(99, 1, 1, 1), ErrAlgorithm},
		{plain(GCRA, -1, 1, 1), ErrMax},
		{plain(GCRA, 1, 0, 1), ErrPeriod},
		{plain(GCRA, 1, -1, 1), ErrPeriod},
		{plain(GCRA, 1, 1, 0), ErrBurst},
		{plain(GCRA, 0, 1, -1), ErrBurst},
		{plain(GCRA, 1, 2, math.MaxInt64), ErrOverflow},
		{plain(GCRA, 1, 4, 1<<61), ErrOverflow},
		{plain(GCRA, 1, 2, math.MaxInt64/2), ErrOverflow},
		{plain(GCRA, 1, 2, MaxSpan/2+1), ErrOverflow},
		{plain(GCRA, 1, 2, MaxSpan/2), nil},
		{plain(GCRA, 1, MaxSpan, 1), nil},
		{plain(GCRA, 1, MaxSpan+1, 1), ErrOverflow},
		{plain(GCRA, 1000, 1000*(MaxSpan/1000), 1000), nil},
		{plain(GCRA, 2, MaxSpan+1, 1), nil},
		{plain(LEAKY, 1, 2, MaxSpan/2+1), ErrOverflow},
		{plain(TOKEN, 1, 2, MaxSpan/2+1), ErrOverflow},
		{plain(LEAKY, 1, 1, 0), ErrBurst},
		{plain(QUEUE, 1, 1, 0), nil},
		{plain(QUEUE, 1, 1, MaxSpan-1), nil},
		{plain(QUEUE, 1, 1, MaxSpan), ErrOverflow},
		{plain(QUEUE, 1, 1, math.MaxInt64), ErrOverflow},
		{plain(QUEUE, 1, 2, math.MaxInt64/2), ErrOverflow},
		{Limit{Algorithm: TOKEN, Max: 1, Period: 2, Burst: math.MaxInt64/2 + 1, Interval: true}, ErrOverflow},
		{Limit{Algorithm: TOKEN, Max: 2, Period: 2, Burst: MaxSpan, Interval: true}, nil},
		{Limit{Algorithm: TOKEN, Max: 2, Period: 2, Burst: MaxSpan + 1, Interval: true}, ErrOverflow},
		{Limit{Algorithm: GCRA, Max: 1, Period: 1, Burst: 1, Interval: true}, ErrOption},
		{plain(FIXED, 3, 7, 3), nil},
		{plain(FIXED, 1<<62+1, MaxPeriod, 1<<62+1), nil},
		{plain(FIXED, 1, MaxPeriod+1, 1), ErrOverflow},
		{plain(FIXED, 3, 7, 4), ErrOption},
		{withSegments(3, 1, 2), nil},
		{withSegments(3, 1, MaxSegments), nil},
		{withSegments(3, MaxPeriod, 2), nil},
		{withSegments(3, MaxPeriod+1, 2), ErrOverflow},
		{plain(SEGMENTED, 3, 1, 3), ErrSegments},
		{plain(SLIDING, 3, MaxPeriod, 3), nil},
		{plain(SLIDING, 3, MaxPeriod+1, 3), ErrOverflow},
		{plain(SLIDING, 3, 7, 4), ErrOption},
		{Limit{Algorithm: SLIDING, Max: 3, Burst: 3, Calendar: Day}, ErrOption},
		{Limit{Algorithm: FIXED, Max: 3, Burst: 3, Calendar: Day}, nil},
		{Limit{Algorithm: FIXED, Max: 3, Burst: 3, Calendar: Year + 1}, ErrCalendar},
		{Limit{Algorithm: FIXED, Max: 3, Burst: 3, Period: 1, Calendar: Day}, ErrPeriod},
		{Limit{Algorithm: FIXED, Max: 3, Burst: 3, Calendar: Day, First: true}, ErrOption},
		{Limit{Algorithm: FIXED, Max: 3, Burst: 3, Period: 1, Zone: mustZone(t, "Asia/Tokyo")}, ErrCalendar},
		{Limit{Algorithm: FIXED, Max: 3, Burst: 3, Period: 1, Interval: true}, ErrOption},
		{Limit{Algorithm: FIXED, Max: 3, Burst: 3, Period: 1, Segments: 2}, ErrSegments},
		{Limit{Algorithm: GCRA, Max: 3, Burst: 3, Calendar: Day}, ErrOption},
		{Limit{Algorithm: GCRA, Max: 3, Burst: 3, Period: 1, CountDenied: true}, ErrOption},
		{warmLimit(1, 1, 1, 1), nil},
		{warmLimit(1, 1, 0, 1), ErrWarm},
		{warmLimit(1, 1, -1, 1), ErrWarm},
		{warmLimit(1, 1, 1, 0), ErrCold},
		{warmLimit(1, 1, 1, MaxCold+1), ErrCold},
		{warmLimit(0, 1, MaxPeriod, 1), nil},
		{warmLimit(0, 1, MaxPeriod+1, 1), ErrOverflow},
		{warmLimit(1, MaxPeriod-3, 3, 1), nil}, // 2/3 of MaxPeriod of cooling, but 3 ns at the most
		{warmLimit(1, MaxPeriod-2, 3, 1), ErrOverflow},
		{warmLimit(2, math.MaxInt64, 3, 1), ErrOverflow},
		{plain(WARMUP, 5, 1, 5), ErrWarm},
		{plain(LOG, MaxLog, MaxPeriod, MaxLog), nil},
		{plain(LOG, 1, MaxPeriod+1, 1), ErrOverflow},
		{plain(LOG, MaxLog+1, 1, MaxLog+1), ErrMax},
		{plain(LOG, 5, 1, 4), ErrOption},
		{plain(LOG, 0, 1, 0), nil},
	}
	for _, tt := range tests {
		if err := tt.l.Validate(); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.l, err, tt.want)
		}
	}
}

// checkErrorText fails if the error is not a line that can be sent to a client.
func checkErrorText(t *testing.T, err error) {
	t.Helper()
	text := err.Error()
	if len(text) > 128+4*maxQuoted || !utf8.ValidString(text) || strings.ContainsAny(text, "\r\n\x00") {
		t.Errorf("not fit for one line: %q", text)
	}
}
