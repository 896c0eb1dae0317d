package limit

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// allUnits returns the calendar's units.
func allUnits() []Unit {
	return []Unit{Second, Minute, Hour, Day, Week, Month, Quarter, Year}
}

// mustZone returns the zone of a valid name, nil for UTC.
func mustZone(tb rapid.TB, name string) *time.Location {
	tb.Helper()
	zone, err := testZones.Find([]byte(name))
	if err != nil {
		tb.Fatal(err)
	}
	return zone
}

// oddZones returns zones whose clocks have been moved in many ways: at midnight,
// by half an hour, by 20 minutes, by seconds, by a day, often, never.
func oddZones() []string {
	return []string{
		"UTC", "Europe/Berlin", "Europe/London", "Europe/Lisbon", "Europe/Dublin", "Europe/Moscow", "Europe/Istanbul", "Europe/Amsterdam",
		"America/New_York", "America/Los_Angeles", "America/Sao_Paulo", "America/St_Johns", "America/Havana", "America/Caracas",
		"America/Asuncion", "America/Santiago", "America/Nuuk", "America/Scoresbysund", "America/Adak", "America/Sitka", "America/Goose_Bay",
		"Asia/Kolkata", "Asia/Kathmandu", "Asia/Tehran", "Asia/Beirut", "Asia/Amman", "Asia/Gaza", "Asia/Pyongyang", "Asia/Tokyo", "Asia/Manila",
		"Africa/Cairo", "Africa/Casablanca", "Africa/Monrovia", "Africa/Khartoum",
		"Australia/Lord_Howe", "Australia/Adelaide", "Australia/Eucla", "Antarctica/Troll", "Antarctica/Casey", "Atlantic/Azores",
		"Pacific/Apia", "Pacific/Kwajalein", "Pacific/Kiritimati", "Pacific/Chatham", "Pacific/Easter", "Pacific/Norfolk", "Etc/GMT+12", "Etc/GMT-14",
	}
}

func TestUnitNames(t *testing.T) {
	for _, u := range allUnits() {
		if got, err := parseUnit([]byte(u.String())); got != u || err != nil {
			t.Errorf("%v is %v, %v", u, got, err)
		}
	}
	for _, word := range []string{"", "DAYS", "fortnight", "daY ", "d\xe1y"} {
		if got, err := parseUnit([]byte(word)); got != NoUnit || !errors.Is(err, ErrCalendar) {
			t.Errorf("%q is %v, %v", word, got, err)
		}
	}
	if NoUnit.String() != "" || (Year+1).String() != "UNIT?" {
		t.Errorf("%q, %q", NoUnit, Year+1)
	}
}

