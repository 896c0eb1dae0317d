package server

import (
	"strings"
	"sync"
)

// errorCounts counts error replies by their prefix, as INFO errorstats shows them.
type errorCounts struct {
	mu       sync.Mutex // guards byPrefix and total
	byPrefix map[string]uint64
	total    uint64
}

// prefixesMost bounds the table; error texts are the server's own, so it is never reached in practice.
const prefixesMost = 128

func (e *errorCounts) init() { e.byPrefix = make(map[string]uint64) }

// count adds one for text's first word.
func (e *errorCounts) count(text string) {
	prefix, _, _ := strings.Cut(text, " ")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total++
	if _, known := e.byPrefix[prefix]; known || len(e.byPrefix) < prefixesMost {
		e.byPrefix[prefix]++
	}
}

func (e *errorCounts) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.byPrefix)
	e.total = 0
}

// snapshot returns a copy, and the total.
func (e *errorCounts) snapshot() (map[string]uint64, uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make(map[string]uint64, len(e.byPrefix))
	for k, v := range e.byPrefix {
		out[k] = v
	}
	return out, e.total
}
