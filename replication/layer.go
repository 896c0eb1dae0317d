package replication

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// greetTimeout bounds the time from the first byte to the end of the hello.
	greetTimeout = 5 * time.Second
	// askTimeout bounds a call that only asks who is there.
	askTimeout = 500 * time.Millisecond
	// maxGreeting is the most connections that have not identified themselves yet. A further one displaces the oldest: a
	// real node says it within milliseconds.
	maxGreeting = 64
)

// layer makes and accepts all connections between nodes. Only it knows about TLS and hellos. It is Raft's stream layer.
type layer struct {
	ln      net.Listener
	address string // which peers dial
	certs   *Certificates
	log     *slog.Logger
	// elapsed returns a monotonic time, in ns.
	elapsed func() int64
	// self returns what this node says of itself.
	self func() hello
	// join makes this node a member of a cluster.
	join func(cluster string) error
	// admits returns why a node may not talk to this one now, or nil. It is set before the first connection is served.
	admits atomic.Pointer[func(server string) error]
	// clients serves a connection of callClients, which it closes.
	clients func(c net.Conn, from string)

	refused  atomic.Uint64 // connections closed because of what they said, or did not say
	greeting time.Duration // greetTimeout
	accepted chan net.Conn // for Raft
	done     chan struct{}
	loops    sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]struct{} // accepted connections; nil when closed
	silent []*incoming           // those that have not identified themselves, the oldest first
	expect map[raft.ServerAddress]string
	peers  map[string]hello // servers that answered the last call, or have called since
	heard  map[string]heard // servers that have answered once
}

// heard is what a server has said at its last answer.
type heard struct {
	at   int64  // elapsed ns, not 0
	last uint64 // the last entry of its log
}

func newLayer(ln net.Listener, address string, log *slog.Logger) *layer {
	return &layer{
		ln: ln, address: address, log: log, greeting: greetTimeout, accepted: make(chan net.Conn), done: make(chan struct{}),
		open: map[net.Conn]struct{}{}, expect: map[raft.ServerAddress]string{}, peers: map[string]hello{}, heard: map[string]heard{},
		elapsed: func() int64 { return 0 },
	}
}

// Dial connects to a peer for Raft.
func (l *layer) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	l.mu.Lock()
	server := l.expect[to]
	l.mu.Unlock()
	c, _, err := l.call(callRaft, string(to), server, timeout)
	return c, err
}

// expects notes which server Raft means by an address.
func (l *layer) expects(server raft.ServerID, at raft.ServerAddress) {
	l.mu.Lock()
	l.expect[at] = string(server)
	l.mu.Unlock()
}

// call connects to the node at an address, and returns that node's hello. server is its server id, or only its raft-id
// if that is all that is known. For callAsk, call closes the connection and returns nil for it.
func (l *layer) call(c call, address, server string, timeout time.Duration) (net.Conn, hello, error) {
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
func (l *layer) know(h hello) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peers[h.From], l.heard[h.From] = h, heard{max(l.elapsed(), 1), h.Last}
}

