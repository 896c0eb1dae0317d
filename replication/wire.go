package replication

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// wire is Raft's transport over a layer.
//
// It embeds the transport itself, not its interface, so that Raft finds RequestPreVote and Close. Raft has a fast path
// for heartbeats, which passes writes of the log. With it, a node can acknowledge entries that its log does not have.
// So wire closes that path: a heartbeat waits its turn.
type wire struct {
	*raft.NetworkTransport
	l *layer
	// stop is closed when the node stops. It is set before Raft starts.
	stop <-chan struct{}

	mu sync.Mutex
	// last has the last entry that each peer has reported.
	last map[raft.ServerID]uint64
}

// newWire opens a layer whose fields are set, and serves Raft on it.
func newWire(l *layer) *wire {
	l.loops.Add(1)
	go l.serve()
	return newWireOn(l)
}

// newWireOn serves Raft on an open layer.
func newWireOn(l *layer) *wire {
	t := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: l, MaxPool: maxPool, MaxRPCsInFlight: 1, Timeout: rpcTimeout, Logger: wireLog{newRaftLog(l.log), l},
	})
	t.TimeoutScale = timeoutScale
	return &wire{NetworkTransport: t, l: l, last: map[raft.ServerID]uint64{}}
}

// listen opens the port at the address that peers dial. If the address names a host, listen opens the port on all
// addresses of the machine.
func listen(address string, certs *Certificates, log *slog.Logger) (*layer, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("replication: %w", err)
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case port == "0" || host == "" || err == nil && ip.IsUnspecified():
		return nil, fmt.Errorf("replication: peers cannot dial %s", address)
	case certs == nil && !ip.IsLoopback():
		return nil, fmt.Errorf("replication: %s is not an IP address of loopback and a port: without certificates of the nodes, no other is accepted", address)
	}
	bind := address
	if err != nil {
		bind = ":" + port
	}
	ln, err := net.Listen("tcp", bind)
	if err != nil {
		return nil, fmt.Errorf("replication: %w", err)
	}
	l := newLayer(ln, address, log)
	l.certs = certs
	return l, nil
}

const (
	// If nobody listens on a peer's port, entries wait for redial before the next attempt, redials times at most. Raft
	// itself waits longer after each failure, up to 10 s, and a peer that is back would get no entries for that time.
	redial  = 20 * time.Millisecond
	redials = int(rpcTimeout / redial)
	// appendBytes is about how many bytes of entries one message has.
	appendBytes = 4 << 20
)

// send sends a message, which the peer may get twice. It first uses up the pool's connections to an earlier run of the
// peer. A patient message waits for a peer that is starting. A node that stops sends none.
func (w *wire) send(patient bool, message func() error) error {
	for pooled, calls := maxPool, redials; ; {
		select {
		case <-w.stop:
			return raft.ErrTransportShutdown
		default:
		}
		err := message()
		var decoding interface{ Cause() error } // Raft's decoder does not unwrap its errors
		if errors.As(err, &decoding) {
			err = decoding.Cause()
		}
		switch {
		case pooled > 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)):
			pooled--
		case patient && calls > 0 && errors.Is(err, syscall.ECONNREFUSED):
			calls--
			select {
			case <-time.After(redial):
			case <-w.stop:
			}
		default:
			return err
		}
	}
}

// fit shortens a message to about appendBytes of entries, and at least one entry. Raft continues after the last entry
// that was sent.
func fit(args *raft.AppendEntriesRequest) {
	size := 0
	for i, e := range args.Entries {
		if size += len(e.Data); i > 0 && size > appendBytes {
			args.Entries = args.Entries[:i]
			return
		}
	}
}

// AppendEntries sends entries or a heartbeat to a peer, and notes the last entry that the peer has.
func (w *wire) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	w.l.expects(id, to)
	fit(args)
	heartbeat := args.PrevLogEntry == 0 && len(args.Entries) == 0
	err := w.send(!heartbeat, func() error { return w.NetworkTransport.AppendEntries(id, to, args, resp) })
	if err == nil && resp.Success {
		w.mu.Lock()
		w.last[id] = resp.LastLog
		w.mu.Unlock()
	}
	return err
}

// RequestVote asks a peer for its vote.
func (w *wire) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	w.l.expects(id, to)
	return w.send(false, func() error { return w.NetworkTransport.RequestVote(id, to, args, resp) })
}

// RequestPreVote asks a peer whether it would vote for this node.
func (w *wire) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	w.l.expects(id, to)
	return w.send(false, func() error { return w.NetworkTransport.RequestPreVote(id, to, args, resp) })
}

// TimeoutNow makes a peer ask for votes at once.
func (w *wire) TimeoutNow(id raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	w.l.expects(id, to)
	return w.send(false, func() error { return w.NetworkTransport.TimeoutNow(id, to, args, resp) })
}

// lastLog returns the last entry that a peer has reported, or 0.
func (w *wire) lastLog(peer raft.ServerID) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[peer]
}

// SetHeartbeatHandler does nothing.
func (*wire) SetHeartbeatHandler(func(raft.RPC)) {}

// Close closes the port and all connections, including accepted ones, which Raft would leave open.
func (w *wire) Close() error {
	return errors.Join(ignoreClosed(w.NetworkTransport.Close()), w.l.Close())
}

// wireLog counts the connections that Raft closes because it cannot read what a peer has sent.
type wireLog struct {
	hclog.Logger
	l *layer
}

func (w wireLog) Error(msg string, args ...any) {
	if strings.HasPrefix(msg, "failed to decode incoming command") {
		w.l.refused.Add(1)
	}
	w.Logger.Error(msg, args...)
}
