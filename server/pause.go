package server

import (
	"math"
	"sync"
	"time"

	"limitdb/server/spec"
	"limitdb/server/waiters"
)

// pause is the state of CLIENT PAUSE, which holds commands back until a time.
type pause struct {
	srv   *Server
	mu    sync.Mutex // guards all below
	until int64      // ns of Unix time; 0: not paused
	all   bool       // every command, or writes only
	timer *time.Timer
	held  waiters.Set // sessions that wait for the end
}

// start pauses until a time. If a pause is on already, the later end and the stronger kind
// apply, as in Redis.
func (p *pause) start(now, until int64, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until > now {
		until, all = max(p.until, until), p.all || all
	}
	p.until, p.all = until, all
	p.srv.setSpecial(specialPause, true)
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(time.Duration(until-now), func() { p.expire(p.srv.clock.Now()) })
}

// holds reports whether cmd must wait. If so, the end of the pause wakes the session. CLIENT
// itself always runs, so that a client can end the pause.
func (p *pause) holds(s *session, cmd *command) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.applies(cmd) && p.held.Add(s.conn, math.MaxInt64, math.MaxInt64)
}

// stops reports whether cmd may not run now, for a caller that cannot wait.
func (p *pause) stops(cmd *command) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.applies(cmd)
}

// applies reports whether the pause is on for cmd. The caller holds mu.
func (p *pause) applies(cmd *command) bool {
	if cmd.Parent != nil && cmd.Parent.Name == "CLIENT" {
		return false
	}
	return p.until != 0 && p.srv.clock.Now() < p.until && (p.all || cmd.Flags&spec.Write != 0)
}

// stop ends the pause and wakes the sessions that it held.
func (p *pause) stop() { p.expire(math.MaxInt64) }

// expire does the same as stop if the pause's end is not after now.
func (p *pause) expire(now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == 0 || now < p.until {
		return
	}
	p.until = 0
	p.srv.setSpecial(specialPause, false)
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.held.Release(math.MaxInt64)
}
