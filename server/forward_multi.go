package server

import "limitdb/resp"

// A transaction of a client of a node that does not lead: its commands are queued here, and EXEC sends all of them to the leader at once.
// Of the replies, the client gets that to EXEC.

// execElsewhere deals with EXEC while another node leads. It returns false if EXEC is to run here.
func (s *session) execElsewhere(args [][]byte, special uint32) bool {
	m := s.multi
	if len(args) != 1 || !resp.EqualFold(args[0], "EXEC") || m.broken || len(m.watched) > 0 || len(m.queued) == 0 || s.redirected() {
		return false
	}
	cmd := s.srv.table.find(args[0])
	if special&specialPause != 0 && s.srv.pause.holds(s, cmd) {
		return false // the gate holds it back
	}
	if s.forwarded {
		s.drainNotLeading()
		return true
	}
	f := s.forwarding()
	if f.gaveUp && (f.refused || s.srv.uplink(s.conn.Loop()) == nil) {
		return false
	}
	f.batch = appendCommand(f.batch, [][]byte{[]byte("MULTI")})
	for _, q := range m.queued {
		f.batch = appendCommand(f.batch, q.args)
	}
	f.batch = appendCommand(f.batch, args)
	f.ends, f.hidden, f.multi = append(f.ends, len(f.batch)), 1+len(m.queued), m
	f.muted, f.skip = s.replies != replyOn || s.mute, s.replies == replySkipping
	s.early |= specialFollowing
	s.multi = nil
	s.pub.multiMemory.Store(0)
	s.pub.lastCmd.Store(cmd)
	s.depart()
	return true
}
