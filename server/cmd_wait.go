package server

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"limitdb/resp"
	"limitdb/server/group"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// waitRows are the commands that wait for durability.
func waitRows() []row {
	cmd := handler.Rows[call]("cluster", "O(1)", 0)
	return []row{
		cmd("WAIT", 3, spec.Conn|spec.Lead, "Waits until a majority of the nodes has what the connection has seen; returns how many other nodes that is. Returns 0 after the timeout, or at once without raft-addr.", wait,
			spec.Integer("numreplicas"), spec.Integer("timeout")),
		cmd("WAITAOF", 4, spec.NoMulti|spec.Client|spec.Conn, "Waits until the log is synced, if numlocal is 1; there are no replicas to wait for.", waitAOFCommand,
			spec.Integer("numlocal"), spec.Integer("numreplicas"), spec.Integer("timeout")),
	}
}

// wait replies with the number of other nodes that surely have what the connection has seen: all but one of a
// majority. For a standalone server it is 0.
func wait(c *call) {
	if _, ok := resp.ParseInt(c.Args[1]); !ok {
		c.Fail(spec.ErrNotInt)
		return
	}
	if !goodTimeout(c, c.Args[2]) {
		return
	}
	s, r := c.client, c.group.Replication
	if r == nil || s == nil {
		c.Int(0)
		return
	}
	ms, _ := resp.ParseInt(c.Args[2]) // goodTimeout has checked it
	others, gone := 0, s.leaves()
	all := []group.Share{{Group: c.group, Turn: s.turn}}
	if c.srv.several() {
		all = nil
		for _, g := range c.srv.every {
			if turn, leads := g.Keeper.Leading(); leads {
				all = append(all, group.Share{Group: g, Turn: turn})
			}
		}
	}
	if mayBeLost(s, all) {
		confirmed(s)
		c.Fail(errUnknownOutcome)
		return
	}
	done, waits, far := make(chan error, len(all)+1), 0, asks(s.fwd, c.Args)
	if far != nil {
		waits++
		far.done = done
	}
	c.Client.Background(func() error {
		for _, of := range all {
			if k := &of.Group.Keeper; k.Wait(of.Turn, func(err error) { done <- err }) {
				k.Kick()
				waits++
			}
		}
		if err := within(done, waits, ms, gone); err != nil {
			return err
		}
		members, err := r.Members()
		for _, m := range members {
			if m.Voter {
				others++
			}
		}
		others /= 2
		return err
	}, func(err error) {
		switch {
		case err == errLate:
			c.Int(0)
			return
		case err != nil:
			c.Fail(errUnknownOutcome)
		default:
			c.Int(int64(others))
		}
		confirmed(s)
	})
	if far != nil {
		far.here = s.pending
		s.park(far)
		s.conn.Wake() // a node may have answered already
	}
}

// within waits until n results have come, and returns the first error among them, or errLate after a number of milliseconds, 0 for no end, or when the
// client is gone.
func within(done <-chan error, n int, ms int64, gone <-chan struct{}) error {
	var late <-chan time.Time
	if ms != 0 && ms <= int64(maxWait/time.Millisecond) {
		timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
		defer timer.Stop()
		late = timer.C
	}
	for range n {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
		case <-late:
			return errLate
		case <-gone:
			return errLate
		}
	}
	return nil
}

func waitAOFCommand(c *call) {
	local, ok1 := resp.ParseInt(c.Args[1])
	replicas, ok2 := resp.ParseInt(c.Args[2])
	switch {
	case !ok1 || !ok2:
		c.Fail(spec.ErrNotInt)
	case local < 0 || local > 1:
		c.Fail(errWaitAOFRange)
	case replicas < 0:
		c.Fail(errNumReplicas)
	case !goodTimeout(c, c.Args[3]):
	case local == 1 && !hasLog(c):
		c.Fail(errWaitAOF)
	case local == 1:
		waitSync(c, c.Args[3])
	default:
		c.Array(2)
		c.Int(0)
		c.Int(0)
	}
}

// hasLog reports whether a log is kept.
func hasLog(c *call) bool { return c.srv.durable.Figures().Log }

