package server

import (
	"context"
	"errors"
	"math"
	"time"

	"limitdb/engine"
	"limitdb/server/handler"
)

// waiting is a command that holds its reply back until the engine has decided (WAIT). Its
// session is parked and has no goroutine; the engine wakes the connection. The wait does not
// count as the command's time.
type waiting struct {
	*engine.Waiter
	handler.Wait
	cmd *command
}

// The errors that a wait can end with, besides the engine's.
var (
	errWaitUnblocked = errors.New("unblocked by CLIENT UNBLOCK ERROR")
	errWaitRefused   = errors.New("the log cannot be written")
)

// MayWait implements handler.Client.
func (s *session) MayWait(w *engine.Waiter, most int64) {
	if s.mayWait() == nil {
		w.Owner, w.Until = s.conn, s.call.Now+min(most, math.MaxInt64-s.call.Now)
	}
}

// Await implements handler.Client.
func (s *session) Await(ew *engine.Waiter, told handler.Wait) {
	w := &waiting{Waiter: ew, Wait: told, cmd: s.call.cmd}
	if before := s.pub.waits.Load(); before != nil { // it has been asked again
		w.cmd = before.cmd
	}
	s.pub.argMemory.Store(w.Size)
	s.pub.waits.Store(w)
	s.park(w)
	if s.mayWait() != nil || w.outdated() { // it changed when this wait was not yet visible
		s.conn.Wake()
	}
}

// outdated reports whether the request must be asked again.
func (w *waiting) outdated() bool { return w.Outdated != nil && w.Outdated() }

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

// resume replies if w has been decided or must be given up.
func (w *waiting) resume(s *session) bool {
	if !w.Done() {
		switch cause := s.mayWait(); {
		case cause == errWaitRefused:
			s.srv.states().Cancel(s.call.Now, w.Waiter, cause)
		case cause != nil:
			s.srv.states().Cancel(s.call.Now, w.Waiter, nil) // it is denied
		case w.outdated() && s.srv.states().Withdraw(s.call.Now, w.Waiter):
			s.call.Failed = false
			if !w.Anew() {
				return false
			}
			w.ends(s)
			return true
		case !w.Done():
			return false // it was woken for another reason, or only its answer waits
		}
	}
	s.call.Failed = false
	switch _, _, err := w.Result(); err {
	case errWaitUnblocked:
		s.call.Fail(errUnblocked)
	case errWaitRefused:
		s.call.Fail(*s.srv.misconf.Load())
	default:
		w.Reply(w.Key())
	}
	w.ends(s)
	return true
}

// ends forgets the wait, after the reply.
func (w *waiting) ends(s *session) {
	s.pub.waits.Store(nil)
	s.pub.argMemory.Store(0)
	if s.call.Failed {
		s.stripe.Fail(w.cmd.ID)
	}
}

// unblock ends the session's wait with cause, or with a denial if cause is nil. It reports
// whether the session was waiting. Any goroutine may call it.
func (s *session) unblock(now int64, cause error) bool {
	w := s.pub.waits.Load()
	if w == nil || !s.srv.states().Cancel(now, w.Waiter, cause) {
		return false
	}
	s.conn.Wake()
	return true
}

// checkWaits makes every session that waits check whether it still may, and whether it must ask
// again.
func (srv *Server) checkWaits() {
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
