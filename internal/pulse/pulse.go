// Package pulse shows whether something that works in rounds still makes progress.
package pulse

import "sync/atomic"

// Pulse is one worker's. The zero value is of one that rests. Its methods may be called from
// any goroutine.
type Pulse struct {
	since atomic.Int64 // when the round under way began; 0: none is
}

// Beat begins a round at now, in nanoseconds of any clock, and ends the one before it.
func (p *Pulse) Beat(now int64) { p.since.Store(now) }

// Rest ends the round: there is nothing to do, for however long.
func (p *Pulse) Rest() { p.since.Store(0) }

// Stuck returns for how many nanoseconds the round under way has lasted at now, 0 if none is.
func (p *Pulse) Stuck(now int64) int64 {
	since := p.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, now-since)
}
