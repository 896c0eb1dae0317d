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
//   - the session's methods run on the loop's goroutine; Handler.Accept runs before the loop knows the connection;
//   - writing to the socket and changing the events to wait for happen under mu;
//   - the loop closes the socket under mu, so fd is valid on the loop, and under mu while life is not closed;
//   - mu is held for system calls that do not wait, never for a method of the session.
type loopConn struct {
	l             *loop
	fd            int
	local, remote net.Addr
	session       Session

	todo    atomic.Uint32 // what the loop must do: bits of the post constants
	life    Life          // changed under mu, except by Drain
	pending atomic.Int64
	out     delivery
	moved   atomic.Int64 // Progress

	mu       sync.Mutex // guards what follows
	q        queue
	linger   time.Duration
	reading  bool   // the connection waits for input; changed only by the loop
	events   uint32 // the events that epoll was given
	entered  bool   // the loop knows the connection
	released bool   // the socket is closed

	// These belong to the loop.
	parked   bool // Data or Resume returned false
	yielded  bool // in the loop's list of connections that have yielded
	finished bool // the peer has ended
	shut     bool // we have ended
	left     int64
	pacer    pacer
	timer    *time.Timer
	due      int64 // the time at which timer counts, monotonic
}

// What can be posted to the loop.
const (
	postEnter uint32 = 1 << iota // a new connection
	postWake                     // Resume
	postStop                     // the Group closes
	postClose                    // life is flushing or closed
	postTimer                    // the timer fired
)

// post asks the loop to do something. It does not add the connection to the inbox twice.
func (c *loopConn) post(what uint32) {
	if c.todo.Or(what) == 0 {
		c.l.put(c)
	}
}

// act does the posted work.
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
	if todo&postWake != 0 && c.life.Serving() && !c.yielded { // a session that has yielded is resumed in its turn
		c.ran(c.session.Resume())
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

// ready runs the connection's turn after epoll reported it.
func (c *loopConn) ready(events uint32) {
	const broken = syscall.EPOLLHUP | syscall.EPOLLERR
	if events&broken != 0 && c.reset() {
		return // do not run its commands: nobody waits for the replies
	}
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
		c.ran(c.session.Data(c.l.buf[:n]))
	default: // thrown away
		c.left -= int64(n)
		if c.left <= 0 {
			c.end()
		}
	}
}

// end handles the end of input: the peer has ended, or sent more than we are willing to throw away.
func (c *loopConn) end() {
	c.finished = true
	if c.life.Serving() && c.session.EOF() {
		c.CloseAfterFlush(ErrPeerClosed)
	}
	if c.shut {
		c.Close(nil) // the reason is already set
	}
	c.update()
}

// ran records whether the session continues, as Data or Resume has returned.
func (c *loopConn) ran(more bool) {
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

// paced asks the pacer whether to read, and sets a timer to ask it again when that is due. The pacer is also
// asked when bytes are sent.
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

// hear notes what the peer has taken since the last call. The socket must be open.
func (c *loopConn) hear() {
	if c.out.look(c.fd) {
		c.moved.Store(c.l.g.opts.Clock.Now())
	}
}

// after posts postTimer in d.
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
	case c.due > c.l.g.mono(): // the timer was set for something else since
	case !c.released && !c.shut && c.out.goesOn(c.fd):
		c.after(c.l.g.opts.FlushTimeout)
	default:
		c.Close(nil) // of flushing or lingering; the reason is already set
	}
}

// closing continues to close a connection that is flushing or closed.
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

// hangUp ends our side after the last byte, and lingers until the peer ends.
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

// release closes the socket and runs the session's Closed.
func (c *loopConn) release() {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.l.conns[c.fd] = nil
	c.mu.Lock()
	c.released = true
	_ = syscall.Close(c.fd) // epoll drops a closed socket
	c.mu.Unlock()
	c.session.Closed(c.life.Reason())
	c.l.count.Add(-1)
	c.l.g.remove(c)
	c.l.g.running.Done()
}
