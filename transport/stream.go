package transport

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// stream is a connection with a goroutine of its own, which reads. A second goroutine writes while the socket
// is full, and a short-lived one runs Session.Resume.
//
// Invariants:
//   - the session's methods run under run, and none after Closed;
//   - the socket is written to under out.mu or, while out.busy is set, by the flusher alone;
//   - the reader is the first goroutine to start and the last to end: it runs Closed;
//   - locks are taken in the order run, cipher.mu, out.mu, mu.
//
// Rejected: one goroutine for each direction from the start. It would be simpler, but costs a switch for each
// reply and a second stack for each idle connection.
type stream struct {
	g        *Group
	nc       net.Conn
	raw      syscall.RawConn
	fd       int
	tls      *tls.Conn   // nil: plain
	cipher   *cipherSide // the connection under tls
	out      outbox
	in       input
	pacer    pacer        // belongs to the reader
	wake     atomic.Bool  // a Resume is due
	parked   atomic.Bool  // Data or Resume returned false
	finished atomic.Bool  // the peer has ended
	moved    atomic.Int64 // Progress

	run     sync.Mutex // held while a method of the session runs; guards the next four fields, and changes of parked
	session Session
	ended   bool          // Closed has run
	turn    time.Duration // the turn of the method that runs
	yielded bool          // the session gets another turn

	mu   sync.Mutex // guards over, and changes of life except by Drain
	over bool       // the reader has ended: no goroutine may start
	life Life

	stopped chan struct{} // closed when no more methods of the session begin
	dead    chan struct{} // closed with the socket
	unpark  chan struct{} // receives when Resume returned true; holds one
}

func newStream(g *Group, nc net.Conn) (*stream, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil, errors.New("the connection has no descriptor")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &stream{
		g: g, nc: nc, raw: raw,
		stopped: make(chan struct{}),
		dead:    make(chan struct{}),
		unpark:  make(chan struct{}, 1),
	}
	if err := raw.Control(func(fd uintptr) { c.fd = int(fd) }); err != nil {
		return nil, err
	}
	c.out.init(c)
	c.in.init(c)
	c.pacer = g.opts.pacer()
	c.touch()
	return c, nil
}

// begin makes the session and starts the reader.
func (c *stream) begin(h Handler) {
	c.run.Lock()
	c.session = h.Accept(c)
	if c.session == nil {
		c.session = noSession{}
		c.Close(ErrRefused)
	}
	c.run.Unlock()
	go c.serve()
}

// noSession is used if the handler returned no session.
type noSession struct{}

func (noSession) Data([]byte) bool { return true }
func (noSession) Resume() bool     { return true }
func (noSession) EOF() bool        { return true }
func (noSession) Closed(error)     {}

// serve is the reader. It runs for the whole life of the connection.
func (c *stream) serve() {
	defer c.end()
	if c.tls != nil {
		if !c.handshake() || !c.decrypt() {
			c.drain()
			return
		}
	}
	for c.mayRead() {
		b, err := c.in.wait()
		if err != nil {
			c.readFailed(err)
			break
		}
		if c.tls == nil {
			c.deliver(b)
			c.in.release()
		} else if !c.decrypt() {
			break
		}
	}
	c.drain()
}

// mayRead waits until the session wants more input and the peer has taken enough output. It returns false if
// the connection is being closed.
func (c *stream) mayRead() bool {
	return c.wanted() && c.paced() && c.life.Serving()
}

// wanted waits while the session is parked.
func (c *stream) wanted() bool {
	for {
		if !c.life.Serving() {
			return false
		}
		if !c.parked.Load() {
			return true
		}
		select {
		case <-c.unpark:
		case <-c.stopped:
		}
	}
}

// paced waits while the peer has too much unread output.
func (c *stream) paced() bool {
	if c.pacer.free(c.out.pending.Load()) {
		return true // the usual case, without reading the clock
	}
	return c.out.pace()
}

// deliver passes b to the session.
func (c *stream) deliver(b []byte) {
	for c.wanted() { // a Resume may have parked the session during the read
		c.run.Lock()
		if !c.parked.Load() {
			if c.life.Serving() {
				c.turn = shortTurn
				c.parked.Store(!c.session.Data(b))
			}
			c.run.Unlock()
			return
		}
		c.run.Unlock()
	}
}

// readFailed handles the end of input: the peer has ended, or the connection is closed.
func (c *stream) readFailed(err error) {
	if !c.life.Serving() {
		return // the deadline of a connection that is being closed
	}
	if !errors.Is(err, io.EOF) {
		c.Close(reason(err))
		return
	}
	if !c.wanted() {
		return
	}
	c.finished.Store(true)
	c.run.Lock()
	done := !c.life.Serving() || c.session.EOF()
	c.run.Unlock()
	if done {
		c.CloseAfterFlush(ErrPeerClosed)
		return
	}
	<-c.stopped // the session closes the connection
}

// drain throws input away while the queue is sent and until the peer ends, so that no reset because of unread
// input takes the last reply from the peer. Then it closes the socket.
func (c *stream) drain() {
	left := c.g.opts.LingerBytes
	for left > 0 && c.life.isFlushing() {
		b, err := c.in.wait() // has a deadline since CloseAfterFlush
		left -= int64(len(b))
		c.in.release()
		if err != nil {
			break
		}
	}
	if c.life.isFlushing() {
		c.out.await()
	}
	c.Close(nil) // the reason is already set
}

