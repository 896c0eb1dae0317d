package server

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"sync/atomic"

	"limitdb/resp"
	"limitdb/server/forward"
	"limitdb/server/group"
	"limitdb/server/scripts"
	"limitdb/uplink"
)

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
	// batchBytes and batchMost are the bytes and the commands that make a round full.
	batchBytes = 64 << 10
	batchMost  = 1024
	// forwardMost is the longest command that is forwarded.
	forwardMost = 16 << 20
	// legMost is the most commands of a leg that are underway if there may be several legs.
	legMost = 128
	// parkedMost is how many bytes of replies are parked until no more commands are sent but those whose replies come first.
	parkedMost = 1 << 20
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
	slot   int    // with several groups, of its keys
	waits  bool   // the round is a WAIT
	hidden int    // replies that come first, and that the client has had already
	multi  *multi // the transaction that is the round; else nil

	of      *group.Group // of the command that was collected last, or of the one that waits for a leader
	back    []byte       // commands that go back into the reader
	since   int64        // when the session began to wait; 0: it has not
	refused bool         // a node that was asked last does not lead
	gaveUp  bool         // the session has waited in vain; commands in the reader are refused
}

// round is the commands of a session that are underway, or will be.
type round struct {
	legs      []*leg
	here      *beside // nil: no command has run here beside others
	last      *leg    // got the last command; nil: none
	at        []*leg  // with several groups: which leg has the commands of each, by its number
	collected int     // commands in the legs
	bytes     int     // of these
	underway  bool

	slots  []slot // a place for each reply
	head   int    // the first whose reply the client has not got
	free   []int  // those whose commands run again, in their order
	parked []byte
	live   int // bytes of parked that the client has not got

	lost bool // of a stream that is over, a leg was unsure; this outlasts the round
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

	brought scripts.Brought // in the stream
	bring   []byte          // the calls that are to bring others

	scan resp.ReplyScanner
	part []byte // of a reply that is not whole, and not the client's next
	came int    // bytes of the reply that is not whole
	size int    // of the largest replies of late
	told bool   // the client has got part of the reply that is next

	unsure bool // the client has replies of the stream's node that no WAIT has asked about
	owes   int  // replies that come first, and that nobody waits for any more
}

// skip drops what is owed of bytes that the stream has received, and returns the rest. It returns false if they are no replies.
func (l *leg) skip(in []byte) (rest []byte, ok bool) {
	for l.owes > 0 && len(in) > 0 {
		n, whole, err := l.scan.Scan(in)
		if err != nil {
			return nil, false
		}
		if in = in[n:]; whole {
			l.owes--
		}
	}
	return in, true
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
	return f.at[g.Number]
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
	in, ended, _ := l.in.Take()
	if _, ok := l.skip(in); ended || !ok || l.finished {
		l.close()
	}
}

// close ends the leg's stream.
func (l *leg) close() {
	if l.stream != nil {
		l.stream.Close()
		l.stream, l.brought, l.bring = nil, scripts.Brought{}, nil
	}
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

// dropLegs forgets the legs that have neither a stream nor commands.
func (f *forwarding) dropLegs() {
	f.legs = slices.DeleteFunc(f.legs, func(l *leg) bool {
		f.misses(l)
		return l.stream == nil && len(l.ends) == 0
	})
}

// misses notes that a leg which is unsure has no stream any more, so that nobody can be asked.
func (r *round) misses(l *leg) {
	if l.stream == nil {
		r.lost = r.lost || l.unsure
		l.unsure, l.owes = false, 0
	}
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
			f.at = make([]*leg, len(f.s.srv.every))
		}
		f.at[g.Number] = l
	}
}

