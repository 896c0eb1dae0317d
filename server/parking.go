package server

// A state is that of a session between two calls of the transport:
//
//	            park                            yield
//	parked ◄──────────────────── running ────────────────────► yielded
//	   │                          ▲   ▲                           │
//	   └── woken, and resume ─────┘   └───── in its next turn, ───┘
//	       returns true                      resume returns true
//
// A parked session waits for an event. A yielded session waits until the others have had their
// turn. Neither begins another command. A parked session still takes in input; a yielded
// session does not.
//
// transport.Life holds the state of the connection. To close a connection after its last reply,
// the session drains it with the reason. It also does so after the last command of a peer that
// has finished sending. end closes the connection once no reply is owed (durable.go).
type state uint8

const (
	running state = iota
	parked
	yielded
)

// park stops the session until resume returns true. Every wake-up calls resume.
func (s *session) park(resume func() bool) {
	s.state, s.resume = parked, resume
	s.setParked(true)
}

// yield stops the session until the others have had their turn. It then continues with
// resume, as after park.
func (s *session) yield(resume func() bool) {
	s.state, s.resume = yielded, resume
	s.conn.Yield()
}

// goOn is the resume function of a session that has yielded between two commands.
func goOn() bool { return true }

// unpark lets the session run again.
func (s *session) unpark() {
	s.state, s.resume = running, nil
	s.setParked(false)
}

// setParked publishes whether the session waits for something.
func (s *session) setParked(on bool) {
	countClient(&s.srv.parked, s.pub.parked.Swap(on), on)
}

// Resume implements transport.Session.
func (s *session) Resume() (more bool) {
	defer s.contain()
	s.release()
	if !s.life.Open() {
		return true
	}
	s.begin()
	if s.state != running {
		if !s.resumed() {
			s.finish()
			return s.roomWhileParked()
		}
		s.unpark()
	}
	s.rd.Feed(nil)
	more = s.run()
	s.finish()
	return more
}

// resumed calls resume, and drops the reply of a parked command that CLIENT REPLY
// has silenced. It reports whether the command has finished.
func (s *session) resumed() bool {
	mark := len(s.call.Out)
	s.call.Failed = false
	away := s.away() // what comes from the leader waits for nothing here
	done := s.resume()
	if cmd := s.pub.lastCmd.Load(); cmd != nil && !away {
		s.tell(cmd, mark)
	}
	if done {
		s.call.Table = nil
	}
	if s.mute {
		s.call.Out = s.call.Out[:min(mark, len(s.call.Out))]
		s.mute = !done
	}
	if done {
		s.call.Out = append(s.call.Out, s.after...)
		s.after = nil
	}
	return done
}

// roomWhileParked reports whether more input may be taken in meanwhile.
func (s *session) roomWhileParked() bool {
	return s.state != yielded && int64(s.rd.Buffered()) < s.srv.set.ClientQueryBufferLimit.Get()
}

// EOF implements transport.Session. A parked command may still reply, and owed replies may
// still be sent.
func (s *session) EOF() (done bool) {
	s.eof = true
	if s.away() && s.rd.Buffered() == 0 && len(s.fwd.back) == 0 && s.fwd.stream != nil {
		s.fwd.stream.End()
	}
	if s.pub.waits.Load() != nil {
		s.conn.Wake() // a client that has disconnected gives up its place
	}
	return s.state == running && !s.owing()
}

// end closes the connection if no more replies will come.
func (s *session) end() {
	if s.eof && s.state == running {
		s.life.Drain(errEOF)
	}
	if s.life.Draining() && !s.owing() {
		s.conn.CloseAfterFlush(s.life.Reason())
	}
}
