package server

import "limitdb/server/handler"

// Turns. A session runs commands until its connection's turn is over. Then it yields: it keeps
// the rest of its input, and continues when the others have had their turn. To know when, it
// reads the clock once every handler.LookAtClock commands. A command that is timed by itself has read it
// already.
//
// A command that may take longer than a turn runs in steps, and may yield between any two of
// them. Other clients' commands may then run in between, as commands on another loop always
// can. So each step sees the state at its own time.

// spent reports whether the session's turn is over.
func (s *session) spent() bool {
	return s.srv.clock.Now()-s.call.Now-s.behind >= int64(s.conn.Turn())
}

// overTurn is spent after a number of commands. It reads the clock only if it must.
func (s *session) overTurn(ran int) bool {
	if s.slow > 0 && s.slow >= int64(s.conn.Turn()) {
		return true
	}
	s.call.Ran += ran
	if s.call.Ran < handler.LookAtClock && s.srv.special.Load()&specialMonitor == 0 {
		return false
	}
	s.call.Ran = 0
	return s.spent()
}

// stepping is a command that has yielded.
type stepping struct {
	cmd    *command
	step   func() (done bool)
	args   []string // for the slow log, as it keeps them
	reply  []byte   // the reply so far, which is sent as a whole
	holds  int64    // bytes of its results so far and of the arguments that it keeps
	took   int64
	failed bool
}

// Steps implements handler.Client. It runs the command's steps until the session's turn is over.
func (s *session) Steps(lasting func(), step func() (done bool)) {
	c, start := &s.call, int64(0)
	mark := len(c.Out)
	for !step() {
		now := s.srv.clock.Now()
		if start == 0 {
			start = now
		}
		if now-c.Now-s.behind < int64(s.conn.Turn()) {
			continue
		}
		if lasting != nil {
			lasting()
		}
		st := &stepping{cmd: c.cmd, step: step}
		st.suspend(s, now-start, mark)
		s.yield(st)
		return
	}
}

// suspend keeps the progress of the command after a turn of took nanoseconds, and its reply, which begins at
// mark.
func (st *stepping) suspend(s *session, took int64, mark int) {
	c := &s.call
	s.slow += took
	st.took += took
	st.failed = c.Failed
	st.reply = append(st.reply, c.Out[mark:]...)
	c.Out = c.Out[:mark]
	st.holds, c.Holds = c.Holds, 0
	s.pub.stepMemory.Store(st.holds + int64(cap(st.reply)))
}

// resume gives the command another turn.
func (st *stepping) resume(s *session) bool {
	start, mark := s.srv.clock.Now(), len(s.call.Out)
	s.call.Failed, s.call.Holds = st.failed, st.holds
	done := st.step()
	for !done && s.life.Open() && !s.spent() {
		done = st.step()
	}
	st.suspend(s, s.srv.clock.Now()-start, mark)
	if !done {
		s.conn.Yield()
		return false
	}
	s.pub.stepMemory.Store(0)
	s.stripe.Record(st.cmd.ID, nil, st.took, st.failed)
	s.noteSlow(st.args, st.took)
	s.call.Out = append(s.call.Out, st.reply...)
	return true
}
