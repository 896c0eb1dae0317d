package server

import (
	"limitdb/engine"
)

// Reads that a node serves from its own table while another node leads, after READONLY.

// readHere runs a command on this node's own table, at the replicated time. If the table is replaced meanwhile,
// or the node begins to lead, the reply is -LOADING: a walk may have ended too early.
func (s *session) readHere(cmd *command, args [][]byte, special uint32) {
	c := &s.call
	table, at, ok := s.srv.opts.Replication.Read()
	if !ok {
		s.reject(cmd, errLoading)
		return
	}
	r := &reading{table: table, at: at}
	now, mark := c.Now, len(c.Out)
	c.Table, c.Now, s.behind = table, at, now-at
	s.invoke(cmd, args, special&^specialMonitor)
	c.Now, s.behind = now, 0
	if special&specialMonitor != 0 {
		c.feed(cmd, args)
	}
	if s.pending == nil {
		r.check(s, mark)
		c.Table = nil
		return
	}
	r.pending, s.pending = s.pending, r
}

// reading is a command on this node's own table that goes on later.
type reading struct {
	pending
	table *engine.Engine
	at    int64 // the replicated time
}

// resume resumes the command at the replicated time.
func (r *reading) resume(s *session) bool {
	c := &s.call
	now, mark := c.Now, len(c.Out)
	c.Now, s.behind = r.at, now-r.at
	done := r.pending.resume(s)
	c.Now, s.behind = now, 0
	if done {
		r.check(s, mark)
	}
	return done
}

// check replaces a reply by -LOADING if the table is no longer the node's own.
func (r *reading) check(s *session, mark int) {
	now, _, ok := s.srv.opts.Replication.Read()
	if !ok || now != r.table || s.srv.special.Load()&specialFollowing == 0 {
		s.call.Out = s.call.Out[:min(mark, len(s.call.Out))]
		s.call.Fail(errLoading)
	}
}
