package server

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"limitdb/resp"
	"limitdb/server/forward"
	"limitdb/server/spec"
	"limitdb/uplink"
)

// Forwarding: a node that does not lead sends the leader what only a leader can do, and passes the replies on.
//
//	run ── such a command ──► collected ── end of the input, or another command ──► depart
//	                                                                                  │
//	    ┌────────────── no uplink: the commands go back into the reader ◄─────────────┤
//	    ▼                                                                             ▼ sent
//	waiting (at most leaderWait) ── an uplink, or this node leads ──► run          underway ── all answered ──► run
//	    │            ▲                                                                │
//	    │            └── the other node does not lead: the rest goes back ◄───────────┤
//	    ▼ too late                                                                    ▼ the uplink ends
//	-CLUSTERDOWN for what waits                                     -UNKNOWNOUTCOME for each without a reply
//
// A session is parked while it waits and while commands are underway. So one batch of a client's commands is
// underway at a time, and what follows stays in the reader, which bounds it. A node that does not lead begins
// no command after the first that it refuses, so the rest of a batch may be sent again.

const (
	// batchBytes and batchMost are the bytes and the commands that make a batch full.
	batchBytes = 64 << 10
	batchMost  = 1024
	// forwardMost is the longest command that is forwarded.
	forwardMost = 16 << 20
)

var (
	errUplinkReply  = errors.New("the node that leads has sent bytes that are not a reply")
	errClosedByLead = errors.New("closed by the node that leads")
)

// forwarding is the state of a session's forwarding.
type forwarding struct {
	batch    []byte // commands that are not answered, as RESP
	ends     []int  // where each of them ends in batch
	answered int    // of them
	muted    bool   // their replies are dropped
	skip     bool   // by CLIENT REPLY SKIP; the batch is one command
	watch    bool   // the batch is a WATCH
	hidden   int    // replies that come first, and that the client has had already
	multi    *multi // the transaction that is the batch; else nil

	stream *uplink.Stream // nil: none
	in     *forward.Inbox // of stream
	scan   resp.ReplyScanner

	back    []byte // commands that go back into the reader
	since   int64  // when the session began to wait; 0: it has not
	refused bool   // the node that was asked last does not lead
	gaveUp  bool   // the session has waited in vain; commands in the reader are refused
}

// elsewhere deals with a command that only the leader can run, while another node leads.
func (s *session) elsewhere(cmd *command, args [][]byte, special uint32) {
	switch {
	case s.far != nil:
		s.drainNotLeading()
	case s.readOnly && cmd.Flags&spec.StaleRead != 0:
		if !s.postpone(args) {
			s.readHere(cmd, args, special)
		}
	case s.redirected() || s.caching():
		if s.postpone(args) {
			return
		}
		if _, leader := s.srv.opts.Replication.Leader(); leader == "" && !s.gaveUp() {
			f := s.forwarding()
			f.back = resp.AppendCommand(f.back, args...)
			s.awaitLeader()
			return
		}
		s.reject(cmd, s.call.elsewhere())
	default:
		s.collect(cmd, args, special)
	}
}

// drainNotLeading ends the session of another node's client: commands take one hop at most.
func (s *session) drainNotLeading() { s.life.Drain(uplink.ErrNotLeading) }

// redirected reports whether the client gets -MOVED.
func (s *session) redirected() bool {
	return s.knowsClusters || s.srv.set.RaftRedirect.Get() == "moved"
}

// forwarding returns the session's part in forwarding.
func (s *session) forwarding() *forwarding {
	if s.fwd == nil {
		s.fwd = &forwarding{}
	}
	return s.fwd
}

// collect adds a command to the batch.
func (s *session) collect(cmd *command, args [][]byte, special uint32) {
	f := s.forwarding()
	muted := s.replies != replyOn || s.mute
	skip, watch := muted && s.replies != replyOff, cmd.Flags&spec.Watch != 0
	alone := skip || watch
	if (muted != f.muted || alone) && s.postpone(args) {
		return
	}
	if f.gaveUp && (f.refused || s.srv.uplink(s.conn.Loop()) == nil) {
		if !s.postpone(args) {
			s.reject(cmd, s.call.elsewhere())
		}
		return
	}
	begin := len(f.batch)
	f.batch = resp.AppendCommand(f.batch, args...)
	if len(f.batch)-begin > forwardMost {
		f.batch = f.batch[:begin]
		if !s.postpone(args) {
			s.reject(cmd, errForwardSize)
		}
		return
	}
	f.ends = append(f.ends, len(f.batch))
	f.muted, f.skip, f.watch = muted, skip, watch
	s.early |= specialFollowing // until the batch has departed, nothing runs here
	s.pub.lastCmd.Store(cmd)
	if special&specialMonitor != 0 {
		s.srv.monitors.feed(&s.call, cmd, args)
	}
	if alone || len(f.batch) >= batchBytes || len(f.ends) >= batchMost {
		s.depart()
	}
}

// drop empties the batch.
func (f *forwarding) drop() {
	f.batch, f.ends, f.answered, f.muted, f.skip, f.watch, f.hidden, f.multi = f.batch[:0], f.ends[:0], 0, false, false, false, 0, nil
	if cap(f.batch) > 2*batchBytes {
		f.batch = nil
	}
}

// postpone sends the batch, if there is one, and puts a command back, whose turn comes when the batch is
// answered. It reports whether it did.
func (s *session) postpone(args [][]byte) bool {
	if s.fwd == nil || len(s.fwd.ends) == 0 {
		return false
	}
	s.fwd.back = resp.AppendCommand(s.fwd.back, args...)
	if s.replies == replySkipping {
		s.replies = replySkip
	}
	return s.depart()
}

