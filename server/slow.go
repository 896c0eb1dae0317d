package server

import (
	"time"

	"limitdb/server/latency"
	"limitdb/server/slowlog"
	"limitdb/server/spec"
)

// offerSlow logs a command that has run for took nanoseconds, if that is slow. It leaves out a
// command that has parked its session, since that one is not finished, and waiting is not work.
func (s *session) offerSlow(cmd *command, args [][]byte, took int64) {
	if s.state == running {
		s.logSlow(cmd, args, took)
	}
}

// logSlow is offerSlow for any command.
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
