package server

import (
	"bytes"
	"context"
	"errors"
	"math"
	"time"

	"limitdb/engine"
	"limitdb/limit"
)

// waiting is a command that holds its reply back until the engine has decided (WAIT). Its
// session is parked and has no goroutine; the engine wakes the connection. The wait does not
// count as the command's time.
type waiting struct {
	engine.Waiter
	cmd    *command
	logged []byte       // the key, if the decision is to be logged
	check  *parsedCheck // nil: it is no check
}

// The errors that a wait can end with, besides the engine's.
var (
	errWaitUnblocked = errors.New("unblocked by CLIENT UNBLOCK ERROR")
	errWaitRefused   = errors.New("the log cannot be written")
)

// askFor asks the engine for w, and replies when it is decided, after at most most nanoseconds.
// A call that belongs to no client is decided at once.
func (c *call) askFor(key []byte, w *waiting, most int64) {
	s := c.client
	w.Until = c.Now
	if log := c.srv.decisions; log != nil && w.Lease == nil && log.Wants(key) {
		w.logged = bytes.Clone(key)
	}
	if s != nil && s.mayWait() == nil {
		w.Owner, w.Until = s.conn, c.Now+min(most, math.MaxInt64-c.Now)
	}
	if !c.srv.states().Ask(c.Now, key, &w.Waiter) {
		c.answer(w, key)
		return
	}
	w.cmd = c.cmd
	c.parkFor(w)
}

// parkFor parks the session until w has been decided.
func (c *call) parkFor(w *waiting) {
	s := c.client
	s.pub.waits.Store(w)
	s.park(func() bool { return s.waited(w) })
	if s.mayWait() != nil || w.outdated(c.srv) { // it changed when this wait was not yet visible
		s.conn.Wake()
	}
}

// mayWait returns nil if this client may wait, and otherwise an error that says why not.
func (s *session) mayWait() error {
	switch {
	case s.srv.special.Load()&specialMisconf != 0:
		return errWaitRefused
	case s.srv.stopping.Load():
		return errStopped
	case s.eof: // a client that has finished sending has probably gone
		return errEOF
	}
	return nil
}

// waited replies if w has been decided or must be given up, and reports whether it did.
func (s *session) waited(w *waiting) bool {
	if !w.Done() {
		switch cause := s.mayWait(); {
		case cause == errWaitRefused:
			s.srv.states().Cancel(s.call.Now, &w.Waiter, cause)
		case cause != nil:
			s.srv.states().Cancel(s.call.Now, &w.Waiter, nil) // it is denied
		case w.outdated(s.srv) && s.srv.states().Withdraw(s.call.Now, &w.Waiter):
			return s.asksAnew(w)
		case !w.Done():
			return false // it was woken for another reason, or only its answer waits
		}
	}
	s.call.Failed = false
	s.call.answer(w, []byte(w.Key()))
	s.waitEnds(w)
	return true
}

// waitEnds ends the session's wait, after the reply.
func (s *session) waitEnds(w *waiting) {
	s.pub.waits.Store(nil)
	if w.check != nil {
		s.pub.argMemory.Store(0)
	}
	if s.call.Failed {
		s.stripe.Fail(w.cmd.ID)
	}
}

// answer replies with the decision. The key is for the error.
func (c *call) answer(w *waiting, key []byte) {
	d, granted, err := w.Result()
	if w.check != nil && err != errWaitUnblocked && err != errWaitRefused {
		c.answerCheck(w, err)
		return
	}
	wants := w.Limit.Algorithm.Kind()
	if w.Lease != nil {
		wants = limit.LEASE
	}
	if w.logged != nil && err == nil {
		c.log(w.logged, w.Cost, &d)
	}
	switch {
	case err == errWaitUnblocked:
		c.Fail(errUnblocked)
	case err == errWaitRefused:
		c.Fail(*c.srv.misconf.Load())
	case w.Partial:
		c.decidedInPart(key, wants, &d, granted, err)
	default:
		c.decided(key, wants, &d, err)
	}
}

// unblock ends the session's wait with cause, or with a denial if cause is nil. It reports
// whether the session was waiting. Any goroutine may call it.
func (s *session) unblock(now int64, cause error) bool {
	w := s.pub.waits.Load()
	if w == nil || !s.srv.states().Cancel(now, &w.Waiter, cause) {
		return false
	}
	s.conn.Wake()
	return true
}

// stopWaits makes every session that waits check whether it still may.
func (srv *Server) stopWaits() {
	srv.clients.each(func(s *session) {
		if s.pub.waits.Load() != nil {
			s.conn.Wake()
		}
	})
}

// ringMost is the longest sleep before ring reads the clock again. The engine's deadlines are
// in that clock's time, which may be set while a sleep runs in monotonic time.
const ringMost = time.Second / 4

// ring makes the engine decide the requests that wait, when their time has come.
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
