package server

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"limitdb/engine"
	"limitdb/groups/across"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/clients"
	"limitdb/server/crossing"
	"limitdb/server/forward"
	"limitdb/server/group"
	"limitdb/server/handler"
	"limitdb/server/limits"
	"limitdb/server/request"
	"limitdb/server/slowlog"
	"limitdb/server/spec"
	"limitdb/uplink"
)

// The runner. A command that admit has admitted runs here, whoever has sent it: run has its row do the work and takes the time,
// and done counts it, and tells the slow log, the latency monitor and MONITOR of it. A command by itself is done at once. In the step
// of EXEC or of a script it is done when the step is stored, because a step may begin again.
//
// There is one fast way beside it, for a decision in a pipeline: invokePlan.

// untimed is the time of a command that is one of its batch's, which are timed together.
const untimed = -1

// run runs the command of the call, in the step t unless that is nil. It returns how many ns that took, or untimed if the
// command is timed together with the others of its batch and did nothing long.
func (c *call) run(p phase, t *handler.Txn, together bool) (took int64) {
	c.Failed, c.Quorum, c.Durable, c.Latency = false, false, false, nil
	start := c.since
	if start == 0 && !together {
		start = c.srv.clock.Now()
	}
	switch cmd := c.cmd; {
	case t != nil && cmd.InStep():
		c.within(t)
	case p == byItself:
		c.alone()
		if c.started != 0 {
			if together {
				together, start = false, c.started
			}
			c.started = 0
		}
	case cmd.Name == "WAIT":
		c.Int(0) // nobody waits in a step
	case cmd.Name == "MONITOR":
		c.Fail("ERR MONITOR isn't allowed for DENY BLOCKING client")
	default:
		c.Whole = true
		cmd.Run(c)
		c.Whole = false
	}
	if together {
		return untimed
	}
	now := c.srv.clock.Now()
	if c.since != 0 {
		c.since = now
	}
	return now - start
}

// alone runs the command by itself.
func (c *call) alone() {
	switch cmd := c.cmd; {
	case c.gathers && c.client != nil:
		gather(c)
	case spreads(c, byItself) && c.client != nil:
		crossNow(c)
	case cmd.Prepare != nil:
		if p, text := cmd.Prepare(c); text != "" {
			c.Fail(text)
		} else {
			c.carryOut(p, nil)
		}
	case cmd.Do != nil:
		c.ownStep(c.commandKeys())
	case cmd.Walk != nil:
		cmd.Walk(c, c.Keyspace())
	default:
		cmd.Run(c)
	}
}

// carryOut runs a command that is prepared by itself: it asks, if it may wait, or does its work in a step of its own. before is the wait
// that it continues, or nil. It reports whether the command has replied.
func (c *call) carryOut(p handler.Prepared, before *waiting) (done bool) {
	if p.Waits() >= 0 {
		return c.ask(p.(handler.Asks), before)
	}
	c.Prepared = p
	c.ownStep(p.Keys())
	c.Prepared = nil
	p.Free()
	return true
}

// ownStep does the command's work in a step of its own on keys.
func (c *call) ownStep(keys [][]byte) {
	mark := len(c.Out)
	_, err := c.inTransaction(keys, func(t *handler.Txn) bool {
		c.Out, c.Failed = c.Out[:mark], false
		c.cmd.Do(c, t)
		return true
	})
	if err != nil {
		c.Out = c.Out[:mark]
		c.Fail(request.ErrorText(err))
	}
}

// within runs the command in the step of EXEC, which has prepared it, or of a script.
func (c *call) within(t *handler.Txn) {
	switch cmd := c.cmd; {
	case cmd.Walk != nil:
		c.Whole = true
		cmd.Walk(c, t)
		c.Whole = false
	case cmd.Prepare != nil && c.Prepared == nil:
		if p, text := cmd.Prepare(c); text != "" {
			c.Fail(text)
		} else if cmd.Flags&spec.Across != 0 && slices.ContainsFunc(p.Keys(), c.lacks) {
			c.Fail(errCrossSlot)
		} else {
			c.Prepared = p.Keep() // until the step ends
			cmd.Do(c, t)
			c.Prepared = nil
		}
	default:
		cmd.Do(c, t)
	}
}

