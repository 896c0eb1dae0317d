package auth

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"limitdb/config"
	"limitdb/server/users"
)

// A Log holds the last denials, and the last passwords that were wrong. Any goroutine may call its methods.
type Log struct {
	Settings *config.Settings // say how many are kept

	mu      sync.Mutex // guards all below
	entries []entry    // newest first
	nextID  int64
}

// An Event is what a user was denied.
type Event struct {
	Reason  users.Reason
	Context string // toplevel, multi or lua
	Object  string // the command, key or channel; no password
	User    string // that the client is, or has given
	Client  string // as CLIENT LIST shows it
}

// entry is one event, or several that differ in their clients only.
type entry struct {
	Event
	id, count        int64
	created, updated int64 // ns of Unix time
}

const (
	// sameFor is within which time an event counts as the same as one before, in ns, and sameAmong how many of these are looked at.
	sameFor   = int64(time.Minute)
	sameAmong = 10
	// objectMost is the most bytes of an object, and of a name that a client has given.
	objectMost = 256
)

// Note adds an event that has happened at now.
func (l *Log) Note(e Event, now int64) {
	e.Object, e.User = e.Object[:min(len(e.Object), objectMost)], e.User[:min(len(e.User), objectMost)]
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.entries[:min(len(l.entries), sameAmong)] {
		old := l.entries[i]
		if old.Reason == e.Reason && old.Context == e.Context && old.Object == e.Object && old.User == e.User && now-old.created <= sameFor {
			old.count++
			old.updated, old.Client = now, e.Client
			l.entries = slices.Insert(slices.Delete(l.entries, i, i+1), 0, old)
			return
		}
	}
	l.entries = slices.Insert(l.entries, 0, entry{Event: e, id: l.nextID, count: 1, created: now, updated: now})
	l.nextID++
	if most := int(l.Settings.ACLLogMaxLen.Get()); len(l.entries) > most {
		l.entries = slices.Clip(slices.Delete(l.entries, most, len(l.entries)))
	}
}

// last returns the newest entries.
func (l *Log) last(n int64) []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries[:min(int64(len(l.entries)), n)])
}

// reset forgets all entries.
func (l *Log) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

// reply replies with an entry, as Redis 7.2 does.
func (e *entry) reply(c *call) {
	age := strconv.FormatFloat(float64((c.Began-e.created)/1e6)/1e3, 'f', -1, 64)
	c.Fields("count", int(e.count), "reason", e.Reason.String(), "context", e.Context, "object", e.Object, "username", e.User,
		"age-seconds", age, "client-info", e.Client, "entry-id", int(e.id),
		"timestamp-created", int(e.created/1e6), "timestamp-last-updated", int(e.updated/1e6))
}
