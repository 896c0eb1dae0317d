package server

import (
	"context"
	"fmt"
	"runtime/debug"

	"limitdb/resp"
)

// Do runs a command for a caller that has no connection to the server, such as an HTTP request.
// It returns the reply, in RESP3, when the reply may be sent: once the state that it reveals is
// durable. If ctx ends before, it returns ctx's error, and the command may have been carried out.
// A command that needs a client's connection is refused, and one that would wait for its turn is
// decided at once. Any goroutine may call Do.
func (srv *Server) Do(ctx context.Context, args ...[]byte) (out []byte, err error) {
	defer srv.containDirect(&out)
	early := srv.special.Load() & (specialLoading | specialFollowing) // must be read before the clock
	turn, following := srv.durable.turn()                             // before anything is decided
	c := call{srv: srv, args: args, now: srv.clock.Now(), reply: reply{proto: resp.RESP3}}
	if srv.stopping.Load() {
		return resp.AppendError(nil, errShuttingDown), nil
	}
	c.runAlone(srv.special.Load() | early | following)
	if !c.reveals || srv.durable.ackLeader.Load() && c.cmd.flags&flagQuorum == 0 {
		return c.out, nil
	}
	known, err := srv.settle(ctx, turn)
	switch {
	case err != nil:
		return nil, err
	case !known:
		return resp.AppendError(nil, errUnknownOutcome), nil
	}
	return c.out, nil
}

// settle blocks until everything seen so far in a turn is durable. known is false if that can never be known, and with
// ctx's error if ctx ends before.
func (srv *Server) settle(ctx context.Context, turn uint64) (known bool, err error) {
	d := &srv.durable
	over := make(chan error, 1)
	if d.Durability == nil || !d.Holds() || !d.Wait(turn, func(err error) { over <- err }) {
		return true, nil
	}
	d.Kick()
	select {
	case lost := <-over:
		return lost == nil, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// runAlone runs the command of a call that belongs to no client, and counts it. Afterwards c.reveals
// reports whether the reply reveals state.
func (c *call) runAlone(special uint32) {
	srv := c.srv
	stripe := srv.counts.Stripe(srv.counts.Stripes() - 1) // of connections with a goroutine of their own
	text := ""
	if c.cmd = srv.table.find(c.args[0]); c.cmd == nil {
		srv.counters.unknown.Add(1)
		c.fail(srv.unknownCommand(c.args))
		return
	}
	if c.cmd, text = c.cmd.resolve(c.args); text == "" {
		text = c.refusal(special)
	}
	if text == "" && special&specialPause != 0 && srv.pause.stops(c.cmd) {
		text = errPaused
	}
	if text != "" {
		stripe.Reject(c.cmd.id)
		c.fail(text)
		return
	}
	c.cmd.run(c)
	stripe.Record(c.cmd.id, srv.clock.Now()-c.now, c.failed)
	if special&specialMonitor != 0 && c.cmd.flags&flagSkipMonitor == 0 {
		srv.monitors.feedDirect(c)
	}
	c.reveals = c.cmd.flags&(flagWrite|flagReadonly) != 0 && (!c.failed || c.reveals)
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

// directAddr is what MONITOR and the log show as the address of Do's callers.
const directAddr = "http"
