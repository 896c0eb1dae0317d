package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// tlsReadSize is the size in bytes of a TLS connection's two buffers, which it holds only while there is
// input.
const tlsReadSize = 16 << 10

// cipherSide is the connection that crypto/tls reads from and writes to. A write goes to the outbox, so it
// never waits, as with plain connections. A read waits only during the handshake. After that it returns what
// the reader has read and, when that is used up, a temporary error. crypto/tls treats the error like a passed
// deadline: it keeps its state and can be called again. So only the reader waits, and it waits without a
// buffer for plain text.
type cipherSide struct {
	c     *stream
	ready atomic.Bool // the handshake is complete
	in    []byte      // read, and not yet taken by crypto/tls; belongs to the reader

	mu    sync.Mutex // guards early, and its order before the first write after the handshake
	early []byte     // written before the handshake was complete
}

// errNoInput is the temporary error.
var errNoInput net.Error = noInput{}

type noInput struct{}

func (noInput) Error() string   { return "no input at the moment" }
func (noInput) Timeout() bool   { return true }
func (noInput) Temporary() bool { return true }

// Read implements net.Conn.
func (s *cipherSide) Read(p []byte) (int, error) {
	if s.ready.Load() {
		if len(s.in) == 0 {
			return 0, errNoInput
		}
		n := copy(p, s.in)
		s.in = s.in[n:]
		return n, nil
	}
	n, err := s.c.nc.Read(p)
	if n > 0 {
		s.c.touch()
	}
	return n, err
}

// Write implements net.Conn.
func (s *cipherSide) Write(p []byte) (int, error) {
	if err := s.c.out.write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close implements net.Conn. The stream closes the socket.
func (s *cipherSide) Close() error { return nil }

// LocalAddr implements net.Conn.
func (s *cipherSide) LocalAddr() net.Addr { return s.c.nc.LocalAddr() }

// RemoteAddr implements net.Conn.
func (s *cipherSide) RemoteAddr() net.Addr { return s.c.nc.RemoteAddr() }

// SetDeadline implements net.Conn. It does nothing: a deadline that crypto/tls sets would stop the flusher.
func (s *cipherSide) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (s *cipherSide) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (s *cipherSide) SetWriteDeadline(time.Time) error { return nil }

// useTLS makes c a TLS connection. It is called before anything else.
func (c *stream) useTLS(conf *tls.Config) {
	c.cipher = &cipherSide{c: c}
	c.tls = tls.Server(c.cipher, conf)
}

// Write implements Conn.
func (c *stream) Write(p []byte) {
	switch {
	case len(p) == 0 || !c.life.Serving():
	case c.tls == nil:
		_ = c.out.write(p) // an error closes the connection
	case c.cipher.ready.Load() || !c.keep(p):
		_, _ = c.tls.Write(p)
	}
}

// keep holds p until the handshake is complete. It returns false if it already is.
func (c *stream) keep(p []byte) bool {
	s := c.cipher
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready.Load() {
		return false
	}
	s.early = append(s.early, p...)
	return true
}

// early returns the number of bytes held until the handshake is complete.
func (c *stream) early() int64 {
	if c.tls == nil || c.cipher.ready.Load() {
		return 0
	}
	c.cipher.mu.Lock()
	defer c.cipher.mu.Unlock()
	return int64(len(c.cipher.early))
}

// handshake runs the TLS handshake. It returns false if that failed and the connection is being closed.
func (c *stream) handshake() bool {
	_ = c.nc.SetReadDeadline(time.Now().Add(c.g.opts.HandshakeTimeout))
	err := c.tls.Handshake()
	if err != nil {
		if c.leave(flushing, handshakeReason(err)) {
			c.out.finish(c.g.opts.LingerTime) // so that the peer can read the alert
		}
		return false
	}
	s := c.cipher
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = c.nc.SetReadDeadline(time.Time{})
	if len(s.early) > 0 {
		_, _ = c.tls.Write(s.early)
		s.early = nil
	}
	s.ready.Store(true)
	return true
}

func handshakeReason(err error) error {
	var header tls.RecordHeaderError
	switch {
	case errors.As(err, &header):
		return fmt.Errorf("%w: it began with %q", ErrNotTLS, header.RecordHeader[:])
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrHandshakeTimeout
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: the peer closed the connection", ErrHandshake)
	default:
		text := err.Error() // it may quote the peer
		return fmt.Errorf("%w: %.*q", ErrHandshake, maxQuoted, text)
	}
}

// decrypt decrypts and delivers what was read, and returns the buffer to the pool. It returns false if
// nothing more will come.
func (c *stream) decrypt() bool {
	if c.in.buf != nil {
		c.cipher.in = c.in.buf.buf[:c.in.n]
	}
	plain := c.g.bufs.get(tlsReadSize)
	defer func() {
		c.g.bufs.put(plain)
		c.cipher.in = nil
		c.in.release()
	}()
	for c.mayRead() {
		n, err := c.tls.Read(plain.buf)
		if n > 0 {
			c.deliver(plain.buf[:n])
		}
		if errors.Is(err, errNoInput) {
			return true
		}
		if err != nil {
			c.readFailed(err)
			return false
		}
	}
	return false
}