// full reports whether the round is full.
func (r *round) full() bool { return r.bytes >= batchBytes || len(r.slots) >= batchMost }

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
		most := l.most()
		if l.sent > 0 && (waits || l.sent-l.answered > most/2) {
			return
		}
		n = max(l.sent, min(n, l.answered+most))
	}
	if l.stream == nil && l.link != nil && (f.multi == nil || f.multi.stream == nil) { // else what the client watches was watched in another stream
		f.misses(l)
		l.in, l.scan, l.came, l.finished = &forward.Inbox{Wake: s.conn.Wake}, resp.ReplyScanner{}, 0, false
		l.stream = l.link.Open(portrait(s), l.in)
	}
	from := 0
	if l.sent > 0 {
		from = l.ends[l.sent-1]
	}
	if l.stream != nil && len(l.bring) > 0 && l.stream.Send(l.bring) {
		l.bring = nil
	}
	if l.stream == nil || len(l.bring) > 0 || !l.stream.Send(l.batch[from:l.ends[n-1]]) {
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

// most returns how many commands of a leg may be underway: their replies may all be parked.
func (l *leg) most() int {
	if l.size <= parkedMost/legMost {
		return legMost
	}
	return max(parkedMost/l.size, 1)
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
		watchedIn(f.s, l.stream, f.slot)
	}
	if !ended {
		return true
	}
	l.stream, l.closed, l.brought, l.bring = nil, true, scripts.Brought{}, nil
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
	in, ok := l.skip(in)
	if !ok {
		return false
	}
	for len(in) > 0 {
		n, whole, err := l.scan.Scan(in)
		if err != nil || l.answered == l.sent {
			return false
		}
		b := in[:n]
		in = in[n:]
		if l.came += n; whole {
			l.size, l.came = max(l.came, l.size-l.size/8), 0
		}
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
			l.unsure = !f.waits || bytes.HasSuffix(s.call.Out, []byte(notYet))
			f.since, f.refused, f.gaveUp = 0, false, false
		}
		if len(s.call.Out) >= flushAt && !s.mute {
			s.flush()
		}
	}
	return true
}

// notYet is the end of what WAIT replies after its timeout.
const notYet = ":0\r\n"

// hold parks a reply.
func (f *forwarding) hold(at int, part, b []byte) {
	if gone := len(f.parked) - f.live; gone > max(f.live, parkedMost) {
		f.compact()
	}
	from := len(f.parked)
	f.parked = append(append(f.parked, part...), b...)
	f.slots[at] = slot{from, len(f.parked)}
	f.live += len(f.parked) - from
}

// compact drops the parked bytes that the client has got. Others may be parked all the time, so that parked is never empty until the round is over.
func (r *round) compact() {
	kept := make([]byte, 0, r.live+parkedMost)
	for i := r.head; i < len(r.slots); i++ {
		if sl := &r.slots[i]; sl.to > 0 {
			from := len(kept)
			kept = append(kept, r.parked[sl.from:sl.to]...)
			*sl = slot{from, len(kept)}
		}
	}
	r.parked = kept
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
	return f.here != nil && len(f.here.left) > 0 || slices.ContainsFunc(f.legs, func(l *leg) bool { return l.answered < len(l.ends) })
}

// unbegun is a command of a round that is settled which nobody has begun.
type unbegun struct {
	slot    int
	of      *group.Group
	command []byte
}

// unbegun returns the commands that nobody has begun, in their order.
func (f *forwarding) unbegun() (left []unbegun) {
	if h := f.here; h != nil {
		left, h.left = h.left, nil
	}
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
		n += cap(l.batch) + cap(l.part) + cap(l.bring)
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
	left   []unbegun   // those that could not run
}

// beside reports whether a command that runs here may run before the round has departed: it has keys, waits for nobody, the round has no command
// of its group, and the replies of what has run here are not too many to be parked.
func (f *forwarding) beside(cmd *command) bool {
	c := &f.s.call
	return !f.underway && !f.crowded() && c.srv.several() && !c.apart && !f.muted && f.s.replies == replyOn && cmd.Do != nil && cmd.Prepare == nil && f.legOf(c.group) == nil
}

// crowded reports whether the replies of what has run here are as many as may be parked.
func (f *forwarding) crowded() bool {
	return f != nil && f.here != nil && len(f.here.b) >= parkedMost
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
