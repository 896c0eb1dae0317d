package server

import (
	"sync"

	"limitdb/engine"
	"limitdb/resp"
	"limitdb/server/group"
	"limitdb/server/handler"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// ahead holds commands that were read but have not run yet. A decision on a key outside the
// caches mostly waits for memory. When the engine knows the keys of a pipeline before the first
// decision, it lets those waits overlap.
//
// Only commands of one key that need no later turn are queued (spec.Ahead, and no WAIT), and only
// while undisturbed holds. So a client cannot distinguish this from running them one by one. When the
// session's turn is over, it puts those that are left back into the reader.
type ahead struct {
	n      int
	cmds   [aheadMost]*command
	keys   [aheadMost][]byte
	groups [aheadMost]*group.Group // which have the keys, if there are several
	places [aheadMost]engine.Place
	plans  [aheadMost]*request.Plan // what the commands ask for; nil: the handler parses it
	ends   [aheadMost]int           // where the words of the commands without a plan end in words, or shaped
	left   [aheadMost]int           // bytes of the input behind the commands without a plan
	before [aheadMost]int           // with several groups: bytes of the input before the commands
	placed int                      // the first of them have places in the session's round, because commands behind them are in it
	of     uint64                   // with several groups: a bit for each of those of the commands
	in     uint64                   // while the queue runs, a bit for each that it has entered
	end    int                      // with several groups: bytes of the input behind the last command
	words  [][]byte

	entered [groupsMost]entered     // of the groups in in
	made    [aheadMost]request.Plan // room for the plans
	kept    request.Plan            // that of a command that was taken out again, if last is
	last    *request.Plan           // of the session's remembered command, if that is the last with a plan
	ids     bool                    // some of the commands have ids
	shaped  bool                    // there are commands of the session's remembered shape
}

// shaped stands in place of the end of a command's words, if the command has the shape of the session's remembered one.
const shaped = -1

// entered is what a session notes of a group that it enters.
type entered struct {
	turn uint64
	now  int64
}

const (
	aheadMost  = 64
	groupsMost = 64 // see raft-groups
	// aheadFew is the number of keys from which prefetching pays.
	aheadFew = 4
	// aheadWords is the most words that an idle queue has room for.
	aheadWords = aheadMost * 64
)

// next queues the session's next command if it may wait for the ones after it. Otherwise it returns false
// and the result of the reader.
func (a *ahead) next(s *session) (args [][]byte, err error, ok bool) {
	keyMost := int(s.srv.set.MaxKeyLen.Get())
	m := s.remembered
	if f := s.forms; f != nil && f.row >= rowOfForms && !s.limited { // before the remembered command is looked for in vain
		p := &a.made[a.n]
		if cmd, key := f.find(s, keyMost, p); cmd != nil {
			a.addWithID(cmd, p, key)
			return nil, nil, true
		}
		f.row = 0
	}
	if m != nil && promising(m.missed) {
		if key := s.rd.NextOf(&m.shape, keyMost); key != nil {
			if m.missed = 0; s.limited && !m.cmd.allows(s.call.Rights, key, m.cmd.FirstAccess()) {
				return m.shape.With(key), nil, false
			}
			if m.planned && a.last == nil {
				a.last = &m.plan
			}
			if !m.planned {
				a.ends[a.n], a.left[a.n], a.shaped = shaped, s.rd.Buffered(), true
			}
			a.add(m.cmd, a.last, key)
			return nil, nil, true
		}
	}
	p := &a.made[a.n]
	if f := s.forms; f != nil && !s.limited {
		if cmd, key := f.find(s, keyMost, p); cmd != nil {
			f.row++
			a.addWithID(cmd, p, key)
			return nil, nil, true
		}
	}
	args, err = s.rd.Next()
	if err != nil || args == nil {
		return args, err, false
	}
	cmd, at := admitAhead(s, args, keyMost)
	if at == 0 {
		return args, nil, false
	}
	p.OnceID = nil // of an earlier command
	switch {
	case cmd.Plan == nil || cmd.Plan(&s.srv.parts.Zones, args, p) != "":
		a.words = append(a.words, args...) // the slices, not the bytes
		a.ends[a.n], a.left[a.n], p = len(a.words), s.rd.Buffered(), nil
	case p.Given&request.OwnWait != 0:
		return args, nil, false
	case p.OnceID != nil:
		if s.forms == nil {
			s.forms = new(forms)
		}
		s.forms.learn(s, cmd, formClass(p), p, args)
		a.addWithID(cmd, p, args[at])
		return nil, nil, true
	}
	if m == nil {
		m = &remembered{missed: 1}
		s.remembered = m
	}
	if m.missed++; worth(m.missed) && !a.shaped {
		s.rd.Shape(&m.shape, at)
		m.cmd, m.planned, a.last = cmd, p != nil, p
	}
	a.add(cmd, p, args[at])
	return nil, nil, true
}

// nextHere is next with several groups: a command on a key of a group that this node does not lead is not queued. If nothing but that has to be
// found out about it, it is in the session's round then.
func (a *ahead) nextHere(s *session) (args [][]byte, err error, ok bool) {
	before, words := s.rd.Buffered(), len(a.words)
	if args, err, ok = a.next(s); !ok {
		return args, err, false
	}
	last := a.n - 1
	g := s.srv.groupOf(a.keys[last])
	follows, bit := g.Special.Load()&specialFollowing != 0, bitOf(g)
	if !follows && (a.of&bit != 0 || g.Since.Load() <= s.call.Began && s.fwd.legOf(g) == nil) { // what these say, they say of all of its commands in the queue
		a.groups[last], a.before[last], a.end = g, before, s.rd.Buffered()
		a.of |= bit
		return nil, nil, true
	}
	a.n, a.words = last, a.words[:words]
	switch {
	case a.last != &a.made[last]: // the session remembers another
	case last == 0:
		s.remembered.plan = *a.last
		a.last = &s.remembered.plan
	default: // those in the queue, which runs now, may have the plan that it remembered before
		a.kept = *a.last
		a.last = &a.kept
	}
	if follows && a.of&bit == 0 && a.sends(s, a.cmds[last], g) {
		return nil, nil, true
	}
	s.rd.Unread(before - s.rd.Buffered())
	args, err = s.rd.Next()
	return args, err, false
}

// bitOf returns the bit for a group with keys.
func bitOf(g *group.Group) uint64 { return 1 << (uint(g.Number-1) % groupsMost) }

// sends adds the command that was read last to the session's round, as collect would, and reports whether it did. Another node leads its group, of which no
// command is in the queue. So those in the queue may run later.
func (a *ahead) sends(s *session, cmd *command, g *group.Group) bool {
	if s.far != nil || !cmd.Leads() || cmd.Group == "scripting" || s.readOnly && cmd.Flags&spec.StaleRead != 0 || s.redirected() {
		return false
	}
	link, b, f := g.Uplink(s.conn.Loop()), s.rd.Last(), s.forwarding()
	if link == nil || b[0] != '*' || len(b) > batchBytes || f.muted || f.gaveUp || f.strays(g, link) {
		return false
	}
	f.opens()
	a.place(f)
	l := f.legTo(link)
	l.batch = append(l.batch, b...)
	f.add(l, g)
	if a.end = s.rd.Buffered(); &cmd.Command != s.pub.LastCmd.Load() {
		s.pub.LastCmd.Store(&cmd.Command)
	}
	if f.full() {
		if a.n > 0 {
			a.run(s, true)
		}
		if s.pending == nil {
			f.depart()
		}
	}
	return true
}

// place gives the queued commands their places in the round, before what comes behind them gets one.
func (a *ahead) place(f *forwarding) {
	if a.placed == a.n {
		return
	}
	h := f.besides()
	for ; a.placed < a.n; a.placed++ {
		h.slots = append(h.slots, f.place())
	}
}

// leave ends the turn of a queue whose commands have places: those from the first on that have not run go into the round's rest, which runs when the round is
// over.
func (a *ahead) leave(s *session, first int) {
	f := s.fwd
	h := f.here
	if first < a.n {
		s.rd.Unread(a.before[first] - s.rd.Buffered())
		for i := first; s.rd.Buffered() > a.end; {
			before := s.rd.Buffered()
			args, _ := s.rd.Next()
			if i < a.n && before == a.before[i] {
				h.left = append(h.left, unbegun{h.slots[h.sent+i-first], a.groups[i], resp.AppendCommand(nil, args...)})
				i++
			}
		}
		h.slots = h.slots[:h.sent]
	}
	s.rd.Unread(a.end - s.rd.Buffered()) // what was read behind the queue
	f.depart()
}

// warm prefetches what the queued commands need.
func (a *ahead) warm(s *session) {
	if !s.srv.several() {
		s.call.Group.Engine.Load().Warm(a.keys[:a.n], a.places[:], a.ids)
		return
	}
	var of [aheadMost]*engine.Engine
	for i, g := range a.groups[:a.n] {
		of[i] = g.Engine.Load()
	}
	engine.WarmIn(of[:a.n], a.keys[:a.n], a.places[:], a.ids)
}

// add queues a command that has been read. Its words are valid as long as the reader's buffer.
func (a *ahead) add(cmd *command, p *request.Plan, key []byte) {
	a.cmds[a.n], a.plans[a.n], a.keys[a.n] = cmd, p, key
	a.n++
}

// addWithID is add for a command with an id.
func (a *ahead) addWithID(cmd *command, p *request.Plan, key []byte) {
	a.ids = true
	a.add(cmd, p, key)
}

// undisturbed reports whether nothing but the command itself can make admit refuse it, so that commands run one after the other.
func (s *session) undisturbed() bool {
	return s.authed && s.replies == replyOn && !s.caching && s.subs.Len() == 0 && (s.srv.group.Special.Load()|s.early)&s.srv.disturbs == 0 && s.multi == nil && (!s.fwd.away() || s.srv.several())
}

// admitAhead is admit for a command of one key that needs no later turn, while undisturbed holds. It returns the command and the
// position of its key, 0 if admit is to be asked.
func admitAhead(s *session, args [][]byte, keyMost int) (cmd *command, at int) {
	cmd = s.rd.find(s.srv.table, args[0])
	if cmd == nil || cmd.Flags&spec.Ahead == 0 || !cmd.ArityOK(len(args)) {
		return nil, 0
	}
	if at = cmd.keyAhead(s, args); at == 0 || cmd.checkKey(args[at], keyMost) != "" || s.limited && !cmd.allows(s.call.Rights, args[at], cmd.Access(args, at)) {
		return nil, 0
	}
	return cmd, at
}

// keyAhead returns which argument of a command that may be queued is its key; 0 if it has not exactly one. Of scripts, only
// those with a handler in Go may be queued.
func (c *command) keyAhead(s *session, args [][]byte) int {
	at := c.NumKeys + 1
	if c.NumKeys == 0 {
		return c.FirstKey
	}
	if len(args) > at && string(args[at-1]) == "1" {
		if script := s.call.loaded(args[1]); script != nil && script.Known != nil && script.Known.Native() {
			return at
		}
	}
	return 0
}

// run runs the queued commands in order. If the session's turn is over before the last, and back is set, it puts
// the rest of the input back into the reader, with what was read since, and returns true. It does so as well if the node no longer leads a command's group:
// that command then runs by itself, wherever the group is led. If commands that came later are in the session's round, the rest is part of that.
func (a *ahead) run(s *session, back bool) (over bool) {
	warm := a.n >= aheadFew
	if warm {
		a.warm(s)
	}
	ran, start, several, gone := 0, 0, s.srv.several(), false
	if several {
		a.in, s.call.Groups = 0, nil // of an earlier command
		if a.placed > 0 {
			a.place(s.fwd)
		}
	}
	for ; ran < a.n && s.life.Open() && !over; ran++ {
		if several && !a.enter(s, a.groups[ran]) { // it leads no longer
			if gone = back; gone {
				break
			}
			s.reject(a.cmds[ran], spec.ErrNoLeader)
			if end := a.ends[ran]; a.plans[ran] == nil && end != shaped {
				start = end // the next one's words
			}
			continue
		}
		if warm {
			s.call.Place = a.places[ran]
		}
		if p := a.plans[ran]; p != nil {
			s.invokePlan(a.cmds[ran], p, a.keys[ran])
		} else {
			var words [][]byte
			if end := a.ends[ran]; end == shaped {
				words = s.remembered.shape.With(a.keys[ran])
			} else {
				words, start = a.words[start:end:end], end
			}
			s.invoke(a.cmds[ran], words, 0)
			if (s.slow > 0 || s.call.Ran >= handler.LookAtClock) && back && s.overTurn(0) {
				if over = true; a.placed == 0 {
					s.rd.Unread(a.left[ran] - s.rd.Buffered())
				}
			}
		}
		s.call.Place = 0
		if len(s.call.Out) >= flushAt {
			s.flush()
		}
	}
	s.call.Ran += ran
	if s.remembered != nil && a.last != nil && a.last != &s.remembered.plan {
		s.remembered.plan = *a.last
	}
	if several {
		a.ranHere(s, ran, over, gone)
	}
	a.empty()
	return over || gone
}

// enter makes g the group of the session's next command, and reports whether this node leads it. As with one group, all commands on its keys are of
// one turn and time.
func (a *ahead) enter(s *session, g *group.Group) (leads bool) {
	in := &a.entered[uint(g.Number-1)%groupsMost]
	if a.in&bitOf(g) == 0 {
		if enter(s, g); s.early&specialFollowing != 0 {
			return false
		}
		*in = entered{s.turn, s.call.Now}
		a.in |= bitOf(g)
		return true
	}
	s.in, s.call.group, s.call.Group = g, g, &g.Group
	s.turn, s.call.Now = in.turn, in.now
	s.early &^= specialFollowing // another group's
	return true
}

// ranHere is told how many of the queued commands have run, with several groups: if over or gone is set, the queue's turn has ended before the others, over
// because the session's has, or gone because this node does not lead the next one's group.
func (a *ahead) ranHere(s *session, ran int, over, gone bool) {
	placed := a.placed > 0
	if a.placed, a.of = 0, 0; placed {
		s.fwd.here.sent += ran
	} else {
		s.fwd.runsHere(ran)
	}
	switch {
	case placed && (over || gone):
		a.leave(s, ran)
	case gone:
		s.rd.Unread(a.before[ran] - s.rd.Buffered())
		if args, _ := s.rd.Next(); args != nil {
			s.execute(args)
		}
	}
}

// empty empties the queue.
func (a *ahead) empty() {
	if cap(a.words) > aheadWords {
		a.words = nil
	}
	a.n, a.words, a.last, a.ids, a.shaped = 0, a.words[:0], nil, false, false
}

// lendQueue returns a queue for one batch.
func lendQueue(p *sync.Pool) *ahead {
	if a, ok := p.Get().(*ahead); ok {
		return a
	}
	return &ahead{words: make([][]byte, 0, aheadMost*8)}
}

// takeQueue takes a queue back. Its pointers into read buffers may point to overwritten bytes. They
// are harmless, because they are set again before they are read.
func takeQueue(p *sync.Pool, a *ahead) {
	a.empty()
	a.placed, a.of = 0, 0
	p.Put(a)
}

// remembered is the last command that may be queued. Most clients repeat one command for different
// keys. The session recognizes it by its bytes, and does not split or parse it again. A plan
// depends on nothing but these bytes, so no setting makes it out of date. Whether the client may
// run the command is checked before.
type remembered struct {
	shape   resp.Shape
	cmd     *command
	planned bool // plan is what it asks for
	plan    request.Plan

	missed uint8 // commands in a row that were others
}

// worth reports whether to remember another command instead, after some in a row that were others. Remembering costs a little, so a
// command that only comes in between is not remembered, and of a client that repeats no command
// only a few are.
func worth(missed uint8) bool { return missed == 2 || missed == 3 || missed%32 == 0 }

// promising reports whether the next command may be the one remembered.
func promising(missed uint8) bool { return missed < 8 || missed%32 == 0 }

// forms are the last commands with ids of a session: a hold, its commit or cancel, and a request that counts once. As with the
// remembered command, a client repeats each of them, but with another id and cost, and it may send them in turn.
type forms struct {
	of   [formClasses]formed
	last int // the class of the last command
	row  int // commands, about in a row, that had one of the forms; it is no more than rowOfForms
}

// rowOfForms is after how many commands that had one of the forms the next is expected to have one.
const rowOfForms = 4

// formed is one of them.
type formed struct {
	form     resp.Form
	cmd      *command
	plan     request.Plan
	id, cost int // which of the open arguments they are; 0 for none

	missed uint8 // as in remembered
	next   int   // the class of the command that came after it
}

const formClasses = 4

// formClass returns the class of a plan that has an id, or -1.
func formClass(p *request.Plan) int {
	switch {
	case p.OnceID == nil:
		return -1
	case p.Op >= request.Hold:
		return int(p.Op-request.Hold) + 1
	}
	return 0
}

// find reads the session's next command if it has one of the forms, and puts what it asks for in p.
func (f *forms) find(s *session, keyMost int, p *request.Plan) (cmd *command, key []byte) {
	guess := f.of[f.last].next
	for i := range formClasses {
		class := (guess + i) % formClasses
		if g := &f.of[class]; g.cmd != nil && promising(g.missed) {
			if key = g.read(&s.rd.Reader, keyMost, p); key != nil {
				g.missed, f.of[f.last].next, f.last = 0, class, class
				return g.cmd, key
			}
		}
	}
	return nil, nil
}

// read is find for one form. It returns the key; nil if the command has another form.
func (g *formed) read(r *resp.Reader, keyMost int, p *request.Plan) (key []byte) {
	if !r.NextIn(&g.form, keyMost) {
		return nil
	}
	var cost []byte
	if g.cost > 0 {
		cost = r.Open(&g.form, g.cost)
	}
	if *p = g.plan; p.Fill(r.Open(&g.form, g.id), cost, g.cost > 0) {
		return r.Open(&g.form, 0)
	}
	r.Unread(r.Size()) // the command has an error
	return nil
}

// learn is told of a command that the session has read, of which no form was known.
func (f *forms) learn(s *session, cmd *command, class int, p *request.Plan, args [][]byte) {
	g := &f.of[class]
	f.of[f.last].next, f.last = class, class
	if g.missed++; !worth(g.missed) {
		return
	}
	id, cost := p.Open(args)
	holes := []int{1, id, cost}
	switch g.id, g.cost = 1, 0; {
	case cost == 0:
		holes = holes[:2]
	case cost < id:
		holes[1], holes[2], g.id, g.cost = cost, id, 2, 1
	default:
		g.cost = 2
	}
	if g.cmd = cmd; id == 0 || !s.rd.Form(&g.form, holes...) {
		g.cmd = nil
		return
	}
	g.plan = *p
	g.plan.OnceID = nil
	g.plan.Prepare()
}
