package transport

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// loopConn is a connection that an event loop serves.
//
// Invariants:
//   - methods of the session run on the loop's goroutine, Handler.Accept before it knows the connection;
//   - the socket is written to, and the events waited for are changed, under mu;
//   - the socket is closed by the loop under mu, so fd is valid on the loop and under mu while life is not closed;
//   - mu is held for system calls that do not wait, never for a method of the session.
type loopConn struct {
	l             *loop
	fd            int
	local, remote net.Addr
	session       Session

	todo    atomic.Uint32 // what the loop shall do: bits of the post constants
	life    Life          // changed under mu, but for Drain
	pending atomic.Int64
	out     delivery
	moved   atomic.Int64 // Progress

	mu       sync.Mutex // guards what follows
	q        queue
	linger   time.Duration
	reading  bool   // input is waited for; changed by the loop alone
	events   uint32 // what epoll has been told
	entered  bool   // the loop knows the connection
	released bool   // the socket was closed

	// The loop's own.
	parked   bool // Data or Resume returned false
	yielded  bool // in the loop's list of those who have more to do
	finished bool // the peer has sent its end
	shut     bool // we have sent ours
	left     int64
	pacer    pacer
	timer    *time.Timer
	due      int64 // when timer means something, monotonic
}

// What can be posted to the loop.
const (
	postEnter uint32 = 1 << iota // a new connection
	postWake                     // Resume
	postStop                     // the Group closes
	postClose                    // life is flushing or closed
	postTimer                    // the timer fired
)

// post asks the loop to do something. One that is in the inbox already is not put there twice.
func (c *loopConn) post(what uint32) {
	if c.todo.Or(what) == 0 {
		c.l.put(c)
	}
}

// act does what was posted.
func (c *loopConn) act() {
	todo := c.todo.Swap(0)
	if todo&postEnter != 0 {
		c.l.enter(c)
		c.mu.Lock()
		c.entered = true
		c.arm()
		c.mu.Unlock()
		c.update()
	}
	if todo&postWake != 0 && c.life.Serving() && !c.yielded { // else Resume is called in its turn
		c.settle(c.session.Resume())
	}
	if todo&postStop != 0 {
		c.closeAfterFlush(ErrStopped, min(stopLinger, c.l.g.opts.LingerTime))
	}
	if todo&postTimer != 0 {
		c.timeout()
	}
	if todo&postClose != 0 {
		c.closing()
	}
}

// ready takes the connection's turn after epoll reported it.
func (c *loopConn) ready(events uint32) {
	const broken = syscall.EPOLLHUP | syscall.EPOLLERR
	if events&(syscall.EPOLLOUT|broken) != 0 && c.pending.Load() > 0 {
		c.flush()
	}
	if events&(syscall.EPOLLIN|broken) != 0 && c.reading {
		c.read()
	}
}

func (c *loopConn) read() {
	n, err := readNow(c.fd, c.l.buf[:c.l.read])
	switch {
	case err == syscall.EAGAIN:
	case err != nil:
		c.Close(reason(err))
	case n == 0:
		c.end()
	case c.life.Serving():
		c.moved.Store(c.l.now)
		c.settle(c.session.Data(c.l.buf[:n]))
	default: // thrown away
		c.left -= int64(n)
		if c.left <= 0 {
			c.end()
		}
	}
}

// end acts on the end of input: the peer's, or what we are willing to throw away.
func (c *loopConn) end() {
	c.finished = true
	if c.life.Serving() && c.session.EOF() {
		c.CloseAfterFlush(ErrPeerClosed)
	}
	if c.shut {
		c.Close(nil) // the reason is there already
	}
	c.update()
}

// settle acts on what Data or Resume returned.
func (c *loopConn) settle(more bool) {
	c.parked = !more
	c.update()
}

// update decides whether to read.
func (c *loopConn) update() {
	reading := !c.finished
	if c.life.Serving() && reading {
		reading = !c.parked && c.paced()
	}
	if reading != c.reading {
		c.mu.Lock()
		c.reading = reading
		c.arm()
		c.mu.Unlock()
	}
}

// paced asks the pacer whether to read, and has it asked again when that is due. Every
// byte sent asks it, too.
func (c *loopConn) paced() bool {
	unsent := c.pending.Load()
	if !c.pacer.free(unsent) {
		c.hear()
	}
	ok, wait := c.pacer.read(unsent, c.out.taken.Load(), c.l.g.mono())
	if !ok {
		c.after(wait)
	}
	return ok
}

// hear notes what the peer has taken since. The socket must be open.
func (c *loopConn) hear() {
	if c.out.look(c.fd) {
		c.moved.Store(c.l.g.opts.Clock.Now())
	}
}

// after has postTimer posted in d.
func (c *loopConn) after(d time.Duration) {
	c.due = c.l.g.mono() + int64(d)
	if c.timer == nil {
		c.timer = time.AfterFunc(d, func() { c.post(postTimer) })
	} else {
		c.timer.Reset(d)
	}
}

func (c *loopConn) timeout() {
	switch {
	case c.life.Serving():
		c.update()
	case c.due > c.l.g.mono(): // set for something else since
	case !c.released && !c.shut && c.out.goesOn(c.fd):
		c.after(c.l.g.opts.FlushTimeout)
	default:
		c.Close(nil) // of flushing or lingering; the reason is there already
	}
}

// closing goes on with a connection that is flushing or closed.
func (c *loopConn) closing() {
	switch {
	case c.released:
	case c.life.isClosed():
		c.release()
	case c.pending.Load() > 0:
		c.out.goesOn(c.fd)
		c.after(c.l.g.opts.FlushTimeout)
		c.update()
	default:
		c.hangUp()
	}
}

// hangUp sends our end, after the last byte, and lingers for the peer's.
func (c *loopConn) hangUp() {
	if c.shut {
		return
	}
	c.shut = true
	_ = syscall.Shutdown(c.fd, syscall.SHUT_WR)
	if c.finished {
		c.Close(nil)
		return
	}
	c.after(c.linger)
	c.update()
}

// release closes the socket and runs Closed, the last of the session.
func (c *loopConn) release() {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.l.conns[c.fd] = nil
	c.mu.Lock()
	c.released = true
	_ = syscall.Close(c.fd) // epoll forgets it
	c.mu.Unlock()
	c.session.Closed(c.life.Reason())
	c.l.count.Add(-1)
	c.l.g.remove(c)
	c.l.g.running.Done()
}
