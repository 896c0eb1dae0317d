package limit

import (
	"sync"
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

// Zones loads time zones by their names in the IANA database and keeps them, so
// that a zone is read once and the same zone is the same pointer. The zero value
// is ready, and may be used from any goroutine. A nil *Zones keeps nothing.
type Zones struct {
	mu    sync.RWMutex              // guards known
	known map[string]*time.Location // bounded by the database
}

// Find returns the zone of that name, nil for UTC. The error is ErrZone, with
// the name.
func (z *Zones) Find(name []byte) (*time.Location, error) {
	if equalFold(name, "UTC") {
		return nil, nil
	}
	if z != nil {
		z.mu.RLock()
		zone := z.known[string(name)]
		z.mu.RUnlock()
		if zone != nil {
			return zone, nil
		}
	}
	zone, err := loadZone(name)
	if err != nil {
		return nil, err
	}
	if z == nil {
		return zone, nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if known := z.known[string(name)]; known != nil {
		return known, nil
	}
	if z.known == nil {
		z.known = map[string]*time.Location{}
	}
	z.known[zone.String()] = zone
	return zone, nil
}

// loadZone reads a zone. Local is refused: it means another zone on each machine.
func loadZone(name []byte) (*time.Location, error) {
	const longest = 64
	if len(name) == 0 || len(name) > longest || equalFold(name, "LOCAL") {
		return nil, at(ErrZone, name)
	}
	zone, err := time.LoadLocation(string(name))
	if err != nil {
		return nil, at(ErrZone, name)
	}
	return zone, nil
}
