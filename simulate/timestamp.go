package simulate

import (
	"errors"
	"math"
	"time"
)

// Unit is the unit of times that are bare numbers.
type Unit int64

// The units of Unix time. AutoUnit means seconds for a number below 10¹¹ (the year 5138), milliseconds below
// 10¹⁴, microseconds below 10¹⁷, and otherwise nanoseconds.
const (
	AutoUnit     Unit = 0
	Nanoseconds  Unit = 1
	Microseconds Unit = 1e3
	Milliseconds Unit = 1e6
	Seconds      Unit = 1e9
)

var (
	errTime      = errors.New("the time is neither Unix time nor RFC 3339")
	errTimeRange = errors.New("the time is not within 1677 to 2262")
)

// parseTime parses Unix time, possibly with a fraction, or RFC 3339. It returns ns since the epoch.
func parseTime(b []byte, unit Unit) (int64, error) {
	digits := b
	if len(b) > 0 && b[0] == '-' {
		digits = b[1:]
	}
	whole := 0
	for whole < len(digits) && isDigit(digits[whole]) {
		whole++
	}
	if whole == len(digits) || digits[whole] == '.' {
		return parseUnix(b, unit)
	}
	return parseRFC3339(b)
}

// parseUnix parses a decimal number of units. It cuts off fractions of a nanosecond.
func parseUnix(b []byte, unit Unit) (int64, error) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	n, i := int64(0), 0
	for ; i < len(b) && isDigit(b[i]); i++ {
		d := int64(b[i] - '0')
		if n > (math.MaxInt64-d)/10 {
			return 0, errTimeRange
		}
		n = n*10 + d
	}
	if i == 0 {
		return 0, errTime
	}
	if unit == AutoUnit {
		unit = unitOf(n)
	}
	if n > math.MaxInt64/int64(unit) {
		return 0, errTimeRange
	}
	ns := n * int64(unit)
	if i < len(b) {
		fraction, ok := parseFraction(b[i:], int64(unit))
		if !ok {
			return 0, errTime
		}
		if ns > math.MaxInt64-fraction {
			return 0, errTimeRange
		}
		ns += fraction
	}
	if negative {
		ns = -ns
	}
	return ns, nil
}

// unitOf guesses the unit of a number.
func unitOf(n int64) Unit {
	switch {
	case n < 1e11:
		return Seconds
	case n < 1e14:
		return Milliseconds
	case n < 1e17:
		return Microseconds
	}
	return Nanoseconds
}

// parseFraction parses a point and digits as a part of scale.
func parseFraction(b []byte, scale int64) (part int64, ok bool) {
	if len(b) < 2 || b[0] != '.' && b[0] != ',' {
		return 0, false
	}
	for _, c := range b[1:] {
		if !isDigit(c) {
			return 0, false
		}
		scale /= 10
		part += int64(c-'0') * scale
	}
	return part, true
}

// parseRFC3339 parses 2006-01-02T15:04:05.999999999Z, with an offset such as +02:00 or +0200 in place of the
// Z. A blank may replace the T. Without an offset the time is in UTC.
func parseRFC3339(b []byte) (int64, error) {
	const shortest = len("2006-01-02T15:04:05")
	if len(b) < shortest || b[4] != '-' || b[7] != '-' || b[13] != ':' || b[16] != ':' {
		return 0, errTime
	}
	if c := b[10]; c != 'T' && c != 't' && c != ' ' {
		return 0, errTime
	}
	var d date
	if !number(b[0:4], &d.year) || !number(b[5:7], &d.month) || !number(b[8:10], &d.day) ||
		!number(b[11:13], &d.hour) || !number(b[14:16], &d.minute) || !number(b[17:19], &d.second) {
		return 0, errTime
	}
	b = b[shortest:]
	fraction := int64(0)
	if len(b) > 0 && (b[0] == '.' || b[0] == ',') {
		n := 1
		for n < len(b) && isDigit(b[n]) {
			n++
		}
		var ok bool
		if fraction, ok = parseFraction(b[:n], 1e9); !ok {
			return 0, errTime
		}
		b = b[n:]
	}
	offset, ok := parseOffset(b)
	if !ok {
		return 0, errTime
	}
	return d.unix(offset, fraction)
}

// parseOffset parses Z, +hh:mm, +hhmm or nothing, and returns seconds.
func parseOffset(b []byte) (seconds int64, ok bool) {
	switch {
	case len(b) == 0, len(b) == 1 && (b[0] == 'Z' || b[0] == 'z'):
		return 0, true
	case len(b) == 6 && b[3] == ':':
		return parseZone(b[0], b[1:3], b[4:6])
	case len(b) == 5:
		return parseZone(b[0], b[1:3], b[3:5])
	}
	return 0, false
}

func parseZone(sign byte, hh, mm []byte) (seconds int64, ok bool) {
	var h, m int64
	if !number(hh, &h) || !number(mm, &m) || h > 23 || m > 59 {
		return 0, false
	}
	switch seconds = h*3600 + m*60; sign {
	case '+':
		return seconds, true
	case '-':
		return -seconds, true
	}
	return 0, false
}

// parseCLF parses the time in an access log, 10/Oct/2000:13:55:36 -0700.
func parseCLF(b []byte) (int64, error) {
	if len(b) != len("10/Oct/2000:13:55:36 -0700") ||
		b[2] != '/' || b[6] != '/' || b[11] != ':' || b[14] != ':' || b[17] != ':' || b[20] != ' ' {
		return 0, errLogTime
	}
	var d date
	d.month = monthOf(b[3:6])
	offset, ok := parseZone(b[21], b[22:24], b[24:26])
	if !ok || d.month == 0 || !number(b[0:2], &d.day) || !number(b[7:11], &d.year) ||
		!number(b[12:14], &d.hour) || !number(b[15:17], &d.minute) || !number(b[18:20], &d.second) {
		return 0, errLogTime
	}
	ns, err := d.unix(offset, 0)
	if errors.Is(err, errTime) {
		err = errLogTime
	}
	return ns, err
}

var errLogTime = errors.New("the time is not of the form 10/Oct/2000:13:55:36 -0700")

// monthOf returns the number of the month whose English name begins with these three letters, or 0.
func monthOf(b []byte) int64 {
	const names = "JanFebMarAprMayJunJulAugSepOctNovDec"
	for m := range int64(12) {
		if string(b) == names[m*3:m*3+3] {
			return m + 1
		}
	}
	return 0
}

// date is a date and a time of day.
type date struct {
	year, month, day, hour, minute, second int64
}

const second = int64(Seconds)

// unix returns the date in ns since the epoch. offset is that of the zone, in seconds east of UTC. A leap
// second counts as the first second of the next minute.
func (d *date) unix(offset, ns int64) (int64, error) {
	if d.hour > 23 || d.minute > 59 || d.second > 60 {
		return 0, errTime
	}
	day := time.Date(int(d.year), time.Month(d.month), int(d.day), 0, 0, 0, 0, time.UTC)
	if int64(day.Month()) != d.month || int64(day.Day()) != d.day {
		return 0, errTime // the month has no such day
	}
	s := day.Unix() + d.hour*3600 + d.minute*60 + d.second - offset
	if s < math.MinInt64/second || s >= math.MaxInt64/second {
		return 0, errTimeRange
	}
	return s*second + ns, nil
}

// number parses digits and nothing else.
func number(b []byte, n *int64) bool {
	*n = 0
	for _, c := range b {
		if !isDigit(c) {
			return false
		}
		*n = *n*10 + int64(c-'0')
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
