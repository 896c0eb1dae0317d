package transport

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// Reasons for which a connection ends. Session.Closed gets one of these, or an error that wraps one, unless
// the session itself passed another to Close or CloseAfterFlush.
var (
	// ErrPeerClosed means that the peer finished sending and all replies were sent.
	ErrPeerClosed = errors.New("the peer closed the connection")
	// ErrPeerReset means that the peer, or the network, broke the connection.
	ErrPeerReset = errors.New("the peer reset the connection")
	// ErrIO means that reading or writing failed in another way.
	ErrIO = errors.New("input/output error on the connection")
	// ErrStopped means that the Group was closed.
	ErrStopped = errors.New("the server stops")
	// ErrRefused means that the Handler returned no session.
	ErrRefused = errors.New("the connection was refused")
	// ErrHandshake means that the TLS handshake failed.
	ErrHandshake = errors.New("the TLS handshake failed")
	// ErrNotTLS means that the peer sent something other than TLS to a TLS port.
	ErrNotTLS = errors.New("the peer does not speak TLS")
	// ErrHandshakeTimeout means that the peer did not finish the handshake in time.
	ErrHandshakeTimeout = errors.New("the TLS handshake took too long")
)

// maxQuoted is how many bytes from a peer an error shows at most.
const maxQuoted = 128

// reason wraps a socket's error in the sentinel that it belongs to.
func reason(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return ErrPeerClosed
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, syscall.ECONNABORTED),
		errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Errorf("%w: %w", ErrPeerReset, err)
	default:
		return fmt.Errorf("%w: %w", ErrIO, err)
	}
}
