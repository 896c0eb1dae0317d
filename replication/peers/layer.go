package peers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// Timeout bounds how long a peer may take to answer.
	Timeout = 2 * time.Second
	// AskTimeout bounds a call that only asks who is there.
	AskTimeout = 500 * time.Millisecond
)

// Layer makes and accepts all connections between the replicas of a group. Only it and the port know about TLS and hellos. It is Raft's stream
// layer. Its exported fields are set before Serve.
type Layer struct {
	*Port
	group int
	// Elapsed returns a monotonic time, in ns.
	Elapsed func() int64
	// Self returns what this node says of itself. The layer adds the group.
	Self func() Hello
	// Join makes this node a member of a cluster.
	Join func(cluster string) error
	// admits returns why a node may not talk to this one now, or nil. It is set before the first connection is served.
	admits atomic.Pointer[func(server string) error]
	// Clients serves a connection of CallClients, which it closes. If it is nil, such connections are refused. Asks does that for CallGroups.
	Clients, Asks func(c net.Conn, from string)

	accepted chan net.Conn // for Raft
	rpcs     chan raft.RPC // for Raft, which takes them one after the other
	done     chan struct{}
	closing  sync.Once
	serving  sync.WaitGroup // of connections; it grows only while the port's lock is held and the layer is served

	mu     sync.Mutex // guards all below
	expect map[raft.ServerAddress]string
	peers  map[string]Hello // servers that answered the last call, or have called since
	heard  map[string]Heard // servers that have answered once
}

// mostRPCs is how many requests wait for Raft at most.
const mostRPCs = 64

// Heard is what a server has said at its last answer.
type Heard struct {
	At   int64  // Elapsed, not 0
	Last uint64 // the last entry of its log
}

// Layer returns a layer for a group, whose number is at least 0.
func (p *Port) Layer(group int) *Layer {
	return &Layer{
		Port: p, group: group, accepted: make(chan net.Conn), rpcs: make(chan raft.RPC, mostRPCs), done: make(chan struct{}),
		expect: map[raft.ServerAddress]string{}, peers: map[string]Hello{}, heard: map[string]Heard{},
		Elapsed: func() int64 { return 0 },
	}
}

// self returns the hello of this node.
func (l *Layer) self() Hello {
	h := l.Self()
	h.Group = l.group
	return h
}

// Dial connects to a peer for Raft.
func (l *Layer) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	l.mu.Lock()
	server := l.expect[to]
	l.mu.Unlock()
	c, _, err := l.Call(CallRaft, string(to), server, timeout)
	return c, err
}

// expects notes which server Raft means by an address.
func (l *Layer) expects(server raft.ServerID, at raft.ServerAddress) {
	l.mu.Lock()
	l.expect[at] = string(server)
	l.mu.Unlock()
}

// Call connects to the node at an address, and returns that node's hello. server is its server id, or only its raft-id
// if that is all that is known. For CallAsk, Call closes the connection and returns nil for it.
func (l *Layer) Call(c Call, address, server string, timeout time.Duration) (net.Conn, Hello, error) {
	conn, h, err := l.greet(c, address, server, timeout)
	return conn, h, l.learn(nil, &h, server, err)
}

// learn notes the hello of a server that was called, unless err is set or, if own is the hello of the caller, the two cannot work together. It returns why
// that is so.
func (l *Layer) learn(own, h *Hello, server string, err error) error {
	if err == nil && own != nil {
		err = agrees(own, h, server)
	}
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.peers, server)
		return err
	}
	l.know(*h)
	return nil
}

// agrees returns why the node that has answered h to own does not take the call, or nil.
func agrees(own, h *Hello, server string) error {
	if h.Refused != "" {
		return fmt.Errorf("node %s refuses the connection: %s", NameOf(h.From), h.Refused)
	}
	return compatible(own, h, server)
}

// know notes what a server has said.
func (l *Layer) know(h Hello) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peers[h.From], l.heard[h.From] = h, Heard{max(l.Elapsed(), 1), h.Last}
}

