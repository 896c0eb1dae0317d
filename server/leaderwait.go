package server

import (
	"sync"
	"sync/atomic"
	"time"

	"limitdb/uplink"
)

const (
	// leaderWait is how long commands wait for a leader.
	leaderWait = 1500 * time.Millisecond
	// lookAgain is after how long a command that was refused by a node looks for the leader again: that node may be
	// about to lead, and its log may have told others before itself.
	lookAgain = 20 * time.Millisecond
	// leaderWaits is the most clients whose commands wait for one.
	leaderWaits = 10_000
)

// looker is somebody whose commands wait for a leader: a session, or a caller of Do.
type looker interface {
	// look has it look whether there is one. It does not block.
	look()
}

func (s *session) look() { s.conn.Wake() }

// leaderless are those whose commands wait for a leader.
type leaderless struct {
	mu   sync.Mutex
	set  map[looker]struct{} // guarded by mu
	soon atomic.Bool         // wakeSoon was called, and has not woken them yet
}

// add returns false if too many wait already.
func (l *leaderless) add(who looker) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.set) >= leaderWaits {
		return false
	}
	if l.set == nil {
		l.set = map[looker]struct{}{}
	}
	l.set[who] = struct{}{}
	return true
}

func (l *leaderless) remove(who looker) {
	l.mu.Lock()
	delete(l.set, who)
	l.mu.Unlock()
}

// wake has all of them look whether there is a leader.
func (l *leaderless) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for who := range l.set {
		who.look()
	}
}

// wakeSoon has all of them look after lookAgain.
func (l *leaderless) wakeSoon() {
	if l.soon.Swap(true) {
		return
	}
	time.AfterFunc(lookAgain, func() {
		l.soon.Store(false)
		l.wake()
	})
}

// LeaderChanged has the commands that wait for a leader look for it. The owner of the node calls it when
// another node leads, and when an uplink is there.
func (srv *Server) LeaderChanged() { srv.leaderless.wake() }

// uplink returns the uplink of an event loop to the leader, or nil if there is none now.
func (srv *Server) uplink(loop int) *uplink.Link {
	if r := srv.opts.Replication; r != nil && r.Uplink != nil {
		return r.Uplink(loop)
	}
	return nil
}

// forwards reports whether this node forwards commands while another leads.
func (srv *Server) forwards() bool {
	r := srv.opts.Replication
	return r != nil && r.Uplink != nil && srv.set.RaftRedirect.Get() != "moved"
}

// gaveUp reports whether the session has waited for a leader in vain.
func (s *session) gaveUp() bool { return s.fwd != nil && s.fwd.gaveUp }

// awaitLeader parks the session until there is a leader, or leaderWait is over. What is to run then is in back. A
// leader that comes just now is seen when the housekeeper wakes all that wait.
func (s *session) awaitLeader() {
	f := s.fwd
	if f.since == 0 || f.since > s.call.Now {
		f.since = s.call.Now
	}
	s.pub.argMemory.Store(int64(cap(f.back)))
	s.park(s.waitsForLeader)
	if !s.srv.leaderless.add(s) {
		f.gaveUp = true
		s.conn.Wake()
	}
}

// reachable reports whether this node leads, or can pass commands on, or can say who leads.
func (s *session) reachable() bool {
	if d := &s.srv.durable; s.srv.special.Load()&specialFollowing == 0 && (d.Turn == nil || d.Turn() != 0) {
		return true
	}
	if s.redirected() {
		_, leader := s.srv.opts.Replication.Leader()
		return leader != ""
	}
	return s.srv.uplink(s.conn.Loop()) != nil
}

// waitsForLeader is the resume function of a session that waits for a leader.
func (s *session) waitsForLeader() bool {
	f := s.fwd
	if !f.gaveUp {
		waited := s.call.Now - f.since
		late := waited < 0 || waited >= int64(leaderWait)
		if !s.reachable() && !late {
			return false
		}
		f.gaveUp = late
	}
	s.srv.leaderless.remove(s)
	return s.goBack()
}
