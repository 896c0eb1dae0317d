package server

import (
	"limitdb/engine"
)

// Reads that a node serves from its own table while another node leads, after READONLY.

// readHere runs a command on this node's own table, at the replicated time. If the table is replaced meanwhile,
// or the node begins to lead, the reply is -LOADING: a walk may have ended too early.
func (s *session) readHere(cmd *command, args [][]byte, special uint32) {
	c := &s.call
	table, at, ok := c.group.Replication.Read()
	if !ok {
		s.reject(cmd, errLoading)
		return
	}
	r := &reading{table: table, at: at}
	now, mark := c.Now, len(c.Out)
	c.Table, c.Now = table, at
	s.invoke(cmd, args, special&^specialMonitor)
	c.Now = now
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
	c.Now = r.at
	done := r.pending.resume(s)
	c.Now = now
	if done {
		r.check(s, mark)
	}
	return done
}

// check replaces a reply by -LOADING if the table is no longer the node's own.
func (r *reading) check(s *session, mark int) {
	g := s.call.group
	now, _, ok := g.Replication.Read()
	if !ok || now != r.table || g.Special.Load()&specialFollowing == 0 {
		s.call.Out = s.call.Out[:min(mark, len(s.call.Out))]
		s.call.Fail(errLoading)
	}
}
