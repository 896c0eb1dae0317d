package server

import "strconv"

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
	c.table, c.Now, s.behind = table, at, now-at
	s.invoke(cmd, args, special)
	c.Now, s.behind = now, 0
	if special&specialMonitor != 0 {
		s.srv.monitors.feed(s, cmd, args)
	}
	if s.state == running {
		check(mark)
		c.table = nil
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

// scanMark is how many bits of a cursor say whose it is. Keys have other places in the table of each node.
const scanMark = 15

// scanCursor parses the cursor of SCAN. In a cluster, it is the cursor of one table: with that of another, keys
// would be missed, so it is an error. text is the error.
func (c *call) scanCursor(arg []byte) (cursor uint64, text string) {
	cursor, err := strconv.ParseUint(string(arg), 10, 64)
	switch {
	case err != nil:
		return 0, errInvalidCursor
	case c.srv.opts.Replication == nil || cursor == 0:
		return cursor, ""
	case cursor&(1<<scanMark-1) != uint64(c.states().Mark()>>(16-scanMark)):
		return 0, errOtherCursor
	}
	return cursor >> scanMark, ""
}

// scanText returns the text of a cursor that SCAN replies with.
func (c *call) scanText(cursor uint64) string {
	if c.srv.opts.Replication != nil && cursor != 0 {
		cursor = cursor<<scanMark | uint64(c.states().Mark()>>(16-scanMark))
	}
	return strconv.FormatUint(cursor, 10)
}
