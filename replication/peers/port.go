package peers

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// greetTimeout bounds the time from the first byte to the end of the hello.
	greetTimeout = 5 * time.Second
	// maxGreeting is, for each group, the most connections that have not identified themselves yet. A further one displaces the oldest: a
	// real node says it within milliseconds.
	maxGreeting = 64
)

// Port is where the other nodes reach this one. The groups of the node share it: each has a layer, and the hello of a connection names
// the group.
type Port struct {
	ln      net.Listener
	address string // which peers dial
	certs   *Certificates
	log     *slog.Logger

	refused  atomic.Uint64 // connections closed because of what they said, or did not say
	greeting time.Duration // greetTimeout
	done     chan struct{}
	loops    sync.WaitGroup
	started  sync.Once
	calls    sync.Pool // of *muxCall
	sending  sending

	mu     sync.Mutex // guards all below, and what is said to be
	open   map[*incoming]struct{}
	closed bool
	silent []*incoming         // those that have not identified themselves, the oldest first
	layers map[int]*Layer      // those that are served, by group
	muxes  map[string]*dialing // to other nodes, by address
}

func newPort(ln net.Listener, address string, log *slog.Logger) *Port {
	return &Port{
		ln: ln, address: address, log: log, greeting: greetTimeout, done: make(chan struct{}), sending: newSending(),
		open: map[*incoming]struct{}{}, layers: map[int]*Layer{}, muxes: map[string]*dialing{},
	}
}

// Listen opens the port at the address that peers dial. If the address names a host, Listen opens the port on all
// addresses of the machine.
func Listen(address string, certs *Certificates, log *slog.Logger) (*Port, error) {
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
	p := newPort(ln, address, log)
	p.certs = certs
	return p, nil
}

// serve accepts connections until the port is closed.
func (p *Port) serve() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			select {
			case <-p.done:
				return
			case <-time.After(10 * time.Millisecond): // no descriptor is free
				continue
			}
		}
		a := &incoming{Conn: c, port: p}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			_ = c.Close()
			return
		}
		p.open[a] = struct{}{}
		p.silent = append(p.silent, a)
		if len(p.silent) > maxGreeting*max(1, len(p.layers)) {
			p.silent[0].crowded = true
			_ = p.silent[0].Conn.Close()
			p.silent = p.silent[1:]
		}
		p.mu.Unlock()
		p.loops.Go(func() { p.answer(a) })
	}
}

// Address returns the address that peers dial.
func (p *Port) Address() string { return p.address }

// Certifies returns an error if this node's certificate does not say that its raft-id is name.
func (p *Port) Certifies(name string) error {
	if p.certs == nil {
		return nil
	}
	return p.certs.Check(name)
}

// Refused returns how many connections were closed because of what they said, or did not say.
func (p *Port) Refused() uint64 { return p.refused.Load() }

// spoke notes that a connection has said who it is, or never will. If the connection was displaced, spoke returns that
// as the error.
func (p *Port) spoke(a *incoming, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = slices.DeleteFunc(p.silent, func(other *incoming) bool { return other == a })
	if a.crowded {
		return errors.New("too many connections that have not identified themselves")
	}
	return err
}

// answer reads a connection's hello, and has the layer of its group answer it.
func (p *Port) answer(a *incoming) {
	late := time.AfterFunc(p.greeting, func() { _ = a.Conn.Close() })
	conn, h, c, err := p.greet(a)
	var l *Layer
	if err == nil {
		if l = p.pass(a, h.Group); l == nil {
			err = fmt.Errorf("this node has no replica of group %d", h.Group)
			no := Hello{From: h.To, Group: h.Group, Refused: err.Error()}
			_ = no.send(conn, c) // the connection is closed anyway
		} else {
			defer func() {
				if l != nil {
					l.serving.Done()
				}
			}()
			err = l.admit(conn, &h, c)
		}
	}
	late.Stop()
	if err = p.spoke(a, err); err != nil {
		p.refused.Add(1)
		p.log.Warn("a connection on the Raft port is closed", "addr", a.RemoteAddr().String(), "err", err)
		_ = a.Close()
		return
	}
	if c != CallMux {
		l.take(conn, &h, c)
		return
	}
	of := l
	p.mu.Lock()
	a.l, l = nil, nil // it is not the layer's alone
	p.mu.Unlock()
	of.serving.Done()
	p.serveMux(conn, of, &h)
}

// greet reads a connection's hello and checks that it is the one of the node in its certificate.
func (p *Port) greet(a *incoming) (conn net.Conn, h Hello, c Call, err error) {
	conn = a
	var proof *tls.Conn
	if p.certs != nil {
		proof = tls.Server(a, p.certs.current.Load())
		if err := proof.Handshake(); err != nil {
			return nil, h, 0, err
		}
		conn = proof
	}
	if h, c, err = readHello(conn); err != nil {
		return nil, h, 0, err
	}
	if proof != nil {
		if err := checkPeer(proof, NameOf(h.From)); err != nil {
			return nil, h, 0, fmt.Errorf("it says that it is %s: %w", NameOf(h.From), err)
		}
	}
	return conn, h, c, nil
}

// pass gives a connection to the layer of a group, which closes it with its own, or returns nil if there is none. The caller tells the layer
// when it has served the connection.
func (p *Port) pass(a *incoming, group int) *Layer {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.layers[group]
	if l != nil {
		l.serving.Add(1)
		a.l = l
	}
	return l
}

// end closes the connections of a layer, or all if it is nil.
func (p *Port) end(l *Layer) {
	p.mu.Lock()
	var all []*incoming
	for a := range p.open {
		if l == nil || a.l == l {
			all = append(all, a)
		}
	}
	p.mu.Unlock()
	for _, a := range all {
		_ = a.Conn.Close()
	}
}

// Close closes the port, and the connections that no layer has. The layers are closed before.
func (p *Port) Close() error {
	p.mu.Lock()
	was := p.closed
	p.closed = true
	p.mu.Unlock()
	if was {
		return nil
	}
	close(p.done)
	err := p.ln.Close()
	p.end(nil)
	p.mu.Lock()
	muxes := slices.Collect(maps.Values(p.muxes))
	p.mu.Unlock()
	for _, d := range muxes {
		if <-d.done; d.mux != nil {
			d.mux.end(net.ErrClosed)
		}
	}
	p.loops.Wait()
	return ignoreClosed(err)
}

// incoming is a connection that a peer has made.
type incoming struct {
	net.Conn
	port    *Port
	l       *Layer // of its group, nil until that is known; guarded by port.mu
	crowded bool   // it was closed to make room; guarded by port.mu
}

// Close closes the connection.
func (a *incoming) Close() error {
	a.port.mu.Lock()
	delete(a.port.open, a)
	a.port.mu.Unlock()
	return a.Conn.Close()
}
