package server

import (
	"bytes"
	"fmt"

	"limitdb/internal/origin"
	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/clients"
	"limitdb/server/group"
	"limitdb/server/pubsub"
	"limitdb/server/scripts"
	"limitdb/server/users"
	"limitdb/transport"
	"limitdb/uplink"
)

// A session is the state of one client. It has no goroutine: the transport calls Data,
// Resume and EOF, one at a time, and only that caller may use the fields other than pub.
// Commands append their replies to out, and a whole batch is written at once.
type session struct {
	peer
	srv    *Server
	stripe *stats.Stripe

	rd   input
	call call // the running command, and the batch's replies so far
	// Of several groups: the one of the last command of the batch, nil if there was none, and what the replies of the batch reveal.
	in     *group.Group
	shares *group.Shares
	aside  func() // takes what the session replies beside a round of its forwarded commands, see forward.go; nil: it is sent
	// gathered puts what other nodes have replied about groups that they lead together with the reply of the parked command, which begins at mark; nil: nothing.
	// It returns false if the command goes on.
	gathered func(mark int) (done bool)
	// early has the bits specialLoading and specialFollowing from the start of the batch. Commands of the batch are
	// refused even if the state has been loaded, or a leader found, since.
	early uint32
	tally stats.Tally
	slow  int64 // ns of this batch spent in commands that were timed by themselves
	heavy bool  // the batch before took so long that the next one lets the other clients go first

	origin *origin.Origin // who the client is, and where; nil: nobody has asked yet

	authed  bool
	auto    bool // the client is a user without having given a password, since before the users were loaded
	limited bool // the user may not decide on all keys
	certify bool // the client's certificate may say who it is
	knows   bool // the client has given the right password
	told    bool // out has a reply that reveals state, see owed
	quiet   int  // bytes of out before that reply
	kept    int  // bytes of out before the reply of a command that CLIENT REPLY silences
	replies replyMode
	mute    bool   // the parked command's reply is dropped
	after   []byte // an invalidation that follows the parked command's reply
	subs    pubsub.Subscriptions

	tracking bool // CLIENT TRACKING is on
	caching  bool // after CLIENT CACHING YES: the next command's keys are invalidated

	turn uint64      // see Durability.Turn; of the batch, or of the parked command, in the call's group
	fwd  *forwarding // nil if no command was ever forwarded
	// knowsClusters is set once the client has asked for the nodes: it then gets -MOVED. readOnly is set by
	// READONLY.
	knowsClusters, readOnly bool

	remembered *remembered // nil: none yet
	forms      *forms      // nil: none yet
	lastScript struct {    // of this batch
		loaded  *scripts.Script // nil: none
		flushes uint64          // the value of scripts.Cache.Flushes when it was found
	}
	multi *multi // what MULTI and WATCH have begun; nil: nothing

	unsure unsure // what the client has been told and WAIT is to ask about
}

// peer is the other end of a session's connection: what the session waits for, and the replies that the client still waits for.
type peer struct {
	conn    transport.Conn
	life    *transport.Life // conn's: commands run while it is open
	far     *uplink.Conn    // conn, of a client that is connected to another node; nil: of one that is connected to this node
	eof     bool            // the peer has finished sending
	yielded bool            // pending goes on in the next turn
	pending pending         // what the session waits for; nil: it runs commands
	owed    *owed           // replies that wait for the disk; nil if none ever did
	gone    chan struct{}   // closed when the client is gone; nil: nobody waits for that
	pub     clients.Client  // what other goroutines see
}

// leaves returns a channel that is closed when the client is gone.
func (p *peer) leaves() <-chan struct{} {
	if p.gone == nil {
		p.gone = make(chan struct{})
	}
	return p.gone
}

// pending is what a session waits for: see pending.go.
type pending interface {
	// resume goes on after a wake-up, whatever has caused it, and reports whether the wait is over. It may have replied then. Instead
	// it may have given the session something else to wait for.
	resume(s *session) (done bool)
}

type replyMode uint8

const (
	replyOn replyMode = iota
	replyOff
	replySkip     // the next command's reply is dropped
	replySkipping // the running command's reply is dropped
)

func (s *session) setAuthed(on bool) {
	s.authed = on
	s.srv.clients.Authenticated(&s.pub, on)
	s.rd.setLimits(s.srv, s.authed)
}