// The windows one by one, from the window of a time: where each ends, in
// UTC.
func TestCalendarWindows(t *testing.T) {
	tests := []struct {
		name string
		unit Unit
		zone string
		at   string
		ends []string
	}{
		{"second", Second, "UTC", "2026-03-29 00:59:58", []string{"2026-03-29 00:59:59", "2026-03-29 01:00:00", "2026-03-29 01:00:01"}},
		{"minute", Minute, "UTC", "2026-03-29 00:58:59", []string{"2026-03-29 00:59:00", "2026-03-29 01:00:00"}},
		{"hour", Hour, "UTC", "2026-12-31 22:00:00", []string{"2026-12-31 23:00:00", "2027-01-01 00:00:00"}},
		{"day, leap year", Day, "UTC", "2024-02-28 12:00:00", []string{"2024-02-29 00:00:00", "2024-03-01 00:00:00"}},
		{"day, 1900 is none", Day, "UTC", "1900-02-28 23:59:59", []string{"1900-03-01 00:00:00"}},
		{"day before the epoch", Day, "UTC", "1969-12-31 23:59:59", []string{"1970-01-01 00:00:00"}},
		{"a week begins on Monday", Week, "UTC", "2026-07-26 23:59:59", []string{"2026-07-27 00:00:00", "2026-08-03 00:00:00"}},
		{"the epoch's week", Week, "UTC", "1970-01-01 00:00:00", []string{"1970-01-05 00:00:00"}},
		{"week over new year", Week, "UTC", "2024-12-30 00:00:00", []string{"2025-01-06 00:00:00"}},
		{"month", Month, "UTC", "2023-12-01 00:00:00", []string{"2024-01-01 00:00:00", "2024-02-01 00:00:00", "2024-03-01 00:00:00", "2024-04-01 00:00:00"}},
		{"quarter", Quarter, "UTC", "2025-11-15 00:00:00", []string{"2026-01-01 00:00:00", "2026-04-01 00:00:00", "2026-07-01 00:00:00", "2026-10-01 00:00:00"}},
		{"year", Year, "UTC", "1999-12-31 23:59:59", []string{"2000-01-01 00:00:00", "2001-01-01 00:00:00"}},
		{"year, the first of all", Year, "UTC", "1677-09-21 00:12:43", []string{"1678-01-01 00:00:00"}},

		{"23 hours", Day, "Europe/Berlin", "2026-03-28 22:59:59", []string{"2026-03-28 23:00:00", "2026-03-29 22:00:00", "2026-03-30 22:00:00"}},
		{"25 hours", Day, "Europe/Berlin", "2026-10-24 12:00:00", []string{"2026-10-24 22:00:00", "2026-10-25 23:00:00", "2026-10-26 23:00:00"}},
		{"week of 167 hours", Week, "Europe/Berlin", "2026-03-25 00:00:00", []string{"2026-03-29 22:00:00"}},
		{"month in summer time", Month, "Europe/Berlin", "2026-03-01 00:00:00", []string{"2026-03-31 22:00:00"}},
		{"year in a zone", Year, "America/New_York", "2026-06-01 00:00:00", []string{"2027-01-01 05:00:00"}},
		{"an hour that is shown twice is two", Hour, "Europe/Berlin", "2026-10-25 00:00:00", []string{"2026-10-25 01:00:00", "2026-10-25 02:00:00"}},
		{"an hour that is left out", Hour, "Europe/Berlin", "2026-03-29 00:30:00", []string{"2026-03-29 01:00:00", "2026-03-29 02:00:00"}},
		{"half past", Hour, "Asia/Kolkata", "2026-01-01 00:29:59", []string{"2026-01-01 00:30:00", "2026-01-01 01:30:00"}},
		{"quarter to", Hour, "Asia/Kathmandu", "2026-01-01 00:15:00", []string{"2026-01-01 01:15:00"}},
		{"90 minutes", Hour, "Australia/Lord_Howe", "2026-04-04 14:00:00", []string{"2026-04-04 15:30:00", "2026-04-04 16:30:00"}},
		{"30 minutes", Hour, "Australia/Lord_Howe", "2026-10-03 14:30:00", []string{"2026-10-03 15:30:00", "2026-10-03 16:00:00", "2026-10-03 17:00:00"}},
		{"24 hours and a half", Day, "Australia/Lord_Howe", "2026-04-04 13:00:00", []string{"2026-04-05 13:30:00"}},
		{"a minute that is cut short", Minute, "Africa/Monrovia", "1972-01-07 00:43:30", []string{"1972-01-07 00:44:30", "1972-01-07 00:45:00"}},

		{"midnight left out, Brazil", Day, "America/Sao_Paulo", "2018-11-03 12:00:00", []string{"2018-11-04 03:00:00", "2018-11-05 02:00:00"}},
		{"back to 23:00, Brazil", Day, "America/Sao_Paulo", "2018-02-17 12:00:00", []string{"2018-02-18 03:00:00"}},
		{"midnight left out, Lebanon", Day, "Asia/Beirut", "2022-03-26 12:00:00", []string{"2022-03-26 22:00:00", "2022-03-27 21:00:00"}},
		{"back to 23:00, Lebanon", Day, "Asia/Beirut", "2022-10-29 12:00:00", []string{"2022-10-29 22:00:00"}},
		{"midnight left out, Egypt", Day, "Africa/Cairo", "2023-04-27 12:00:00", []string{"2023-04-27 22:00:00", "2023-04-28 21:00:00"}},
		{"back to 23:00, Egypt", Day, "Africa/Cairo", "2023-10-26 12:00:00", []string{"2023-10-26 22:00:00"}},
		{"a midnight twice", Day, "America/St_Johns", "2006-10-28 12:00:00", []string{"2006-10-29 02:30:00", "2006-10-30 03:30:00"}},
		{"between the two", Day, "America/St_Johns", "2006-10-29 02:45:00", []string{"2006-10-30 03:30:00"}},
		{"a day left out", Day, "Pacific/Apia", "2011-12-29 12:00:00", []string{"2011-12-30 10:00:00", "2011-12-31 10:00:00"}},
		{"its week", Week, "Pacific/Apia", "2011-12-29 12:00:00", []string{"2012-01-01 10:00:00"}},
		{"a day twice", Day, "Pacific/Kwajalein", "1969-09-29 12:00:00", []string{"1969-09-29 13:00:00", "1969-10-01 12:00:00"}},
	}
	const layout = "2006-01-02 15:04:05"
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			zone := mustZone(t, tt.zone)
			at, err := time.Parse(layout, tt.at)
			if err != nil {
				t.Fatal(err)
			}
			sec := at.Unix()
			for _, want := range tt.ends {
				end := calendarEnd(tt.unit, zone, sec)
				if got := time.Unix(end, 0).UTC().Format(layout); got != want {
					t.Errorf("the %v of %v in %s ends %s, want %s", tt.unit, time.Unix(sec, 0).UTC(), tt.zone, got, want)
				}
				sec = end
			}
		})
	}
}

