package transport

import (
	"net"
	"syscall"
	"time"
)

// flushTurn is the maximum number of bytes sent from a connection's queue in its turn.
const flushTurn = 256 << 10

// Write implements Conn. The system call is made on the caller's goroutine.
func (c *loopConn) Write(p []byte) {
	if len(p) == 0 {
		return
	}
	c.mu.Lock()
	if !c.life.Serving() {
		c.mu.Unlock()
		return
	}
	var err error
	if c.q.size == 0 {
		var n int
		n, err = c.send(p)
		p = p[n:]
	}
	if err == nil && len(p) > 0 {
		c.q.push(&c.l.g.bufs, p)
		c.pending.Store(int64(c.q.size))
		c.arm()
	}
	c.mu.Unlock()
	if err != nil {
		c.Close(reason(err))
	}
}

// send makes one write. It returns 0 and no error if the socket is full. The caller holds mu.
func (c *loopConn) send(p []byte) (int, error) {
	n, err := writeNow(c.fd, p)
	if err == syscall.EAGAIN {
		return 0, nil
	}
	if n > 0 {
		c.out.sent.Add(int64(n))
		c.moved.Store(c.l.g.opts.Clock.Now())
	}
	return n, err
}

// flush sends from the queue what the socket takes. It runs on the loop.
func (c *loopConn) flush() {
	c.mu.Lock()
	var err error
	for turn := flushTurn; turn > 0 && c.q.size > 0 && err == nil; {
		head := c.q.head()
		var n int
		n, err = c.send(head)
		c.q.pop(&c.l.g.bufs, n)
		turn -= n
		if n < len(head) {
			break
		}
	}
	c.pending.Store(int64(c.q.size))
	if c.q.size == 0 {
		c.arm()
	}
	empty := c.q.size == 0
	c.mu.Unlock()
	switch {
	case err != nil:
		c.Close(reason(err))
	case empty && c.life.isFlushing():
		c.hangUp()
	default:
		c.update()
	}
}

// arm updates the events that epoll waits for. If there are none, it removes the socket; otherwise epoll
// would report a broken one again and again. The caller holds mu.
func (c *loopConn) arm() {
	var events uint32
	if c.reading {
		events |= syscall.EPOLLIN
	}
	if c.q.size > 0 {
		events |= syscall.EPOLLOUT
	}
	if events == c.events || !c.entered || c.released {
		return
	}
	op := syscall.EPOLL_CTL_MOD
	switch {
	case c.events == 0:
		op = syscall.EPOLL_CTL_ADD
	case events == 0:
		op = syscall.EPOLL_CTL_DEL
	}
	c.events = events
	if err := c.l.poll.control(op, c.fd, events); err != nil {
		c.leave(closed, reason(err))
	}
}

// leave moves to a later phase and posts that to the loop. It returns false if the connection was already
// there. The caller holds mu.
func (c *loopConn) leave(to int32, reason error) bool {
	if _, ok := c.life.enter(to, reason); !ok {
		return false
	}
	if to == closed {
		c.q.clear(&c.l.g.bufs)
		c.pending.Store(0)
	}
	c.post(postClose)
	return true
}

// Close implements Conn.
func (c *loopConn) Close(reason error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.leave(closed, reason) {
		return false
	}
	if !c.released {
		// The loop closes the socket in its turn; from now on nothing is sent.
		_ = syscall.Shutdown(c.fd, syscall.SHUT_RDWR)
	}
	return true
}

// CloseAfterFlush implements Conn.
func (c *loopConn) CloseAfterFlush(reason error) {
	c.closeAfterFlush(reason, c.l.g.opts.LingerTime)
}

func (c *loopConn) closeAfterFlush(reason error, linger time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Serving() {
		c.linger = linger
		c.leave(flushing, reason)
	}
}

// stop implements member.
func (c *loopConn) stop(error) { c.post(postStop) }

// Wake implements Conn.
func (c *loopConn) Wake() {
	if c.life.Serving() {
		c.post(postWake)
	}
}

// Life implements Conn.
func (c *loopConn) Life() *Life { return &c.life }

// Turn implements Conn.
func (c *loopConn) Turn() time.Duration { return c.l.turn }

// Yield implements Conn.
func (c *loopConn) Yield() {
	if !c.yielded {
		c.yielded = true
		c.l.more = append(c.l.more, c)
	}
}

// again gives the connection another turn after Yield.
func (c *loopConn) again() {
	c.yielded = false
	if !c.life.Serving() {
		return
	}
	if c.reset() {
		return
	}
	c.ran(c.session.Resume())
}

// reset closes the connection if its peer has reset it, and reports whether it
// has. A connection that is not read from learns of a reset in no other way.
func (c *loopConn) reset() bool {
	errno, err := syscall.GetsockoptInt(c.fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
	if err != nil || errno == 0 {
		return false
	}
	c.Close(reason(syscall.Errno(errno)))
	return true
}

// CallsAfterInput reports whether Options.AfterInput is called after what the session does.
func (c *loopConn) CallsAfterInput() bool { return c.l.g.opts.AfterInput != nil }

// Loop implements Conn.
func (c *loopConn) Loop() int { return c.l.id }

// Pending implements Conn.
func (c *loopConn) Pending() int64 { return c.pending.Load() }

// Queue implements Conn.
func (c *loopConn) Queue() (buffers, memory int64) {
	if c.pending.Load() == 0 {
		return 0, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(c.q.chunks), int64(c.q.memory)
}

// Progress implements Conn.
func (c *loopConn) Progress() int64 {
	if c.pending.Load() > 0 {
		c.mu.Lock()
		if !c.released {
			c.hear()
		}
		c.mu.Unlock()
	}
	return c.moved.Load()
}

// RemoteAddr implements Conn.
func (c *loopConn) RemoteAddr() net.Addr { return c.remote }

// LocalAddr implements Conn.
func (c *loopConn) LocalAddr() net.Addr { return c.local }

// FD implements Conn.
func (c *loopConn) FD() int { return c.fd }

// TLS implements Conn.
func (c *loopConn) TLS() bool { return false }
