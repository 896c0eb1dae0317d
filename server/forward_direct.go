package server

import (
	"context"
	"sync"

	"limitdb/resp"
	"limitdb/server/spec"
	"limitdb/uplink"
)

// Forwarding for callers of Do, which have no connection. A caller uses a stream of its own while its command is at the
// leader, and leaves it to the next caller.

// keptStreams is the most streams that are kept while nobody uses them.
const keptStreams = 64

// directStream is a stream for one command at a time.
type directStream struct {
	*uplink.Stream
	in    *inbox
	woken chan struct{} // the inbox has something; capacity 1
}

// directStreams are those that nobody uses now.
type directStreams struct {
	mu   sync.Mutex
	kept []*directStream // guarded by mu
}

// take returns a stream of an uplink, or nil if there is none to be had.
func (d *directStreams) take(link *uplink.Link) *directStream {
	for {
		st := d.pop()
		if st == nil {
			break
		}
		if _, ended, _ := st.in.take(); !ended && st.Of(link) {
			return st
		}
		st.Close()
	}
	st := &directStream{woken: make(chan struct{}, 1)}
	st.in = &inbox{wake: func() { wakeUp(st.woken) }}
	if st.Stream = link.Open(&uplink.Client{Remote: directAddr, Local: directAddr, Unix: true, RESP3: true}, st.in); st.Stream == nil {
		return nil
	}
	return st
}

func (d *directStreams) pop() *directStream {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.kept)
	if n == 0 {
		return nil
	}
	st := d.kept[n-1]
	d.kept = d.kept[:n-1]
	return st
}

// put keeps a stream for the next caller.
func (d *directStreams) put(st *directStream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.kept) == keptStreams {
		st.Close()
		return
	}
	d.kept = append(d.kept, st)
}

// wakeUp puts a token into a channel that has room for one.
func wakeUp(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// caller is a caller of Do whose command waits for a leader.
type caller chan struct{}

func (c caller) look() { wakeUp(c) }

// doElsewhere has the leader run a command that only the leader can run. While there is none, it waits.
func (srv *Server) doElsewhere(ctx context.Context, args [][]byte) (out []byte, err error) {
	woken := make(caller, 1)
	defer srv.leaderless.remove(woken)
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
			srv.leaderless.wakeSoon()
		}
		waited := srv.clock.Now() - begin
		if waited < 0 || waited >= int64(leaderWait) || !srv.leaderless.add(woken) {
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
	st := srv.direct.take(link)
	if st == nil || !st.Send(appendCommand(nil, c.Args)) {
		return nil, false, nil
	}
	srv.counters.forwarded.Add(1)
	if srv.special.Load()&specialMonitor != 0 {
		srv.monitors.feedDirect(c)
	}
	var scan resp.ReplyScanner
	for {
		select {
		case <-st.woken:
		case <-ctx.Done():
			st.Close()
			return nil, true, ctx.Err()
		}
		in, ended, cause := st.in.take()
		n, whole, bad := scan.Scan(in)
		out = append(out, in[:n]...)
		switch {
		case bad != nil || n < len(in):
			st.Close()
			return resp.AppendError(nil, errUnknownOutcome), true, nil
		case whole && !ended:
			srv.direct.put(st)
			fallthrough
		case whole:
			return out, true, nil
		case ended && cause == uplink.NotLeading && len(out) == 0:
			return nil, false, nil
		case ended:
			srv.counters.unknownOutcomes.Add(1)
			return resp.AppendError(nil, errUnknownOutcome), true, nil
		}
	}
}
