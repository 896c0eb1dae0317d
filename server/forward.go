package server

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"sync/atomic"

	"limitdb/engine"
	"limitdb/resp"
	"limitdb/server/clients"
	"limitdb/server/forward"
	"limitdb/server/group"
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

const (
	// batchBytes and batchMost are the bytes and the commands that make a round full.
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
	s *session
	round
	muted  bool   // the round's replies are dropped
	skip   bool   // by CLIENT REPLY SKIP; the round is one command
	watch  bool   // the round is a WATCH
	hidden int    // replies that come first, and that the client has had already
	multi  *multi // the transaction that is the round; else nil

	of      *group.Group // of the command that was collected last, or of the one that waits for a leader
	back    []byte       // commands that go back into the reader
	since   int64        // when the session began to wait; 0: it has not
	refused bool         // a node that was asked last does not lead
	gaveUp  bool         // the session has waited in vain; commands in the reader are refused
}

// elsewhere deals with a command that only the leader can run, while another node leads.
func (s *session) elsewhere(cmd *command, args [][]byte, special uint32) {
	switch {
	case s.far != nil:
		s.life.Drain(uplink.ErrNotLeading) // commands take one hop at most
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
	alone := skip || watch || s.call.apart
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
	f.opens()
	f.add(l, g)
	f.muted, f.skip, f.watch = muted, skip, watch
	s.early |= specialFollowing // until the round has departed, nothing of this group runs here
	s.pub.LastCmd.Store(&cmd.Command)
	if special&specialMonitor != 0 {
		s.call.feed(cmd, args)
	}
	if alone || f.bytes >= batchBytes || len(f.slots) >= batchMost {
		f.depart()
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

// close ends the session's streams. The next commands open others.
func (f *forwarding) close() {
	if f == nil {
		return
	}
	for _, l := range f.legs {
		l.close()
	}
	f.dropLegs()
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
	f.muted, f.skip, f.watch, f.hidden, f.multi = false, false, false, 0, nil
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

// Rounds.
//
// A round is the commands of a client that are underway at a time, from the first that another node leads to the end of the input. With several
// groups it may have a leg to each of the other nodes, and a leg for what runs here beside them:
//
//	commands   a1 h1 b1 a2 h2 b2          each gets a place in the round
//	legs       a: a1 a2   b: b1 b2   here: h1 h2
//	replies    in the order of the places: those that come early are parked
//
// So commands of different groups run at the same time. Those of one group are in one leg, in their order; if another node leads the group
// meanwhile, the next one waits until the round is over. What has no key, a transaction and a WATCH are a round of their own.
//
// A node that does not lead refuses a part of its leg, which nobody has begun. When the rest of the round is answered, these commands go back into the
// reader. They run again, wherever that is now, and reply in their places, which are free until then.

const (
	// legMost is the most commands of a leg that are underway if there may be several legs.
	legMost = 128
	// parkedMost is how many bytes of replies are parked until no more commands are sent but those whose replies come first.
	parkedMost = 1 << 20
)

// round is the commands of a session that are underway, or will be.
type round struct {
	legs      []*leg
	here      *beside               // nil: no command has run here beside others
	last      *leg                  // got the last command; nil: none
	at        map[*group.Group]*leg // with several groups: which leg has the commands of each
	collected int                   // commands in the legs
	bytes     int                   // of these
	underway  bool

	slots  []slot // a place for each reply
	head   int    // the first whose reply the client has not got
	free   []int  // those whose commands run again, in their order
	parked []byte
	live   int // bytes of parked that the client has not got
}

// slot is the place of a reply. A parked one has its bytes at [from:to] of parked.
type slot struct{ from, to int }

// leg is the commands of a round that go to a node, and the stream to it, which stays when the round is over.
type leg struct {
	link   *uplink.Link   // nil: no node is known to lead
	stream *uplink.Stream // nil: none
	in     *forward.Inbox // of stream

	batch          []byte // the commands, as RESP
	ends           []int  // where each of them ends in batch
	of             []*group.Group
	slots          []int
	sent, answered int
	closed         bool // no more of them are sent
	finished       bool // nothing more is sent in the stream

	scan resp.ReplyScanner
	part []byte // of a reply that is not whole, and not the client's next
	told bool   // the client has got part of the reply that is next
}

// opens begins a round, unless there is one.
func (f *forwarding) opens() {
	if s := f.s; len(f.slots) == 0 && s.srv.several() {
		s.flush()
		if s.shares == nil {
			s.shares = new(group.Shares)
		}
		s.aside = f.keep
	}
}

// legOf returns the leg that has commands of a group, nil for none.
func (f *forwarding) legOf(g *group.Group) *leg {
	switch {
	case f == nil || f.last == nil:
		return nil
	case f.of == g:
		return f.last
	}
	return f.at[g]
}

// strays reports whether the round has commands of a group for another node than the one that a link goes to.
func (f *forwarding) strays(g *group.Group, link *uplink.Link) bool {
	l := f.legOf(g)
	return l != nil && l.link != link
}

// legTo returns the leg for the commands that go over a link. With one group, it takes the place of others.
func (f *forwarding) legTo(link *uplink.Link) *leg {
	if f.last != nil && f.last.link == link {
		return f.last
	}
	for _, l := range f.legs {
		if l.link == link {
			l.look()
			return l
		}
	}
	for _, l := range f.legs {
		if l.look(); link != nil && !f.s.srv.several() {
			l.close()
		}
	}
	f.dropLegs()
	l := &leg{link: link}
	f.legs = append(f.legs, l)
	return l
}

// look notes whether the stream of a leg without commands has ended.
func (l *leg) look() {
	if l.stream == nil || len(l.ends) > 0 {
		return
	}
	if _, ended, _ := l.in.Take(); ended || l.finished {
		l.close()
	}
}

// close ends the leg's stream.
func (l *leg) close() {
	if l.stream != nil {
		l.stream.Close()
		l.stream = nil
	}
}

// dropLegs forgets the legs that have neither a stream nor commands.
func (f *forwarding) dropLegs() {
	f.legs = slices.DeleteFunc(f.legs, func(l *leg) bool { return l.stream == nil && len(l.ends) == 0 })
}

// add notes that a command of a group was appended to the batch of a leg.
func (f *forwarding) add(l *leg, g *group.Group) {
	begin := 0
	if n := len(l.ends); n > 0 {
		begin = l.ends[n-1]
	}
	l.ends, l.of, l.slots = append(l.ends, len(l.batch)), append(l.of, g), append(l.slots, f.place())
	f.of, f.last = g, l
	f.collected++
	f.bytes += len(l.batch) - begin
	if f.s.srv.several() {
		if f.at == nil {
			f.at = map[*group.Group]*leg{}
		}
		f.at[g] = l
	}
}

// place returns the place of the client's next command.
func (f *forwarding) place() (at int) {
	if len(f.free) > 0 {
		at, f.free = f.free[0], f.free[1:]
		return at
	}
	f.slots = append(f.slots, slot{})
	return len(f.slots) - 1
}

// send sends the next commands of a leg, as many as may be underway.
func (f *forwarding) send(l *leg) {
	s, n := f.s, len(l.ends)
	if l.sent == n || l.closed {
		return
	}
	if s.srv.several() {
		waits := f.live >= parkedMost && l.slots[l.answered] != f.head && !(len(f.free) > 0 && f.free[0] == f.head)
		if l.sent > 0 && (waits || l.sent-l.answered > legMost/2) {
			return
		}
		n = min(n, l.answered+legMost)
	}
	if l.stream == nil && l.link != nil && (f.multi == nil || f.multi.stream == nil) { // else what the client watches was watched in another stream
		l.in, l.scan, l.finished = &forward.Inbox{Wake: s.conn.Wake}, resp.ReplyScanner{}, false
		l.stream = l.link.Open(portrait(s), l.in)
	}
	from := 0
	if l.sent > 0 {
		from = l.ends[l.sent-1]
	}
	if l.stream == nil || !l.stream.Send(l.batch[from:l.ends[n-1]]) {
		if l.closed = true; l.sent == l.answered {
			l.close()
		}
		return
	}
	s.srv.counters.forwarded.Add(uint64(n - l.sent))
	if l.sent = n; s.eof && s.rd.Buffered() == 0 && len(f.back) == 0 {
		f.finish()
	}
}

// finish tells the other nodes that the client sends nothing more.
func (f *forwarding) finish() {
	for _, l := range f.legs {
		if l.stream != nil && !l.finished && l.sent > 0 && l.sent == len(l.ends) {
			l.finished = true
			l.stream.End()
		}
	}
}

// take takes what a leg's stream has received. It returns false if the connection is to end.
func (f *forwarding) take(l *leg) bool {
	s := f.s
	in, ended, cause := l.in.Take()
	if !f.deliver(l, in) {
		f.close()
		s.life.Drain(errUplinkReply)
		return false
	}
	if f.watch && f.head == len(f.slots) {
		f.watched(l.stream)
	}
	if !ended {
		return true
	}
	l.stream, l.closed = nil, true
	switch {
	case l.answered == len(l.ends):
	case cause == uplink.Closed:
		s.life.Drain(errClosedByLead)
		return false
	case l.told:
		s.life.Drain(errUnknown) // part of a reply was sent
		return false
	case cause == uplink.Refused:
		f.refused = true
		l.sent = l.answered
	default:
		for l.answered < l.sent {
			s.srv.counters.unknownOutcomes.Add(1)
			f.fail(l, errUnknownOutcome)
		}
	}
	l.part = nil
	return true
}

// deliver deals with replies to the commands of a leg. It returns false if in has anything but replies, or more replies than
// commands were sent.
func (f *forwarding) deliver(l *leg, in []byte) bool {
	s := f.s
	for len(in) > 0 {
		n, whole, err := l.scan.Scan(in)
		if err != nil || l.answered == l.sent {
			return false
		}
		b := in[:n]
		in = in[n:]
		if f.hidden > 0 {
			if whole {
				f.hidden--
			}
			continue
		}
		switch at := l.slots[l.answered]; {
		case at == f.head:
			s.call.Out = append(append(s.call.Out, l.part...), b...)
			if l.part, l.told = l.part[:0], !whole; whole {
				f.pass()
			}
		case !whole:
			l.part = append(l.part, b...)
		default:
			f.hold(at, l.part, b)
			l.part = l.part[:0]
		}
		if whole {
			l.answered++
			f.since, f.refused, f.gaveUp = 0, false, false
		}
		if len(s.call.Out) >= flushAt && !s.mute {
			s.flush()
		}
	}
	return true
}

// hold parks a reply.
func (f *forwarding) hold(at int, part, b []byte) {
	from := len(f.parked)
	f.parked = append(append(f.parked, part...), b...)
	f.slots[at] = slot{from, len(f.parked)}
	f.live += len(f.parked) - from
}

// pass goes on behind a reply that the client has got: it gets those that are parked behind it.
func (f *forwarding) pass() {
	s := f.s
	for f.head++; f.head < len(f.slots) && f.slots[f.head].to > 0; f.head++ {
		sl := f.slots[f.head]
		s.call.Out = append(s.call.Out, f.parked[sl.from:sl.to]...)
		f.live -= sl.to - sl.from
		if len(s.call.Out) >= flushAt && !s.mute {
			s.flush()
		}
	}
	if f.live == 0 {
		f.parked = f.parked[:0]
	}
}

// fail replies to the next command of a leg with an error.
func (f *forwarding) fail(l *leg, text string) {
	c, at := &f.s.call, l.slots[l.answered]
	l.answered++
	mark := len(c.Out)
	if c.Fail(text); at == f.head {
		f.pass()
		return
	}
	f.hold(at, nil, c.Out[mark:])
	c.Out = c.Out[:mark]
}

// settled reports whether nothing is underway any more.
func (f *forwarding) settled() bool {
	for _, l := range f.legs {
		if l.answered < l.sent || l.sent < len(l.ends) && !l.closed {
			return false
		}
	}
	return f.here == nil || !f.here.waits
}

// leaves reports whether some commands were not sent.
func (f *forwarding) leaves() bool {
	return slices.ContainsFunc(f.legs, func(l *leg) bool { return l.answered < len(l.ends) })
}

// unbegun is a command of a round that is settled which nobody has begun.
type unbegun struct {
	slot    int
	of      *group.Group
	command []byte
}

// unbegun returns the commands that nobody has begun, in their order.
func (f *forwarding) unbegun() (left []unbegun) {
	for _, l := range f.legs {
		for i := l.answered; i < len(l.ends); i++ {
			from := 0
			if i > 0 {
				from = l.ends[i-1]
			}
			left = append(left, unbegun{l.slots[i], l.of[i], l.batch[from:l.ends[i]]})
		}
	}
	slices.SortFunc(left, func(a, b unbegun) int { return cmp.Compare(a.slot, b.slot) })
	return left
}

// over empties the legs of a round that is settled. The places of the commands that nobody has begun are free, but those behind which there are no
// replies are gone. If all are, the round is over.
func (f *forwarding) over(left []unbegun) {
	if f.here != nil {
		f.here.release(f)
	}
	var free []int
	if !f.muted {
		for _, u := range left {
			free = append(free, u.slot)
		}
		f.free = append(free, f.free...)
	} else {
		f.slots, f.free = f.slots[:0], nil // nobody gets the replies
	}
	n := len(f.free)
	for ; n > 0 && f.free[n-1] == len(f.slots)-1; n-- {
		f.slots = f.slots[:len(f.slots)-1]
	}
	if f.free = f.free[:n]; n == 0 {
		f.slots, f.head, f.live, f.free = f.slots[:0], 0, 0, nil
		if f.parked = f.parked[:0]; cap(f.parked) > 2*batchBytes {
			f.parked = nil
		}
	}
	for _, l := range f.legs {
		l.empty()
	}
	f.dropLegs()
	f.last, f.collected, f.bytes = nil, 0, 0
	clear(f.at)
}

// empty forgets the commands of a leg.
func (l *leg) empty() {
	if l.batch = l.batch[:0]; cap(l.batch) > 2*batchBytes {
		l.batch = nil
	}
	clear(l.of)
	l.ends, l.of, l.slots, l.sent, l.answered, l.closed, l.told = l.ends[:0], l.of[:0], l.slots[:0], 0, 0, false, false
}

// show publishes the memory that the round takes.
func (f *forwarding) show() {
	n := cap(f.back) + cap(f.parked)
	for _, l := range f.legs {
		n += cap(l.batch) + cap(l.part)
	}
	if f.here != nil {
		n += cap(f.here.b)
	}
	f.s.pub.ArgMemory.Store(int64(n))
}

// Commands that run here beside those that other nodes run.

// beside is the leg of the commands of a round that run here. Their replies wait until what they reveal is durable, as others do.
type beside struct {
	leg
	b      []byte // their replies
	shares group.Shares
	all    *group.Awaited
	waits  bool
	due    atomic.Bool // the wait is over
}

// beside reports whether a command that runs here may run before the round has departed: it has keys, waits for nobody, and the round has no command
// of its group.
func (f *forwarding) beside(cmd *command) bool {
	c := &f.s.call
	return !f.underway && c.srv.several() && !c.apart && !f.muted && f.s.replies == replyOn && cmd.Do != nil && cmd.Prepare == nil && f.legOf(c.group) == nil
}

// runsHere gives n commands that run here their places in the round, if there is one. Each has one reply.
func (f *forwarding) runsHere(n int) {
	if f == nil || len(f.slots) == 0 {
		return
	}
	h := f.besides()
	for range n {
		h.slots = append(h.slots, f.place())
	}
	h.sent += n
}

// besides returns the leg of what runs here.
func (f *forwarding) besides() *beside {
	if f.here == nil {
		h, conn := &beside{}, f.s.conn
		h.all = group.NewAwaited(func(error) {
			h.due.Store(true)
			conn.Wake()
		})
		f.here = h
	}
	return f.here
}

// keep keeps what the session has replied until the round departs.
func (f *forwarding) keep() {
	s, h := f.s, f.besides()
	h.shares.Add(len(h.b), s.shares)
	h.b = append(h.b, s.call.Out...)
	s.call.Out = s.call.Out[:0]
	s.shares.Reset()
}

// begin begins to wait for what the replies reveal, when the round departs.
func (h *beside) begin(f *forwarding) {
	h.due.Store(false)
	h.waits = h.all.Await(&h.shares, kicks(f.s))
	h.shares.Reset()
}

// release deals with the replies, if their wait is over. It returns false if they are not one for each command.
func (h *beside) release(f *forwarding) (ok bool) {
	if h.waits && !h.due.Load() || h.sent == 0 {
		return true
	}
	h.waits, ok = false, true
	h.all.Each(h.b, func(part []byte) { ok = ok && f.deliver(&h.leg, part) }, func(part []byte) {
		out, _ := unknownFor(part)
		ok = ok && f.deliver(&h.leg, out)
	})
	ok = ok && h.answered == h.sent
	h.empty()
	if h.b = h.b[:0]; cap(h.b) > flushAt {
		h.b = nil
	}
	return ok
}

// Transactions.
//
// If a client's node does not lead, it queues the commands of the client's transaction, and sends all of them to the leader with EXEC.
// The client gets only the reply to EXEC.
//
// The leader's session watches what WATCH has named, so a watch lasts as long as the stream of that session. EXEC is sent in that stream. If the stream is over, or
// its node no longer leads, EXEC is not sent and does nothing, as if a key had changed.

// watched notes that a WATCH was answered in a stream.
func (f *forwarding) watched(st *uplink.Stream) {
	if f.s.multi == nil {
		f.s.multi = &multi{}
	}
	m := f.s.multi
	m.lost = m.lost || m.stream != nil && m.stream != st
	m.stream = st
}

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
	if cmd.Name != "EXEC" || m.broken || s.redirected() {
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

// forwards reports whether this node forwards commands while another leads.
func (srv *Server) forwards() bool {
	r := srv.opts.Replication
	return r != nil && r.Uplink != nil && srv.set.RaftRedirect.Get() != "moved"
}

// elsewhere returns the error for a command that another node must serve. A client that relies on this node to forward it is not told
// where: the node cannot reach the leader itself.
func (c *call) elsewhere() string {
	if s := c.client; c.srv.forwards() && (s == nil || !s.redirected() && !s.caching) {
		return spec.ErrNoLeader
	}
	return c.group.Replication.Elsewhere(&c.cmd.Command, c.Args)
}

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
