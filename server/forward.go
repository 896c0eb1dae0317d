package server

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"limitdb/engine"
	"limitdb/resp"
	"limitdb/server/group"
	"limitdb/server/scripts"
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
// A session is parked while it waits and while commands are underway: one round of them at a time, see below. What follows stays in the
// reader, which bounds it. A node that does not lead begins no command after the first that it refuses, so the rest of what it got may be sent again.

// elsewhere deals with a command that only the leader can run, while another node leads.
func (s *session) elsewhere(cmd *command, args [][]byte, special uint32) {
	switch {
	case s.far != nil:
		s.life.Drain(uplink.ErrNotLeading) // commands take one hop at most
	case cmd.Name == "WAIT" && s.call.group.Uplink(s.conn.Loop()) != nil && mayBeLost(s, nil):
		if !s.fwd.postpone(args) {
			s.fwd.runsHere(1)
			confirmed(s)
			s.reject(cmd, errUnknownOutcome)
		}
	case s.readOnly && cmd.Flags&spec.StaleRead != 0:
		if !s.fwd.postpone(args) {
			s.fwd.runsHere(1)
			s.readHere(cmd, args, special)
		}
	case (s.redirected() || s.caching) && (cmd.HasKeys() || !s.srv.several()): // what names no key, a client sends anywhere
		if s.fwd.postpone(args) {
			return
		}
		if _, leader := s.call.group.Replication.Leader(); leader == "" && (s.fwd == nil || !s.fwd.gaveUp) {
			f := s.forwarding()
			f.of, f.back = s.call.group, resp.AppendCommand(f.back, args...)
			f.awaitLeader()
			return
		}
		s.fwd.runsHere(1)
		s.reject(cmd, s.call.elsewhere())
	default:
		s.forwarding().collect(cmd, args, special)
	}
}

// forwarding returns the session's part in forwarding.
func (s *session) forwarding() *forwarding {
	if s.fwd == nil {
		s.fwd = &forwarding{s: s, of: s.call.group}
	}
	return s.fwd
}

// collect adds a command to the round.
func (f *forwarding) collect(cmd *command, args [][]byte, special uint32) {
	s := f.s
	muted := s.replies != replyOn || s.mute
	skip, watch := muted && s.replies != replyOff, cmd.Flags&spec.Watch != 0
	waits := cmd.Name == "WAIT"
	alone := skip || watch || waits || s.call.apart
	g := s.call.group
	link := g.Uplink(s.conn.Loop())
	if (muted != f.muted || alone || f.strays(g, link)) && f.postpone(args) {
		return
	}
	if f.gaveUp && (f.refused || link == nil) {
		if !f.postpone(args) {
			f.runsHere(1)
			s.reject(cmd, s.call.elsewhere())
		}
		return
	}
	l := f.legTo(link)
	begin := len(l.batch)
	l.batch = resp.AppendCommand(l.batch, args...)
	if len(l.batch)-begin > forwardMost {
		l.batch = l.batch[:begin]
		if !f.postpone(args) {
			f.runsHere(1)
			s.reject(cmd, errForwardSize)
		}
		return
	}
	l.brings(s.srv, cmd, args)
	f.opens()
	f.add(l, g)
	f.muted, f.skip, f.watch, f.waits = muted, skip, watch, waits
	if watch && s.srv.several() {
		f.slot = cmd.slot(group.NoSlot, args)
	}
	s.early |= specialFollowing // until the round has departed, nothing of this group runs here
	s.pub.LastCmd.Store(&cmd.Command)
	if special&specialMonitor != 0 {
		s.call.feed(cmd, args)
	}
	if alone || f.full() {
		f.depart()
	}
}

// brings has the script that a command runs brought to the other node of a leg, once in each stream. So with several groups, a script that a client has
// loaded or run by EVAL at this node runs wherever its keys are.
func (l *leg) brings(srv *Server, cmd *command, args [][]byte) {
	if cmd.Group != "scripting" || !cmd.HasKeys() || !srv.several() || srv.set.Scripts.Get() == "no" {
		return
	}
	bySHA := strings.HasPrefix(cmd.Name, "EVALSHA")
	var script *scripts.Script
	if bySHA {
		script = srv.scripts.Compiled(args[1])
	} else {
		script, _ = srv.scripts.Compile(args[1]) // the other node says what is wrong
	}
	if script != nil && script.Source != nil && l.brought.Add(&srv.scripts, script) && bySHA {
		l.bring = resp.AppendCommand(l.bring, []byte(scriptOf), script.Source)
	}
}

