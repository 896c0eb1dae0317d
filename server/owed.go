package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync/atomic"

	"limitdb/resp"
	"limitdb/server/clients"
	"limitdb/server/group"
	"limitdb/server/spec"
	"limitdb/transport"
)

// owed holds the replies that wait until the state they reveal is durable. Only the session
// uses its fields, except due and lost, which the syncing goroutine sets before it wakes the
// session. Replies that reveal no state (PING, INFO, CONFIG, what the gate refuses) wait only for the
// replies before them.
//
// One wait is under way at a time. Replies of commands that run meanwhile are appended, and
// get a wait of their own when the first is over.
type owed struct {
	s       *session
	b       []byte
	covered int // the wait under way is for these first bytes of b
	waiting bool
	told    bool   // the bytes after covered reveal state
	turn    uint64 // of the bytes after covered; 0: of more than one turn
	due     atomic.Bool
	lost    atomic.Bool // the outcome of the covered commands is unknown
	wake    func(err error)
	all     *group.Awaited // with several groups, of which replies may wait; else nil
}

// tell notes whether the reply of cmd, which begins at mark, reveals state.
func (s *session) tell(cmd *spec.Command, mark int) {
	if s.told || cmd.Flags&(spec.Write|spec.Readonly|spec.Quorum) == 0 || len(s.call.Out) <= mark {
		return
	}
	s.tellFirst(cmd, mark)
}

// tellFirst is tell for the first reply of a batch that may reveal state. With raft-ack leader, most replies need not
// wait. It is a function of its own so that the compiler inlines tell.
//
//go:noinline
func (s *session) tellFirst(cmd *spec.Command, mark int) {
	c := &s.call
	switch {
	case !c.Reveals(cmd) || c.Table != nil:
	case s.call.group.Keeper.AckLeader.Load() && !c.lasts(cmd) && s.pending == nil:
		s.unsure.told(s)
	default:
		s.tellAll(mark)
	}
}

// lasts reports whether the reply of cmd, which has run, waits for a majority also with raft-ack leader.
func (c *call) lasts(cmd *spec.Command) bool { return cmd.Flags&spec.Quorum != 0 || c.Quorum }

// tellAll records that the replies from mark on reveal state.
func (s *session) tellAll(mark int) {
	if len(s.srv.keyed) > 1 { // several; written so that the compiler inlines tellAll
		s.tellShares(mark)
	} else if !s.told {
		s.told, s.quiet = true, mark
	}
}

// tellShares is tellAll with several groups.
func (s *session) tellShares(mark int) {
	if s.shares == nil {
		s.shares = new(group.Shares)
	}
	if len(s.call.Groups) == 0 {
		s.shares.Note(s.call.group, s.turn, mark, len(s.call.Out))
		return
	}
	tellTurns(&s.call, s.shares)
	s.shares.NoteAll(mark, len(s.call.Out))
}

// unsure is what a connection has been told before it was durable, with raft-ack leader, since the last WAIT: the groups that this node led, and in which
// turns. What other nodes have told is noted at the legs.
type unsure struct{ of *group.Shares }

// told notes that the reply of the session's command, which does not wait, may reveal the state of its group.
func (u *unsure) told(s *session) {
	if u.of == nil {
		u.of = new(group.Shares)
	}
	if len(s.call.Groups) == 0 {
		u.of.Tell(s.call.group, s.turn)
		return
	}
	tellTurns(&s.call, u.of)
}

// flushAt is how many bytes of replies a batch collects before it hands them to the
// connection, so that small queries with large replies cannot exceed the output limit unseen.
const flushAt = 64 << 10

// flush hands the replies to the connection, and closes a client that does not read them.
func (s *session) flush() {
	told := s.told
	s.told, s.kept = false, 0
	if len(s.call.Out) == 0 {
		return
	}
	if s.shares != nil {
		if s.aside != nil {
			s.aside()
			return
		}
		told = len(s.shares.Tells) > 0
	}
	s.stripe.Out.Add(uint64(len(s.call.Out)))
	if (told || s.owed.owing()) && s.hold(told) {
		return
	}
	s.conn.Write(s.call.Out)
	s.call.Out = s.call.Out[:0]
	if s.shares != nil {
		s.shares.Reset()
	}
	if s.life.Open() && s.conn.Pending() > s.pub.OutputLimit() {
		s.pub.CloseForOutput()
	}
}

