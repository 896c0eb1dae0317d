package replication

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Connections between nodes begin with a greeting of 8 bytes: LDBR, the format, three zeros. The node that was called answers with the
// address at which clients reach it: its length in one byte, and the address. It closes a connection that begins otherwise, or
// says nothing for some seconds.
const (
	greeting     = "LDBR\x01\x00\x00\x00"
	greetTimeout = 5 * time.Second
	askTimeout   = 500 * time.Millisecond
)

var errGreeting = errors.New("replication: a connection that is no node's of this version")

// wire is Raft's transport over TCP.
//
// It embeds the transport itself, not its interface, so that Raft finds RequestPreVote and Close. Raft's
// heartbeats have a way past the log's writes; used, it can let a node acknowledge what its log does not have. So
// that way is closed: a heartbeat waits its turn.
type wire struct {
	*raft.NetworkTransport
	l *layer

	mu sync.Mutex
	// last is the last entry that each peer has said to have.
	last map[raft.ServerAddress]uint64
}

// AppendEntries is what heartbeats are sent by, and notes what the peer has.
func (w *wire) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := w.NetworkTransport.AppendEntries(id, to, args, resp)
	if err == nil && resp.Success {
		w.mu.Lock()
		w.last[to] = resp.LastLog
		w.mu.Unlock()
	}
	return err
}

// lastLog is the last entry that a peer has said to have, 0 if it has said nothing.
func (w *wire) lastLog(peer raft.ServerAddress) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[peer]
}

// SetHeartbeatHandler does nothing.
func (*wire) SetHeartbeatHandler(func(raft.RPC)) {}

// Close closes the port and all connections, also those that were accepted, which Raft leaves open.
func (w *wire) Close() error {
	err := w.NetworkTransport.Close()
	w.l.closeAll()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// listen opens the port of a node that clients reach at an address.
func listen(bind, address string, log *slog.Logger) (*wire, error) {
	if len(address) > maxAddress {
		return nil, fmt.Errorf("replication: the address %q is longer than %d bytes", address, maxAddress)
	}
	ln, err := net.Listen("tcp", bind)
	if err != nil {
		return nil, fmt.Errorf("replication: %w", err)
	}
	l := &layer{Listener: ln, address: address, log: log, open: map[net.Conn]struct{}{}, clients: map[raft.ServerAddress]string{}}
	t := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: l, MaxPool: maxPool, MaxRPCsInFlight: 1, Timeout: rpcTimeout, Logger: newRaftLog(log),
	})
	t.TimeoutScale = timeoutScale
	return &wire{NetworkTransport: t, l: l, last: map[raft.ServerAddress]uint64{}}, nil
}

// layer dials and accepts.
type layer struct {
	net.Listener
	address string
	log     *slog.Logger

	mu   sync.Mutex
	open map[net.Conn]struct{} // accepted; nil when closed
	// clients is where clients reach each peer that answered the last call.
	clients map[raft.ServerAddress]string
}

// Dial connects to a peer, and notes where clients reach it.
func (l *layer) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	c, address, err := greet(to, timeout)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		delete(l.clients, to)
		return nil, err
	}
	l.clients[to] = address
	return c, nil
}

// greet connects to a peer, and returns the address that it answers with.
func greet(to raft.ServerAddress, timeout time.Duration) (c net.Conn, address string, err error) {
	if c, err = net.DialTimeout("tcp", string(to), timeout); err != nil {
		return nil, "", err
	}
	late := time.AfterFunc(timeout, func() { _ = c.Close() })
	answer := make([]byte, 1+maxAddress)
	if _, err = io.WriteString(c, greeting); err == nil {
		_, err = io.ReadFull(c, answer[:1])
	}
	if err == nil {
		answer = answer[1 : 1+int(answer[0])]
		_, err = io.ReadFull(c, answer)
	}
	if !late.Stop() && err == nil {
		err = net.ErrClosed
	}
	if err != nil {
		return nil, "", errors.Join(err, c.Close())
	}
	return c, string(answer), nil
}

// ask calls a peer only to learn whether it answers, and where clients reach it.
func (l *layer) ask(peer raft.ServerAddress) {
	if c, err := l.Dial(peer, askTimeout); err == nil {
		_ = c.Close()
	}
}

// client is where clients reach a peer, "" if it did not answer the last call.
func (l *layer) client(peer raft.ServerAddress) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clients[peer]
}

// Accept returns the next connection. Its greeting is read with its first bytes, so that nobody waits for it.
func (l *layer) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	a := &accepted{Conn: c, l: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	l.open[a] = struct{}{}
	return a, nil
}

func (l *layer) closeAll() {
	l.mu.Lock()
	open := l.open
	l.open = nil
	l.mu.Unlock()
	for c := range open {
		_ = c.Close()
	}
}

// accepted is a connection that a peer has made.
type accepted struct {
	net.Conn
	l       *layer
	greeted bool
}

func (a *accepted) Read(b []byte) (int, error) {
	if !a.greeted {
		if err := a.greet(); err != nil {
			a.l.log.Warn("a connection on the Raft port is closed", "addr", a.RemoteAddr().String(), "err", err)
			return 0, err
		}
		a.greeted = true
	}
	return a.Conn.Read(b)
}

func (a *accepted) greet() error {
	var b [len(greeting)]byte
	late := time.AfterFunc(greetTimeout, func() { _ = a.Conn.Close() })
	defer late.Stop()
	if _, err := io.ReadFull(a.Conn, b[:]); err != nil {
		return err
	}
	if string(b[:]) != greeting {
		return errGreeting
	}
	_, err := a.Conn.Write(append([]byte{byte(len(a.l.address))}, a.l.address...))
	return err
}

func (a *accepted) Close() error {
	a.l.mu.Lock()
	delete(a.l.open, a)
	a.l.mu.Unlock()
	return a.Conn.Close()
}