// done counts the command of the call, which has taken that many ns, and tells of it.
func (c *call) done(p phase, took int64, special uint32) {
	s, cmd := c.client, c.cmd
	var yields *stepping
	if p == byItself && s != nil && s.yielded {
		yields, _ = s.pending.(*stepping)
	}
	switch {
	case yields != nil: // it is counted when it ends
		yields.args = slowlog.Cut(c.srv.redact.Args(&cmd.Command, c.Args))
	case took == untimed:
		s.count()
	default:
		c.srv.counts.Stripe(c.Lane).Record(cmd.ID, c.Latency, took, c.Failed)
		if s != nil {
			s.doneTimed(p, took, special)
		}
	}
	// After the command, as in Redis: RESET ends its client's MONITOR first.
	if special&specialMonitor != 0 && cmd.Flags&spec.SkipMonitor == 0 {
		c.feed(cmd, c.Args)
	}
}

// doneTimed is done for the time of a client's command. A command that has parked its session is not slow: it is not finished, and
// waiting is not work.
func (s *session) doneTimed(p phase, took int64, special uint32) {
	c := &s.call
	if p == byItself {
		s.slow += took
		if special&specialTimeEach != 0 {
			s.srv.latency.Offer(&c.cmd.Command, c.Began, took)
		}
	}
	if p != byItself || s.pending == nil {
		s.logSlow(c.cmd, c.Args, c.Began, took)
	}
}

// count adds the command that has just run to the counts of its batch.
func (s *session) count() {
	c := &s.call
	if !s.tally.Add(c.cmd.ID, c.Latency, c.Failed) {
		s.addTally()
		s.tally.Add(c.cmd.ID, c.Latency, c.Failed)
	}
}

// invoke runs a client's command by itself.
func (s *session) invoke(cmd *command, args [][]byte, special uint32) {
	c := &s.call
	c.cmd, c.Args = cmd, args
	mark := len(c.Out)
	if &cmd.Command != s.pub.LastCmd.Load() {
		s.pub.LastCmd.Store(&cmd.Command)
	}
	took := c.run(byItself, nil, cmd.Flags&(spec.Fast|spec.SelfTimed) != 0 && special&specialTimeEach == 0)
	s.tell(&cmd.Command, mark)
	if took == untimed && special == 0 && !s.yielded { // nearly always
		s.count()
		return
	}
	c.done(byItself, took, special)
}

// invokePlan is invoke for a command that has a plan, while undisturbed holds.
func (s *session) invokePlan(cmd *command, p *request.Plan, key []byte) {
	c := &s.call
	c.cmd, c.Failed, c.Quorum, c.Durable, c.Latency = cmd, false, false, false, nil
	mark := len(c.Out)
	if &cmd.Command != s.pub.LastCmd.Load() {
		s.pub.LastCmd.Store(&cmd.Command)
	}
	if !limits.Take(c.inner(), p, key) {
		c.carryOut(limits.Planned(c.inner(), p, key), nil)
	}
	s.tell(&cmd.Command, mark)
	s.count()
}

// execute runs one command, and applies CLIENT REPLY and CLIENT CACHING to it.
func (s *session) execute(args [][]byte) {
	caching := s.caching
	var keys [][]byte
	if caching {
		keys = readBy(s, args)
	}
	if s.replies == replyOn {
		s.executeOne(args)
	} else {
		s.executeSilenced(args)
	}
	if caching && s.caching && !s.holds() {
		invalidate(s, args[0], keys)
	}
}

// executeSilenced runs one command and drops its reply, unless it is CLIENT REPLY ON.
func (s *session) executeSilenced(args [][]byte) {
	s.kept = len(s.call.Out)
	if s.replies == replySkip {
		s.replies = replySkipping
	}
	s.executeOne(args)
	switch s.replies {
	case replyOn: // the command was CLIENT REPLY ON, or RESET
		return
	case replySkipping:
		s.replies = replyOn
	}
	s.call.Out = s.call.Out[:min(s.kept, len(s.call.Out))]
	s.shares.Cut(len(s.call.Out))
	s.mute = s.pending != nil
}

