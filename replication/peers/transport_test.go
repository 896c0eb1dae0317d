package peers

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// newTransport returns a transport over a peer's layer.
func newTransport(p *peer) *Transport { return NewTransport(p.Layer, hclog.NewNullLogger()) }

// Raft's fast path for heartbeats, which passes the writes of the log, stays closed: a heartbeat arrives where all requests do.
func TestHeartbeatsWaitTheirTurn(t *testing.T) {
	to, from := newTransport(newPeer(t, "to", nil)), newTransport(newPeer(t, "from", nil))
	defer func() { _ = to.Close() }()
	defer func() { _ = from.Close() }()
	raft.Transport(to).SetHeartbeatHandler(func(rpc raft.RPC) { rpc.Respond(nil, errors.New("past the log")) })
	var all sync.WaitGroup
	defer all.Wait()
	stop := make(chan struct{})
	defer close(stop)
	all.Go(func() {
		for {
			select {
			case rpc := <-to.Consumer():
				rpc.Respond(&raft.AppendEntriesResponse{Term: 7, Success: true}, nil)
			case <-stop:
				return
			}
		}
	})
	heartbeat := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, Addr: []byte("from")}, Term: 7}
	// A peer may send one over a connection of the group's own as well.
	from.Layer.expects("to@1", to.LocalAddr())
	for _, w := range []raft.Transport{from, from.NetworkTransport} {
		var resp raft.AppendEntriesResponse
		if err := w.AppendEntries("to@1", to.LocalAddr(), heartbeat, &resp); err != nil || resp.Term != 7 {
			t.Errorf("%+v, %v", resp, err)
		}
	}
}

// A peer that was started again gets a message although connections of its earlier run are in the pool.
func TestPeerThatWasStartedAgain(t *testing.T) {
	from, p := newTransport(newPeer(t, "from", nil)), newPeer(t, "to", nil)
	defer func() { _ = from.Close() }()
	append1 := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, Addr: []byte("from")}, Term: 7, PrevLogEntry: 1}
	for range 2 {
		to := newTransport(p)
		go func() {
			rpc := <-to.Consumer()
			rpc.Respond(&raft.AppendEntriesResponse{Term: 7, Success: true}, nil)
		}()
		var resp raft.AppendEntriesResponse
		if err := from.AppendEntries("to@1", to.LocalAddr(), append1, &resp); err != nil || !resp.Success {
			t.Errorf("%+v, %v", resp, err)
		}
		_, _ = to.Close(), p.Port.Close()
		p = newPeerAt(t, "to", p.address, nil, greetTimeout)
	}
}

// Messages go on after either side has closed its connections, as a node does for a group that it leads no more.
func TestStreamsThatWereClosed(t *testing.T) {
	to, from := newTransport(newPeer(t, "to", nil)), newTransport(newPeer(t, "from", nil))
	defer func() { _ = from.Close() }()
	var all sync.WaitGroup
	defer all.Wait()
	stop := make(chan struct{})
	defer func() { close(stop); _ = to.Close() }()
	all.Go(func() {
		for {
			select {
			case rpc := <-to.Consumer():
				rpc.Respond(&raft.RequestVoteResponse{Term: 7, Granted: true}, nil)
			case <-stop:
				return
			}
		}
	})
	for i := range 9 {
		var resp raft.RequestVoteResponse
		args := &raft.RequestVoteRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, Addr: []byte("from")}, Term: 7}
		if err := from.RequestVote("to@1", to.LocalAddr(), args, &resp); err != nil || !resp.Granted {
			t.Fatalf("message %d: %+v, %v", i, resp, err)
		}
		if i%3 == 1 {
			to.CloseStreams()
		}
		if i%3 == 2 {
			from.CloseStreams()
		}
	}
}

// decodeError is an error like those of Raft's decoder.
type decodeError struct{ cause error }

func (e decodeError) Error() string { return e.cause.Error() }
func (e decodeError) Cause() error  { return e.cause }

// Which messages are sent again, and for how long.
func TestMessagesAreSentAgain(t *testing.T) {
	errs := func(n int, err error) (all []error) {
		for range n {
			all = append(all, fmt.Errorf("a wrapped error: %w", err))
		}
		return all
	}
	for name, c := range map[string]struct {
		errs    []error // of the calls, before one that succeeds
		patient bool
		want    error
		took    time.Duration
	}{
		"the pool is used up":    {errs(maxPool, io.EOF), false, nil, 0},
		"a reset in a reply":     {errs(maxPool, decodeError{syscall.ECONNRESET}), false, nil, 0},
		"no new connection":      {errs(maxPool+1, syscall.ECONNRESET), true, syscall.ECONNRESET, 0},
		"an answer":              {errs(1, io.ErrUnexpectedEOF), true, io.ErrUnexpectedEOF, 0},
		"nobody listens":         {errs(1, syscall.ECONNREFUSED), false, syscall.ECONNREFUSED, 0},
		"the peer starts":        {errs(5, syscall.ECONNREFUSED), true, nil, 5 * redial},
		"the peer does not come": {errs(redials+1, syscall.ECONNREFUSED), true, syscall.ECONNREFUSED, Timeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, calls := time.Now(), 0
			err := (&Transport{}).send(c.patient, func() error {
				if calls++; calls <= len(c.errs) {
					return c.errs[calls-1]
				}
				return nil
			})
			if !errors.Is(err, c.want) || time.Since(began) != c.took {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
		})
	}
	stop := make(chan struct{})
	close(stop)
	if err := (&Transport{Stop: stop}).send(true, func() error { return syscall.ECONNREFUSED }); err == nil {
		t.Error("a message is sent by a node that stops")
	}
}

