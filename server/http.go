package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strconv"

	"limitdb/internal/origin"
	"limitdb/resp"
	"limitdb/server/forward"
	"limitdb/server/handler"
	"limitdb/server/limits"
	"limitdb/server/spec"
	"limitdb/uplink"
)

// Do runs a command for a caller that has no connection to the server, such as an HTTP request.
// It acts as the user in ctx (User.In) or, without one, as the user default.
// It returns the reply, in RESP3, when the reply may be sent: once the state that it reveals is
// durable. If ctx ends before, it returns ctx's error, and the command may have been carried out.
// Its origin is that of ctx. A command that needs a client's connection is refused, one that would wait for its turn is
// decided at once, and one that works in the background does so before Do returns. A node that does not lead sends the command to the node
// that does, and waits for a leader as it does for its clients. Any goroutine may call Do.
func (srv *Server) Do(ctx context.Context, args ...[]byte) (out []byte, err error) {
	out, wait := srv.Begin(ctx, args)
	if wait == nil {
		return out, nil
	}
	return wait(ctx)
}

// Begin is Do for a caller that must not be held up, such as an event loop. If it returns wait, the command has not run, or its reply may not be sent yet:
// wait does the rest of what Do does, and returns the reply. Begin keeps none of the args.
func (srv *Server) Begin(ctx context.Context, args [][]byte) (out []byte, wait func(ctx context.Context) ([]byte, error)) {
	c := &httpCall{call: srv.newCall(srv.group, 0, resp.RESP3, args), from: origin.Of(ctx)}
	c.Rights = srv.accounts.rightsOf(ctx)
	defer c.contain(&out)
	if srv.stopping.Load() {
		return resp.AppendError(nil, errShuttingDown), nil
	}
	c.decide()
	if !c.away && c.crossed == nil && !c.waits() {
		return c.Out, nil
	}
	c.Args = cloned(args)
	return nil, c.finish
}

func cloned(args [][]byte) [][]byte {
	out := make([][]byte, len(args))
	for i, a := range args {
		out[i] = bytes.Clone(a)
	}
	return out
}

// finish does what Begin has left.
func (c *httpCall) finish(ctx context.Context) (out []byte, err error) {
	defer c.contain(&out)
	switch {
	case c.crossed != nil:
		return c.finishCrossed(ctx)
	case c.away:
		return c.goElsewhere(ctx)
	}
	return c.send(ctx)
}

// httpCall is a call of Do.
type httpCall struct {
	call
	from    *origin.Origin // see origin.Of
	turn    uint64         // see durable.Source.Turn
	away    bool           // only the leader can run it: it has not run
	refused bool           // it has not run for another reason
	reads   bool           // it may be sent again, also if it is not known what became of it
	crossed *crossed       // nil: it asks no groups that have yet to answer
	woken   chan struct{}  // by those
}

// decide runs the command, unless only the leader can run it.
func (c *httpCall) decide() {
	srv := c.srv
	g := c.group
	early := g.Special.Load() & (specialLoading | specialFollowing) // must be read before the clock
	turn, leads := g.Keeper.Leading()                               // before anything is decided
	rights := c.Rights
	*c = httpCall{call: srv.newCall(g, srv.clock.Now(), resp.RESP3, c.Args), from: c.from, turn: turn}
	c.Origin = c.from
	c.Rights = rights
	c.Lane = srv.counts.Stripes() - 1 // of connections with a goroutine of their own
	if srv.several() {
		g = choose(&c.call)
		c.enter(g)
		early &^= specialFollowing
		c.turn, leads = g.Keeper.Leading()
		leads = leads && g.Since.Load() <= c.Began
	}
	if !leads {
		early |= specialFollowing
	}
	c.runAlone(g.Special.Load() | early)
}

