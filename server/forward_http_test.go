package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"limitdb/config"
	"limitdb/resp"
	"limitdb/server/forward"
	"limitdb/server/spec"
	"limitdb/uplink"
)

// asks runs a command by Do, and returns the channel of its reply.
func (n *twoNodes) asks(words ...string) <-chan string {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	reply := make(chan string, 1)
	go func() {
		b, err := n.follower.Do(n.t.Context(), args...)
		if err != nil {
			reply <- err.Error()
			return
		}
		v, err := resp.ReadReply(bufio.NewReader(bytes.NewReader(b)), 1<<20)
		if err != nil {
			reply <- err.Error()
			return
		}
		reply <- line(v)
	}()
	return reply
}

// Commands without a connection are forwarded like clients' commands: they wait for a leader, are then refused, and have an unknown outcome if
// the uplink ends.
func TestForwardingHTTP(t *testing.T) {
	n := newTwoNodes(t)
	is := func(reply <-chan string, want string) {
		t.Helper()
		for {
			select {
			case got := <-reply:
				if got != want {
					t.Errorf("%s, want %s", got, want)
				}
				return
			case <-time.After(houseEvery):
				n.follower.leaderless.Wake() // as the housekeeper does
			}
		}
	}
	take := func(key string) <-chan string { return n.asks("RL.TAKE", key, "GCRA", "1/m") }
	is(take("a"), "[0 1 0 -1 60000]")
	is(take("a"), "[1 1 0 60000 60000]")
	is(n.asks("RL.INFO", "none"), "nil")
	is(n.asks("RL.TAKE", "a"), "-"+n.leader.table.find([]byte("RL.TAKE")).WrongArity())
	is(n.asks("MONITOR"), "-ERR monitor needs a connection of its own")
	if kept := n.follower.streams.Kept(); kept != 1 || n.leader.clients.Len() != 1 {
		t.Errorf("%d streams are kept, the leader has %d sessions", kept, n.leader.clients.Len())
	}

	// Without a leader, the command waits.
	n.cut()
	waits := take("b")
	n.awaits(1)
	n.connect()
	is(waits, "[0 1 0 -1 60000]")
	n.cut()
	waits = take("b")
	n.awaits(1)
	n.follower.clock.Advance(leaderWait)
	n.follower.LeaderChanged()
	is(waits, "-"+spec.ErrNoLeader)
	n.awaits(0)

	// The leader steps down without having begun the command. Then this node leads.
	n.connect()
	n.leader.group.Follow()
	waits = take("c")
	n.awaits(1)
	n.leader.group.Lead(n.leader.engine, 0)
	n.follower.LeaderChanged()
	is(waits, "[0 1 0 -1 60000]")

	// The uplink ends while the leader owes the reply.
	n.primary.holds.Store(true)
	waits = take("d")
	for !n.primary.owes() {
		runtime.Gosched()
	}
	n.primary.holds.Store(false)
	n.cut()
	n.connect()
	is(waits, "-"+errUnknownOutcome)

	// The caller does not wait any longer.
	n.primary.holds.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() {
		_, err := n.follower.Do(ctx, []byte("RL.TAKE"), []byte("e"), []byte("GCRA"), []byte("1/m"))
		over <- err
	}()
	for n.leader.engine.Stats().Keys < 5 {
		runtime.Gosched()
	}
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := n.follower.registry.Set(config.Pair{Name: "raft-redirect", Value: "moved"}); err != nil {
		t.Fatal(err)
	}
	is(take("foo"), "-MOVED 12182 127.0.0.1:7")
	n.followerLeads()
	is(take("a"), "[0 1 0 -1 60000]")
}

// slowConn is a connection from which nothing is read while somebody else has what is in its gate.
type slowConn struct {
	net.Conn
	gate chan struct{}
}

func (c *slowConn) Read(b []byte) (int, error) {
	c.gate <- <-c.gate
	return c.Conn.Read(b[:min(len(b), 4<<10)]) // so that it looks at the gate soon
}

// A command without a client finds the uplink full, and a stream that was kept. That stream is not forgotten.
func TestForwardingHTTPOverAFullUplink(t *testing.T) {
	n := newTwoNodes(t)
	n.cut()
	near, far := net.Pipe()
	slow := &slowConn{far, make(chan struct{}, 1)}
	slow.gate <- struct{}{}
	go func() { _ = n.host.Serve(slow) }()
	l := uplink.NewLink(near)
	t.Cleanup(l.Close)
	n.link.Store(l)
	if got := <-n.asks("RL.INFO", "none"); got != "nil" {
		t.Fatal(got)
	}
	kept := n.follower.streams.Take(l, (&httpCall{}).portrait())
	n.follower.streams.Put(kept)
	full := l.Open(&uplink.Client{}, &forward.Inbox{Wake: func() {}})
	token := <-slow.gate
	for full.Send([]byte(strings.Repeat("PING\r\n", 10_000))) {
	}
	c := httpCall{call: n.follower.newCall(n.follower.group, 0, resp.RESP3, [][]byte{[]byte("RL.INFO"), []byte("none")})}
	c.decide()
	if _, begun, err := c.forward(t.Context(), l); begun || err != nil {
		t.Errorf("begun: %v, %v", begun, err)
	}
	full.Close()
	slow.gate <- token
	for l.Open(&uplink.Client{}, &forward.Inbox{Wake: func() {}}) == nil {
		runtime.Gosched()
	}
	if kept.Send(nil) {
		t.Error("the stream that was kept is neither kept nor closed")
	}
}
