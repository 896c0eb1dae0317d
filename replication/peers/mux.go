package peers

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// A mux is a connection that carries the entries of all groups from one node to another, and the answers. What groups send at about the same time goes
// out in one write. Votes and snapshots, which are rare or long, have connections of their own: see Transport.
//
// A group is open on a mux once the other node has admitted its hello, as it would admit a connection of the group's own. A node has one mux to each
// address that it dials, whichever group dials first.
type mux struct {
	port    *Port
	address string
	out     combined
	heard   atomic.Uint64 // frames that the other node has sent

	mu     sync.Mutex // guards all below
	open   map[int]parties
	calls  map[uint32]*muxCall
	number uint32 // of the last call
	err    error  // why the mux has ended, or nil
}

// parties are who a group was opened for: this node's replica of the group, and the server id of the other's.
type parties struct {
	l      *Layer
	server string
}

// muxCall is a request that waits for its answer.
type muxCall struct {
	done   chan error // capacity 1
	timer  *time.Timer
	answer raft.AppendEntriesResponse
	hello  Hello
}

// newMuxCall returns one that the port has lent before, or another.
func (p *Port) newMuxCall() *muxCall {
	if c, ok := p.calls.Get().(*muxCall); ok {
		return c
	}
	t := time.NewTimer(Timeout)
	t.Stop()
	return &muxCall{done: make(chan error, 1), timer: t}
}

// dialing is a mux, or what becomes of an attempt to make one.
type dialing struct {
	done     chan struct{} // closed when the following is set
	mux      *mux
	err      error
	answered bool // the other node has answered: the error is about the group that asked
}

// append sends a request to a peer, and stores the answer in resp. Nothing waits any longer once stop is closed. It returns io.EOF if the peer has closed the
// connection, or has closed the group's replica. Then the caller may try again.
func (l *Layer) append(server, address string, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse, stop <-chan struct{}) error {
	m, err := l.muxTo(server, address)
	if err != nil {
		return err
	}
	if err := m.opens(l, server, stop); err != nil {
		return err
	}
	c := l.Port.newMuxCall()
	err, over := m.call(c, frame{kind: kindEntries, group: l.group}, func(b []byte) []byte { return appendRequest(b, req) }, stop)
	if over {
		*resp = c.answer
		l.Port.calls.Put(c)
	}
	return err
}

// muxTo returns the node's mux to an address, where the server is.
func (l *Layer) muxTo(server, address string) (*mux, error) {
	p := l.Port
	for {
		p.mu.Lock()
		d := p.muxes[address]
		first := d == nil
		switch {
		case p.closed:
			p.mu.Unlock()
			return nil, net.ErrClosed
		case first:
			d = &dialing{done: make(chan struct{})}
			p.muxes[address] = d
		}
		p.mu.Unlock()
		if first {
			l.dialMux(d, server, address)
			return d.mux, d.err
		}
		if <-d.done; d.mux != nil || !d.answered {
			return d.mux, d.err
		}
	}
}

// dialMux makes a mux, which is open for the layer's group.
func (l *Layer) dialMux(d *dialing, server, address string) {
	p := l.Port
	conn, h, err := l.Call(CallMux, address, server, Timeout)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(d.done)
	if err == nil && p.closed {
		err = errors.Join(net.ErrClosed, conn.Close())
	}
	if err != nil {
		d.err, d.answered = err, h.From != ""
		delete(p.muxes, address)
		return
	}
	m := &mux{
		port: p, address: address, out: combined{conn: conn},
		open: map[int]parties{l.group: {l, server}}, calls: map[uint32]*muxCall{},
	}
	d.mux = m
	p.loops.Go(m.read)
}

// opens has a layer's group opened, if it is not open for the server.
func (m *mux) opens(l *Layer, server string, stop <-chan struct{}) error {
	p := parties{l, server}
	m.mu.Lock()
	is := m.open[l.group] == p
	m.mu.Unlock()
	if is {
		return nil
	}
	own := l.self()
	own.To = server
	text, err := own.text()
	if err != nil {
		return err
	}
	c := l.Port.newMuxCall()
	err, over := m.call(c, frame{kind: kindOpen, group: l.group, payload: text}, nil, stop)
	if !over || err != nil {
		return err
	}
	h := c.hello
	c.hello = Hello{}
	l.Port.calls.Put(c)
	if err := l.learn(&own, &h, server, nil); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[l.group] = p
	return nil
}

// call sends a frame and waits for the answer. over reports whether c is of no more use to the mux.
func (m *mux) call(c *muxCall, f frame, fill func(b []byte) []byte, stop <-chan struct{}) (err error, over bool) {
	m.mu.Lock()
	if m.err != nil {
		m.mu.Unlock()
		return m.err, true
	}
	m.number++
	f.number = m.number
	m.calls[f.number] = c
	m.mu.Unlock()
	heard, late := m.heard.Load(), false
	if m.out.send(f, fill) != nil {
		m.end(io.EOF)
	}
	c.timer.Reset(Timeout)
	select {
	case err := <-c.done:
		c.timer.Stop()
		return err, true
	case <-c.timer.C:
		err, late = os.ErrDeadlineExceeded, true
	case <-stop:
		c.timer.Stop()
		err = raft.ErrTransportShutdown
	}
	m.mu.Lock()
	delete(m.calls, f.number)
	m.mu.Unlock()
	if late && m.heard.Load() == heard {
		m.end(io.EOF) // the other node may be gone: the next call finds out
	}
	return err, false
}

// read reads answers until the connection ends.
func (m *mux) read() {
	r := bufio.NewReaderSize(m.out.conn, muxRead)
	var f frame
	var err error
	for {
		if f, err = readFrame(r, f.payload); err != nil {
			break
		}
		m.heard.Add(1)
		m.mu.Lock()
		c := m.calls[f.number]
		delete(m.calls, f.number)
		if f.kind == kindClosed {
			delete(m.open, f.group)
		}
		m.mu.Unlock()
		if c == nil { // the caller has given up
			continue
		}
		switch f.kind {
		case kindAnswer:
			err = parseAnswer(f.payload, &c.answer)
		case kindHello:
			if err = json.Unmarshal(f.payload, &c.hello); err != nil {
				err = errHello
			}
		case kindClosed:
			err = io.EOF
		default:
			err = errMessage
		}
		c.done <- err
		if f.kind != kindClosed && (errors.Is(err, errMessage) || errors.Is(err, errHello)) {
			break
		}
	}
	if errors.Is(err, errMessage) || errors.Is(err, errHello) {
		m.port.refused.Add(1)
		m.port.log.Warn("a connection to another node is closed", "addr", m.address, "err", err)
	}
	m.end(io.EOF)
}

// muxRead is the size of the buffer of each end of a mux.
const muxRead = 64 << 10

// end ends the mux. All that wait get err.
func (m *mux) end(err error) {
	_ = m.out.conn.Close()
	m.mu.Lock()
	if m.err == nil {
		m.err = err
	}
	calls := m.calls
	m.calls = map[uint32]*muxCall{}
	m.mu.Unlock()
	for _, c := range calls {
		c.done <- err
	}
	p := m.port
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.muxes[m.address]; d != nil && d.mux == m {
		delete(p.muxes, m.address)
	}
}
