package server

import (
	"context"

	"limitdb/resp"
	"limitdb/server/forward"
	"limitdb/server/spec"
	"limitdb/uplink"
)

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
