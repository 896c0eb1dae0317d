package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"limitdb/config"
	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/server/pubsub"
	"limitdb/transport"
)

// A session is the state of one client. It has no goroutine: the transport
// calls Data, Resume and EOF, one at a time, and everything outside of pub
// belongs to that caller. Commands append to out; a whole batch is written at once.
type session struct {
	srv    *Server
	conn   transport.Conn
	life   *transport.Life // conn's: commands run while it is open
	id     int64
	stripe *stats.Stripe

	rd   resp.Reader
	call call // the command that runs, and the batch's replies so far
	// early is specialLoading and specialFollowing, as they were at that moment: commands of this batch are refused
	// even if it is there by now.
	early uint32
	tally stats.Tally
	slow  int64 // ns of this batch spent in commands that were timed by themselves

	ran int // commands since the last look at the clock

	authed  bool
	eof     bool // the peer has finished sending
	told    bool // out has a reply that tells of state, see owed
	quiet   int  // bytes of out before that reply
	replies replyMode
	mute    bool   // the parked command's reply is dropped
	after   []byte // an invalidation that follows the parked command's reply
	subs    pubsub.Subscriptions

	tracking *tracking // CLIENT TRACKING; nil: off

	state    state
	resume   func() bool // of a session that does not run, see parking.go
	stepping *stepping   // the command that has yielded, or nil
	owed     *owed       // replies that wait for the disk; nil if none ever did
	turn     uint64      // see Durability.Turn; of the batch, or of the command that is parked
	held     [][]byte    // the command that a pause holds back

	lengths  uint32   // of Server.lengths that the reader's limits are of
	last     *command // the last command found, for pipelines of one command
	lastName []byte

	remembered *remembered // nil: none yet

	pub public
}

// public is what other goroutines may read of a session.
type public struct {
	created                  int64
	name, libName, libVer    atomic.Pointer[string]
	lastCmd                  atomic.Pointer[command]
	lastActive               atomic.Int64 // ns of Unix time
	partialSince             atomic.Int64 // ns; 0: no command has begun
	buffered                 atomic.Int64 // bytes of query held
	queryMemory              atomic.Int64 // of the buffer that holds them
	argMemory                atomic.Int64 // of the command that a pause holds back
	textMemory               atomic.Int64 // of name, libName and libVer
	accounted                atomic.Int64 // bytes counted in Server.clientBytes
	authed, monitor, noEvict atomic.Bool
	resp3, parked            atomic.Bool
	subscribed               atomic.Int32
	subBytes                 atomic.Int64            // held for subscriptions
	owed                     atomic.Int64            // replies that wait for the disk
	stepMemory               atomic.Int64            // of a command that has yielded
	redirect                 atomic.Int64            // where invalidations go: CLIENT GETREDIR
	softSince                atomic.Int64            // ns of Unix time at which the soft output limit was exceeded; 0: it is not
	waits                    atomic.Pointer[waiting] // the command that waits for its turn, or nil
}

type replyMode uint8

const (
	replyOn replyMode = iota
	replyOff
	replySkip     // the next command's reply is dropped
	replySkipping // the running command's reply is dropped
)

// flushAt is how much a batch may append before it is handed to the
// connection, so that a small query with a large reply cannot outgrow the limit unseen.
const flushAt = 64 << 10

// Data runs every complete command of b and writes the replies once.
func (s *session) Data(b []byte) (more bool) {
	defer s.contain()
	if !s.life.Open() {
		return true
	}
	s.begin()
	s.stripe.Reads.Add(1)
	s.stripe.In.Add(uint64(len(b)))
	first := s.pub.lastCmd.Load() == nil && s.rd.Buffered() == 0
	if first && looksLikeTLS(b) {
		s.srv.counters.crossProtocol.Add(1)
		s.srv.log.Warn("a TLS hello on a plain port", "addr", s.addr())
		s.conn.Close(errCross)
		return false
	}
	s.rd.Feed(b)
	more = s.run()
	s.finish()
	return more
}

// Closed forgets the session everywhere.
func (s *session) Closed(reason error) {
	s.srv.forget(s, reason)
}

func (s *session) begin() {
	s.early = s.srv.special.Load() & (specialLoading | specialFollowing) // before the clock is read: only then it is right
	if s.state == running {
		s.turn = s.srv.durable.turn() // before anything is decided
	}
	s.call.now = s.srv.clock.Now()
	s.slow = 0
	if s.lengths != s.srv.lengths.Load() {
		s.setReaderLimits()
	}
	if s.call.out == nil {
		s.call.out = s.srv.buffers.get()
	}
}

// run executes what is complete.
func (s *session) run() (more bool) {
	queue := s.srv.queues.get()
	defer s.srv.queues.put(queue)
	quiet, queued := s.mayQueue(), false
	var args [][]byte
	var err error
	for s.life.Open() {
		if s.state != running {
			return s.roomWhileParked()
		}
		if quiet {
			args, err, queued = s.queue(queue)
		} else {
			args, err = s.rd.Next()
		}
		if queued {
			if queued = false; queue.n == aheadMost {
				s.runQueue(queue)
				if s.overTurn(aheadMost) && s.rd.Buffered() > 0 {
					s.yield(goOn)
				}
			}
			continue
		}
		if queue.n > 0 {
			s.ran += queue.n
			s.runQueue(queue)
			if !s.life.Open() {
				break
			}
		}
		if err != nil {
			s.protocolError(err)
			return false
		}
		if args == nil {
			return true
		}
		s.execute(args)
		quiet = s.mayQueue()
		if len(s.call.out) >= flushAt {
			s.flush()
			s.ran = turnCheck // writing takes time, too
		}
		if s.overTurn(1) && s.state == running && s.rd.Buffered() > 0 {
			s.yield(goOn)
		}
	}
	return false
}

