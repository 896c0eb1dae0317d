package peers

import (
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Transport is Raft's transport over a layer. Entries go over the node's mux, all else over connections of the group's own.
//
// It embeds the transport itself, not its interface, so that Raft finds RequestPreVote and Close. Raft has a fast path
// for heartbeats, which passes writes of the log. With it, a node can acknowledge entries that its log does not have.
// So Transport closes that path: a heartbeat waits its turn.
type Transport struct {
	*raft.NetworkTransport
	Layer *Layer
	// Stop is closed when the node stops. It is set before Raft starts.
	Stop <-chan struct{}
	// Sends returns the reader from which a snapshot is sent, given the index of its last entry, its size in bytes, and the snapshot. If it is nil,
	// snapshots are sent as they are. It is set before Raft starts.
	Sends func(last uint64, size int64, data io.Reader) io.Reader
	// Leads reports whether the node still leads in a term; nil: always. It is set before Raft starts.
	Leads func(term uint64) bool
	// Handed is told that another node has this one take over the leadership; nil: nobody is told. It is set before Raft starts.
	Handed func()

	alone    atomic.Bool // heartbeats do not wait for other messages
	forwards sync.WaitGroup

	mu sync.Mutex
	// last has the last entry that each peer has reported.
	last map[raft.ServerID]uint64
	with map[raft.ServerID]*piggyback
}

// NewTransport serves Raft on a layer that is served.
func NewTransport(l *Layer, log hclog.Logger) *Transport {
	t := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: l, MaxPool: maxPool, MaxRPCsInFlight: 1, Timeout: Timeout, Logger: countingLog{log, l},
	})
	t.TimeoutScale = timeoutScale
	w := &Transport{NetworkTransport: t, Layer: l, last: map[raft.ServerID]uint64{}, with: map[raft.ServerID]*piggyback{}}
	w.forwards.Go(w.forward)
	return w
}

// Consumer returns the channel of what peers ask Raft.
func (w *Transport) Consumer() <-chan raft.RPC { return w.Layer.rpcs }

// forward passes on to Consumer what comes over the group's own connections.
func (w *Transport) forward() {
	for {
		select {
		case rpc := <-w.NetworkTransport.Consumer():
			if now, ok := rpc.Command.(*raft.TimeoutNowRequest); ok && len(now.ID) > 0 && w.Handed != nil { // without an id, it is this node's own
				w.Handed()
			}
			select {
			case w.Layer.rpcs <- rpc:
			case <-w.Layer.done:
				return
			}
		case <-w.Layer.done:
			return
		}
	}
}

// SetHeartbeat says what Raft's heartbeat timeout is.
func (w *Transport) SetHeartbeat(timeout time.Duration) { w.alone.Store(timeout < piggybackFrom) }

const (
	maxPool = 2 // connections to a peer that are kept, each with a buffer of 256 kB
	// If nobody listens on a peer's port, entries wait for redial before the next attempt, redials times at most. Raft
	// itself waits longer after each failure, up to 10 s, and a peer that is back would get no entries for that time.
	redial  = 20 * time.Millisecond
	redials = int(Timeout / redial)
	// appendBytes is about how many bytes of entries one message has.
	appendBytes = 1 << 20
)

// send sends a message, which the peer may get twice. It first uses up the pool's connections to an earlier run of the
// peer. A patient message waits for a peer that is starting. A node that stops sends none.
func (w *Transport) send(patient bool, message func() error) error {
	for pooled, calls := maxPool, redials; ; {
		select {
		case <-w.Stop:
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
			case <-w.Stop:
			}
		default:
			return err
		}
	}
}

// Bound shortens a message to about appendBytes of entries, and at least one entry. Raft continues after the last entry
// that was sent.
//
// It also takes the message's commit index back to the last entry that the message has or names. A follower of Raft 1.7 counts its whole log up to the
// commit index as committed. Behind what the message vouches for, it may have entries of a deposed leader.
func Bound(args *raft.AppendEntriesRequest) {
	size := 0
	for i, e := range args.Entries {
		if size += len(e.Data); i > 0 && size > appendBytes {
			args.Entries = args.Entries[:i]
			break
		}
	}
	args.LeaderCommitIndex = min(args.LeaderCommitIndex, args.PrevLogEntry+uint64(len(args.Entries)))
}

// AppendEntries sends entries or a heartbeat to a peer, and notes the last entry that the peer has. Other messages may replace a heartbeat: see
// piggyback.
func (w *Transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	Bound(args)
	heartbeat := args.PrevLogEntry == 0 && len(args.Entries) == 0
	with := w.piggyback(id)
	if heartbeat && !w.alone.Load() && with.replaces(args.Term, resp, w.Stop) {
		return nil
	}
	var number uint64
	if !heartbeat {
		number = with.begins(args.Term)
	}
	err := w.send(!heartbeat, func() error { return w.Layer.append(string(id), string(to), args, resp, w.Stop) })
	if !heartbeat {
		with.ended(number, resp, err == nil)
	}
	if err == nil && resp.Success {
		w.mu.Lock()
		w.last[id] = resp.LastLog
		w.mu.Unlock()
	}
	return err
}

// piggyback returns that of a peer.
func (w *Transport) piggyback(id raft.ServerID) *piggyback {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.with[id]
	if p == nil {
		p = newPiggyback()
		w.with[id] = p
	}
	return p
}

// RequestVote asks a peer for its vote.
func (w *Transport) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	w.Layer.expects(id, to)
	return w.send(false, func() error { return w.NetworkTransport.RequestVote(id, to, args, resp) })
}

// RequestPreVote asks a peer whether it would vote for this node.
func (w *Transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	w.Layer.expects(id, to)
	return w.send(false, func() error { return w.NetworkTransport.RequestPreVote(id, to, args, resp) })
}

// TimeoutNow makes a peer ask for votes at once.
func (w *Transport) TimeoutNow(id raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	w.Layer.expects(id, to)
	return w.send(false, func() error { return w.NetworkTransport.TimeoutNow(id, to, args, resp) })
}

// LastLog returns the last entry that a peer has reported, or 0.
func (w *Transport) LastLog(peer raft.ServerID) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[peer]
}

// SetHeartbeatHandler does nothing.
func (*Transport) SetHeartbeatHandler(func(raft.RPC)) {}

// Close closes the port and all connections, including accepted ones, which Raft would leave open.
func (w *Transport) Close() error {
	err := errors.Join(ignoreClosed(w.NetworkTransport.Close()), w.Layer.Close())
	w.forwards.Wait()
	return err
}

// countingLog counts the connections that Raft closes because it cannot read what a peer has sent.
type countingLog struct {
	hclog.Logger
	l *Layer
}

func (w countingLog) Error(msg string, args ...any) {
	if strings.HasPrefix(msg, "failed to decode incoming command") {
		w.l.refused.Add(1)
	}
	w.Logger.Error(msg, args...)
}
