// Package transport moves bytes between sockets and sessions: listeners (TCP,
// unix, TLS), reading, writing, back-pressure. It knows nothing of RESP. A
// session has no goroutine of its own; the driver behind a Conn decides what
// runs it, so that plain sockets and TLS can be driven differently behind the same
// interface.
package transport

import (
	"net"
	"time"
)

// Handler makes a Session for each accepted connection. It may answer and refuse:
// write, then CloseAfterFlush, and return a session that ignores its input.
type Handler interface {
	Accept(c Conn) Session
}

// Session is the protocol state of one connection. The driver never calls
// its methods concurrently.
type Session interface {
	// Data takes what was read; b is valid during the call only. It returns
	// false to have reading stopped until the next Resume has returned true.
	Data(b []byte) (more bool)
	// Resume runs after Conn.Wake and Conn.Yield and goes on with what Data left. It
	// returns as Data does.
	Resume() (more bool)
	// EOF runs when the peer has finished sending (half-close). The
	// connection is closed after what is queued has been sent, unless EOF
	// returns false: then the session is parked and closes it itself. Resume
	// still follows Wake.
	EOF() (done bool)
	// Closed runs exactly once, last, whatever ended the connection. After
	// Close or CloseAfterFlush it is the only method that still begins.
	Closed(reason error)
}

// Conn is one connection as a session sees it. All methods may be called from
// any goroutine, and none blocks.
type Conn interface {
	// Life says whether the connection is still there. It is the same value for the
	// whole life of the connection.
	Life() *Life
	// Write queues p (copied) and sends as much as the socket takes now. It drops p once
	// the connection is being closed.
	Write(p []byte)
	// Pending is the number of bytes queued and not sent.
	Pending() int64
	// Queue is the number of buffers that hold what is pending, and their memory in bytes.
	Queue() (buffers, memory int64)
	// Progress is the clock's time in nanoseconds at which bytes were last seen to
	// move: read, sent, or taken by the peer, as far as its system has acknowledged them.
	Progress() int64
	// Wake asks the driver to call Session.Resume soon.
	Wake()
	// Turn is the time that the method of the session which runs now may take before others
	// have waited long enough. Only the session calls it, from its methods.
	Turn() time.Duration
	// Yield asks the driver to call Session.Resume when the others have had their
	// turn. Only the session calls it, from its methods; the method then returns
	// false. A peer that has reset the connection meanwhile gets no turn.
	Yield()
	// CloseAfterFlush stops reading, sends what is queued, lingers so that the
	// peer can read it, and closes. A TLS connection that has not finished its handshake is
	// closed at once.
	CloseAfterFlush(reason error)
	// Close closes at once, and reports whether the connection was not closed yet. The
	// first reason is the one Session.Closed gets.
	Close(reason error) bool
	RemoteAddr() net.Addr
	LocalAddr() net.Addr
	// FD is the socket's descriptor number, for display only.
	FD() int
	// TLS reports whether the connection is encrypted.
	TLS() bool
}