// waitSync replies 1 and 0 when everything until now is durable. It replies 0 and 0 if that
// fails or takes longer than timeout, in milliseconds, 0 for no timeout.
func waitSync(c *call, timeout []byte) {
	ms, _ := resp.ParseInt(timeout) // goodTimeout has checked it
	d, gone := c.srv.durable, c.client.leaves()
	c.Client.Background(func() error {
		done := d.Syncs.Join(d.Sync)
		err := within(done, 1, ms, gone)
		if err == errLate {
			d.Syncs.Leave(done)
		}
		return err
	}, func(err error) {
		c.Array(2)
		c.Bit(err == nil)
		c.Int(0)
	})
}

// maxWait is the longest timeout. A longer one counts as none.
const maxWait = 24 * time.Hour

// goodTimeout reports whether arg is a timeout in milliseconds. If not, it replies with an error.
func goodTimeout(c *call, arg []byte) bool {
	ms, ok := resp.ParseInt(arg)
	switch {
	case !ok:
		c.Fail(errTimeoutNotInt)
	case ms < 0:
		c.Fail(errTimeoutNegative)
	default:
		return true
	}
	return false
}

// What WAIT asks about, if replies do not wait.

// mayBeLost reports whether some of what the client has been told may be lost: its group has another turn than the one in now, or there is none; or the
// node that has told it can no longer be asked. With one group, that is any node but the one that leads now.
func mayBeLost(s *session, now []group.Share) bool {
	if told := s.unsure.of; told != nil {
		for _, t := range told.Tells {
			if !slices.Contains(now, t) {
				return true
			}
		}
	}
	f := s.fwd
	if f == nil || !s.srv.group.Keeper.AckLeader.Load() {
		return false
	}
	link := s.call.group.Uplink(s.conn.Loop())
	for _, l := range f.legs {
		if l.look(); !s.srv.several() && l.unsure && (now != nil || l.link != link) {
			return true
		}
		f.misses(l)
	}
	return f.lost
}

// confirmed begins anew, when the client has been told what has become of it.
func confirmed(s *session) {
	if s.unsure.of = nil; s.fwd != nil {
		s.fwd.lost = false
		for _, l := range s.fwd.legs {
			l.unsure = false
		}
	}
}

// confirming is a WAIT that other nodes wait for as well: each that has told the client of its groups is asked in the stream in which it has, since its
// session there knows in which turns that was.
type confirming struct {
	legs []*leg       // those that have not answered
	err  error        // of those that have
	done chan<- error // gets it, once; then nil
	here pending      // what this node waits for
}

// asks asks the other nodes that have told the client anything. It returns nil if there are none.
func asks(f *forwarding, args [][]byte) (w *confirming) {
	if f == nil || !f.s.srv.several() {
		return nil
	}
	for _, l := range f.legs {
		if l.stream == nil || !l.unsure {
			continue
		}
		if w == nil {
			w = &confirming{}
		}
		if w.legs = append(w.legs, l); !l.stream.Send(resp.AppendCommand(nil, args...)) {
			l.close()
		}
	}
	return w
}

// resume implements pending.
func (w *confirming) resume(s *session) bool {
	w.legs = slices.DeleteFunc(w.legs, func(l *leg) bool { return w.answered(s, l) })
	if len(w.legs) == 0 && w.done != nil {
		w.done <- w.err
		w.done = nil
	}
	if s.pending = w.here; !w.here.resume(s) {
		s.pending = w
		return false
	}
	for _, l := range w.legs { // it came too late
		l.owes++
		l.part = l.part[:0]
	}
	return true
}

// answered reports whether a node has answered, or never will.
func (w *confirming) answered(s *session, l *leg) bool {
	if l.stream != nil {
		in, ended, _ := l.in.Take()
		in, ok := l.skip(in)
		n, whole, err := 0, false, error(nil)
		if len(in) > 0 {
			n, whole, err = l.scan.Scan(in)
			l.part = append(l.part, in[:n]...)
		}
		switch ok = ok && err == nil && n == len(in); {
		case ok && whole && l.part[0] == ':':
			if bytes.HasSuffix(l.part, []byte(notYet)) {
				w.err = cmp.Or(w.err, errLate)
			}
			l.part = l.part[:0]
			return true
		case ok && whole: // it may be lost
			w.err = errUnknown
			l.part = l.part[:0]
			return true
		case ok && !whole && !ended:
			return false
		}
		l.close()
	}
	if l.part = l.part[:0]; s.srv.group.Keeper.AckLeader.Load() {
		w.err = errUnknown
	}
	return true
}