// runAlone runs the command and counts it. If it is to be forwarded, runAlone does nothing and sets away.
func (c *httpCall) runAlone(special uint32) {
	srv := c.srv
	v, text := c.admit(byItself, special)
	if v == paused {
		v, text = refused, errPaused
	}
	if c.gathers && v == admitted {
		v = away
	}
	if v == away {
		if srv.forwards() {
			c.away = true
			return
		}
		v, text = refused, c.elsewhere()
	}
	switch c.refused = v != admitted; v {
	case nonesuch:
		srv.counters.unknown.Add(1)
		c.Fail(unknownCommand(srv, c.Args))
		return
	case refused:
		srv.counts.Stripe(c.Lane).Reject(c.cmd.ID)
		c.Fail(text)
		return
	}
	if text := beginChange(&c.call, "http"); text != "" {
		c.refused = true
		c.Fail(text)
		return
	}
	if c.cmd.Flags&spec.Works != 0 {
		c.Client = worker{c.From()}
	}
	c.since = c.Began
	if spreads(&c.call, byItself) {
		c.Failed, c.Quorum, c.Durable, c.Latency = false, false, false, nil
		crossHTTP(c)
		c.done(byItself, srv.clock.Now()-c.Began, special)
		endChanges(&c.call, c.Out)
		return
	}
	c.done(byItself, c.run(byItself, nil, false), special)
	endChanges(&c.call, c.Out)
}

// worker is the handler.Client of a caller of Do. The goroutine of the caller does the work.
type worker struct{ from *origin.Origin }

// Steps implements handler.Client.
func (worker) Steps(_ func(), step func() (done bool)) {
	for !step() {
	}
}

// Background implements handler.Client.
func (worker) Background(work func() error, reply func(err error)) { reply(work()) }

// KnowsClusters implements handler.Client.
func (worker) KnowsClusters() {}

// ReadsHere implements handler.Client.
func (worker) ReadsHere(bool) {}

// Origin implements handler.Client.
func (w worker) Origin() *origin.Origin { return w.from }

// OutputLimit implements handler.Client.
func (worker) OutputLimit() int64 { return math.MaxInt64 }

// goEverywhere runs a command on the keys of all groups, of which other nodes lead some.
func (c *httpCall) goEverywhere(ctx context.Context) (out []byte, err error) {
	if text := beginChange(&c.call, "http"); text != "" {
		return resp.AppendError(nil, text), nil
	}
	all := gathering(&c.call, c.Args)
	c.gathers = false
	for known := false; !known; {
		c.Out, c.Failed = c.Out[:0], false
		if c.Groups, err = all.ask(ctx, &c.call); err != nil {
			c.Fail(err.Error())
			endChanges(&c.call, c.Out)
			return c.Out, nil
		}
		noteTurns(&c.call)
		c.since = c.srv.clock.Now()
		c.done(byItself, c.run(byItself, nil, false), 0)
		all.join(&c.call, 0)
		if known = !all.reads || !c.waits(); !known {
			if known, err = awaitAll(ctx, c.srv, c.Groups, c.turns); known || err != nil {
				return c.Out, err
			}
		}
	}
	endChanges(&c.call, c.Out)
	return c.send(ctx)
}

// waits reports whether the reply of a command that has run must wait.
func (c *httpCall) waits() bool {
	keeper := &c.group.Keeper
	switch {
	case c.refused, keeper.AckLeader.Load() && !c.lasts(&c.cmd.Command):
		return false
	case len(c.Groups) > 0:
		return true // sendAll asks each of them
	}
	return c.Reveals(&c.cmd.Command) && keeper.Withholds()
}

// send returns the reply of a command that has run, when it may be sent.
func (c *httpCall) send(ctx context.Context) (out []byte, err error) {
	if !c.waits() {
		return c.Out, nil
	}
	known := false
	if len(c.Groups) > 0 {
		known, err = awaitAll(ctx, c.srv, c.Groups, c.turns)
	} else {
		known, err = c.group.Keeper.Await(ctx, c.turn)
	}
	switch {
	case err != nil:
		return nil, err
	case !known:
		return resp.AppendError(nil, errUnknownOutcome), nil
	}
	return c.Out, nil
}

// awaitAll waits until everything seen so far of groups, nil for others, in the turns of these is durable. known and err are as those of Keeper.Await.
func awaitAll(ctx context.Context, srv *Server, groups []*handler.Group, turns []uint64) (known bool, err error) {
	for i, g := range srv.keyed {
		if groups[i] == nil {
			continue
		}
		if known, err := g.Keeper.Await(ctx, turns[i]); !known {
			return false, err
		}
	}
	return true, nil
}

