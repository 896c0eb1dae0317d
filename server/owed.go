package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"limitdb/resp"
	"limitdb/server/clients"
	"limitdb/server/durable"
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
	out     *outlet
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

// outlet is what a session's replies go through: the connection, or, while they wait, owed.
type outlet struct {
	keeper *durable.Keeper // of the only group; nil with several
	sent   *atomic.Uint64  // counts bytes
	owed   *owed           // nil if no reply ever waited
	turn   uint64          // see Durability.Turn; of the batch, or of the parked command, in the call's group

	// What the replies of the batch reveal, with one group and with several.
	told   bool // one of them reveals state
	quiet  int  // bytes before that one
	shares *group.Shares

	kept  int              // bytes before the reply of a command that CLIENT REPLY silences
	aside func(out []byte) // takes what the session replies beside a round of its forwarded commands, see forward.go; nil: it is sent

	peer
}

// tell notes whether the reply of cmd, which begins at mark, reveals state.
func (s *session) tell(cmd *spec.Command, mark int) {
	if s.told || cmd.Flags&(spec.Write|spec.Readonly|spec.Quorum) == 0 {
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
	if len(c.Out) <= mark || !c.Reveals(cmd) || c.Table != nil || s.call.group.Keeper.AckLeader.Load() && cmd.Flags&spec.Quorum == 0 && !c.Quorum && s.pending == nil {
		return
	}
	s.tellAll(mark)
}

// tellAll records that the replies from mark on reveal state.
func (s *session) tellAll(mark int) {
	switch {
	case s.srv.several():
		if s.shares == nil {
			s.shares = new(group.Shares)
		}
		if len(s.call.Groups) == 0 {
			s.shares.Note(s.call.group, s.turn, mark, len(s.call.Out))
			return
		}
		for _, g := range s.srv.keyed {
			if turn, leads := g.Keeper.Leading(); leads && slices.Contains(s.call.Groups, &g.Group) {
				s.shares.Tell(g, turn)
			}
		}
		s.shares.NoteAll(mark, len(s.call.Out))
	case !s.told:
		s.told, s.quiet = true, mark
	}
}

// flushAt is how many bytes of replies a batch collects before it hands them to the
// connection, so that small queries with large replies cannot exceed the output limit unseen.
const flushAt = 64 << 10

// flush hands the replies to the connection, and closes a client that does not read them.
func (s *session) flush() {
	s.send(s.call.Out)
	s.call.Out = s.call.Out[:0]
}

// send sends a batch's replies, or keeps a copy back if they must wait.
func (o *outlet) send(out []byte) {
	told := o.told
	o.told, o.kept = false, 0
	if len(out) == 0 {
		return
	}
	if o.shares != nil {
		if o.aside != nil {
			o.aside(out)
			return
		}
		told = len(o.shares.Tells) > 0
	}
	o.sent.Add(uint64(len(out)))
	if (told || o.owed.owing()) && o.hold(out, told) {
		return
	}
	o.conn.Write(out)
	if o.shares != nil {
		o.shares.Reset()
	}
	o.bound(0)
}

// hold keeps replies back if they must wait, and reports whether it did. If told is true,
// the replies after the first quiet bytes reveal state.
func (o *outlet) hold(out []byte, told bool) bool {
	if o.owed == nil {
		if k := o.keeper; k != nil && (k.Source == nil || !k.Holds()) {
			return false
		}
		o.owed = newOwed(o)
	}
	w := o.owed
	switch {
	case o.keeper == nil:
		w.holdAll(out, o.shares)
		o.shares.Reset()
	case w.waiting:
		switch {
		case len(w.b) == w.covered:
			w.turn = o.turn
		case w.turn != o.turn:
			w.turn = 0
		}
		w.b = append(w.b, out...)
		w.told = w.told || told
	default:
		if !w.await(o.turn) {
			return false
		}
		if o.quiet > 0 {
			o.conn.Write(out[:o.quiet])
		}
		w.b = append(w.b, out[o.quiet:]...)
		w.waiting, w.covered = true, len(w.b)
	}
	o.bound(len(w.b))
	return true
}

// bound closes a client that does not read its replies: those of which the connection has too many with more bytes that it is to get.
func (o *outlet) bound(more int) {
	if o.life.Open() && int64(more)+o.conn.Pending() > o.pub.OutputLimit() {
		o.pub.CloseForOutput()
	}
}

func newOwed(out *outlet) *owed {
	o, conn := &owed{out: out}, out.conn
	o.wake = func(err error) {
		o.lost.Store(err != nil)
		o.due.Store(true)
		conn.Wake()
	}
	if out.keeper == nil {
		o.all = group.NewAwaited(o.wake)
	}
	return o
}

// holdAll is hold with several groups. sh says what the replies reveal, nil for nothing.
func (o *owed) holdAll(out []byte, sh *group.Shares) {
	conn := o.out.conn
	if o.waiting {
		o.all.Later(len(o.b)-o.covered, sh)
		o.b = append(o.b, out...)
		return
	}
	quiet := sh.Quiet()
	if quiet > 0 {
		conn.Write(out[:quiet])
	}
	if !o.all.Await(sh, o.out.kicks()) {
		conn.Write(out[quiet:])
		return
	}
	o.b = append(o.b, out[quiet:]...)
	o.waiting, o.covered = true, len(o.b)
}

// kicks reports whether a sync must be asked for after what the session does: whether the transport does not do it after this round.
func (p *peer) kicks() bool {
	in, ok := p.conn.(interface{ CallsAfterInput() bool })
	return !ok || !in.CallsAfterInput()
}

// await begins to wait until everything seen so far in a turn is durable.
func (o *owed) await(turn uint64) bool {
	k := o.out.keeper
	if !k.Wait(turn, o.wake) {
		return false
	}
	if o.out.kicks() {
		k.Kick()
	}
	return true
}

// release sends replies whose wait is over.
func (o *owed) release() {
	if o == nil || !o.due.Swap(false) {
		return
	}
	conn := o.out.conn
	switch {
	case o.all != nil:
		o.all.Each(o.b[:o.covered], conn.Write, func(part []byte) { writeUnknown(conn, part) })
	case o.lost.Load():
		writeUnknown(conn, o.b[:o.covered])
	default:
		conn.Write(o.b[:o.covered])
	}
	o.b = append(o.b[:0], o.b[o.covered:]...)
	o.waiting, o.covered = false, 0
	if len(o.b) > 0 {
		if o.all != nil && o.all.Again(o.out.kicks()) || o.told && o.await(o.turn) {
			o.waiting, o.covered, o.told = true, len(o.b), false
			return
		}
		o.told = false
		conn.Write(o.b)
		o.b = o.b[:0]
	}
	if cap(o.b) > flushAt {
		o.b = nil
	}
	o.out.end()
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

// owing reports whether replies are held back.
func (o *owed) owing() bool { return o != nil && o.waiting }

// end closes the connection if no more replies will come.
func (o *outlet) end() {
	if o.eof && o.pending == nil {
		o.life.Drain(clients.ErrEOF)
	}
	if o.life.Draining() && !o.owed.owing() {
		o.conn.CloseAfterFlush(o.life.Reason())
	}
}