// The windows of 130 years tile the line: each is as long as its unit may be,
// and has the same end at every second of it.
//
//test:norace
func TestCalendarTiles(t *testing.T) {
	year := func(y int) int64 { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC).Unix() }
	lengths := [...]struct{ least, most int64 }{
		Day: {20 * hourSeconds, 50 * hourSeconds}, Week: {5 * daySeconds, 9 * daySeconds}, Month: {26 * daySeconds, 32 * daySeconds},
		Quarter: {88 * daySeconds, 94 * daySeconds}, Year: {363 * daySeconds, 368 * daySeconds},
	}
	for _, name := range oddZones() {
		zone := mustZone(t, name)
		for _, u := range []Unit{Day, Week, Month, Quarter, Year} {
			from := calendarEnd(u, zone, year(1970)-1)
			for from < year(2100) {
				to := calendarEnd(u, zone, from)
				if length := to - from; length < lengths[u].least || length > lengths[u].most {
					t.Fatalf("%s: the %v of %d has %d s", name, u, from, length)
				}
				probes := []int64{to - 1, from + 1, from + (to-from)/7, to - 3*hourSeconds, to - hourSeconds}
				if to-from == daySeconds {
					probes = probes[:1]
				}
				for _, sec := range probes {
					if got := calendarEnd(u, zone, sec); got != to {
						t.Fatalf("%s: the %v of %d ends at %d, and that of %d at %d", name, u, from, to, sec, got)
					}
				}
				from = to
			}
		}
	}
}

// changes returns the times from 1970 to 2100 at which a zone's clock is moved.
func changes(zone *time.Location) []int64 {
	if zone == nil {
		return nil
	}
	var all []int64
	last := int64(4_102_444_800)
	for sec := int64(0); sec < last; {
		s := stretchAt(zone, sec)
		if s.to < last && stretchAt(zone, s.to).offset != s.offset {
			all = append(all, s.to)
		}
		sec = s.to
	}
	return all
}

// Near each change of a clock, hours and minutes tile the line as well, and
// every window ends where someone who looks at the clock all the time sees it.
//
//test:norace
func TestCalendarNearChanges(t *testing.T) {
	for _, name := range oddZones() {
		zone := mustZone(t, name)
		for _, change := range changes(zone) {
			for from := calendarEnd(Hour, zone, change-3*hourSeconds); from < change+3*hourSeconds; {
				to := calendarEnd(Hour, zone, from)
				if to <= from || to-from > 2*hourSeconds {
					t.Fatalf("%s: the hour of %d has %d s", name, from, to-from)
				}
				for sec := from; sec < to; sec += 97 {
					if got := calendarEnd(Hour, zone, sec); got != to {
						t.Fatalf("%s: the hour of %d ends at %d, and that of %d at %d", name, from, to, sec, got)
					}
				}
				from = to
			}
		}
	}
}

// TestCalendarModel compares with someone who looks at the clock.
func TestCalendarModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(oddZones()).Draw(t, "zone")
		zone := mustZone(t, name)
		sec := rapid.Int64Range(0, 4_102_444_800).Draw(t, "at")
		if moved := changes(zone); len(moved) > 0 && rapid.Bool().Draw(t, "near a change") {
			sec = rapid.SampledFrom(moved).Draw(t, "change") + rapid.Int64Range(-3*daySeconds, 3*daySeconds).Draw(t, "off")
		}
		u := rapid.SampledFrom(allUnits()).Draw(t, "unit")
		if got, want := calendarEnd(u, zone, sec), slowEnd(u, zone, sec); got != want {
			t.Fatalf("the %v of %d in %s ends at %d, want %d", u, sec, name, got, want)
		}
	})
}