// contain is session.contain for Do, whose reply is out.
func (c *httpCall) contain(out *[]byte) {
	r := recover()
	if r == nil {
		return
	}
	if panickedInEngine() {
		// net/http recovers panics of its handlers. End the process from a goroutine of our own.
		go panic(r)
		select {}
	}
	c.srv.counters.panics.Add(1)
	c.srv.log.Error("a command panicked", "from", httpAddr, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	*out = resp.AppendError(nil, errInternalHTTP)
}

// Forwarding for callers of Do, which have no connection. A caller uses a stream of its own while its command is at the
// leader, and leaves it to the next caller.

// goElsewhere sends a command that only the leader can run to the leader. While there is no leader, it waits.
func (c *httpCall) goElsewhere(ctx context.Context) (out []byte, err error) {
	if c.gathers {
		return c.goEverywhere(ctx)
	}
	srv, woken := c.srv, make(forward.Waker, 1)
	defer srv.leaderless.Remove(woken)
	for begin := srv.clock.Now(); ; c.decide() {
		if !c.away {
			return c.finish(ctx)
		}
		if link := c.group.Uplink(-1); link != nil {
			if out, begun, err := c.forward(ctx, link); begun {
				return out, err
			}
			srv.leaderless.WakeSoon()
		}
		waited := srv.clock.Now() - begin
		if waited < 0 || waited >= int64(leaderWait) || !srv.leaderless.Add(woken) {
			return resp.AppendError(nil, spec.ErrNoLeader), nil
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// portrait describes the caller for the leader.
func (c *httpCall) portrait() uplink.Client {
	if c.from == nil {
		return uplink.Client{Remote: httpAddr, Local: httpAddr, Unix: true, RESP3: true, User: c.UserName()}
	}
	return uplink.Client{Remote: c.from.Addr, Local: c.from.Addr, RESP3: true, User: c.UserName()}
}

// forward sends the command to the node that leads, and returns its reply. begun is false if that node has
// not begun the command, or if there is no reply and the command may be sent again.
func (c *httpCall) forward(ctx context.Context, link *uplink.Link) (out []byte, begun bool, err error) {
	srv := c.srv
	st := srv.streams.Take(link, c.portrait())
	if st == nil {
		return nil, false, nil
	}
	if !st.Send(resp.AppendCommand(nil, c.Args...)) {
		st.Close()
		return nil, false, nil
	}
	srv.counters.forwarded.Add(1)
	if c.cmd != nil && c.group.Special.Load()&specialMonitor != 0 {
		c.feed(c.cmd, c.Args)
	}
	var scan resp.ReplyScanner
	for {
		select {
		case <-st.Woken:
		case <-ctx.Done():
			st.Close()
			return nil, true, ctx.Err()
		}
		in, ended, cause := st.In.Take()
		n, whole, bad := scan.Scan(in)
		out = append(out, in[:n]...)
		switch {
		case bad != nil || n < len(in):
			st.Close()
			return resp.AppendError(nil, errUnknownOutcome), true, nil
		case whole && !ended:
			srv.streams.Put(st)
			fallthrough
		case whole:
			return out, true, nil
		case ended && cause == uplink.Refused && len(out) == 0, ended && c.reads:
			return nil, false, nil
		case ended:
			srv.counters.unknownOutcomes.Add(1)
			return resp.AppendError(nil, errUnknownOutcome), true, nil
		}
	}
}

// crossHTTP runs the command of a caller of Do that asks several groups. If that must wait, crossHTTP leaves the rest to finish.
func crossHTTP(c *httpCall) {
	w := cross(&c.call)
	if w == nil {
		return
	}
	c.woken = make(chan struct{}, 1)
	w.Begin(waysOf(&c.call, -1, true), func() {
		select {
		case c.woken <- struct{}{}:
		default:
		}
	})
	if w.Resume() {
		w.reply(&c.call)
		return
	}
	c.crossed = w
}

// finishCrossed waits for the groups that a command asks. If ctx ends before, the request goes on without its caller.
func (c *httpCall) finishCrossed(ctx context.Context) ([]byte, error) {
	for !c.crossed.Resume() {
		select {
		case <-c.woken:
		case <-ctx.Done():
			c.crossed.Abandon()
			return nil, ctx.Err()
		}
	}
	c.crossed.reply(&c.call)
	return c.Out, nil
}

// May returns "" if the user in a context may run a command and otherwise the error, which is noted in ACL LOG.
func (srv *Server) May(ctx context.Context, words ...string) (text string) {
	c := srv.newCall(srv.group, srv.clock.Now(), resp.RESP3, nil)
	for _, w := range words {
		c.Args = append(c.Args, []byte(w))
	}
	c.Rights = srv.accounts.rightsOf(ctx)
	if c.cmd, text = c.resolve(); c.cmd != nil && text == "" {
		text = c.forbidden(byItself)
	}
	return text
}

// gathered is a command on the keys of all groups, and what other nodes have replied about those that they lead.
type gathered struct {
	args    [][]byte
	reads   bool   // it changes nothing, so it may be asked for again
	has     []bool // by the index in Server.keyed: the groups that the replies are about
	replies []resp.Value
}

// gathering returns what gathers for the command of a call.
func gathering(c *call, args [][]byte) *gathered {
	return &gathered{args: args, reads: c.cmd.Flags&spec.Readonly != 0, has: make([]bool, len(c.srv.keyed))}
}

// gather runs the command of the call on the groups of all nodes: it asks the others, and then runs it here.
func gather(c *call) {
	s, cmd := c.client, c.cmd
	all := gathering(c, handler.CloneArgs(c.Args))
	asks := c.srv.newCall(c.srv.group, c.Began, resp.RESP3, nil)
	asks.Rights, asks.Origin = c.Rights, c.From()
	var led []*handler.Group
	ask := func() (err error) {
		led, err = all.ask(context.Background(), &asks)
		return err
	}
	var run func(err error)
	run = func(err error) {
		if err != nil {
			c.Fail(err.Error())
			return
		}
		s.gathered = func(mark int) (done bool) {
			all.join(c, mark)
			if !all.reads || c.group.Keeper.AckLeader.Load() {
				return true
			}
			// It asks again if this node has lost the lead, so its reply waits here, and not with others.
			out, turns, known := bytes.Clone(c.Out[mark:]), slices.Clone(c.turns), false
			c.Out = c.Out[:mark]
			s.pub.StepMemory.Store(int64(len(out)))
			c.Client.Background(func() (err error) {
				if known, err = awaitAll(context.Background(), c.srv, led, turns); !known && err == nil {
					err = ask()
				}
				return err
			}, func(err error) {
				s.pub.StepMemory.Store(0)
				if !known {
					run(err)
					return
				}
				c.Out, c.Durable = append(c.Out, out...), true
			})
			return false
		}
		c.cmd, c.Args, c.Groups, c.gathers = cmd, all.args, led, false
		noteTurns(c)
		c.alone()
	}
	c.Client.Background(ask, run)
}

// ask asks the other nodes, and those that lead meanwhile about what has no reply yet. It returns the groups of the rest, which this node leads, nil for
// others. It blocks.
func (a *gathered) ask(ctx context.Context, c *call) (led []*handler.Group, err error) {
	srv, woken := c.srv, make(forward.Waker, 1)
	defer srv.leaderless.Remove(woken)
	for begin := srv.clock.Now(); ; {
		var far map[*uplink.Link][]int
		if led, far = a.leading(srv); far != nil {
			if done, err := a.askAll(ctx, c, far); done || err != nil {
				return led, err
			}
			srv.leaderless.WakeSoon()
		}
		waited := srv.clock.Now() - begin
		if waited < 0 || waited >= int64(leaderWait) || !srv.leaderless.Add(woken) {
			if len(a.replies) > 0 && !a.reads { // some groups have changed
				srv.counters.unknownOutcomes.Add(1)
				return nil, errors.New(errUnknownOutcome)
			}
			return nil, errors.New(spec.ErrNoLeader)
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// leading returns, of the groups that no reply is about, those that this node leads, nil for others, and for each other node the indexes of those that it
// leads. far is nil while no node is known to lead one of them.
func (a *gathered) leading(srv *Server) (led []*handler.Group, far map[*uplink.Link][]int) {
	led, far = make([]*handler.Group, len(srv.keyed)), map[*uplink.Link][]int{}
	for i, g := range srv.keyed {
		if a.has[i] {
			continue
		}
		if g.Leads() {
			led[i] = &g.Group
			continue
		}
		link := g.Uplink(-1)
		if link == nil {
			return led, nil
		}
		far[link] = append(far[link], i)
	}
	return led, far
}

// askAll asks all other nodes at once about their groups. It returns false if one no longer leads all of them, or if it is lost and may be asked again.
func (a *gathered) askAll(ctx context.Context, c *call, far map[*uplink.Link][]int) (done bool, err error) {
	all := make(chan told, len(far))
	for link, groups := range far {
		numbers := strconv.AppendInt(nil, int64(groups[0]+1), 10)
		for _, i := range groups[1:] {
			numbers = strconv.AppendInt(append(numbers, ','), int64(i+1), 10)
		}
		h := &httpCall{call: c.srv.newCall(c.srv.group, c.Began, resp.RESP3, append([][]byte{[]byte(onlyGroups), numbers}, a.args...)), from: c.From(), reads: a.reads}
		h.Rights = c.Rights
		go func() {
			t := h.ask(ctx, link)
			t.groups = groups
			all <- t
		}()
	}
	done = true
	for range far {
		t := <-all
		if err == nil {
			err = t.err
		}
		if !t.begun {
			done = false
			continue
		}
		a.replies = append(a.replies, t.reply)
		for _, i := range t.groups {
			a.has[i] = true
		}
	}
	return done && err == nil, err
}

// told is what another node has replied about groups, unless it has not begun.
type told struct {
	groups []int
	reply  resp.Value
	begun  bool
	err    error
}

// ask has another node run the command.
func (c *httpCall) ask(ctx context.Context, link *uplink.Link) (t told) {
	out, begun, err := c.forward(ctx, link)
	if t.begun, t.err = begun, err; err != nil || !begun {
		return t
	}
	if t.reply, err = resp.ReadReply(bufio.NewReader(bytes.NewReader(out)), len(out)); err != nil {
		t.err = errors.New(errUnknownOutcome)
	}
	if c.reads && t.reply.Kind == '-' && t.reply.Text == errUnknownOutcome { // that node leads no more
		t.begun = false
	}
	return t
}

// join puts the replies of all nodes together in place of that of this one, which begins at mark.
func (a *gathered) join(c *call, mark int) {
	own, err := resp.ReadReply(bufio.NewReader(bytes.NewReader(c.Out[mark:])), len(c.Out))
	c.Out = c.Out[:mark]
	if err != nil {
		c.Fail(errInternal)
		return
	}
	all, sum := append(a.replies, own), int64(0)
	var elems []resp.Value
	for _, v := range all {
		if v.Kind == '-' || v.Kind == '!' {
			c.Fail(v.Text)
			return
		}
		sum, elems = sum+v.Int, append(elems, v.Elems...)
	}
	switch cmd := c.cmd; cmd.Full {
	case "dbsize", "rl.rules|reset":
		c.Int(sum)
	case "rl.rules|info": // of one of the caller's keys
		n := slices.IndexFunc(all, func(v resp.Value) bool { return !v.Null })
		if n < 0 {
			c.Null()
			return
		}
		c.Map(len(all[n].Elems) / 2)
		for _, v := range all[n].Elems {
			if v.Kind == ':' {
				c.Int(v.Int)
			} else {
				c.Text(v.Text)
			}
		}
	case "keys":
		c.Array(len(elems))
		for _, v := range elems {
			c.Bulk([]byte(v.Text))
		}
	case "rl.top":
		limits.JoinTop(c.inner(), a.args, elems)
	case "randomkey":
		first := int(uint64(c.Began/1e3) % uint64(len(all)))
		for i := range all {
			if v := all[(first+i)%len(all)]; !v.Null {
				c.Bulk([]byte(v.Text))
				return
			}
		}
		c.Null()
	default:
		c.OK()
	}
}