// postpone has the round depart, if there is one, and puts a command back, whose turn comes when the round is
// over. It reports whether it did. A command that has a place in the round is not put back while nothing is to depart.
func (f *forwarding) postpone(args [][]byte) bool {
	if f == nil || len(f.slots) == 0 || f.collected == 0 && len(f.free) > 0 {
		return false
	}
	f.back = resp.AppendCommand(f.back, args...)
	if f.s.replies == replySkipping {
		f.s.replies = replySkip
	}
	return f.depart()
}

// first has the round end before a command that runs here, unless it may run beside the round. It reports whether the command must wait.
func (f *forwarding) first(cmd *command, v verdict, args [][]byte) bool {
	switch {
	case len(f.slots) == 0:
		return false
	case v == admitted && f.beside(cmd):
	case f.postpone(args):
		return true
	case v == paused: // it comes here again
		return false
	}
	f.runsHere(1)
	return false
}

// depart sends the round's commands, if there are any, and parks the session. It reports whether it did.
func (f *forwarding) depart() bool {
	if f == nil || len(f.slots) == 0 {
		return false
	}
	s := f.s
	if s.aside != nil {
		s.flush()
		s.aside = nil
	}
	if f.here != nil {
		f.here.begin(f)
	}
	f.underway = true
	for _, l := range f.legs {
		f.send(l)
	}
	s.mute = f.muted
	f.show()
	s.park(f)
	switch {
	case !f.settled():
	case f.leaves():
		f.settle()
	default: // all has run here
		s.conn.Wake()
	}
	return true
}

// away reports whether the session has a round.
func (f *forwarding) away() bool { return f != nil && len(f.slots) > 0 }

// resume goes on while the session's round is underway, or while it waits for a leader.
func (f *forwarding) resume(s *session) bool {
	if !f.underway {
		return f.waitsForLeader()
	}
	for _, l := range f.legs {
		if len(l.ends) > 0 && l.stream != nil && !f.take(l) {
			return false
		}
	}
	if f.here != nil && !f.here.release(f) {
		s.life.Drain(errUplinkReply)
		return false
	}
	for _, l := range f.legs {
		f.send(l)
	}
	f.show()
	if s.life.Open() && int64(f.live)+s.conn.Pending() > s.pub.OutputLimit() {
		s.pub.CloseForOutput()
	}
	return f.settled() && f.settle()
}

// settle ends the round. It returns true if the session runs again, and false if it waits for a leader, because nobody has begun some of the
// commands. They are run again. Those with later ones behind them that were answered keep their places in the round.
func (f *forwarding) settle() (over bool) {
	s := f.s
	left := f.unbegun()
	var again []byte
	for _, u := range left {
		again = append(again, u.command...)
	}
	if len(left) > 0 {
		f.of = left[0].of
		if f.skip {
			s.replies = replySkip
		}
		if s.multi = cmp.Or(f.multi, s.multi); f.multi != nil {
			again = resp.AppendCommand(nil, "EXEC")
			s.multi.show(s)
		}
	}
	f.over(left)
	if len(f.slots) > 0 {
		s.flush() // before anything runs here that is part of the round
		s.aside = f.keep
	}
	f.underway = false
	f.muted, f.skip, f.watch, f.slot, f.waits, f.hidden, f.multi = false, false, false, group.NoSlot, false, 0, nil
	if len(left) == 0 {
		return f.goBack()
	}
	f.back = slices.Concat(again, f.back)
	f.awaitLeader()
	s.srv.leaderless.WakeSoon()
	return false
}

// drained notes that the reader has no more commands, so later ones may wait for a leader again.
func (f *forwarding) drained() {
	if f.gaveUp {
		f.since, f.refused, f.gaveUp = 0, false, false
	}
}

