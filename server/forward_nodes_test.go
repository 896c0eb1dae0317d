package server

import (
	"bufio"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/resp"
	"limitdb/uplink"
)

// patience is how long a test waits for what must happen. With a planted bug, it may never happen.
func patience() time.Duration {
	if os.Getenv("LIMITDB_PLANT") != "" {
		return 10 * time.Second
	}
	return time.Minute
}

// twoNodes are a node that leads and one that does not, with an uplink between them.
type twoNodes struct {
	t                *testing.T
	leader, follower *testServer
	primary, other   *primary // what each of them keeps its replies for
	link             atomic.Pointer[uplink.Link]
	host             *uplink.Host
	far              net.Conn // the leader's end
}

func newTwoNodes(t *testing.T) *twoNodes {
	n := &twoNodes{t: t}
	n.leader, n.primary = newNode(t)
	n.follower, n.other = newNode(t)
	n.other.turn, n.other.leader = 0, "127.0.0.1:7"
	n.follower.opts.Replication.Uplink = func(int) *uplink.Link { return n.link.Load() }
	n.follower.group.Follow()
	n.primary.holds.Store(false)
	n.host = uplink.NewHost(n.leader.Server, func() {}, n.leader.clock, n.leader.clock.Now)
	n.connect()
	return n
}

// connect replaces the uplink.
func (n *twoNodes) connect() {
	near, far := net.Pipe()
	n.far = far
	go func() { _ = n.host.Serve(far) }()
	l := uplink.NewLink(near)
	n.t.Cleanup(l.Close)
	n.link.Store(l)
	n.follower.LeaderChanged()
}

// cut ends the uplink, so that there is none.
func (n *twoNodes) cut() {
	n.link.Swap(nil).Close()
}

// followerLeads makes the other node lead.
func (n *twoNodes) followerLeads() {
	n.other.turn = 1
	n.other.holds.Store(false)
	n.link.Store(nil)
	n.follower.group.Lead(n.follower.engine, 0)
	n.follower.LeaderChanged()
}

// send sends bytes as the client, and returns the given number of replies.
func (c *testClient) send(in string, replies int) []string {
	c.t.Helper()
	c.conn.take()
	c.s.Data([]byte(in))
	return c.receive(replies)
}

// receive runs the session as the transport would until it has sent the given number of replies, and renders them.
func (c *testClient) receive(replies int) (got []string) {
	c.t.Helper()
	r := bufio.NewReader(&pump{c})
	for range replies {
		v, err := resp.ReadReply(r, 64<<20)
		if err != nil {
			return append(got, "end")
		}
		got = append(got, line(v))
	}
	if n := r.Buffered(); n > 0 {
		b, _ := r.Peek(n)
		c.t.Fatalf("more than %d replies: %q", replies, b)
	}
	return got
}

// pump reads what the session writes, and resumes it when it is woken.
type pump struct{ *testClient }

func (p *pump) Read(b []byte) (int, error) {
	late := time.After(patience())
	for {
		if out := p.conn.take(); len(out) > 0 {
			n := copy(b, out)
			p.conn.putBack(out[n:])
			return n, nil
		}
		if p.conn.reason() != nil {
			return 0, io.EOF
		}
		select {
		case <-p.conn.woken:
			p.s.Resume()
		case <-time.After(houseEvery):
			p.s.srv.leaderless.Wake() // as the housekeeper does
		case <-late:
			p.t.Fatal("no reply comes")
		}
	}
}

func (f *fakeConn) putBack(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out = append(append([]byte(nil), b...), f.out...)
}

func (c *testClient) gets(in string, want ...string) {
	c.t.Helper()
	if got := c.send(in, len(want)); strings.Join(got, "\n") != strings.Join(want, "\n") {
		c.t.Errorf("%q:\n got %q\nwant %q", in, got, want)
	}
}

// refused runs the session until it waits for a leader.
func (n *twoNodes) refused(c *testClient) {
	for {
		if _, waits := n.follower.leaderless.Until(c.conn); waits {
			return
		}
		<-c.conn.woken
		c.s.Resume()
	}
}

// awaits waits until the given number of clients wait for a leader at the follower.
func (n *twoNodes) awaits(many int) {
	for n.follower.leaderless.Len() != many {
		runtime.Gosched()
	}
}

// untilEnd half-closes the client's connection, and returns the replies up to its end.
func (c *testClient) untilEnd() (got []string) {
	c.t.Helper()
	c.s.EOF()
	r := bufio.NewReader(&pump{c})
	for {
		v, err := resp.ReadReply(r, 1<<20)
		if err != nil {
			return got
		}
		got = append(got, line(v))
	}
}