// finish ends a batch: the tail of the input is kept, replies go out, counters and the
// published state are brought up to date.
func (s *session) finish() {
	ran := !s.tally.Empty() || s.slow > 0
	s.rd.Keep()
	s.flush()
	s.end()
	s.settle()
	s.srv.buffers.put(s.call.out)
	s.call.out = nil

	since := s.pub.partialSince.Load()
	switch {
	case !s.rd.Partial() || s.state != running:
		if since != 0 {
			s.pub.partialSince.Store(0)
		}
	case since == 0 || ran:
		s.pub.partialSince.Store(s.call.now)
	}
	s.pub.lastActive.Store(s.call.now)
	s.account()
}

// settle moves the tally into the counters.
func (s *session) settle() {
	if !s.tally.Empty() {
		s.tally.Flush(s.stripe, s.srv.clock.Now()-s.call.now-s.slow)
	}
}

// flush hands the replies to the connection and closes a client that does not
// read them.
func (s *session) flush() {
	told := s.told
	s.told = false
	if len(s.call.out) == 0 {
		return
	}
	s.stripe.Out.Add(uint64(len(s.call.out)))
	if (told || s.owing()) && s.hold(told) {
		return
	}
	s.conn.Write(s.call.out)
	s.call.out = s.call.out[:0]
	if s.life.Open() && s.conn.Pending() > s.outputLimit() {
		s.srv.closeForOutput(s)
	}
}

// unauthOutput is how many bytes of replies are held for a client before AUTH.
const unauthOutput = 64 << 10

func (s *session) outputLimit() int64 {
	if !s.pub.authed.Load() {
		return unauthOutput
	}
	return s.srv.outputLimit(s.class())
}

// outputLimit bounds the bytes of unsent replies of a client of some class.
func (srv *Server) outputLimit(class config.ClientClass) int64 {
	if l := srv.set.ClientOutputBufferLimit.Get(class); l.Hard > 0 {
		return l.Hard
	}
	return math.MaxInt64
}

// class is the one whose client-output-buffer-limit holds for the client.
func (s *session) class() config.ClientClass {
	if s.pub.subscribed.Load() > 0 {
		return config.PubSubClient
	}
	return config.NormalClient
}

// MostUnsent is the number of unsent bytes above which no client is read from: three
// quarters of client-output-buffer-limit, so that no pipeline, however slowly its replies are read,
// takes its client over the limit.
func (srv *Server) MostUnsent() int64 {
	most := srv.set.ClientOutputBufferLimit.Get(config.NormalClient).Hard
	if most == 0 {
		most = srv.clientsBudget() // which may be no bound either
	}
	if most == 0 {
		return math.MaxInt64
	}
	return most / 4 * 3
}

// account keeps the sum of all clients' buffers.
func (s *session) account() {
	storeChanged(&s.pub.buffered, int64(s.rd.Buffered()))
	storeChanged(&s.pub.queryMemory, int64(s.rd.Memory()))
	if s.owed != nil {
		s.pub.owed.Store(int64(len(s.owed.b)))
	}
	held := s.holding()
	if before := s.pub.accounted.Load(); before != held {
		s.pub.accounted.Store(held)
		if s.srv.clientBytes.Add(held-before) > s.srv.clientsBudget() {
			s.srv.kickEviction()
		}
	}
}

// storeChanged stores n, which is mostly there already: to look costs less.
func storeChanged(to *atomic.Int64, n int64) {
	if to.Load() != n {
		to.Store(n)
	}
}

// protocolError tells the client why its stream cannot be read on, and closes.
func (s *session) protocolError(err error) {
	var pe *resp.ProtocolError
	if !errors.As(err, &pe) {
		pe = &resp.ProtocolError{Text: "Protocol error"}
	}
	s.srv.counters.protocolErrors.Add(1)
	s.srv.log.Log(context.Background(), LevelVerbose, "protocol error", "addr", s.addr(), "err", pe.Text)
	s.call.out = resp.AppendError(s.call.out, "ERR "+pe.Text)
	s.life.Drain(errProtocol)
}

// contain keeps a panic in a handler to its connection. A panic below a
// shard's lock leaves the state suspect: it ends the process.
func (s *session) contain() {
	r := recover()
	if r == nil {
		return
	}
	if panickedInEngine() {
		panic(r)
	}
	s.srv.counters.panics.Add(1)
	s.srv.log.Error("a command panicked: its connection is closed", "addr", s.addr(),
		"panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	s.call.out = resp.AppendError(s.call.out, errInternal)
	s.conn.Write(s.call.out)
	s.call.out = nil
	s.conn.CloseAfterFlush(errPanic)
}

// panickedInEngine looks for a frame of the engine above the panic.
func panickedInEngine() bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "limitdb/engine.") {
			return true
		}
		if !more {
			return false
		}
	}
}

// looksLikeTLS tells a TLS client hello from RESP.
func looksLikeTLS(b []byte) bool {
	return len(b) >= 3 && b[0] == 0x16 && b[1] == 0x03 && b[2] <= 0x04
}

// addr is the peer as CLIENT LIST shows it.
func (s *session) addr() string { return addrText(s.conn.RemoteAddr(), s.conn.LocalAddr()) }
