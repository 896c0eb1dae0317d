package server

import (
	"limitdb/resp"
	"limitdb/uplink"
)

// If a client's node does not lead, it queues the commands of the client's transaction, and sends all of them to the leader with EXEC.
// The client gets only the reply to EXEC.
//
// The leader's session watches what WATCH has named, so a watch lasts as long as the stream of that session. EXEC is sent in that stream. If the stream is over, or
// its node no longer leads, EXEC is not sent and does nothing, as if a key had changed.

// watchedIn notes that a WATCH was answered in a stream.
func (s *session) watchedIn(st *uplink.Stream) {
	if s.multi == nil {
		s.multi = &multi{}
	}
	m := s.multi
	m.lost = m.lost || m.stream != nil && m.stream != st
	m.stream = st
}

// watchLasts reports whether the leader watches all that the client has named.
func (s *session) watchLasts() bool {
	m := s.multi
	if m.stream == nil {
		return len(m.watched) == 0
	}
	link := s.srv.uplink(s.conn.Loop())
	return !m.lost && len(m.watched) == 0 && s.fwd.stream == m.stream && link != nil && m.stream.Of(link)
}

// execElsewhere deals with EXEC while another node leads. It returns false if EXEC, or another command, is to run here.
func (s *session) execElsewhere(cmd *command, args [][]byte) bool {
	m := s.multi
	if cmd.Name != "EXEC" || m.broken || s.redirected() {
		return false
	}
	if len(m.queued) == 0 && m.stream == nil || !s.watchLasts() {
		return false
	}
	if s.far != nil {
		s.drainNotLeading()
		return true
	}
	f := s.forwarding()
	if f.gaveUp && (f.refused || s.srv.uplink(s.conn.Loop()) == nil) {
		return false
	}
	f.batch = resp.AppendCommand(f.batch, "MULTI")
	for _, q := range m.queued {
		f.batch = resp.AppendCommand(f.batch, q.args...)
	}
	f.batch = resp.AppendCommand(f.batch, args...)
	f.ends, f.hidden, f.multi = append(f.ends, len(f.batch)), 1+len(m.queued), m
	f.muted, f.skip = s.replies != replyOn || s.mute, s.replies == replySkipping
	s.early |= specialFollowing
	s.multi = nil
	s.showMulti()
	s.pub.lastCmd.Store(cmd)
	s.depart()
	return true
}
