package uplink

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"limitdb/transport"
)

// Conn is the connection of another node's client, as its session sees it.
type Conn struct {
	p             *port
	id            uint32
	client        Client
	remote, local net.Addr
	session       transport.Session
	life          transport.Life
	pending       atomic.Int64
	moved         atomic.Int64
	due           atomic.Bool // act was asked for

	// The port's run guards what follows.
	parked   bool   // Data or Resume returned false
	in       []byte // input that the session does not take now
	finished bool   // the client sends nothing more
	ended    bool   // Closed was called
}

// turn is how long a session may run while others wait.
const turn = time.Millisecond

func newConn(p *port, id uint32, client Client) *Conn {
	c := &Conn{p: p, id: id, client: client, remote: addr(client.Remote, client.Unix), local: addr(client.Local, client.Unix)}
	c.moved.Store(p.h.clock.Now())
	return c
}

// addr returns an address as it was at the client's node.
func addr(text string, unix bool) net.Addr {
	if a, err := netip.ParseAddrPort(text); err == nil && !unix {
		return net.TCPAddrFromAddrPort(a)
	}
	return &net.UnixAddr{Net: "unix", Name: text}
}

// Client describes the client, as its node has reported it.
func (c *Conn) Client() *Client { return &c.client }

// Leased reports whether a command of the client may begin now: see lease.go.
func (c *Conn) Leased() bool { return c.p.lease.holds(c.p.h.elapsed(), Lease) }

// errInput closes a client.
var errInput = errors.New("its node holds too many bytes of commands")

// input gives the session b as input, or keeps b for later. If that is too much for the uplink, this client is closed, and none of the others.
func (c *Conn) input(b []byte) {
	switch {
	case !c.life.Serving():
	case (c.parked || len(c.in) > 0) && c.p.held+len(b) > maxInput:
		c.drop()
		c.Close(errInput)
	case c.parked || len(c.in) > 0:
		c.in = append(c.in, b...)
		c.p.held += len(b)
	default:
		c.moved.Store(c.p.h.clock.Now())
		c.parked = !c.session.Data(b)
	}
}

// eof tells the session that no more input follows, once it has taken all.
func (c *Conn) eof() {
	if len(c.in) == 0 && c.life.Serving() && c.session.EOF() {
		c.CloseAfterFlush(transport.ErrPeerClosed)
	}
}

// act resumes or ends the session, as is due. The caller holds run.
func (c *Conn) act() {
	c.due.Store(false)
	switch {
	case c.ended:
		return
	case !c.life.Serving():
		c.ended = true
		c.drop()
		delete(c.p.streams, c.id)
		c.session.Closed(c.life.Reason())
		return
	}
	c.parked = !c.session.Resume()
	if c.parked || len(c.in) == 0 {
		return
	}
	b := c.drop()
	if c.input(b); c.finished {
		c.eof()
	}
}

// drop removes the input that the session did not take, and returns it.
func (c *Conn) drop() []byte {
	b := c.in
	c.p.held -= len(b)
	c.in = nil
	return b
}

// sent notes that n bytes have left.
func (c *Conn) sent(n int) {
	c.pending.Add(int64(-n))
	c.moved.Store(c.p.h.clock.Now())
}

// cause returns the Cause to send for a reason.
func cause(reason error) Cause {
	switch {
	case errors.Is(reason, ErrNotLeading), errors.Is(reason, ErrNoLease):
		return Refused
	case errors.Is(reason, transport.ErrPeerClosed):
		return Finished
	}
	return Closed
}

// tell tells the other node why the connection is closed.
func (c *Conn) tell(reason error) {
	c.p.out.add(nil, c.id, kindClose, []byte{byte(cause(reason))})
	c.post()
}

func (c *Conn) post() {
	if !c.due.Swap(true) {
		c.p.post(c)
	}
}

// Life implements transport.Conn.
func (c *Conn) Life() *transport.Life { return &c.life }

// Write implements transport.Conn.
func (c *Conn) Write(b []byte) {
	if c.life.Serving() && len(b) > 0 {
		c.p.out.add(c, c.id, kindData, b)
	}
}

// Pending implements transport.Conn.
func (c *Conn) Pending() int64 { return c.pending.Load() }

// Queue implements transport.Conn.
func (c *Conn) Queue() (buffers, memory int64) {
	n := c.pending.Load()
	return (n + maxFrame - 1) / maxFrame, n
}

// Progress implements transport.Conn.
func (c *Conn) Progress() int64 { return c.moved.Load() }

// Wake implements transport.Conn.
func (c *Conn) Wake() {
	if c.life.Serving() {
		c.post()
	}
}

// Turn implements transport.Conn.
func (c *Conn) Turn() time.Duration { return turn }

// Yield implements transport.Conn.
func (c *Conn) Yield() { c.post() }

// CallsAfterInput reports true: the Host calls afterInput after what the session does.
func (c *Conn) CallsAfterInput() bool { return true }

// CloseAfterFlush implements transport.Conn.
func (c *Conn) CloseAfterFlush(reason error) {
	if c.life.Flush(reason) {
		c.tell(c.life.Reason())
	}
}

// Close implements transport.Conn. A session that was about to close its connection because the node does not lead may hold replies
// back, which nobody gets now. So the cause is this reason, and not that one: the client's node must not send those commands again.
func (c *Conn) Close(reason error) bool {
	if c.life.Serving() && c.life.End(reason) {
		c.tell(reason)
		return true
	}
	return c.life.End(reason)
}

// Loop implements transport.Conn: the connection is in no event loop.
func (c *Conn) Loop() int { return -1 }

// RemoteAddr implements transport.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// LocalAddr implements transport.Conn. It returns an address of the node that the client
// is connected to.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// FD implements transport.Conn.
func (c *Conn) FD() int { return -1 }

// TLS implements transport.Conn.
func (c *Conn) TLS() bool { return c.client.TLS }
