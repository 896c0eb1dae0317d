package limit

import (
	"strings"
	"sync"
	"time"
)

// Zones loads time zones by their names in the IANA database and keeps them, so
// that a zone is read once and the same zone is the same pointer. The zero value
// is ready, and may be used from any goroutine. A nil *Zones keeps nothing.
type Zones struct {
	mu    sync.RWMutex              // guards known
	known map[string]*time.Location // at most maxZones
}

const (
	// maxZones bounds the number of zones that are kept. The database has some
	// 600 names.
	maxZones = 1024
	// maxZoneName is far above the longest name of the database.
	maxZoneName = 64
)

// Find returns the zone of that name, nil for UTC. Names are spelled as in the
// database, but for UTC, which is in any case. The error is ErrZone, with the
// name.
func (z *Zones) Find(name []byte) (*time.Location, error) {
	if equalFold(name, "UTC") {
		return nil, nil
	}
	if z == nil {
		return loadZone(name)
	}
	z.mu.RLock()
	zone := z.known[string(name)]
	z.mu.RUnlock()
	if zone != nil {
		return zone, nil
	}
	zone, err := loadZone(name)
	if err != nil {
		return nil, err
	}
	return z.keep(zone), nil
}

// keep keeps a zone under its name and returns it. If there is one of that name, it returns that one.
func (z *Zones) keep(zone *time.Location) *time.Location {
	z.mu.Lock()
	defer z.mu.Unlock()
	if known := z.known[zone.String()]; known != nil {
		return known
	}
	if z.known == nil {
		z.known = map[string]*time.Location{}
	}
	if len(z.known) < maxZones {
		z.known[zone.String()] = zone
	}
	return zone
}

// loadZone reads a zone.
func loadZone(name []byte) (*time.Location, error) {
	if !isZoneName(name) {
		return nil, at(ErrZone, name)
	}
	zone, err := time.LoadLocation(string(name))
	if err != nil {
		return nil, at(ErrZone, name)
	}
	return zone, nil
}

// isZoneName reports whether name has the form of the database's names. It accepts
// one spelling of each path, so that nobody can load a zone many times, and no path
// outside the database. It refuses Local, which is another zone on each machine, and
// the copies of the database under posix and right; the times of right are off by
// the leap seconds.
func isZoneName(name []byte) bool {
	if len(name) > maxZoneName || equalFold(name, "LOCAL") {
		return false
	}
	rest, more := string(name), true
	for first := true; more; first = false {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if part == "" || first && (part == "posix" || part == "right") {
			return false
		}
		for _, c := range []byte(part) {
			if !isDigit(c) && !isLetter(c) && c != '_' && c != '-' && c != '+' {
				return false
			}
		}
	}
	return true
}

func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
