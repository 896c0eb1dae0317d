package server

// Reads that a node serves from its own table while another node leads, after READONLY.

// readHere runs a command on this node's own table, at the replicated time. If the table is replaced meanwhile,
// or the node begins to lead, the reply is -LOADING: a walk may have ended too early.
func (s *session) readHere(cmd *command, args [][]byte, special uint32) {
	c := &s.call
	read := s.srv.opts.Replication.Read
	table, at, ok := read()
	if !ok {
		s.reject(cmd, errLoading)
		return
	}
	check := func(mark int) {
		now, _, ok := read()
		if !ok || now != table || s.srv.special.Load()&specialFollowing == 0 {
			c.Out = c.Out[:min(mark, len(c.Out))]
			c.Fail(errLoading)
		}
	}
	now, mark := c.Now, len(c.Out)
	c.Table, c.Now, s.behind = table, at, now-at
	s.invoke(cmd, args, special&^specialMonitor)
	c.Now, s.behind = now, 0
	if special&specialMonitor != 0 {
		s.srv.monitors.feed(c, cmd, args)
	}
	if s.state == running {
		check(mark)
		c.Table = nil
		return
	}
	resume := s.resume
	s.resume = func() bool {
		now, mark := c.Now, len(c.Out)
		c.Now, s.behind = at, now-at
		done := resume()
		c.Now, s.behind = now, 0
		if done {
			check(mark)
		}
		return done
	}
}

// KnowsClusters implements handler.Client.
func (s *session) KnowsClusters() { s.knowsClusters = true }

// ReadsHere implements handler.Client.
func (s *session) ReadsHere(on bool) { s.readOnly = on }