// goBack puts back into the reader what waits for its turn, and returns true: the session runs again.
func (f *forwarding) goBack() bool {
	s := f.s
	back := f.back
	f.back = nil
	s.pub.ArgMemory.Store(0)
	if !s.rd.Prepend(back) { // what follows is not a command, so the connection ends
		for range countCommands(back) {
			f.runsHere(1)
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

// Transactions.
//
// If a client's node does not lead, it queues the commands of the client's transaction, and sends all of them to the leader with EXEC.
// The client gets only the reply to EXEC.
//
// The leader's session watches what WATCH has named, so a watch lasts as long as the stream of that session. EXEC is sent in that stream. If the stream is over, or
// its node no longer leads, EXEC is not sent and does nothing, as if a key had changed.

// watchLasts reports whether the leader watches all that the client has named.
func (f *forwarding) watchLasts() bool {
	m := f.s.multi
	if m.stream == nil {
		return len(m.watched) == 0
	}
	link := f.s.call.group.Uplink(f.s.conn.Loop())
	return !m.lost && len(m.watched) == 0 && f.has(m.stream) && link != nil && m.stream.Of(link)
}

// has reports whether a stream is the session's.
func (f *forwarding) has(stream *uplink.Stream) bool {
	return slices.ContainsFunc(f.legs, func(l *leg) bool { return l.stream == stream })
}

// exec deals with EXEC while another node leads. It returns false if EXEC, or another command, is to run here.
func (f *forwarding) exec(cmd *command, args [][]byte) bool {
	s, m := f.s, f.s.multi
	if cmd.Name != "EXEC" || m.broken || s.call.crosses || s.redirected() {
		return false
	}
	if len(m.queued) == 0 && m.stream == nil || !f.watchLasts() {
		return false
	}
	if s.far != nil {
		s.life.Drain(uplink.ErrNotLeading)
		return true
	}
	link := s.call.group.Uplink(s.conn.Loop())
	if f.gaveUp && (f.refused || link == nil) {
		return false
	}
	l := f.legTo(link)
	l.batch = resp.AppendCommand(l.batch, "MULTI")
	for _, q := range m.queued {
		l.brings(s.srv, q.cmd, q.args)
		l.batch = resp.AppendCommand(l.batch, q.args...)
	}
	l.batch = resp.AppendCommand(l.batch, args...)
	f.opens()
	f.add(l, s.call.group)
	f.hidden, f.multi = 1+len(m.queued), m
	f.muted, f.skip = s.replies != replyOn || s.mute, s.replies == replySkipping
	s.early |= specialFollowing
	s.multi = nil
	s.multi.show(s)
	s.pub.LastCmd.Store(&cmd.Command)
	f.depart()
	return true
}

// LeaderChanged has the commands that wait for a leader look for it. The owner of the node calls it when
// another node leads, and when an uplink is there.
func (srv *Server) LeaderChanged() { srv.leaderless.Wake() }

// awaitLeader parks the session until there is a leader, or leaderWait is over. The commands to run then are in
// back. If a leader appears just before the session is parked, the housekeeper's next round wakes it.
func (f *forwarding) awaitLeader() {
	s := f.s
	if f.since == 0 || f.since > s.call.Began {
		f.since = s.call.Began
	}
	s.pub.ArgMemory.Store(int64(cap(f.back)))
	s.park(f)
	if !s.srv.leaderless.Add(s.conn) {
		f.gaveUp = true
		s.conn.Wake()
	}
}

// reachable reports whether this node leads, can forward commands, or can name the leader.
func (f *forwarding) reachable() bool {
	s := f.s
	if f.of.Leads() {
		return true
	}
	if s.redirected() {
		_, leader := f.of.Replication.Leader()
		return leader != ""
	}
	return f.of.Uplink(s.conn.Loop()) != nil
}

// waitsForLeader resumes a session that waits for a leader.
func (f *forwarding) waitsForLeader() bool {
	s := f.s
	if !f.gaveUp {
		waited := s.call.Began - f.since
		late := waited < 0 || waited >= int64(leaderWait)
		if !f.reachable() && !late {
			return false
		}
		f.gaveUp = late
	}
	s.srv.leaderless.Remove(s.conn)
	return f.goBack()
}

// Reads that a node serves from its own table while another node leads, after READONLY.

// readHere runs a command on this node's own table, at the replicated time. If the table is replaced meanwhile,
// or the node begins to lead, the reply is -LOADING: a walk may have ended too early.
func (s *session) readHere(cmd *command, args [][]byte, special uint32) {
	c := &s.call
	table, at, ok := c.group.Replication.Read()
	if !ok {
		s.reject(cmd, errLoading)
		return
	}
	r := &reading{table: table, at: at}
	now, mark := c.Now, len(c.Out)
	c.Table, c.Now = table, at
	s.invoke(cmd, args, special&^specialMonitor)
	c.Now = now
	if special&specialMonitor != 0 {
		c.feed(cmd, args)
	}
	if s.pending == nil {
		r.check(s, mark)
		c.Table = nil
		return
	}
	r.pending, s.pending = s.pending, r
}

// reading is a command on this node's own table that goes on later.
type reading struct {
	pending
	table *engine.Engine
	at    int64 // the replicated time
}

// resume resumes the command at the replicated time.
func (r *reading) resume(s *session) bool {
	c := &s.call
	now, mark := c.Now, len(c.Out)
	c.Now = r.at
	done := r.pending.resume(s)
	c.Now = now
	if done {
		r.check(s, mark)
	}
	return done
}

// check replaces a reply by -LOADING if the table is no longer the node's own.
func (r *reading) check(s *session, mark int) {
	g := s.call.group
	now, _, ok := g.Replication.Read()
	if !ok || now != r.table || g.Special.Load()&specialFollowing == 0 {
		s.call.Out = s.call.Out[:min(mark, len(s.call.Out))]
		s.call.Fail(errLoading)
	}
}
