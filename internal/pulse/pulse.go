// Package pulse shows whether something still makes progress: a worker in rounds (Pulse), work that comes while other work is
// being finished (Age), or one call (Watch).
package pulse

import "sync/atomic"

// Pulse tracks one worker. The zero value is a worker that rests. Any goroutine may call its methods.
type Pulse struct {
	since atomic.Int64 // when the current round began; 0 if there is none
}

// Beat ends the current round and begins the next at now, in ns of any clock.
func (p *Pulse) Beat(now int64) { p.since.Store(now) }

// Rest ends the round: there is nothing to do, for however long.
func (p *Pulse) Rest() { p.since.Store(0) }

// Stuck returns how long the current round has lasted at now, in ns, or 0 if there is none.
func (p *Pulse) Stuck(now int64) int64 {
	since := p.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, now-since)
}
