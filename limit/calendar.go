package limit

import (
	"math"
	"time"
)

// Unit is a unit of the calendar.
type Unit uint8

// The calendar's units, as CALENDAR names them. A week begins on Monday.
const (
	NoUnit Unit = iota
	Second
	Minute
	Hour
	Day
	Week
	Month
	Quarter
	Year
)

// unitNames has the units' names, in upper case.
func unitNames() [Year + 1]string {
	return [...]string{"", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"}
}

// String is the unit's name in upper case, empty for none.
func (u Unit) String() string {
	if u > Year {
		return "UNIT?"
	}
	return unitNames()[u]
}

// parseUnit finds a unit by its name in any case.
func parseUnit(word []byte) (Unit, error) {
	for u, name := range unitNames() {
		if u > 0 && equalFold(word, name) {
			return Unit(u), nil
		}
	}
	return NoUnit, at(ErrCalendar, word)
}

// A calendar's windows lie one behind another, without gap or overlap, also
// where a zone's clock is moved:
//
//   - A day, week, month, quarter or year begins when the local clock first
//     shows its beginning or has passed over it, and lasts until the next one
//     begins. There is one window of each. So a day has 23 or 25 hours where
//     daylight saving begins and ends; a midnight that the clock shows twice
//     begins the day the first time; a day that a zone has left out (Samoa
//     crossed the date line in 2011) has no window.
//   - A second, minute or hour begins whenever the local clock shows its
//     beginning, or passes over it. An hour that the clock shows twice is two
//     windows. Where the clock is moved by half an hour (Lord Howe), an hour
//     has 30 or 90 minutes.
//
// All of it is in whole seconds, since zones change at whole seconds only:
// "sec" is Unix time, and "local" is what the zone's clock shows, counted in the
// same way as if it were UTC.

const (
	minuteSeconds = 60
	hourSeconds   = 60 * minuteSeconds
	daySeconds    = 24 * hourSeconds

	// lookBack is longer than any clock has been moved back.
	lookBack = 2 * daySeconds
)

// calendarEnd returns the end of the window around sec.
func calendarEnd(u Unit, zone *time.Location, sec int64) int64 {
	if zone == nil || u == Second {
		return nextBeginning(u, sec)
	}
	s := stretchAt(zone, sec)
	next := nextBeginning(u, sec+s.offset)
	end := next - s.offset
	switch {
	case u <= Hour:
		if end < s.to {
			return end
		}
		return clockEnd(u, zone, s)
	case end < s.to && s.from <= sec-lookBack:
		return end
	}
	// Near a change of the clock: find when the beginning of the next unit is
	// first reached. That may be in the past, if the clock was moved back over
	// it since.
	for {
		if end := firstAt(zone, next, sec-lookBack); end > sec {
			return end
		}
		next = nextBeginning(u, next)
	}
}

// clockEnd is the first beginning of a second, minute or hour from the end of
// the stretch s on.
func clockEnd(u Unit, zone *time.Location, s stretch) int64 {
	for {
		sec := s.to
		before := sec + s.offset // what the clock would have shown
		s = stretchAt(zone, sec)
		local := sec + s.offset
		// Moved back, a clock begins a unit only if it shows just that; moved
		// ahead, also if it has passed over it.
		least := local
		if before < local {
			least = before
		}
		if nextBeginning(u, least-1) <= local {
			return sec
		}
		if end := nextBeginning(u, local) - s.offset; end < s.to {
			return end
		}
	}
}

// firstAt is the first time, not before sec, at which the zone's clock shows
// local or more.
func firstAt(zone *time.Location, local, sec int64) int64 {
	for {
		s := stretchAt(zone, sec)
		if at := max(sec, local-s.offset); at < s.to {
			return at
		}
		sec = s.to
	}
}

// stretch is a time during which a zone's clock is not moved.
type stretch struct {
	from, to int64 // Unix seconds
	offset   int64 // local − Unix
}

// stretchAt is a stretch that sec lies in. There may be others before and after
// it with the same offset.
func stretchAt(zone *time.Location, sec int64) stretch {
	t := time.Unix(sec, 0).In(zone)
	_, offset := t.Zone()
	from, to := t.ZoneBounds()
	s := stretch{math.MinInt64, math.MaxInt64, int64(offset)}
	if !from.IsZero() {
		s.from = from.Unix()
	}
	if !to.IsZero() {
		s.to = to.Unix()
	}
	// From the last change of a year on, package time lets a stretch end after
	// 365 days of it, also where the year has 366.
	if s.to <= sec {
		s.to = sec - modulo(sec, daySeconds) + daySeconds
	}
	return s
}

// nextBeginning returns the beginning of the unit after that of local.
func nextBeginning(u Unit, local int64) int64 {
	switch u {
	case Second:
		return local + 1
	case Minute:
		return local - modulo(local, minuteSeconds) + minuteSeconds
	case Hour:
		return local - modulo(local, hourSeconds) + hourSeconds
	}
	day := (local - modulo(local, daySeconds)) / daySeconds
	switch u {
	case Day:
		day++
	case Week:
		day += 7 - modulo(day+3, 7) // day 0 was a Thursday
	case Month:
		day = firstDay(monthOf(day) + 1)
	case Quarter:
		month := monthOf(day)
		day = firstDay(month - modulo(month, 3) + 3)
	default:
		month := monthOf(day)
		day = firstDay(month - modulo(month, 12) + 12)
	}
	return day * daySeconds
}

// Months are counted from January of the year 0, days from 1970-01-01, both in
// the Gregorian calendar. A year that begins in March has its leap day last, and
// the lengths of its months repeat after five of them, so that both directions
// are a few divisions: Howard Hinnant, chrono-Compatible Low-Level Date
// Algorithms, 2013.
const (
	eraDays    = 146_097 // in 400 years
	daysTo1970 = 719_468 // from March 1 of the year 0
	toMarch    = 2       // months from January
)

// monthOf is the month of a day.
func monthOf(day int64) int64 {
	day += daysTo1970
	inEra := modulo(day, eraDays)
	era := (day - inEra) / eraDays
	year := (inEra - inEra/1460 + inEra/36_524 - inEra/(eraDays-1)) / 365
	inYear := inEra - (365*year + year/4 - year/100)
	return (era*400+year)*12 + (5*inYear+2)/153 + toMarch
}

// firstDay is the first day of a month.
func firstDay(month int64) int64 {
	month -= toMarch
	inEra := modulo(month, 400*12)
	era := (month - inEra) / (400 * 12)
	year, inYear := inEra/12, inEra%12
	return era*eraDays + year*365 + year/4 - year/100 + (153*inYear+2)/5 - daysTo1970
}

// wholeSeconds is a time of ns in seconds, rounded down.
func wholeSeconds(ns int64) int64 {
	sec := ns / second
	if sec*second > ns {
		sec--
	}
	return sec
}

const second = int64(1e9)
