package peers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
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
	// greetTimeout bounds the time from the first byte to the end of the hello.
	greetTimeout = 5 * time.Second
	// maxGreeting is the most connections that have not identified themselves yet. A further one displaces the oldest: a
	// real node says it within milliseconds.
	maxGreeting = 64
)

// Layer makes and accepts all connections between nodes. Only it knows about TLS and hellos. It is Raft's stream layer. Its
// exported fields are set before Serve.
type Layer struct {
	ln      net.Listener
	address string // which peers dial
	certs   *Certificates
	log     *slog.Logger
	// Elapsed returns a monotonic time, in ns.
	Elapsed func() int64
	// Self returns what this node says of itself.
	Self func() Hello
	// Join makes this node a member of a cluster.
	Join func(cluster string) error
	// admits returns why a node may not talk to this one now, or nil. It is set before the first connection is served.
	admits atomic.Pointer[func(server string) error]
	// Clients serves a connection of CallClients, which it closes. If it is nil, such connections are refused.
	Clients func(c net.Conn, from string)

	refused  atomic.Uint64 // connections closed because of what they said, or did not say
	greeting time.Duration // greetTimeout
	accepted chan net.Conn // for Raft
	done     chan struct{}
	loops    sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]struct{} // accepted connections; nil when closed
	silent []*incoming           // those that have not identified themselves, the oldest first
	expect map[raft.ServerAddress]string
	peers  map[string]Hello // servers that answered the last call, or have called since
	heard  map[string]Heard // servers that have answered once
}

// Heard is what a server has said at its last answer.
type Heard struct {
	At   int64  // Elapsed, not 0
	Last uint64 // the last entry of its log
}

func newLayer(ln net.Listener, address string, log *slog.Logger) *Layer {
	return &Layer{
		ln: ln, address: address, log: log, greeting: greetTimeout, accepted: make(chan net.Conn), done: make(chan struct{}),
		open: map[net.Conn]struct{}{}, expect: map[raft.ServerAddress]string{}, peers: map[string]Hello{}, heard: map[string]Heard{},
		Elapsed: func() int64 { return 0 },
	}
}

// Listen opens the port at the address that peers dial. If the address names a host, Listen opens the port on all
// addresses of the machine.
func Listen(address string, certs *Certificates, log *slog.Logger) (*Layer, error) {
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
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.peers, server)
		return nil, h, err
	}
	l.know(h)
	return conn, h, nil
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
	own := l.Self()
	own.To = server
	if err = own.send(conn, c); err == nil {
		h, _, err = readHello(conn)
	}
	switch {
	case err == nil && h.Refused != "":
		err = fmt.Errorf("node %s refuses the connection: %s", NameOf(h.From), h.Refused)
	case err == nil:
		err = compatible(&own, &h, server)
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

// Heard returns what a server has said at its last answer, or the zero value if it has not answered yet.
func (l *Layer) Heard(server raft.ServerID) Heard {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard[string(server)]
}

// Serve accepts connections until the layer is closed.
func (l *Layer) Serve() { l.loops.Go(l.serve) }

func (l *Layer) serve() {
	for {
		c, err := l.ln.Accept()
		if err != nil {
			select {
			case <-l.done:
				return
			case <-time.After(10 * time.Millisecond): // no descriptor is free
				continue
			}
		}
		a := &incoming{Conn: c, l: l}
		l.mu.Lock()
		if l.open == nil {
			l.mu.Unlock()
			_ = c.Close()
			return
		}
		l.open[a] = struct{}{}
		l.silent = append(l.silent, a)
		if len(l.silent) > maxGreeting {
			l.silent[0].crowded = true
			_ = l.silent[0].Conn.Close()
			l.silent = l.silent[1:]
		}
		l.mu.Unlock()
		l.loops.Go(func() { l.answer(a) })
	}
}

// Admit sets what returns why a server may not talk to this node now, or nil.
func (l *Layer) Admit(admits func(server string) error) { l.admits.Store(&admits) }

// Refused returns how many connections were closed because of what they said, or did not say.
func (l *Layer) Refused() uint64 { return l.refused.Load() }

// spoke notes that a connection has said who it is, or never will. If the connection was displaced, spoke returns that
// as the error.
func (l *Layer) spoke(a *incoming, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = slices.DeleteFunc(l.silent, func(other *incoming) bool { return other == a })
	if a.crowded {
		return errors.New("too many connections that have not identified themselves")
	}
	return err
}

func (l *Layer) refuse(a net.Conn, err error) {
	l.refused.Add(1)
	l.log.Warn("a connection on the Raft port is closed", "addr", a.RemoteAddr().String(), "err", err)
	_ = a.Close()
}

// answer reads a connection's hello, answers it, and passes the connection on.
func (l *Layer) answer(a *incoming) {
	conn, c, from, err := l.admit(a)
	err = l.spoke(a, err)
	switch {
	case err != nil:
		l.refuse(a, err)
	case c == CallAsk:
		_ = conn.Close()
	case c == CallClients:
		l.Clients(conn, from)
	default:
		select {
		case l.accepted <- conn:
		case <-l.done:
			_ = conn.Close()
		}
	}
}

func (l *Layer) admit(a *incoming) (conn net.Conn, c Call, from string, err error) {
	late := time.AfterFunc(l.greeting, func() { _ = a.Conn.Close() })
	defer late.Stop()
	conn = a
	var proof *tls.Conn
	if l.certs != nil {
		proof = tls.Server(a, l.certs.current.Load())
		if err := proof.Handshake(); err != nil {
			return nil, 0, "", err
		}
		conn = proof
	}
	h, c, err := readHello(conn)
	if err != nil {
		return nil, 0, "", err
	}
	if proof != nil {
		if err := checkPeer(proof, NameOf(h.From)); err != nil {
			return nil, 0, "", fmt.Errorf("it says that it is %s: %w", NameOf(h.From), err)
		}
	}
	own := l.Self()
	reason := l.welcome(&own, &h, c)
	switch {
	case reason != nil:
		own.Refused = reason.Error()
	case c != CallAsk:
		l.know(h) // a node that has just started hears from the leader before it asks
	}
	if err := own.send(conn, c); err != nil {
		return nil, 0, "", err
	}
	return conn, c, h.From, reason
}

// welcome returns why a call is refused, or nil. A node that is in no cluster joins the caller's, if the caller knows
// the incarnation of this node: only a cluster that has this node as its member does.
func (l *Layer) welcome(own, h *Hello, c Call) error {
	back := Hello{From: own.From, Cluster: own.Cluster, Reads: own.Reads, Writes: own.Writes}
	caller := Hello{Cluster: h.Cluster, Reads: h.Reads, Writes: h.Writes}
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
	case CallRaft:
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

// Close closes the port and all accepted connections.
func (l *Layer) Close() error {
	l.mu.Lock()
	open := l.open
	l.open = nil
	l.mu.Unlock()
	if open == nil {
		return nil
	}
	close(l.done)
	err := l.ln.Close()
	for c := range open {
		_ = c.Close()
	}
	l.loops.Wait()
	return ignoreClosed(err)
}

// incoming is a connection that a peer has made.
type incoming struct {
	net.Conn
	l       *Layer
	crowded bool // it was closed to make room, guarded by l.mu
}

// Close closes the connection.
func (a *incoming) Close() error {
	a.l.mu.Lock()
	delete(a.l.open, a)
	a.l.mu.Unlock()
	return a.Conn.Close()
}