func (l *layer) greet(c call, address, server string, timeout time.Duration) (conn net.Conn, h hello, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var d net.Dialer
	if conn, err = d.DialContext(ctx, "tcp", address); err != nil {
		return nil, h, err
	}
	raw := conn
	if tcp, ok := raw.(*net.TCPConn); ok && c == callClients {
		// When this end is closed, the clients have been told that they get no replies. The system must not go on to send
		// their commands.
		_ = tcp.SetLinger(0)
		resetsLate(tcp)
	}
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	if l.certs != nil {
		conn = tls.Client(conn, l.certs.toPeer(nameOf(server)))
	}
	own := l.self()
	own.To = server
	if err = own.send(conn, c); err == nil {
		h, _, err = readHello(conn)
	}
	switch {
	case err == nil && h.Refused != "":
		err = fmt.Errorf("node %s refuses the connection: %s", nameOf(h.From), h.Refused)
	case err == nil:
		err = compatible(&own, &h, server)
	case ctx.Err() != nil:
		err = ctx.Err()
	}
	if err != nil || c == callAsk {
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
func compatible(own, h *hello, means string) error {
	switch {
	case h.Writes > own.Reads || own.Writes > h.Reads:
		return fmt.Errorf("%w: node %s writes format %d and reads up to %d, this one %d and %d", ErrNewer, nameOf(h.From), h.Writes, h.Reads, own.Writes, own.Reads)
	case own.Cluster != "" && h.Cluster != "" && own.Cluster != h.Cluster:
		return fmt.Errorf("node %s is of another cluster", nameOf(h.From))
	case nameOf(h.From) != nameOf(means):
		return fmt.Errorf("the node there is %s, and not %s", nameOf(h.From), nameOf(means))
	case nameOf(means) != means && h.From != means:
		return fmt.Errorf("node %s has another directory than the member of that name: remove the member first, and add it again", nameOf(h.From))
	}
	return nil
}

// peer returns the last hello of a server, or the zero hello if it did not answer the last call and has not called since.
func (l *layer) peer(server raft.ServerID) hello {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peers[string(server)]
}

// heardOf returns what a server has said at its last answer, or the zero value if it has not answered yet.
func (l *layer) heardOf(server raft.ServerID) heard {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard[string(server)]
}

// serve accepts connections until the layer is closed.
func (l *layer) serve() {
	defer l.loops.Done()
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

// spoke notes that a connection has said who it is, or never will. If the connection was displaced, spoke returns that
// as the error.
func (l *layer) spoke(a *incoming, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = slices.DeleteFunc(l.silent, func(other *incoming) bool { return other == a })
	if a.crowded {
		return errors.New("too many connections that have not identified themselves")
	}
	return err
}

func (l *layer) refuse(a net.Conn, err error) {
	l.refused.Add(1)
	l.log.Warn("a connection on the Raft port is closed", "addr", a.RemoteAddr().String(), "err", err)
	_ = a.Close()
}

// answer reads a connection's hello, answers it, and passes the connection on.
func (l *layer) answer(a *incoming) {
	conn, c, from, err := l.admit(a)
	err = l.spoke(a, err)
	switch {
	case err != nil:
		l.refuse(a, err)
	case c == callAsk:
		_ = conn.Close()
	case c == callClients:
		l.clients(conn, from)
	default:
		select {
		case l.accepted <- conn:
		case <-l.done:
			_ = conn.Close()
		}
	}
}

func (l *layer) admit(a *incoming) (conn net.Conn, c call, from string, err error) {
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
		if err := checkPeer(proof, nameOf(h.From)); err != nil {
			return nil, 0, "", fmt.Errorf("it says that it is %s: %w", nameOf(h.From), err)
		}
	}
	own := l.self()
	reason := l.welcome(&own, &h, c)
	switch {
	case reason != nil:
		own.Refused = reason.Error()
	case c != callAsk:
		l.know(h) // a node that has just started hears from the leader before it asks
	}
	if err := own.send(conn, c); err != nil {
		return nil, 0, "", err
	}
	return conn, c, h.From, reason
}

// welcome returns why a call is refused, or nil. A node that is in no cluster joins the caller's, if the caller knows
// the incarnation of this node: only a cluster that has this node as its member does.
func (l *layer) welcome(own, h *hello, c call) error {
	back := hello{From: own.From, Cluster: own.Cluster, Reads: own.Reads, Writes: own.Writes}
	caller := hello{Cluster: h.Cluster, Reads: h.Reads, Writes: h.Writes}
	if err := compatible(&caller, &back, h.To); err != nil {
		return err
	}
	switch c {
	case callAsk:
		return nil
	case callClients:
		if l.clients == nil {
			return errors.New("this node does not take commands from other nodes")
		}
	case callRaft:
		if own.Cluster == "" && h.Cluster != "" && h.To == own.From {
			if err := l.join(h.Cluster); err != nil {
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
func (l *layer) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Addr returns the address that peers dial.
func (l *layer) Addr() net.Addr { return advertised(l.address) }

type advertised string

func (advertised) Network() string  { return "tcp" }
func (a advertised) String() string { return string(a) }

// Close closes the port and all accepted connections.
func (l *layer) Close() error {
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
	l       *layer
	crowded bool // it was closed to make room, guarded by l.mu
}

// Close closes the connection.
func (a *incoming) Close() error {
	a.l.mu.Lock()
	delete(a.l.open, a)
	a.l.mu.Unlock()
	return a.Conn.Close()
}