func (s *session) executeOne(args [][]byte) {
	c := &s.call
	c.Args = args
	if s.srv.several() {
		if s.far != nil && string(args[0]) == partOf {
			carryOutPart(s, args)
			return
		}
		if s.far != nil && len(args) == 2 && string(args[0]) == scriptOf {
			_, _ = s.srv.scripts.Compile(args[1]) // there is no reply
			return
		}
		if c.only = nil; s.far != nil && len(args) > 2 && string(args[0]) == onlyGroups {
			c.only, args = args[1], args[2:]
			c.Args = args
		}
		enter(s, choose(c))
	}
	special, p := c.group.Special.Load()|s.early, byItself
	if s.multi.isOpen() {
		p = queued
	}
	v, text := c.admit(p, special)
	cmd := c.cmd
	if v != away && s.fwd != nil && s.fwd.first(cmd, v, args) {
		return
	}
	switch v {
	case nonesuch:
		s.unknown(args)
		return
	case refused:
		if crossProtocol(args) {
			s.closeCrossProtocol(args)
		} else {
			s.reject(cmd, text)
		}
		return
	case paused:
		s.holdBack(args)
		return
	case away:
		s.elsewhere(cmd, args, special)
		return
	}
	if p == queued {
		if cmd.Flags&spec.Now == 0 {
			s.multi.enqueue(s, cmd, args)
			return
		}
		if special&specialFollowing != 0 && s.forwarding().exec(cmd, args) {
			return
		}
	}
	if text := beginChange(c, "resp"); text != "" {
		s.reject(cmd, text)
		return
	}
	mark := len(c.Out)
	s.invoke(cmd, args, special)
	if len(c.changes) > 0 && s.pending == nil {
		endChanges(c, c.Out[mark:])
	}
	if cmd.Flags&spec.Admin != 0 {
		look(s) // it may have changed the user
	}
}

// unknown replies to a command that there is not.
func (s *session) unknown(args [][]byte) {
	s.multi.breaks()
	if text := s.rd.tooLarge(args); text != "" {
		s.call.Fail(text)
		return
	}
	s.srv.counters.unknown.Add(1)
	if crossProtocol(args) {
		s.closeCrossProtocol(args)
		return
	}
	s.call.Fail(unknownCommand(s.srv, args))
}

// closeCrossProtocol closes the connection of a client that speaks another protocol.
func (s *session) closeCrossProtocol(args [][]byte) {
	s.srv.counters.crossProtocol.Add(1)
	s.srv.log.Warn("the connection is closed: an HTTP request came to the RESP port", "addr", s.pub.Addr(), "line", logged(args[0]))
	s.call.Out = s.call.Out[:0]
	s.conn.Close(clients.ErrCross)
}

// unknownCommand returns the reply to an unknown command, in Redis' words.
func unknownCommand(srv *Server, args [][]byte) string {
	var b strings.Builder
	b.WriteString("ERR unknown command '")
	b.WriteString(resp.Excerpt(args[0]))
	b.WriteString("', with args beginning with: ")
	for _, a := range args[1:] {
		if b.Len() > 256 {
			break
		}
		b.WriteString("'" + resp.Excerpt(a) + "' ")
	}
	return spec.Aside(b.String(), srv.table.Hint(args[0]))
}

// crossProtocol reports whether args look like HTTP. No client library sends these words.
func crossProtocol(args [][]byte) bool {
	switch {
	case resp.EqualFold(args[0], "POST"), resp.EqualFold(args[0], "HOST:"):
		return true
	case resp.EqualFold(args[0], "GET"), resp.EqualFold(args[0], "HEAD"), resp.EqualFold(args[0], "PUT"):
		return len(args) == 3 && bytes.HasPrefix(args[2], []byte("HTTP/"))
	}
	return false
}

// reject replies with an error instead of running the command.
func (s *session) reject(cmd *command, text string) {
	s.multi.breaks()
	s.stripe.Reject(cmd.ID)
	s.call.Fail(text)
}

// Parts of requests that other nodes carry out, since they lead the groups. The words of such a call are partOf; the client's command; the
// namespace of rules that it names, if it does; and those of crossing.Parse. The other node looks at the user's rights, for that command, as well.

// partOf is what begins the call. A client's connection does not know it.
const partOf = "\x00part"

const errPart = "ERR these are not the words of another node of this version"

// waysOf returns how the request of a call reaches groups, from an event loop. kicks has it ask for syncs.
func waysOf(c *call, loop int, kicks bool) crossing.Ways {
	srv := c.srv
	return crossing.Ways{
		Counts: &srv.crossings, Now: srv.clock.Now, Kicks: kicks, Far: farther(c, loop),
		Leaderless: &srv.leaderless, Patience: int64(leaderWait), Returns: &srv.returns,
	}
}

// farther returns what sends parts of the call's request to other nodes, over the uplinks of an event loop. All requests of a user share their streams.
func farther(c *call, loop int) crossing.Far {
	srv, client := c.srv, uplink.Client{Remote: "part", Local: "part", Unix: true, RESP3: true, User: c.UserName()}
	begin := [][]byte{[]byte(partOf), []byte(c.cmd.Full), nil}
	if c.cmd.Route > 0 {
		begin[2] = bytes.Clone(c.Args[c.cmd.Route])
	}
	return func(g *group.Group, words [][]byte, told func(reply []byte, refused bool)) bool {
		link := g.Uplink(loop)
		if link == nil || !srv.lines.Ask(link, client, resp.AppendCommand(nil, append(begin[:3:3], words...)...), told) {
			return false
		}
		srv.counters.forwarded.Add(1)
		return true
	}
}

