package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"limitdb/resp"
	"limitdb/server/auth"
	"limitdb/server/clients"
	"limitdb/server/handler"
	"limitdb/server/users"
	"limitdb/transport"
)

// Data runs every complete command of b and writes the replies once.
func (s *session) Data(b []byte) (more bool) {
	defer s.contain()
	if !s.life.Open() {
		return true
	}
	s.begin()
	s.stripe.Reads.Add(1)
	s.stripe.In.Add(uint64(len(b)))
	first := s.pub.LastCmd.Load() == nil && s.rd.Buffered() == 0
	if first && looksLikeTLS(b) {
		s.srv.counters.crossProtocol.Add(1)
		s.srv.log.Warn("a TLS hello on a plain port", "addr", s.pub.Addr())
		s.conn.Close(clients.ErrCross)
		return false
	}
	if s.certify {
		certified(s)
	}
	s.rd.Feed(b)
	if s.heavy && s.pending == nil {
		s.heavy = false
		s.yield(nextTurn{})
	}
	more = s.run()
	s.finish()
	return more
}

// certified makes the client the user whose name its certificate has, if there is one.
func certified(s *session) {
	s.certify = false
	named, ok := s.conn.(transport.Certified)
	if !ok {
		return
	}
	name := named.CertifiedName()
	if name == "" {
		return
	}
	if r := s.srv.auth.Get(name); r != nil && r.On() {
		become(s, r, true)
		s.auto = false
		return
	}
	s.srv.log.Info("the name in a client's certificate is no user's", "addr", s.pub.Addr(), "name", logged([]byte(name)))
	s.call.note(auth.Event{Reason: users.Cert, Context: "toplevel", Object: logged([]byte(name)), User: logged([]byte(name))})
}

