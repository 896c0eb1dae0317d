package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"limitdb/resp"
	"limitdb/rules"
	"limitdb/server/forward"
	"limitdb/server/spec"
	"limitdb/uplink"
)

// Do runs a command for a caller that has no connection to the server, such as an HTTP request.
// It returns the reply, in RESP3, when the reply may be sent: once the state that it reveals is
// durable. If ctx ends before, it returns ctx's error, and the command may have been carried out.
// A command that needs a client's connection is refused, and one that would wait for its turn is
// decided at once. A node that does not lead sends the command to the node that does, and waits for
// a leader as it does for its clients. Any goroutine may call Do.
func (srv *Server) Do(ctx context.Context, args ...[]byte) (out []byte, err error) {
	c := httpCall{call: srv.newCall(0, resp.RESP3, args)}
	defer c.contain(&out)
	if srv.stopping.Load() {
		return resp.AppendError(nil, errShuttingDown), nil
	}
	if c.decide(); c.away {
		return c.goElsewhere(ctx)
	}
	return c.send(ctx)
}

// httpCall is a call of Do.
type httpCall struct {
	call
	turn    uint64 // see durable.Source.Turn
	away    bool   // only the leader can run it: it has not run
	refused bool   // it has not run for another reason
}

// decide runs the command, unless only the leader can run it.
func (c *httpCall) decide() {
	srv := c.srv
	early := srv.special.Load() & (specialLoading | specialFollowing) // must be read before the clock
	turn, leads := srv.durable.Leading()                              // before anything is decided
	*c = httpCall{call: srv.newCall(srv.clock.Now(), resp.RESP3, c.Args), turn: turn}
	c.Lane = srv.counts.Stripes() - 1 // of connections with a goroutine of their own
	if !leads {
		early |= specialFollowing
	}
	c.runAlone(srv.special.Load() | early)
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
		c.Fail(srv.unknownCommand(c.Args))
		return
	case refused:
		srv.counts.Stripe(c.Lane).Reject(c.cmd.ID)
		c.Fail(text)
		return
	}
	c.since = c.Now
	c.done(byItself, c.run(byItself, nil, false), special)
}

// send returns the reply of a command that has run, when it may be sent.
func (c *httpCall) send(ctx context.Context) (out []byte, err error) {
	keeper := &c.srv.durable
	if c.refused || !c.Reveals(&c.cmd.Command) || keeper.AckLeader.Load() && c.cmd.Flags&spec.Quorum == 0 {
		return c.Out, nil
	}
	known, err := keeper.Await(ctx, c.turn)
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
		if link := srv.uplink(-1); link != nil {
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

// forward sends the command to the node that leads, and returns its reply. begun is false if that node has
// not begun the command.
func (c *httpCall) forward(ctx context.Context, link *uplink.Link) (out []byte, begun bool, err error) {
	srv := c.srv
	st := srv.streams.Take(link)
	if st == nil {
		return nil, false, nil
	}
	if !st.Send(resp.AppendCommand(nil, c.Args...)) {
		st.Close()
		return nil, false, nil
	}
	srv.counters.forwarded.Add(1)
	if srv.special.Load()&specialMonitor != 0 {
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

// SetRuleMode gives a rule a mode, and returns once the change is durable. If ctx ends before that, it returns ctx's
// error, and the change is made. Other errors are rules.ErrNoRule, a rules.Errors and ErrNotLeading.
func (srv *Server) SetRuleMode(ctx context.Context, namespace, name string, mode rules.Mode) error {
	turn, leads := srv.durable.Leading()
	if !leads {
		return ErrNotLeading
	}
	failed := srv.rules.SetMode(namespace, name, mode)
	switch known, err := srv.durable.Await(ctx, turn); {
	case err != nil:
		return err
	case !known:
		return errors.New(errUnknownOutcome)
	}
	return failed
}