// looks returns handler.Parts.Look.
func looks(srv *Server) func(c *handler.Call, r *engine.Together, then func(text string)) {
	return func(c *handler.Call, r *engine.Together, then func(text string)) {
		of := srv.newCall(srv.group, c.Began, resp.RESP3, c.Args)
		of.Rights = c.Rights
		of.cmd, _ = of.resolve()
		x, ways := crossing.New(r, handler.Each{}, srv.groupOf), waysOf(&of, -1, true)
		c.Client.Background(func() error {
			woken := make(forward.Waker, 1)
			for x.Begin(ways, woken.Wake); !x.Resume(); {
				<-woken
			}
			return nil
		}, func(error) {
			switch r := x.Result(); r.Outcome {
			case across.Granted, across.Denied:
				then("")
			case across.Failed:
				then(request.ErrorText(r.Err))
			default:
				then(spec.ErrNoLeader)
			}
		})
	}
}

// carryOutPart carries out a part of another node's request. As with other commands of its clients, one that this node must not decide ends the session, and the
// reply waits until what it tells is durable.
func carryOutPart(s *session, args [][]byte) {
	c := &s.call
	p, g, text := parsePart(c, args)
	if text != "" {
		c.Out = crossing.AppendFailed(c.Out, -1, text)
		return
	}
	c.crosses, c.here, c.gathers, c.only, c.Groups = false, false, false, nil, nil
	enter(s, g)
	special := g.Special.Load() | s.early
	text = c.refusal(byItself, special)
	switch {
	case text != "":
		s.stripe.Reject(c.cmd.ID)
		c.Out = crossing.AppendFailed(c.Out, -1, text)
		return
	case special&specialPause != 0 && c.held() && !p.GivesBack():
		s.holdBack(args)
		return
	case special&specialFollowing != 0:
		s.life.Drain(uplink.ErrNotLeading)
		return
	}
	mark, begun := len(c.Out), false
	s.pub.LastCmd.Store(&c.cmd.Command)
	c.Failed, c.Quorum, c.Durable = false, p.Lasts(), false
	c.Out, begun = p.Append(c.Out, g, func(err error, key []byte, l *limit.Limit) string {
		if key != nil && c.cmd.HasKeys() {
			return limits.ErrorText(c.Keyspace(), err, key, l.Algorithm.Kind())
		}
		return request.ErrorText(err)
	})
	if !begun {
		s.life.Drain(uplink.ErrNotLeading)
		return
	}
	c.Worked(int64(len(p.Keys())))
	s.tell(&c.cmd.Command, mark)
}

// parsePart reads the words of a part and returns the group that it concerns. It makes the client's command, with the part's keys, that of the call.
func parsePart(c *call, args [][]byte) (p *crossing.Part, g *group.Group, text string) {
	c.Args = args
	if len(args) < 4 || c.client.multi.isOpen() {
		return nil, nil, errPart
	}
	name, sub, isSub := bytes.Cut(args[1], []byte("|"))
	if c.cmd = c.srv.table.find(name); c.cmd != nil && isSub {
		c.cmd, _ = c.cmd.resolve([][]byte{name, sub, args[2], nil})
	}
	if c.cmd == nil || c.cmd.Flags&spec.Across == 0 && c.cmd.Full != "rl.rules|explain" {
		return nil, nil, errPart
	}
	p, err := crossing.Parse(args[3:], &c.Zones)
	if err != nil {
		return nil, nil, request.ErrorText(err)
	}
	keys := p.Keys()
	g = c.srv.groupOf(keys[0])
	if slices.ContainsFunc(keys, func(key []byte) bool { return c.srv.groupOf(key) != g }) {
		return nil, nil, errPart
	}
	if c.cmd.HasKeys() {
		c.Args = append([][]byte{args[1], []byte(strconv.Itoa(len(keys)))}, keys...)
		return p, g, ""
	}
	callers := append(rules.AppendNamespace(nil, args[2]), ':')
	for _, key := range keys {
		if name, ok := rules.CallerName(key); !ok || !bytes.HasPrefix(name, callers) {
			return nil, nil, errPart
		}
	}
	if c.Args = [][]byte{name, args[2]}; isSub {
		c.Args = [][]byte{name, sub, args[2]}
	}
	return p, g, ""
}