// depart sends the batch, if there is one, and parks the session. It reports whether it did.
func (s *session) depart() bool {
	f := s.fwd
	if f == nil || len(f.ends) == 0 {
		return false
	}
	if !s.send() {
		s.again()
		return true
	}
	s.mute = f.muted
	s.pub.argMemory.Store(int64(cap(f.batch) + cap(f.back)))
	s.park(f)
	return true
}

// send sends the batch, and reports whether it did.
func (s *session) send() bool {
	f := s.fwd
	link := s.srv.uplink(s.conn.Loop())
	if link == nil {
		return false
	}
	if f.stream != nil && !f.stream.Of(link) {
		s.closeStream()
	}
	if f.stream == nil && f.multi != nil && f.multi.stream != nil {
		return false // what the client watches was watched in another stream
	}
	if f.stream == nil {
		f.in = &forward.Inbox{Wake: s.conn.Wake}
		f.scan = resp.ReplyScanner{}
		f.stream = link.Open(s.portrait(), f.in)
	}
	if f.stream == nil || !f.stream.Send(f.batch) {
		s.closeStream()
		return false
	}
	s.srv.counters.forwarded.Add(uint64(len(f.ends)))
	if s.eof && s.rd.Buffered() == 0 && len(f.back) == 0 {
		f.stream.End()
	}
	return true
}

// portrait describes the client for the leader.
func (s *session) portrait() *uplink.Client {
	remote, local := s.conn.RemoteAddr(), s.conn.LocalAddr()
	c := &uplink.Client{TLS: s.conn.TLS(), RESP3: s.call.Proto == resp.RESP3, Name: loadText(&s.pub.name)}
	if c.Unix = isUnix(local); c.Unix {
		c.Remote, c.Local = local.String(), local.String()
	} else {
		c.Remote, c.Local = addrText(remote, local), addrText(local, local)
	}
	return c
}

// closeStream ends the session's stream, if it has one. The next batch opens another.
func (s *session) closeStream() {
	if s.fwd != nil && s.fwd.stream != nil {
		s.fwd.stream.Close()
		s.fwd.stream = nil
	}
}

// away reports whether the session's commands are at the leader.
func (s *session) away() bool { return s.fwd != nil && len(s.fwd.ends) > 0 }

// resume goes on while the session's batch is at the leader, or while it waits for a leader.
func (f *forwarding) resume(s *session) bool {
	if len(f.ends) == 0 {
		return s.waitsForLeader()
	}
	in, ended, cause := f.in.Take()
	if !s.relay(in) {
		s.closeStream()
		s.life.Drain(errUplinkReply)
		return false
	}
	if f.watch && f.answered == len(f.ends) {
		s.watchedIn(f.stream)
	}
	if ended {
		f.stream = nil
	}
	switch {
	case f.answered == len(f.ends):
	case !ended:
		return false
	case cause == uplink.Closed:
		s.life.Drain(errClosedByLead)
		return false
	case f.scan.Within() && f.hidden == 0:
		s.life.Drain(errUnknown) // part of a reply was sent
		return false
	case cause == uplink.Refused:
		f.refused = true
		s.again()
		return false
	default:
		for range len(f.ends) - f.answered {
			s.srv.counters.unknownOutcomes.Add(1)
			s.call.Fail(errUnknownOutcome)
		}
	}
	f.drop()
	return s.goBack()
}

// relay passes replies on to the client. It returns false if in has anything but replies, or more replies than
// commands were sent.
func (s *session) relay(in []byte) bool {
	f := s.fwd
	for len(in) > 0 {
		n, whole, err := f.scan.Scan(in)
		if err != nil || f.answered == len(f.ends) {
			return false
		}
		if f.hidden == 0 {
			s.call.Out = append(s.call.Out, in[:n]...)
		}
		in = in[n:]
		switch {
		case whole && f.hidden > 0:
			f.hidden--
		case whole:
			f.answered++
			f.since, f.refused, f.gaveUp = 0, false, false
		}
		if len(s.call.Out) >= flushAt && !s.mute {
			s.flush()
		}
	}
	return true
}

// again has the commands without a reply wait, to be sent again: the leader has begun none of them.
func (s *session) again() {
	f := s.fwd
	from := 0
	if f.answered > 0 {
		from = f.ends[f.answered-1]
	}
	if f.skip {
		s.replies = replySkip
	}
	again := f.batch[from:]
	if s.multi = cmp.Or(f.multi, s.multi); f.multi != nil {
		again = resp.AppendCommand(nil, "EXEC")
		s.showMulti()
	}
	f.back = slices.Concat(again, f.back)
	f.drop()
	s.awaitLeader()
	s.srv.leaderless.WakeSoon()
}

// drained notes that the reader has no more commands, so later ones may wait for a leader again.
func (f *forwarding) drained() {
	if f.gaveUp {
		f.since, f.refused, f.gaveUp = 0, false, false
	}
}

// goBack puts back into the reader what waits for its turn, and returns true: the session runs again.
func (s *session) goBack() bool {
	f := s.fwd
	back := f.back
	f.back = nil
	s.pub.argMemory.Store(0)
	if !s.rd.Prepend(back) { // what follows is not a command, so the connection ends
		for range countCommands(back) {
			s.call.Fail(spec.ErrNoLeader)
		}
	}
	s.beginTurn()
	return true
}

// countCommands counts the commands that resp.AppendCommand has appended to b.
func countCommands(b []byte) (n int) {
	for ; len(b) > 0; n++ {
		line, rest, _ := bytes.Cut(b, []byte("\r\n"))
		args, _ := resp.ParseInt(line[1:])
		for b = rest; args > 0; args-- {
			line, rest, _ = bytes.Cut(b, []byte("\r\n"))
			size, _ := resp.ParseInt(line[1:])
			b = rest[size+2:]
		}
	}
	return n
}