// hold keeps the replies back if they must wait, and reports whether it did. If told is true,
// the replies after the first quiet bytes reveal state.
func (s *session) hold(told bool) bool {
	if s.owed == nil {
		if d := &s.call.group.Keeper; !s.srv.several() && (d.Source == nil || !d.Holds()) {
			return false
		}
		s.owed = newOwed(s)
	}
	o := s.owed
	switch {
	case s.srv.several():
		o.holdAll(s.shares)
		s.shares.Reset()
	case o.waiting:
		switch {
		case len(o.b) == o.covered:
			o.turn = s.turn
		case o.turn != s.turn:
			o.turn = 0
		}
		o.b = append(o.b, s.call.Out...)
		o.told = o.told || told
	default:
		if !o.await(s.turn) {
			return false
		}
		if s.quiet > 0 {
			s.conn.Write(s.call.Out[:s.quiet])
		}
		o.b = append(o.b, s.call.Out[s.quiet:]...)
		o.waiting, o.covered = true, len(o.b)
	}
	s.call.Out = s.call.Out[:0]
	if s.life.Open() && int64(len(o.b))+s.conn.Pending() > s.pub.OutputLimit() {
		s.pub.CloseForOutput()
	}
	return true
}

func newOwed(s *session) *owed {
	o, conn := &owed{s: s}, s.conn
	o.wake = func(err error) {
		o.lost.Store(err != nil)
		o.due.Store(true)
		conn.Wake()
	}
	if s.srv.several() {
		o.all = group.NewAwaited(o.wake)
	}
	return o
}

// holdAll is hold with several groups. sh says what the replies reveal, nil for nothing.
func (o *owed) holdAll(sh *group.Shares) {
	s, out := o.s, o.s.call.Out
	if o.waiting {
		o.all.Later(len(o.b)-o.covered, sh)
		o.b = append(o.b, out...)
		return
	}
	quiet := sh.Quiet()
	if quiet > 0 {
		s.conn.Write(out[:quiet])
	}
	if !o.all.Await(sh, o.kicks()) {
		s.conn.Write(out[quiet:])
		return
	}
	o.b = append(o.b, out[quiet:]...)
	o.waiting, o.covered = true, len(o.b)
}

// kicks reports whether a sync must be asked for: whether the transport does not do it after this round.
func (o *owed) kicks() bool { return kicks(o.s) }

// kicks reports whether a sync must be asked for after what a session does.
func kicks(s *session) bool {
	in, ok := s.conn.(interface{ CallsAfterInput() bool })
	return !ok || !in.CallsAfterInput()
}

// await begins to wait until everything seen so far in a turn is durable.
func (o *owed) await(turn uint64) bool {
	s := o.s
	d := &s.call.group.Keeper
	if !d.Wait(turn, o.wake) {
		return false
	}
	if o.kicks() {
		d.Kick()
	}
	return true
}

// release sends replies whose wait is over.
func (o *owed) release() {
	if o == nil || !o.due.Swap(false) {
		return
	}
	s := o.s
	switch {
	case o.all != nil:
		o.all.Each(o.b[:o.covered], s.conn.Write, func(part []byte) { writeUnknown(s.conn, part) })
		o.all.Return(s.shares)
	case o.lost.Load():
		writeUnknown(s.conn, o.b[:o.covered])
	default:
		s.conn.Write(o.b[:o.covered])
	}
	o.b = append(o.b[:0], o.b[o.covered:]...)
	o.waiting, o.covered = false, 0
	if len(o.b) > 0 {
		if o.all != nil && o.all.Again(o.kicks()) || o.told && o.await(o.turn) {
			o.waiting, o.covered, o.told = true, len(o.b), false
			return
		}
		o.told = false
		s.conn.Write(o.b)
		o.b = o.b[:0]
	}
	if cap(o.b) > flushAt {
		o.b = nil
	}
	s.end()
}

// writeUnknown sends an error in place of each reply in b. If b has only part of a reply, which
// a large reply sent in pieces may leave, it sends nothing and closes the connection.
func writeUnknown(conn transport.Conn, b []byte) {
	out, whole := unknownFor(b)
	if !whole {
		conn.Close(errUnknown)
		return
	}
	conn.Write(out)
}

// unknownFor returns an error for each reply in b. It returns false if b has only part of a reply.
func unknownFor(b []byte) (out []byte, whole bool) {
	from := bufio.NewReader(bytes.NewReader(b))
	for {
		v, err := resp.ReadReply(from, len(b))
		if err != nil {
			return out, err == io.EOF
		}
		if v.Kind != '>' {
			out = resp.AppendError(out, errUnknownOutcome)
		}
	}
}

// errUnknown closes a connection on which half of a reply was sent.
var errUnknown = errors.New("the outcome of a command is not known")

// errLate ends a wait that has timed out.
var errLate = errors.New("it takes too long")

// owing reports whether replies are held back.
func (o *owed) owing() bool { return o != nil && o.waiting }

// end closes the connection if no more replies will come.
func (p *peer) end() {
	if p.eof && p.pending == nil {
		p.life.Drain(clients.ErrEOF)
	}
	if p.life.Draining() && !p.owed.owing() {
		p.conn.CloseAfterFlush(p.life.Reason())
	}
}