// Resume implements transport.Session.
func (s *session) Resume() (more bool) {
	defer s.contain()
	s.owed.release()
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
		s.in = nil
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
	s.call.Failed, s.call.Durable = false, false
	away := s.fwd != nil && s.pending == pending(s.fwd) // what comes from the leader waits for nothing here
	done := s.pending.resume(s)
	if gathered := s.gathered; done && gathered != nil {
		s.gathered = nil
		done = gathered(mark)
	}
	if cmd := s.pub.LastCmd.Load(); cmd != nil && !away {
		s.tell(cmd, mark)
	}
	if done {
		s.call.Table = nil
		if len(s.call.changes) > 0 {
			endChanges(&s.call, s.call.Out[min(mark, len(s.call.Out)):])
		}
	}
	if s.mute {
		s.call.Out = s.call.Out[:min(mark, len(s.call.Out))]
		s.shares.Cut(len(s.call.Out))
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
	if s.fwd.away() && s.rd.Buffered() == 0 && len(s.fwd.back) == 0 {
		s.fwd.finish()
	}
	if s.pub.Waits.Load() != nil {
		s.conn.Wake() // a client that has disconnected gives up its place
	}
	return s.pending == nil && !s.owed.owing()
}

func (s *session) begin() {
	if s.in != nil && s.pending == nil {
		s.call.enter(s.srv.group)
	}
	g := s.call.group
	if g.Keeper.InTurns() {
		s.pub.Batches.Add(1) // before the flags are read: see Settle
	}
	s.early = g.Special.Load() & (specialLoading | specialFollowing) // must be read before the clock
	if s.pending == nil {
		if s.in == nil {
			s.beginTurn()
		} else {
			s.in = nil // with several groups, the turn in each begins when the batch enters it
		}
	}
	s.call.begin(s.srv.clock.Now())
	s.slow, s.lastScript.loaded = 0, nil
	look(s)
	if s.call.Out == nil {
		s.call.Out = lendBuffer(&s.srv.buffers)
	}
}

// run executes the complete commands of the input.
func (s *session) run() (more bool) {
	queue := lendQueue(&s.srv.queues)
	defer takeQueue(&s.srv.queues, queue)
	quiet, collected, several := s.undisturbed(), false, s.srv.several()
	var args [][]byte
	var err error
	if s.far != nil && s.pending == nil && s.rd.Buffered() > 0 {
		s.mayBegin()
	}
	for s.life.Open() {
		if s.pending != nil {
			return s.roomWhileParked()
		}
		switch {
		case !quiet:
			args, err = s.rd.Next()
		case several:
			args, err, collected = queue.nextHere(s)
		default:
			args, err, collected = queue.next(s)
		}
		if collected {
			if collected = false; queue.n == aheadMost && (queue.run(s, true) || s.overTurn(0) || several && s.fwd.crowded()) {
				rest(s)
			}
			continue
		}
		if queue.n > 0 {
			if queue.run(s, err == nil) {
				rest(s)
				continue
			}
			if !s.life.Open() {
				break
			}
		}
		if (args == nil || err != nil) && s.fwd != nil {
			if s.fwd.depart() {
				return s.roomWhileParked()
			}
			s.fwd.drained()
		}
		if err != nil {
			s.protocolError(err)
			return false
		}
		if args == nil {
			return true
		}
		s.execute(args)
		quiet = s.undisturbed()
		if len(s.call.Out) >= flushAt {
			s.flush()
			s.call.Ran = handler.LookAtClock // writing takes time, too
		}
		if s.overTurn(1) {
			rest(s)
		}
	}
	return false
}

// rest ends the session's turn, unless it waits for something or has no more input.
func rest(s *session) {
	if s.pending == nil && s.life.Open() && s.rd.Buffered() > 0 && !s.fwd.depart() {
		s.yield(nextTurn{})
	}
}

// heavyBatch is how many ns of slow commands make a batch heavy. The next one of that session waits for its turn
// behind the sockets, so that many clients with long scripts take as much of others' time as one.
const heavyBatch = 20_000_000

// finish ends a batch: it keeps the rest of the input, sends the replies, and updates the
// counters and the published state.
func (s *session) finish() {
	ran := !s.tally.Empty() || s.slow > 0
	s.heavy = s.slow >= heavyBatch
	s.rd.Keep()
	s.flush()
	s.end()
	s.addTally()
	takeBuffer(&s.srv.buffers, s.call.Out)
	s.call.Out = nil

	since := s.pub.PartialSince.Load()
	switch {
	case !s.rd.Partial() || s.pending != nil:
		if since != 0 {
			s.pub.PartialSince.Store(0)
		}
	case since == 0 || ran:
		s.pub.PartialSince.Store(s.call.Began)
	}
	s.pub.LastActive.Store(s.call.Began)
	s.account()
}

// account publishes the sizes of the client's buffers and updates the sum of all clients'.
func (s *session) account() {
	storeChanged(&s.pub.Buffered, int64(s.rd.Buffered()))
	storeChanged(&s.pub.QueryMemory, int64(s.rd.Memory()))
	if s.owed != nil {
		s.pub.Owed.Store(int64(len(s.owed.b)))
	}
	s.pub.Charge()
}

// storeChanged stores n unless it is there already, which is usual. A load costs less than a store.
func storeChanged(to *atomic.Int64, n int64) {
	if to.Load() != n {
		to.Store(n)
	}
}

// protocolError tells the client why the server cannot read its stream any further, and
// closes the connection.
func (s *session) protocolError(err error) {
	var pe *resp.ProtocolError
	if !errors.As(err, &pe) {
		pe = &resp.ProtocolError{Text: "Protocol error"}
	}
	s.srv.counters.protocolErrors.Add(1)
	s.srv.log.Log(context.Background(), clients.LevelVerbose, "protocol error", "addr", s.pub.Addr(), "err", pe.Text)
	s.call.Out = resp.AppendError(s.call.Out, "ERR "+pe.Text)
	s.life.Drain(clients.ErrProtocol)
}

// contain limits the damage of a panic in a handler to its connection. A panic in the engine
// may leave the state inconsistent, so it ends the process.
func (s *session) contain() {
	r := recover()
	if s.pub.Batches.Load()%2 == 1 {
		s.pub.Batches.Add(1)
	}
	if r == nil {
		return
	}
	if panickedInEngine() {
		panic(r)
	}
	s.srv.counters.panics.Add(1)
	s.srv.log.Error("a command panicked: its connection is closed", "addr", s.pub.Addr(),
		"panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	s.call.Out = resp.AppendError(s.call.Out, errInternal)
	s.conn.Write(s.call.Out)
	s.call.Out = nil
	s.conn.CloseAfterFlush(clients.ErrPanic)
}

// looksLikeTLS reports whether b begins like a TLS client hello.
func looksLikeTLS(b []byte) bool {
	return len(b) >= 3 && b[0] == 0x16 && b[1] == 0x03 && b[2] <= 0x04
}

// The server lends buffers for replies, so that an idle client holds none.
const (
	bufferSize = 16 << 10
	bufferKeep = 256 << 10 // larger ones are left to the garbage collector
)

// lendBuffer returns an empty buffer.
func lendBuffer(p *sync.Pool) []byte {
	if b, ok := p.Get().(*[bufferSize]byte); ok {
		return b[:0]
	}
	return make([]byte, 0, bufferSize)
}

// takeBuffer takes a buffer back.
func takeBuffer(p *sync.Pool, b []byte) {
	if cap(b) >= bufferSize && cap(b) <= bufferKeep {
		p.Put((*[bufferSize]byte)(b[:bufferSize]))
	}
}