// Who a client is, and what it may do. A session keeps the rights of its user. When users change, it looks at them again before its next
// command: a batch runs with the rights that there were at its start. What a client may run is asked by admit and, for a command of
// a pipeline, by ahead.go, which asks nothing while the session is not limited.

// become makes the client a user, which it has given the password of if authed is set.
func become(s *session, r *users.Rights, authed bool) {
	if s.call.Rights != nil && s.call.Rights.Name != r.Name {
		s.fwd.close() // the next stream says who the client is
	}
	s.call.Rights, s.limited = r, !r.Free()
	s.pub.User.Store(r)
	s.setAuthed(authed)
}

// look notes what has changed since the session looked last: the limits of its input, and its user.
func look(s *session) {
	if s.rd.lengths == s.srv.lengths.Load() {
		return
	}
	s.rd.setLimits(s.srv, s.authed)
	switch now := s.srv.auth.Now(s.call.Rights); {
	case s.far != nil && now == nil:
		become(s, users.Reset(s.call.Rights.Name, 0), true)
	case now == nil:
		s.life.Drain(clients.ErrUserGone)
	case now != s.call.Rights:
		s.call.Rights, s.limited = now, !now.Free()
		s.pub.User.Store(now)
	}
	if s.auto && s.srv.auth.Loaded() {
		if s.auto = false; s.authed && !s.srv.auth.Open() { // what was loaded since says that it needs a password
			s.setAuthed(false)
		}
	}
}

// beginTurn notes the node's turn in the group.
func (s *session) beginTurn() {
	turn, leads := s.call.group.Keeper.Leading()
	if s.turn = turn; !leads {
		s.early |= specialFollowing
	}
}

// addTally moves the tally into the counters.
func (s *session) addTally() {
	if !s.tally.Empty() {
		s.tally.Flush(s.stripe, s.srv.clock.Now()-s.call.Began-s.slow)
	}
}

// input is what a client sends: the reader, and the command that it has called last.
type input struct {
	resp.Reader
	lengths  uint32   // the value of Server.lengths when the limits were set
	last     *command // found last, for pipelines of one command
	lastName []byte
}

// find returns the command of that name, or nil. A pipeline usually repeats one command, so
// find compares the last one first.
func (in *input) find(t *commands, name []byte) *command {
	if in.last != nil && bytes.Equal(name, in.lastName) {
		return in.last
	}
	cmd := t.find(name)
	if cmd != nil {
		in.last, in.lastName = cmd, append(in.lastName[:0], name...)
	}
	return cmd
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
func (in *input) tooLarge(args [][]byte) string {
	switch string(args[0]) {
	case resp.TooLong:
		return fmt.Sprintf("ERR an argument may have at most %d bytes (proto-max-bulk-len), a file of rules %d", in.Limits.Bulk, rules.MaxText)
	case resp.TooMany:
		return fmt.Sprintf("ERR a command may have at most %d arguments, one on many keys or elements %d", mostArgs, mostWideArgs)
	}
	return ""
}

// setLimits sets the reader's limits, which differ before and after AUTH.
func (in *input) setLimits(srv *Server, authed bool) {
	set := srv.set
	in.lengths = srv.lengths.Load()
	if !authed {
		in.Limits = resp.Limits{Args: 10, WideArgs: 10, Bulk: 16 << 10, Inline: 4 << 10, Query: 64 << 10, Unauthenticated: true}
		return
	}
	in.Limits = resp.Limits{
		Args: mostArgs, WideArgs: mostWideArgs, Inline: 64 << 10, Skip: mostSkipped,
		LongBulk: rules.MaxText,
		Bulk:     int(set.ProtoMaxBulkLen.Get()), Query: int(set.ClientQueryBufferLimit.Get()),
	}
}

// portrait describes the client for the leader.
func portrait(s *session) *uplink.Client {
	remote, local := s.conn.RemoteAddr(), s.conn.LocalAddr()
	c := &uplink.Client{TLS: s.conn.TLS(), RESP3: s.call.Proto == resp.RESP3, Name: s.pub.Name.String(), User: s.pub.UserName()}
	if c.Unix = clients.IsUnix(local); c.Unix {
		c.Remote, c.Local = local.String(), local.String()
	} else {
		c.Remote, c.Local = clients.AddrText(remote, local), clients.AddrText(local, local)
	}
	return c
}
