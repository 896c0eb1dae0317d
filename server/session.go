package server

import (
	"container/list"
	"fmt"
	"math"
	"sync/atomic"

	"limitdb/config"
	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/pubsub"
	"limitdb/server/scripts"
	"limitdb/transport"
	"limitdb/uplink"
)

// A session is the state of one client. It has no goroutine: the transport calls Data,
// Resume and EOF, one at a time, and only that caller may use the fields other than pub.
// Commands append their replies to out, and a whole batch is written at once.
type session struct {
	srv    *Server
	conn   transport.Conn
	life   *transport.Life // conn's: commands run while it is open
	id     int64
	stripe *stats.Stripe

	rd   resp.Reader
	call call // the running command, and the batch's replies so far
	// early has the bits specialLoading and specialFollowing from the start of the batch. Commands of the batch are
	// refused even if the state has been loaded, or a leader found, since.
	early uint32
	tally stats.Tally
	slow  int64 // ns of this batch spent in commands that were timed by themselves
	heavy bool  // the batch before took so long that the next one lets the other clients go first

	authed  bool
	knows   bool // the client has given the right password
	eof     bool // the peer has finished sending
	told    bool // out has a reply that reveals state, see owed
	quiet   int  // bytes of out before that reply
	kept    int  // bytes of out before the reply of a command that CLIENT REPLY silences
	replies replyMode
	mute    bool   // the parked command's reply is dropped
	after   []byte // an invalidation that follows the parked command's reply
	subs    pubsub.Subscriptions

	tracking *tracking // CLIENT TRACKING; nil: off

	stranger *list.Element // in clients.strangers, which guards it; nil: the client has authenticated, or gives way

	gone chan struct{} // closed when the client is gone; nil: nobody waits for that

	pending pending      // what the session waits for; nil: it runs commands
	yielded bool         // pending goes on in the next turn
	owed    *owed        // replies that wait for the disk; nil if none ever did
	turn    uint64       // see Durability.Turn; of the batch, or of the parked command
	fwd     *forwarding  // nil if no command was ever forwarded
	far     *uplink.Conn // of a client that is connected to another node; nil: of one that is connected to this node
	// knowsClusters is set once the client has asked for the nodes: it then gets -MOVED. readOnly is set by
	// READONLY.
	knowsClusters, readOnly bool
	behind                  int64 // how far call.now is behind the clock, during a read after READONLY

	lengths  uint32   // the value of Server.lengths when the reader's limits were set
	last     *command // the last command found, for pipelines of one command
	lastName []byte

	remembered *remembered // nil: none yet
	lastScript struct {    // of this batch
		loaded  *scripts.Script // nil: none
		flushes uint64          // the value of scripts.Cache.Flushes when it was found
	}
	multi *multi // what MULTI and WATCH have begun; nil: nothing

	pub public
}

// public holds the fields of a session that other goroutines may read, and what they may do with it.
type public struct {
	srv                      *Server
	conn                     transport.Conn
	created                  int64
	name, libName, libVer    atomic.Pointer[string]
	lastCmd                  atomic.Pointer[command]
	lastActive               atomic.Int64 // ns of Unix time
	partialSince             atomic.Int64 // ns; 0: no command has begun
	batches                  atomic.Int64 // that have begun and ended; odd during one. Counted on a node of a cluster only
	buffered                 atomic.Int64 // bytes of query held
	queryMemory              atomic.Int64 // of the buffer that holds them
	argMemory                atomic.Int64 // of the command that a pause holds back
	multiMemory              atomic.Int64 // of commands that wait for EXEC, and of what is watched
	queued                   atomic.Int32 // 1 and the commands since MULTI; 0: there was no MULTI
	watched                  atomic.Int32 // keys
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

// unauthOutput is the most bytes of replies that the server holds for a client before AUTH.
const unauthOutput = 64 << 10

// OutputLimit implements handler.Client.
func (s *session) OutputLimit() int64 { return s.pub.outputLimit() }

// outputLimit returns the most bytes of unsent replies that the client may have.
func (p *public) outputLimit() int64 {
	if !p.authed.Load() {
		return unauthOutput
	}
	return p.srv.set.ClientOutputBufferLimit.Get(p.class()).Most()
}

// class returns the class whose client-output-buffer-limit applies to the client.
func (p *public) class() config.ClientClass {
	if p.subscribed.Load() > 0 {
		return config.PubSubClient
	}
	return config.NormalClient
}

// MostUnsent returns the number of unsent bytes above which the transport stops reading from a
// client. It is three quarters of client-output-buffer-limit, so that a pipeline cannot take its
// client over the limit, however slowly the client reads the replies.
func (srv *Server) MostUnsent() int64 {
	most := srv.set.ClientOutputBufferLimit.Get(config.NormalClient).Hard
	if most == 0 {
		most = srv.clientsBudget() // may also be 0, for no limit
	}
	if most == 0 {
		return math.MaxInt64
	}
	return most / 4 * 3
}

// addr returns the peer's address as CLIENT LIST shows it.
func (p *public) addr() string { return addrText(p.conn.RemoteAddr(), p.conn.LocalAddr()) }

func (s *session) setAuthed(on bool) {
	s.authed = on
	s.pub.authed.Store(on)
	s.srv.clients.authenticated(s, on)
	s.setReaderLimits()
}

const (
	// mostArgs and mostWideArgs are the most arguments of a command, and of those on many keys or elements (spec.Wide),
	// whose replies are bounded otherwise.
	mostArgs     = 1024
	mostWideArgs = 65536
	// mostSkipped is the longest argument, in bytes, that is answered with an error. A longer one ends the connection.
	mostSkipped = 16 << 20
)

// tooLarge returns the error for a command that the reader has skipped, "" for any other.
func (s *session) tooLarge(args [][]byte) string {
	switch string(args[0]) {
	case resp.TooLong:
		return fmt.Sprintf("ERR an argument may have at most %d bytes (proto-max-bulk-len), a file of rules %d", s.rd.Limits.Bulk, rules.MaxText)
	case resp.TooMany:
		return fmt.Sprintf("ERR a command may have at most %d arguments, one on many keys or elements %d", mostArgs, mostWideArgs)
	}
	return ""
}

// setReaderLimits sets the reader's limits, which differ before and after AUTH.
func (s *session) setReaderLimits() {
	set := s.srv.set
	s.lengths = s.srv.lengths.Load()
	if !s.authed {
		s.rd.Limits = resp.Limits{Args: 10, WideArgs: 10, Bulk: 16 << 10, Inline: 4 << 10, Query: 64 << 10, Unauthenticated: true}
		return
	}
	s.rd.Limits = resp.Limits{
		Args: mostArgs, WideArgs: mostWideArgs, Inline: 64 << 10, Skip: mostSkipped,
		LongBulk: rules.MaxText,
		Bulk:     int(set.ProtoMaxBulkLen.Get()), Query: int(set.ClientQueryBufferLimit.Get()),
	}
}
