package server

import (
	"time"

	"limitdb/server/handler"
	"limitdb/server/latency"
	"limitdb/server/limits"
	"limitdb/server/request"
	"limitdb/server/slowlog"
	"limitdb/server/spec"
)

// The runner. A command that admit has admitted runs here, whoever has sent it: run has its handler do the work and takes the time,
// and done counts it, and tells the slow log, the latency monitor and MONITOR of it. A command by itself is done at once. In the step
// of EXEC or of a script it is done when the step is stored, because a step may begin again.
//
// There is one fast way beside it, for a decision in a pipeline: invokePlan.

// untimed is the time of a command that is one of its batch's, which are timed together.
const untimed = -1

// run runs the command of the call, in the step t unless that is nil. It returns how many ns that took, or untimed if the
// command is timed together with the others of its batch and did nothing long.
func (c *call) run(p phase, t *handler.Txn, together bool) (took int64) {
	c.Failed, c.Latency = false, nil
	start := c.since
	if start == 0 && !together {
		start = c.srv.clock.Now()
	}
	switch cmd := c.cmd; {
	case t != nil && cmd.Atomic != nil:
		cmd.Atomic(c, t)
	case p == byItself:
		cmd.Run(c)
		if c.started != 0 {
			if together {
				together, start = false, c.started
			}
			c.started = 0
		}
	case cmd.Name == "WAIT":
		c.Int(0) // nobody waits in a step
	case cmd.Name == "MONITOR":
		c.Fail("ERR MONITOR isn't allowed for DENY BLOCKING client")
	default:
		c.Whole = true
		cmd.Run(c)
		c.Whole = false
	}
	if together {
		return untimed
	}
	now := c.srv.clock.Now()
	if c.since != 0 {
		c.since = now
	}
	return now - start
}

// done counts the command of the call, which has taken that many ns, and tells of it.
func (c *call) done(p phase, took int64, special uint32) {
	s, cmd := c.client, c.cmd
	var yields *stepping
	if p == byItself && s != nil && s.yielded {
		yields, _ = s.pending.(*stepping)
	}
	switch {
	case yields != nil: // it is counted when it ends
		yields.args = slowlog.Cut(c.srv.redact(cmd, c.Args))
	case took == untimed:
		s.count()
	default:
		c.srv.counts.Stripe(c.Lane).Record(cmd.ID, c.Latency, took, c.Failed)
		if s != nil {
			s.doneTimed(p, took, special)
		}
	}
	// After the command, as in Redis: RESET ends its client's MONITOR first.
	if special&specialMonitor != 0 && cmd.Flags&spec.SkipMonitor == 0 {
		c.srv.monitors.feed(c, cmd, c.Args)
	}
}

// doneTimed is done for the time of a client's command. A command that has parked its session is not slow: it is not finished, and
// waiting is not work.
func (s *session) doneTimed(p phase, took int64, special uint32) {
	c := &s.call
	if p == byItself {
		s.slow += took
		if special&specialTimeEach != 0 {
			s.srv.offerLatency(c.cmd, c.Now, took)
		}
	}
	if p != byItself || s.pending == nil {
		s.logSlow(c.cmd, c.Args, took)
	}
}

// count adds the command that has just run to the counts of its batch.
func (s *session) count() {
	c := &s.call
	if !s.tally.Add(c.cmd.ID, c.Latency, c.Failed) {
		s.addTally()
		s.tally.Add(c.cmd.ID, c.Latency, c.Failed)
	}
}

// invoke runs a client's command by itself.
func (s *session) invoke(cmd *command, args [][]byte, special uint32) {
	c := &s.call
	c.cmd, c.Args = cmd, args
	mark := len(c.Out)
	if cmd != s.pub.lastCmd.Load() {
		s.pub.lastCmd.Store(cmd)
	}
	took := c.run(byItself, nil, cmd.Flags&(spec.Fast|spec.SelfTimed) != 0 && special&specialTimeEach == 0)
	s.tell(cmd, mark)
	if took == untimed && special == 0 && !s.yielded { // nearly always
		s.count()
		return
	}
	c.done(byItself, took, special)
}

// invokePlan is invoke for a command that has a plan, while undisturbed holds.
func (s *session) invokePlan(cmd *command, p *request.Plan, key []byte) {
	c := &s.call
	c.cmd, c.Failed, c.Latency = cmd, false, nil
	mark := len(c.Out)
	if cmd != s.pub.lastCmd.Load() {
		s.pub.lastCmd.Store(cmd)
	}
	limits.CarryOut(c.inner(), p, key)
	s.tell(cmd, mark)
	s.count()
}

// logSlow logs a command that has run for took nanoseconds, if that is slow.
func (s *session) logSlow(cmd *command, args [][]byte, took int64) {
	if s.srv.isSlow(took) {
		s.noteSlow(slowlog.Cut(s.srv.redact(cmd, args)), took)
	}
}

// isSlow reports whether took, in nanoseconds, reaches slowlog-log-slower-than.
func (srv *Server) isSlow(took int64) bool {
	least := srv.set.SlowlogLogSlowerThan.Get()
	return least >= 0 && took/int64(time.Microsecond) >= least
}

// noteSlow is logSlow for arguments that were redacted and cut before.
func (s *session) noteSlow(args []string, took int64) {
	if !s.srv.isSlow(took) {
		return
	}
	s.srv.slowlog.Add(int(s.srv.set.SlowlogMaxLen.Get()), slowlog.Entry{
		At: s.call.Now / int64(time.Second), Micros: took / int64(time.Microsecond), Args: args, Addr: s.addr(), Name: loadText(&s.pub.name),
	})
}

// The events, by Redis' names.
const (
	eventCommand     = "command"
	eventFastCommand = "fast-command"
)

// offerLatency records that cmd took that many nanoseconds, if that reaches the threshold.
func (srv *Server) offerLatency(cmd *command, now, took int64) {
	least, ms := srv.set.LatencyThreshold.Get(), took/int64(time.Millisecond)
	if least == 0 || ms < least {
		return
	}
	name := eventCommand
	if cmd.Flags&spec.Fast != 0 {
		name = eventFastCommand
	}
	srv.latency.Add(name, latency.Sample{At: now / int64(time.Second), MS: ms})
}