// slowEnd is calendarEnd by looking at the clock again and again.
func slowEnd(u Unit, zone *time.Location, sec int64) int64 {
	if zone == nil {
		zone = time.UTC
	}
	if u <= Hour {
		length := [...]int64{Second: 1, Minute: 60, Hour: 3600}[u]
		for {
			before := wallClock(zone, sec)
			sec++
			now := wallClock(zone, sec)
			if modulo(now, length) == 0 || (now-modulo(now, length)) > before {
				return sec
			}
		}
	}
	// The latest unit that the clock has shown so far, and the next time that it
	// shows a later one: to the minute, and then to the second.
	latest := int64(math.MinInt64)
	for s := sec - lookBack; s <= sec; s += minuteSeconds {
		latest = max(latest, beginningOf(u, wallClock(zone, s)))
	}
	latest = max(latest, beginningOf(u, wallClock(zone, sec)))
	later := func(s int64) bool { return beginningOf(u, wallClock(zone, s)) > latest }
	s := max(sec, beginningAfter(u, latest)-lookBack)
	for !later(s) {
		s += minuteSeconds
	}
	for s-1 > sec && later(s-1) {
		s--
	}
	return s
}

// quickEnd is slowEnd if no change of the clock is near; otherwise ok is false.
func quickEnd(u Unit, zone *time.Location, sec int64) (end int64, ok bool) {
	if zone == nil {
		zone = time.UTC
	}
	local := wallClock(zone, sec)
	switch u {
	case Second:
		end = local + 1
	case Minute, Hour:
		length := [...]int64{Minute: 60, Hour: 3600}[u]
		end = local - modulo(local, length) + length
	default:
		end = beginningAfter(u, beginningOf(u, local))
	}
	offset := local - sec
	end -= offset
	for _, s := range []int64{sec - lookBack, end - lookBack, end + lookBack} {
		ok = wallClock(zone, s)-s == offset
		if !ok {
			break
		}
	}
	return end, ok
}

// beginningAfter returns when the day or longer unit after one that begins at local
// begins.
func beginningAfter(u Unit, local int64) int64 {
	b := time.Unix(local, 0).UTC()
	switch u {
	case Week:
		b = b.AddDate(0, 0, 7)
	case Month:
		b = b.AddDate(0, 1, 0)
	case Quarter:
		b = b.AddDate(0, 3, 0)
	case Year:
		b = b.AddDate(1, 0, 0)
	default:
		b = b.AddDate(0, 0, 1)
	}
	return b.Unix()
}

// wallClock returns what a zone's clock shows, as if it were UTC.
func wallClock(zone *time.Location, sec int64) int64 {
	t := time.Unix(sec, 0).In(zone)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC).Unix()
}

// beginningOf returns when the day or longer unit of a wall clock's time begins.
func beginningOf(u Unit, local int64) int64 {
	t := time.Unix(local, 0).UTC()
	y, m, d := t.Date()
	switch u {
	case Week:
		d -= (int(t.Weekday()) + 6) % 7
	case Month:
		d = 1
	case Quarter:
		m, d = m-(m-1)%3, 1
	case Year:
		m, d = 1, 1
	}
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()
}

// Days and months are those of package time.
func TestCalendarDates(t *testing.T) {
	for day := int64(-110_000); day < 110_000; day++ {
		y, m, d := time.Unix(day*daySeconds, 0).UTC().Date()
		month := int64(y)*12 + int64(m) - 1
		if got := monthOf(day); got != month {
			t.Fatalf("day %d is of month %d, want %d", day, got, month)
		}
		if got := firstDay(month); got != day-int64(d)+1 {
			t.Fatalf("month %d begins with day %d, want %d", month, got, day-int64(d)+1)
		}
	}
}

func TestCalendarAllocatesNothing(t *testing.T) {
	zone := mustZone(t, "Europe/Berlin")
	if n := testing.AllocsPerRun(100, func() {
		for _, u := range [...]Unit{Second, Minute, Hour, Day, Week, Month, Quarter, Year} {
			for _, sec := range [...]int64{1_792_886_400, 1_792_887_000, 4_000_000_000} {
				if calendarEnd(u, zone, sec) <= sec || calendarEnd(u, nil, sec) <= sec {
					t.Fatal("a window ends before it begins")
				}
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCalendarEnd(b *testing.B) {
	berlin := mustZone(b, "Europe/Berlin")
	for _, bench := range []struct {
		name string
		unit Unit
		zone *time.Location
		sec  int64
	}{
		{"day", Day, nil, 1_800_000_000},
		{"month", Month, nil, 1_800_000_000},
		{"hour-berlin", Hour, berlin, 1_800_000_000},
		{"day-berlin", Day, berlin, 1_800_000_000},
		{"month-berlin", Month, berlin, 1_800_000_000},
		{"day-berlin-2050", Day, berlin, 2_530_000_000},
		{"day-berlin-changes", Day, berlin, 1_792_886_400},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if calendarEnd(bench.unit, bench.zone, bench.sec) <= bench.sec {
					b.Fatal("no end")
				}
			}
		})
	}
}
