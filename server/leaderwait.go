package server

import (
	"time"

	"limitdb/uplink"
)

// leaderWait is how long commands wait for a leader. An election takes 1 s, seldom 2.
const leaderWait = 3 * time.Second

// LeaderChanged has the commands that wait for a leader look for it. The owner of the node calls it when
// another node leads, and when an uplink is there.
func (srv *Server) LeaderChanged() { srv.leaderless.Wake() }

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

// awaitLeader parks the session until there is a leader, or leaderWait is over. The commands to run then are in
// back. If a leader appears just before the session is parked, the housekeeper's next round wakes it.
func (s *session) awaitLeader() {
	f := s.fwd
	if f.since == 0 || f.since > s.call.Now {
		f.since = s.call.Now
	}
	s.pub.argMemory.Store(int64(cap(f.back)))
	s.park(f)
	if !s.srv.leaderless.Add(s.conn) {
		f.gaveUp = true
		s.conn.Wake()
	}
}

// reachable reports whether this node leads, can forward commands, or can name the leader.
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

// waitsForLeader resumes a session that waits for a leader.
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
	s.srv.leaderless.Remove(s.conn)
	return s.goBack()
}
