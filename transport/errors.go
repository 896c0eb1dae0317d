package transport

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// Reasons that a connection ends with. Session.Closed gets one of these, or an error that
// wraps one, unless the session itself gave another to Close or CloseAfterFlush.
var (
	// ErrPeerClosed says that the peer finished sending and all replies went out.
	ErrPeerClosed = errors.New("the peer closed the connection")
	// ErrPeerReset says that the peer, or the network, broke the connection.
	ErrPeerReset = errors.New("the peer reset the connection")
	// ErrIO says that reading or writing failed in another way.
	ErrIO = errors.New("input/output error on the connection")
	// ErrStopped says that the Group was closed.
	ErrStopped = errors.New("the server stops")
	// ErrRefused says that the Handler returned no session.
	ErrRefused = errors.New("the connection was refused")
	// ErrHandshake says that no TLS session could be agreed on.
	ErrHandshake = errors.New("the TLS handshake failed")
	// ErrNotTLS says that the peer sent something other than TLS to a TLS port.
	ErrNotTLS = errors.New("the peer does not speak TLS")
	// ErrHandshakeTimeout says that the peer did not finish the handshake in time.
	ErrHandshakeTimeout = errors.New("the TLS handshake took too long")
)

// maxQuoted is how many bytes from a peer are shown in an error.
const maxQuoted = 128

// reason gives err from a socket the sentinel it belongs to.
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