func (l *Layer) greet(c Call, address, server string, timeout time.Duration) (conn net.Conn, h Hello, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var d net.Dialer
	if conn, err = d.DialContext(ctx, "tcp", address); err != nil {
		return nil, h, err
	}
	raw := conn
	if tcp, ok := raw.(*net.TCPConn); ok && c == CallClients {
		// When this end is closed, the clients have been told that they get no replies. The system must not go on to send
		// their commands.
		_ = tcp.SetLinger(0)
		resetsLate(tcp)
	}
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	if l.certs != nil {
		conn = tls.Client(conn, l.certs.toPeer(NameOf(server)))
	}
	own := l.self()
	own.To = server
	if err = own.send(conn, c); err == nil {
		h, _, err = readHello(conn)
	}
	switch {
	case err == nil:
		err = agrees(&own, &h, server)
	case ctx.Err() != nil:
		err = ctx.Err()
	}
	if err != nil || c == CallAsk {
		return nil, h, errors.Join(err, ignoreClosed(raw.Close()))
	}
	return conn, h, nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// compatible returns why two nodes with these hellos cannot work together, or nil. means is the server id or raft-id
// that h must have.
func compatible(own, h *Hello, means string) error {
	switch {
	case h.Writes > own.Reads || own.Writes > h.Reads:
		return fmt.Errorf("%w: node %s writes format %d and reads up to %d, this one %d and %d", ErrNewer, NameOf(h.From), h.Writes, h.Reads, own.Writes, own.Reads)
	case own.Group != h.Group:
		return fmt.Errorf("node %s answers for group %d, and not %d", NameOf(h.From), h.Group, own.Group)
	case own.Cluster != "" && h.Cluster != "" && own.Cluster != h.Cluster:
		return fmt.Errorf("node %s is of another cluster", NameOf(h.From))
	case NameOf(h.From) != NameOf(means):
		return fmt.Errorf("the node there is %s, and not %s", NameOf(h.From), NameOf(means))
	case NameOf(means) != means && h.From != means:
		return fmt.Errorf("node %s has another directory than the member of that name: remove the member first, and add it again", NameOf(h.From))
	}
	return nil
}

// Said returns the last hello of a server, or the zero hello if it did not answer the last call and has not called since.
func (l *Layer) Said(server raft.ServerID) Hello {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peers[string(server)]
}

// Tell notes what a server has said to somebody else of this node, or that it does not answer, if the hello is zero but for From.
func (l *Layer) Tell(h Hello) {
	if h.Reads == 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.peers, h.From)
		return
	}
	l.know(h)
}

// Heard returns what a server has said at its last answer, or the zero value if it has not answered yet.
func (l *Layer) Heard(server raft.ServerID) Heard {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard[string(server)]
}

// Serve accepts the connections of the group until the layer is closed. The port has no other layer of the group.
func (l *Layer) Serve() {
	l.Port.mu.Lock()
	l.layers[l.group] = l
	l.Port.mu.Unlock()
	l.started.Do(func() { l.loops.Go(l.serve) })
}

// Admit sets what returns why a server may not talk to this node now, or nil.
func (l *Layer) Admit(admits func(server string) error) { l.admits.Store(&admits) }

// answer returns the answer to a hello, which says why the connection is refused, if it is.
func (l *Layer) answer(h *Hello, c Call) Hello {
	own := l.self()
	reason := l.welcome(&own, h, c)
	switch {
	case reason != nil:
		own.Refused = reason.Error()
	case c != CallAsk:
		l.know(*h) // a node that has just started hears from the leader before it asks
	}
	return own
}

// admit answers the hello of a connection, and returns why that is refused, or nil.
func (l *Layer) admit(conn net.Conn, h *Hello, c Call) error {
	own := l.answer(h, c)
	if err := own.send(conn, c); err != nil {
		return err
	}
	if own.Refused != "" {
		return errors.New(own.Refused)
	}
	return nil
}

// take serves a connection that was admitted, or passes it on.
func (l *Layer) take(conn net.Conn, h *Hello, c Call) {
	switch c {
	case CallAsk:
		_ = conn.Close()
	case CallClients:
		l.Clients(conn, h.From)
	case CallGroups:
		l.Asks(conn, h.From)
	default:
		select {
		case l.accepted <- conn:
		case <-l.done:
			_ = conn.Close()
		}
	}
}

// welcome returns why a call is refused, or nil. A node that is in no cluster joins the caller's, if the caller knows
// the incarnation of this node: only a cluster that has this node as its member does.
func (l *Layer) welcome(own, h *Hello, c Call) error {
	back := Hello{From: own.From, Group: h.Group, Cluster: own.Cluster, Reads: own.Reads, Writes: own.Writes}
	caller := Hello{Group: h.Group, Cluster: h.Cluster, Reads: h.Reads, Writes: h.Writes}
	if err := compatible(&caller, &back, h.To); err != nil {
		return err
	}
	switch c {
	case CallAsk:
		return nil
	case CallClients:
		if l.Clients == nil {
			return errors.New("this node does not take commands from other nodes")
		}
	case CallGroups:
		if l.Asks == nil {
			return errors.New("questions about groups go to group 0, which only a cluster of several groups has")
		}
	case CallRaft, CallMux:
		if own.Cluster == "" && h.Cluster != "" && h.To == own.From {
			if err := l.Join(h.Cluster); err != nil {
				return err
			}
			own.Cluster = h.Cluster
		}
	default:
		return errHello
	}
	if h.Cluster == "" || h.Cluster != own.Cluster {
		return errors.New("the caller does not belong to this cluster")
	}
	if admits := l.admits.Load(); admits != nil {
		return (*admits)(h.From)
	}
	return nil
}

// Accept returns the next connection for Raft.
func (l *Layer) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Addr returns the address that peers dial.
func (l *Layer) Addr() net.Addr { return advertised(l.address) }

type advertised string

func (advertised) Network() string  { return "tcp" }
func (a advertised) String() string { return string(a) }

// Close closes the group's connections, and accepts no more. The port stays open.
func (l *Layer) Close() error {
	l.closing.Do(func() {
		l.Port.mu.Lock()
		if l.layers[l.group] == l {
			delete(l.layers, l.group)
		}
		l.Port.mu.Unlock()
		close(l.done)
		l.end(l)
		l.serving.Wait()
	})
	return nil
}