// end runs Closed. No method of the session runs afterwards.
func (c *stream) end() {
	c.in.release()
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.run.Lock()
	c.ended = true
	c.session.Closed(c.life.Reason())
	c.run.Unlock()
	c.g.remove(c)
	c.g.running.Done()
}

// spawn runs f in a goroutine that the Group waits for, unless the reader has ended.
func (c *stream) spawn(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.g.running.Add(1) // never from zero: the reader still counts
	go func() {
		defer c.g.running.Done()
		f()
	}()
}

// Wake implements Conn.
func (c *stream) Wake() {
	if c.life.Serving() && c.wake.CompareAndSwap(false, true) {
		c.spawn(c.resume)
	}
}

func (c *stream) resume() {
	c.run.Lock()
	defer c.run.Unlock()
	if !c.wake.Swap(false) { // before Resume, so that a Wake during it asks for another
		return // stop has already run Resume
	}
	if c.yielded {
		return // Resume is called in its turn
	}
	c.goOn(shortTurn)
}

// goOn calls Resume. The caller holds run.
func (c *stream) goOn(turn time.Duration) {
	if c.ended || !c.life.Serving() {
		return
	}
	c.turn = turn
	more := c.session.Resume()
	c.parked.Store(!more)
	if more {
		select {
		case c.unpark <- struct{}{}:
		default:
		}
	}
}

// Life implements Conn.
func (c *stream) Life() *Life { return &c.life }

// Turn implements Conn.
func (c *stream) Turn() time.Duration { return c.turn }

// Yield implements Conn. The connections that have more to do share a few turns, so that the scheduler runs
// few of them beside those with little to do.
func (c *stream) Yield() {
	c.yielded = true
	c.spawn(func() {
		select {
		case c.g.turns <- struct{}{}:
		case <-c.stopped:
			return
		}
		defer func() { <-c.g.turns }()
		if err := c.broken(); err != nil {
			c.Close(reason(err))
			return
		}
		c.run.Lock()
		defer c.run.Unlock()
		c.yielded = false
		c.goOn(longTurn)
	})
}

// broken returns the socket's error, or nil. Nothing reads meanwhile, so only this check can find a reset.
func (c *stream) broken() error {
	var errno int
	err := c.raw.Control(func(fd uintptr) {
		errno, _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR)
	})
	if err == nil && errno != 0 {
		err = syscall.Errno(errno)
	}
	return err
}

// stop implements member. It takes run, so it follows the session's current method; a session that was woken
// before has its Resume.
func (c *stream) stop(reason error) {
	c.spawn(func() {
		c.resume()
		c.run.Lock()
		defer c.run.Unlock()
		c.closeAfterFlush(reason, min(stopLinger, c.g.opts.LingerTime))
	})
}

// stopLinger is the linger time when a Group closes. Its peers are mostly idle and do not notice, so each
// would take the whole time.
const stopLinger = 100 * time.Millisecond

// CloseAfterFlush implements Conn.
func (c *stream) CloseAfterFlush(reason error) {
	c.closeAfterFlush(reason, c.g.opts.LingerTime)
}

func (c *stream) closeAfterFlush(reason error, linger time.Duration) {
	if c.tls != nil && !c.cipher.ready.Load() {
		// The peer cannot read a reply yet, and a handshake is too expensive for a refusal.
		c.Close(reason)
		return
	}
	if !c.leave(flushing, reason) {
		return
	}
	if c.tls != nil {
		_ = c.tls.CloseWrite() // queues the alert that ends the TLS session
	}
	if c.finished.Load() {
		linger = 0 // no input can come that would cause a reset
	}
	c.out.finish(linger)
}

// Close implements Conn.
func (c *stream) Close(reason error) bool {
	if !c.leave(closed, reason) {
		return false
	}
	c.out.close()
	_ = c.nc.Close()
	return true
}

// leave moves to a later phase. It returns false if the connection was already there.
func (c *stream) leave(to int32, reason error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	from, ok := c.life.enter(to, reason)
	if !ok {
		return false
	}
	if from <= draining {
		close(c.stopped)
	}
	if to == closed {
		close(c.dead)
	}
	return true
}

// Pending implements Conn.
func (c *stream) Pending() int64 { return c.out.pending.Load() + c.early() }

// Queue implements Conn.
func (c *stream) Queue() (buffers, memory int64) {
	if early := c.early(); early > 0 {
		buffers, memory = 1, early
	}
	if c.out.pending.Load() == 0 {
		return buffers, memory
	}
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	return buffers + int64(c.out.q.chunks), memory + int64(c.out.q.memory)
}

// Progress implements Conn.
func (c *stream) Progress() int64 {
	if c.out.pending.Load() > 0 {
		c.out.hear()
	}
	return c.moved.Load()
}

func (c *stream) touch() { c.moved.Store(c.g.opts.Clock.Now()) }

// Loop implements Conn.
func (c *stream) Loop() int { return -1 }

// RemoteAddr implements Conn.
func (c *stream) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// LocalAddr implements Conn.
func (c *stream) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// FD implements Conn.
func (c *stream) FD() int { return c.fd }

// TLS implements Conn.
func (c *stream) TLS() bool { return c.tls != nil }

// CertifiedName implements Certified.
func (c *stream) CertifiedName() string {
	if c.tls == nil {
		return ""
	}
	chains := c.tls.ConnectionState().VerifiedChains
	if len(chains) == 0 {
		return ""
	}
	return chains[0][0].Subject.CommonName
}