// With one request in flight there is no pipeline that could lock up.
func TestNoPipeline(t *testing.T) {
	w := newTransport(newPeer(t, "a", nil))
	defer func() { _ = w.Close() }()
	if _, err := w.AppendEntriesPipeline("x", w.LocalAddr()); !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
		t.Errorf("a pipeline: %v", err)
	}
}

// Raft looks for these by their types.
func TestTransportKeepsWhatIsOptional(t *testing.T) {
	var w raft.Transport = &Transport{}
	if _, ok := w.(raft.WithPreVote); !ok {
		t.Error("no PreVote")
	}
	if _, ok := w.(raft.WithClose); !ok {
		t.Error("no Close")
	}
}

// A message has a bounded number of bytes, or a single entry, and no later commit index than what it vouches for.
func TestMessagesHaveABound(t *testing.T) {
	for _, c := range []struct{ before, entries, commit, want uint64 }{{0, 0, 0, 0}, {7, 0, 7, 7}, {7, 0, 9, 7}, {7, 2, 8, 8}, {7, 2, 9, 9}, {7, 2, 12, 9}, {0, 3, 12, 3}} {
		args := raft.AppendEntriesRequest{PrevLogEntry: c.before, LeaderCommitIndex: c.commit}
		for range c.entries {
			args.Entries = append(args.Entries, &raft.Log{})
		}
		if Bound(&args); args.LeaderCommitIndex != c.want {
			t.Errorf("%+v: %d is committed", c, args.LeaderCommitIndex)
		}
	}
	for _, want := range []struct{ entries, size, sent int }{{0, 0, 0}, {1, 8 << 20, 1}, {3, 8 << 20, 1}, {64, 10, 64}, {64, 256 << 10, 4}} {
		args := raft.AppendEntriesRequest{}
		for range want.entries {
			args.Entries = append(args.Entries, &raft.Log{Data: make([]byte, want.size)})
		}
		if Bound(&args); len(args.Entries) != want.sent {
			t.Errorf("%d of %d entries of %d bytes are sent", len(args.Entries), want.entries, want.size)
		}
	}
}

// However many groups send snapshots, they take no more of the network together than one would.
func TestSnapshotsAreSentSlowly(t *testing.T) {
	for groups := 1; groups <= 3; groups++ {
		synctest.Test(t, func(t *testing.T) {
			const size = 2*snapshotRate + 5
			of := newSending()
			var all sync.WaitGroup
			began := time.Now()
			for range groups {
				all.Go(func() {
					if n, err := io.Copy(io.Discard, &throttled{from: io.LimitReader(zeros{}, size), of: &of}); n != size || err != nil {
						t.Errorf("%d bytes, %v", n, err)
					}
				})
			}
			all.Wait()
			if took := time.Since(began).Round(100 * time.Millisecond); took != time.Duration(groups)*2*time.Second {
				t.Errorf("%d snapshots: %v", groups, took)
			}
		})
	}
}

// Few snapshots are sent at once, so that each is fast enough for its receiver. One that has waited is not sent by a node that stops, or that leads no more.
func TestSnapshotsWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, stop, leads := newSending(), make(chan struct{}), true
		w := &Transport{Stop: stop, Leads: func(term uint64) bool { return leads && term == 7 }}
		for range snapshotsAtOnce {
			if err := w.place(&of, 1); err != nil { // at once: Raft has just looked whether it leads
				t.Fatal(err)
			}
		}
		waits := func(term uint64, until func()) error {
			told := make(chan error)
			go func() { told <- w.place(&of, term) }()
			synctest.Wait()
			select {
			case err := <-told:
				t.Errorf("it does not wait: %v", err)
			default:
			}
			until()
			return <-told
		}
		next := func() { <-of.places }
		if err := waits(7, next); err != nil {
			t.Error(err)
		}
		if err := waits(6, next); !errors.Is(err, raft.ErrLeadershipLost) {
			t.Errorf("of a term that is over: %v", err)
		}
		if err := w.place(&of, 7); err != nil || len(of.places) != snapshotsAtOnce {
			t.Errorf("the place of the one that was not sent: %v", err)
		}
		if err := waits(7, func() { close(stop) }); !errors.Is(err, raft.ErrTransportShutdown) {
			t.Errorf("of a node that stops: %v", err)
		}
	})
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
