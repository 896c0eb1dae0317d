package server

import (
	"context"
	"errors"
	"math"
	"time"

	"limitdb/engine"
	"limitdb/limit"
)

// waiting is a command that holds its reply back until the engine has decided
// (WAIT). Its session is parked and has no goroutine; the engine wakes the
// connection. The wait is not counted as the command's time.
type waiting struct {
	engine.Waiter
	cmd *command
}

// What a wait can end with besides a decision and the engine's errors.
var (
	errWaitUnblocked = errors.New("unblocked by CLIENT UNBLOCK ERROR")
	errWaitRefused   = errors.New("the log cannot be written")
)

// askFor asks for w, and replies when it is decided, in most nanoseconds at the
// latest. What is nobody's is decided at once.
func (c *call) askFor(key []byte, w *waiting, most int64) {
	s := c.client
	w.Until = c.now
	if s != nil && s.mayWait() == nil {
		w.Owner, w.Until = s.conn, c.now+min(most, math.MaxInt64-c.now)
	}
	if !c.srv.states().Ask(c.now, key, &w.Waiter) {
		c.answer(w, key)
		return
	}
	w.cmd = c.cmd
	s.pub.waits.Store(w)
	s.park(func() bool { return s.waited(w) })
	if s.mayWait() != nil { // since the look above, and this one has not been seen
		s.conn.Wake()
	}
}

// mayWait tells why nobody, or not this client, may wait; nil: it may.
func (s *session) mayWait() error {
	switch {
	case s.srv.special.Load()&specialMisconf != 0:
		return errWaitRefused
	case s.srv.stopping.Load():
		return errStopped
	case s.eof: // who has finished sending has likely gone
		return errEOF
	}
	return nil
}

// waited replies if w has been decided, or is to be given up.
func (s *session) waited(w *waiting) bool {
	if !w.Done() {
		cause := s.mayWait()
		if cause == nil {
			return false // woken for something else
		}
		if cause != errWaitRefused {
			cause = nil // it is denied
		}
		s.srv.states().Cancel(s.call.now, &w.Waiter, cause)
	}
	s.pub.waits.Store(nil)
	s.call.failed = false
	s.call.answer(w, nil)
	if s.call.failed {
		s.stripe.Fail(w.cmd.id)
	}
	return true
}

// answer replies with what was decided. The key, for the error, is nil when the
// request has waited: the engine alone keeps it then.
func (c *call) answer(w *waiting, key []byte) {
	d, granted, err := w.Result()
	wants := w.Limit.Algorithm.Kind()
	if w.Lease != nil {
		wants = limit.LEASE
	}
	switch {
	case err == errWaitUnblocked:
		c.fail(errUnblocked)
	case err == errWaitRefused:
		c.fail(*c.srv.misconf.Load())
	case w.Partial:
		c.decidedInPart(key, wants, &d, granted, err)
	default:
		c.decided(key, wants, &d, err)
	}
}

// unblock ends the session's wait, with cause or else with a denial, and tells
// whether it was waiting. Any goroutine may call it.
func (s *session) unblock(now int64, cause error) bool {
	w := s.pub.waits.Load()
	if w == nil || !s.srv.states().Cancel(now, &w.Waiter, cause) {
		return false
	}
	s.conn.Wake()
	return true
}

// stopWaits has all who wait look whether they may.
func (srv *Server) stopWaits() {
	srv.clients.each(func(s *session) {
		if s.pub.waits.Load() != nil {
			s.conn.Wake()
		}
	})
}

// ringMost is the longest sleep between looks at the clock, which the engine's
// deadlines go by: it may be moved against the time that sleeps are measured in.
const ringMost = time.Second / 4

// ring grants those who wait when their time has come.
func (srv *Server) ring(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		srv.pulses.ring.Rest()
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-srv.states().Sooner():
		case <-srv.swapped:
		}
		srv.pulses.ring.Beat(srv.clock.Now())
		if next := srv.states().Wake(srv.clock.Now()); next != math.MaxInt64 {
			timer.Reset(min(ringMost, max(0, time.Duration(next-srv.clock.Now()))))
		}
	}
}
