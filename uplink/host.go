package uplink

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/internal/clock"
	"limitdb/transport"
)

const (
	// maxStreams is the most streams that a node opens on an uplink, and maxPorts the most uplinks of a node. The node that was called may have as many
	// again that have ended, which it has not closed yet. Each of the other nodes has an uplink for each of its event loops: 100 nodes of 64 have some 6 500.
	maxStreams = 1 << 16
	maxPorts   = 1 << 13
	// maxInput is how many bytes of commands an uplink holds until sessions take them. A client that sends more is closed.
	maxInput = 32 << 20
)

// Host serves the uplinks of other nodes.
type Host struct {
	handler    transport.Handler
	afterInput func()
	clock      clock.Clock
	elapsed    func() int64

	mu    sync.Mutex // guards ports
	ports map[*port]struct{}
}

// NewHost returns a Host whose streams get their sessions from a handler. It calls afterInput when the sessions
// have received all input that was ready, as transport.Options describes. elapsed returns the time since some point,
// in ns. It is more than 0 and never runs backwards, nobody sets it, and it goes on while the process is stopped.
func NewHost(h transport.Handler, afterInput func(), c clock.Clock, elapsed func() int64) *Host {
	return &Host{handler: h, afterInput: afterInput, clock: c, elapsed: elapsed, ports: map[*port]struct{}{}}
}

// Serve serves an uplink until it ends, and closes it. The error is the reason, if this node has ended it.
func (h *Host) Serve(conn net.Conn) error {
	p := &port{h: h, out: newOutbox(conn), streams: map[uint32]*Conn{}, work: make(chan struct{}, 1), gone: make(chan struct{})}
	h.mu.Lock()
	full := h.ports == nil || len(h.ports) >= maxPorts
	if !full {
		h.ports[p] = struct{}{}
	}
	h.mu.Unlock()
	if full {
		_ = conn.Close()
		return errTooMany
	}
	var helpers sync.WaitGroup
	helpers.Go(p.out.run)
	helpers.Go(p.wakeUp)
	helpers.Go(p.stamp)
	err := p.read()
	p.end()
	helpers.Wait()
	h.mu.Lock()
	delete(h.ports, p)
	h.mu.Unlock()
	if err == nil && p.silent.Load() {
		return errSilent
	}
	return err
}

var errTooMany = errors.New("uplink: there are too many, or the node stops")

// Close ends all uplinks, once pending replies are sent, or when ctx ends.
func (h *Host) Close(ctx context.Context) {
	h.mu.Lock()
	ports := h.ports
	h.ports = nil
	h.mu.Unlock()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for p := range ports {
		for ctx.Err() == nil && !p.out.idle() {
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		p.out.stop()
		<-p.gone
	}
}

// port is an uplink at the node that was called. One goroutine reads and gives the sessions their input,
// another resumes sessions that were woken, and a third one writes.
type port struct {
	h    *Host
	out  *outbox
	work chan struct{} // something was posted, capacity 1
	gone chan struct{} // closed at the end

	lease  lease
	silent atomic.Bool // the peer was not heard for silence

	run     sync.Mutex // held while a method of a session runs; guards the next two
	streams map[uint32]*Conn
	held    int // bytes that no session has taken

	mu     sync.Mutex // guards posted
	posted []*Conn
}

// read gives the sessions their input until the connection ends. It returns an error if the peer has sent
// anything that a node never sends.
func (p *port) read() error {
	r := frameReader{from: bufio.NewReaderSize(p.out.conn, readSize)}
	for {
		f, err := r.next()
		p.run.Lock()
		for err == nil {
			if !p.handle(f) {
				err = errFrame
				break
			}
			if !r.more() {
				break
			}
			f, err = r.next()
		}
		p.run.Unlock()
		p.h.afterInput()
		switch {
		case err == errFrame:
			return err
		case err != nil:
			return nil
		}
	}
}

// handle handles a frame, and reports whether it is valid. The caller holds run.
func (p *port) handle(f frame) bool {
	c := p.streams[f.stream]
	switch f.kind {
	case kindOpen:
		client, ok := parseClient(f.payload)
		if !ok || c != nil || len(p.streams) >= 2*maxStreams {
			return false
		}
		p.open(f.stream, client)
	case kindData:
		if c != nil {
			c.input(f.payload)
		}
	case kindEnd:
		if c != nil && !c.finished {
			c.finished = true
			c.eof()
		}
	case kindClose:
		if c != nil {
			c.Close(transport.ErrPeerClosed)
			c.act()
		}
	case kindStamp:
		if !p.lease.extend(f.payload, p.h.elapsed()) {
			return false
		}
	}
	return true
}

func (p *port) open(id uint32, client Client) {
	c := newConn(p, id, client)
	p.streams[id] = c
	c.session = p.h.handler.Accept(c)
}

// post makes act be called for a connection.
func (p *port) post(c *Conn) {
	p.mu.Lock()
	p.posted = append(p.posted, c)
	p.mu.Unlock()
	select {
	case p.work <- struct{}{}:
	default:
	}
}

// wakeUp resumes the sessions that were woken or have yielded.
func (p *port) wakeUp() {
	for {
		select {
		case <-p.work:
		case <-p.gone:
			return
		}
		p.mu.Lock()
		posted := p.posted
		p.posted = nil
		p.mu.Unlock()
		for _, c := range posted {
			p.run.Lock() // each time, so that the reader can run in between
			c.act()
			p.run.Unlock()
		}
		p.h.afterInput()
	}
}

// errLost closes the sessions of an uplink that has ended.
var errLost = errors.New("the uplink of its node has ended")

// end closes all sessions.
func (p *port) end() {
	p.out.stop()
	p.run.Lock()
	defer p.run.Unlock()
	for _, c := range p.streams {
		c.Close(errLost)
		c.act()
	}
	close(p.gone)
}
