package server

import (
	"sync"
	"time"
)

// pause is CLIENT PAUSE: commands are held back until a time.
type pause struct {
	srv     *Server
	mu      sync.Mutex // guards all below
	until   int64      // ns of Unix time; 0: not paused
	all     bool       // every command, or writes only
	waiting map[*session]bool
}

func (p *pause) init(srv *Server) {
	p.srv = srv
	p.waiting = make(map[*session]bool)
}

// start pauses until the later of until and what is set already.
func (p *pause) start(until int64, all bool) {
	p.mu.Lock()
	p.until = max(p.until, until)
	p.all = all
	p.mu.Unlock()
	p.srv.setSpecial(specialPause, true)
	time.AfterFunc(time.Duration(until-p.srv.clock.Now()), func() { p.expire(p.srv.clock.Now()) })
}

// holds tells whether cmd must wait; if so the session is woken when the
// pause ends. CLIENT itself always runs, so that a pause can be ended.
func (p *pause) holds(s *session, cmd *command) bool {
	if cmd.parent != nil && cmd.parent.name == "CLIENT" {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == 0 || s.srv.clock.Now() >= p.until || (!p.all && cmd.flags&flagWrite == 0) {
		return false
	}
	p.waiting[s] = true
	return true
}

// stop ends the pause and wakes whom it held.
func (p *pause) stop() {
	p.mu.Lock()
	p.until = 0
	p.srv.setSpecial(specialPause, false)
	woken := p.waiting
	p.waiting = make(map[*session]bool)
	p.mu.Unlock()
	for s := range woken {
		s.conn.Wake()
	}
}

// expire ends the pause when its time has come.
func (p *pause) expire(now int64) {
	p.mu.Lock()
	due := p.until != 0 && now >= p.until
	p.mu.Unlock()
	if due {
		p.stop()
	}
}

func (p *pause) remove(s *session) {
	p.mu.Lock()
	delete(p.waiting, s)
	p.mu.Unlock()
}

// held is the number of sessions that wait for the end of the pause.
func (p *pause) held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}
