package stats

import (
	"maps"
	"strings"
	"sync"
)

// Errors counts error replies by prefix, as INFO errorstats shows them. The zero value is ready to use. Any
// goroutine may call its methods.
type Errors struct {
	mu       sync.Mutex // guards byPrefix and total
	byPrefix map[string]uint64
	total    uint64
}

// prefixesMost bounds the table. Error texts are the server's own, so it is never reached in practice.
const prefixesMost = 128

// Count adds one for the first word of text.
func (e *Errors) Count(text string) {
	prefix, _, _ := strings.Cut(text, " ")
	e.add(prefix, 1)
}

// add counts n errors with a prefix.
func (e *Errors) add(prefix string, n uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total += n
	if e.byPrefix == nil {
		e.byPrefix = make(map[string]uint64)
	}
	if _, known := e.byPrefix[prefix]; known || len(e.byPrefix) < prefixesMost {
		e.byPrefix[prefix] += n
	}
}

// Reset sets all counts to zero.
func (e *Errors) Reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.byPrefix)
	e.total = 0
}

// Snapshot returns a copy of the counts, and their total.
func (e *Errors) Snapshot() (map[string]uint64, uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.byPrefix), e.total
}
