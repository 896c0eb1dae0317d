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
	defer srv.containDirect(&out)
	if srv.stopping.Load() {
		return resp.AppendError(nil, errShuttingDown), nil
	}
	d := srv.decideDirect(args)
	if d.away {
		return srv.doElsewhere(ctx, args)
	}
	return srv.sendDirect(ctx, &d)
}

// directCall is a call of Do.
type directCall struct {
	call
	turn    uint64 // see Durability.Turn
	away    bool   // only the leader can run it: it has not run
	refused bool   // it has not run for another reason
}

// decideDirect runs a command that belongs to no client, unless only the leader can run it.
func (srv *Server) decideDirect(args [][]byte) (d directCall) {
	early := srv.special.Load() & (specialLoading | specialFollowing) // must be read before the clock
	turn, following := srv.durable.turn()                             // before anything is decided
	d.turn = turn
	d.call = srv.newCall(srv.clock.Now(), resp.RESP3, args)
	d.Lane = srv.counts.Stripes() - 1 // of connections with a goroutine of their own
	d.runAlone(srv.special.Load() | early | following)
	return d
}

// sendDirect returns the reply of a call that has run, when it may be sent.
func (srv *Server) sendDirect(ctx context.Context, d *directCall) (out []byte, err error) {
	if d.refused || !d.Reveals(&d.cmd.Command) || srv.durable.ackLeader.Load() && d.cmd.Flags&spec.Quorum == 0 {
		return d.Out, nil
	}
	known, err := srv.durable.await(ctx, d.turn)
	switch {
	case err != nil:
		return nil, err
	case !known:
		return resp.AppendError(nil, errUnknownOutcome), nil
	}
	return d.Out, nil
}

// SetRuleMode gives a rule a mode, and returns once the change is durable. If ctx ends before that, it returns ctx's
// error, and the change is made. Other errors are rules.ErrNoRule, a rules.Errors and ErrNotLeading.
func (srv *Server) SetRuleMode(ctx context.Context, namespace, name string, mode rules.Mode) error {
	turn, following := srv.durable.turn()
	if following != 0 {
		return ErrNotLeading
	}
	failed := srv.rules.SetMode(namespace, name, mode)
	switch known, err := srv.durable.await(ctx, turn); {
	case err != nil:
		return err
	case !known:
		return errors.New(errUnknownOutcome)
	}
	return failed
}

// runAlone runs the command of a call that belongs to no client, and counts it. If the command is to be forwarded, runAlone does
// nothing and sets away.
func (d *directCall) runAlone(special uint32) {
	c, srv := &d.call, d.srv
	v, text := c.admit(byItself, special)
	if v == paused {
		v, text = refused, errPaused
	}
	if v == away {
		if srv.forwards() {
			d.away = true
			return
		}
		v, text = refused, c.elsewhere()
	}
	switch d.refused = v != admitted; v {
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

// containDirect is contain for Do.
func (srv *Server) containDirect(out *[]byte) {
	r := recover()
	if r == nil {
		return
	}
	if panickedInEngine() {
		// net/http recovers panics of its handlers. End the process from a goroutine of our own.
		go panic(r)
		select {}
	}
	srv.counters.panics.Add(1)
	srv.log.Error("a command panicked", "from", directAddr, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	*out = resp.AppendError(nil, errInternalDirect)
}

// Forwarding for callers of Do, which have no connection. A caller uses a stream of its own while its command is at the
// leader, and leaves it to the next caller.

// doElsewhere sends a command that only the leader can run to the leader. While there is no leader, it waits.
func (srv *Server) doElsewhere(ctx context.Context, args [][]byte) (out []byte, err error) {
	woken := make(forward.Waker, 1)
	defer srv.leaderless.Remove(woken)
	begin := srv.clock.Now()
	for {
		d := srv.decideDirect(args)
		if !d.away {
			return srv.sendDirect(ctx, &d)
		}
		if link := srv.uplink(-1); link != nil {
			if out, begun, err := srv.forwardDirect(ctx, link, &d.call); begun {
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

// forwardDirect sends a command to the node that leads, and returns its reply. begun is false if that node has
// not begun the command.
func (srv *Server) forwardDirect(ctx context.Context, link *uplink.Link, c *call) (out []byte, begun bool, err error) {
	st := srv.direct.Take(link)
	if st == nil {
		return nil, false, nil
	}
	if !st.Send(resp.AppendCommand(nil, c.Args...)) {
		st.Close()
		return nil, false, nil
	}
	srv.counters.forwarded.Add(1)
	if srv.special.Load()&specialMonitor != 0 {
		srv.monitors.feed(c, c.cmd, c.Args)
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
			srv.direct.Put(st)
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
