// Package pause holds commands back until a time, as CLIENT PAUSE asks. It knows no session.
package pause

import (
	"math"
	"sync"
	"time"

	"limitdb/internal/clock"
	"limitdb/server/spec"
	"limitdb/server/waiters"
)

// A Pause is on or off. Any goroutine may call its methods. Clock and Changed must be set.
type Pause struct {
	Clock clock.Clock
	// Changed is called, with a lock held, when the pause has begun or ended, with whether it is on.
	Changed func(on bool)
	// Held has those whose commands wait for the end.
	Held waiters.Set

	mu    sync.Mutex // guards all below
	until int64      // ns of Unix time; 0: not paused
	all   bool       // every command, or writes only
	timer *time.Timer
}

// Start pauses until a time. If a pause is on already, the later end and the stronger kind apply, as in Redis.
func (p *Pause) Start(now, until int64, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until > now {
		until, all = max(p.until, until), p.all || all
	}
	p.until, p.all = until, all
	p.Changed(true)
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(time.Duration(until-now), func() { p.Expire(p.Clock.Now()) })
}

// Holds reports whether cmd must wait. If so, the end of the pause wakes w. CLIENT itself always runs, so that a client can end the
// pause.
func (p *Pause) Holds(w waiters.Waiter, cmd *spec.Command) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.applies(cmd) && p.Held.Add(w, math.MaxInt64, math.MaxInt64)
}

// Stops reports whether cmd may not run now, for a caller that cannot wait.
func (p *Pause) Stops(cmd *spec.Command) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.applies(cmd)
}

// applies reports whether the pause is on for cmd. The caller holds mu.
func (p *Pause) applies(cmd *spec.Command) bool {
	if cmd.Parent != nil && cmd.Parent.Name == "CLIENT" {
		return false
	}
	return p.until != 0 && p.Clock.Now() < p.until && (p.all || cmd.Flags&spec.Write != 0)
}

// Stop ends the pause and wakes those that it held.
func (p *Pause) Stop() { p.Expire(math.MaxInt64) }

// Expire does the same as Stop if the pause's end is not after now.
func (p *Pause) Expire(now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == 0 || now < p.until {
		return
	}
	p.until = 0
	p.Changed(false)
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.Held.Release(math.MaxInt64)
}
