package server

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime/debug"

	"limitdb/internal/origin"
	"limitdb/resp"
	"limitdb/server/forward"
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
	if !c.away && !c.waits() {
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
	if c.away {
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

// waits reports whether the reply of a command that has run must wait.
func (c *httpCall) waits() bool {
	keeper := &c.group.Keeper
	return !c.refused && c.Reveals(&c.cmd.Command) && (!keeper.AckLeader.Load() || c.cmd.Flags&spec.Quorum != 0 || c.Quorum) && keeper.Withholds()
}

// send returns the reply of a command that has run, when it may be sent.
func (c *httpCall) send(ctx context.Context) (out []byte, err error) {
	if !c.waits() {
		return c.Out, nil
	}
	known, err := c.group.Keeper.Await(ctx, c.turn)
	switch {
	case err != nil:
		return nil, err
	case !known:
		return resp.AppendError(nil, errUnknownOutcome), nil
	}
	return c.Out, nil
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
	srv, woken := c.srv, make(forward.Waker, 1)
	defer srv.leaderless.Remove(woken)
	for begin := srv.clock.Now(); ; c.decide() {
		if !c.away {
			return c.send(ctx)
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
// not begun the command.
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
	if c.group.Special.Load()&specialMonitor != 0 {
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
		case ended && cause == uplink.Refused && len(out) == 0:
			return nil, false, nil
		case ended:
			srv.counters.unknownOutcomes.Add(1)
			return resp.AppendError(nil, errUnknownOutcome), true, nil
		}
	}
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
