package server

import (
	"sync/atomic"
	"time"

	"limitdb/server/handler"
)

// What a session waits for is one value, its pending, with one resume. A session without one runs commands:
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
// What a session can wait for: its next turn (nextTurn), also in the middle of a command (stepping); the end of a pause (heldBack); a
// decision (waiting); work in another goroutine (working); a time (sleeping, guess); the leader, or a leader (forwarding); and, around
// one of these, the end of a read after READONLY (reading). Replies that wait for the disk do not stop a session: see owed.
//
// transport.Life holds the state of the connection. To close a connection after its last reply,
// the session drains it with the reason. It also does so after the last command of a peer that
// has finished sending. end closes the connection once no reply is owed (durable.go).
type pending interface {
	// resume goes on after a wake-up, whatever has caused it, and reports whether the wait is over. It may have replied then. Instead
	// it may have given the session something else to wait for.
	resume(s *session) (done bool)
}

// park stops the session until p is over. Every wake-up resumes p.
func (s *session) park(p pending) {
	s.pending, s.yielded = p, false
	s.setParked(true)
}

// yield stops the session until the others have had their turn. It then goes on with p, as after park.
func (s *session) yield(p pending) {
	s.pending, s.yielded = p, true
	s.conn.Yield()
}

// unpark lets the session run again.
func (s *session) unpark() {
	s.pending, s.yielded = nil, false
	s.setParked(false)
}

// setParked publishes whether the session waits for something.
func (s *session) setParked(on bool) {
	countClient(&s.srv.parked, s.pub.parked.Swap(on), on)
}

// nextTurn is the pending of a session that has yielded between two commands.
type nextTurn struct{}

func (nextTurn) resume(*session) bool { return true }

// Resume implements transport.Session.
func (s *session) Resume() (more bool) {
	defer s.contain()
	s.release()
	if !s.life.Open() {
		return true
	}
	s.begin()
	if s.pending != nil {
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

// resumed resumes what is pending, and drops the reply of a parked command that CLIENT REPLY
// has silenced. It reports whether the command has finished.
func (s *session) resumed() bool {
	mark := len(s.call.Out)
	s.call.Failed = false
	away := s.away() // what comes from the leader waits for nothing here
	done := s.pending.resume(s)
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
	return !s.yielded && int64(s.rd.Buffered()) < s.srv.set.ClientQueryBufferLimit.Get()
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
	return s.pending == nil && !s.owing()
}

// end closes the connection if no more replies will come.
func (s *session) end() {
	if s.eof && s.pending == nil {
		s.life.Drain(errEOF)
	}
	if s.life.Draining() && !s.owing() {
		s.conn.CloseAfterFlush(s.life.Reason())
	}
}

// heldBack is a command that a pause holds back.
type heldBack struct{ args [][]byte }

// holdBack parks the session with a copy of the command until the pause ends.
func (s *session) holdBack(args [][]byte) {
	s.pub.argMemory.Store(handler.ArgBytes(args))
	s.park(&heldBack{handler.CloneArgs(args)})
}

// holds reports whether a pause holds the session's command back.
func (s *session) holds() bool {
	_, held := s.pending.(*heldBack)
	return held
}

func (h *heldBack) resume(s *session) bool {
	if cmd := s.srv.table.find(h.args[0]); cmd != nil && s.srv.pause.holds(s, cmd) || !s.mayBegin() {
		return false
	}
	s.pending = nil
	s.pub.argMemory.Store(0)
	s.execute(h.args)
	return s.pending == nil // it may wait for something of its own
}

// working is a command whose work another goroutine does.
type working struct {
	over  atomic.Bool // result is there
	err   error
	reply func(err error)
}

// Background implements handler.Client.
func (s *session) Background(work func() error, reply func(err error)) {
	w := &working{reply: reply}
	go func() {
		w.err = work()
		w.over.Store(true)
		s.conn.Wake()
	}()
	s.park(w)
}

func (w *working) resume(*session) bool {
	if !w.over.Load() {
		return false
	}
	w.reply(w.err)
	return true
}

// sleeping is DEBUG SLEEP. Only a timer runs meanwhile, so all other sessions continue.
type sleeping struct {
	call        *call
	cmd         *command
	whole, left time.Duration
	due         atomic.Bool // the timer has rung
}

// sleepStep bounds how long a timer keeps a closed session in memory.
const sleepStep = time.Second

// arm starts the timer.
func (w *sleeping) arm() {
	step := min(w.left, sleepStep)
	w.left -= step
	conn := w.call.client.conn
	time.AfterFunc(step, func() {
		w.due.Store(true)
		conn.Wake()
	})
}

func (w *sleeping) resume(*session) bool {
	if !w.due.Swap(false) {
		return false
	}
	if w.left > 0 {
		w.arm()
		return false
	}
	w.call.slept(w.cmd, w.whole)
	return true
}
