// Package transport moves bytes between sockets and sessions. It listens (TCP, unix, TLS), reads and writes,
// and slows down peers that do not read their replies. It knows nothing of RESP. A session has no goroutine
// of its own: the driver behind its Conn decides what runs it, so that plain sockets and TLS can have
// different drivers behind one interface.
package transport

import (
	"net"
	"time"
)

// Handler makes a Session for each accepted connection. It may refuse a connection with an answer: write to
// it, call CloseAfterFlush, and return a session that ignores its input.
type Handler interface {
	Accept(c Conn) Session
}

// Session is the protocol state of one connection. The driver never calls its methods concurrently.
type Session interface {
	// Data receives input. b is valid only during the call. If Data returns false, the driver stops reading
	// until a Resume has returned true.
	Data(b []byte) (more bool)
	// Resume is called after Conn.Wake and Conn.Yield, and continues what Data left. Its result has the same
	// meaning as Data's.
	Resume() (more bool)
	// EOF is called when the peer has finished sending (half-close). If it returns true, the connection is
	// closed after the queued bytes have been sent. If it returns false, the session is parked and closes the
	// connection itself; Resume still follows Wake.
	EOF() (done bool)
	// Closed is called exactly once, as the last method, for whatever reason the connection ended. After
	// Close or CloseAfterFlush no other method begins.
	Closed(reason error)
}

// Conn is one connection as a session sees it. Any goroutine may call its methods, and none of them blocks.
type Conn interface {
	// Life returns the connection's phase. The pointer is the same for the whole life of the connection.
	Life() *Life
	// Write queues a copy of p and sends as much as the socket takes now. It drops p if the connection is
	// being closed.
	Write(p []byte)
	// Pending returns the number of bytes queued and not sent.
	Pending() int64
	// Queue returns the number of buffers that hold the pending bytes, and their memory in bytes.
	Queue() (buffers, memory int64)
	// Progress returns the time, in ns of the clock, at which bytes were last seen to move: read, sent, or
	// taken by the peer as far as its system has acknowledged them.
	Progress() int64
	// Wake asks the driver to call Session.Resume soon.
	Wake()
	// Turn returns how long the session's current method may run before it should let others run. Only the
	// session may call it, from its methods.
	Turn() time.Duration
	// Yield asks the driver to call Session.Resume once the others have had their turn. Only the session may
	// call it, from its methods; the method then returns false. A peer that has reset the connection
	// meanwhile gets no turn.
	Yield()
	// CloseAfterFlush stops reading, sends the queued bytes, lingers so that the peer can read them, and
	// closes. It closes a TLS connection immediately if the handshake is not complete.
	CloseAfterFlush(reason error)
	// Close closes the connection immediately. It returns false if the connection was already closed.
	// Session.Closed gets the first reason that was given.
	Close(reason error) bool
	// Loop returns the number, from 0, of the event loop that runs the session, or -1 if the connection has
	// a goroutine of its own.
	Loop() int
	RemoteAddr() net.Addr
	LocalAddr() net.Addr
	// FD returns the socket's descriptor number, for display only.
	FD() int
	// TLS reports whether the connection is encrypted.
	TLS() bool
}

// Certified is a Conn whose peer may have proved its name.
type Certified interface {
	// CertifiedName returns the common name of the certificate that the peer has presented and that was verified, "" if there is none. It may
	// be called once the peer has sent something.
	CertifiedName() string
}
