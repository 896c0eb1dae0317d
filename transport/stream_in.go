package transport

import (
	"io"
	"syscall"
)

// input reads a stream's socket. It waits without a buffer and takes one when there is something to read, so
// an idle connection has none.
type input struct {
	c   *stream
	try func(fd uintptr) bool // readOnce, stored once so that a read allocates nothing
	buf *chunk
	n   int
	err error
}

func (in *input) init(c *stream) {
	in.c = c
	in.try = in.readOnce
}

// wait waits for input and returns it. The bytes are valid until release. It returns io.EOF if the peer has
// ended.
func (in *input) wait() ([]byte, error) {
	in.n, in.err = 0, nil
	if err := in.c.raw.Read(in.try); err != nil {
		return nil, err // closed, or past the deadline
	}
	if in.err != nil {
		in.release()
		return nil, in.err
	}
	in.c.touch()
	return in.buf.buf[:in.n], nil
}

// release returns the buffer to the pool.
func (in *input) release() {
	if in.buf != nil {
		in.c.g.bufs.put(in.buf)
		in.buf = nil
	}
}

// readOnce reads the available bytes. If there are none, it returns false, and is called again when there
// are.
func (in *input) readOnce(fd uintptr) bool {
	if in.buf == nil {
		in.buf = in.c.g.bufs.get(in.c.readSize())
	}
	n, err := ignoringEINTR(syscall.Read, int(fd), in.buf.buf)
	switch {
	case err == syscall.EAGAIN:
		in.release()
		return false
	case err != nil:
		in.err = err
	case n == 0:
		in.err = io.EOF
	}
	in.n = n
	return true
}

// readSize returns how many bytes to read in one call. TLS connections use two buffers, and TLS records are
// no larger than tlsReadSize.
func (c *stream) readSize() int {
	if c.tls != nil {
		return tlsReadSize
	}
	return readSize
}

// ignoringEINTR repeats a read or a write that a signal interrupted.
func ignoringEINTR(f func(int, []byte) (int, error), fd int, p []byte) (int, error) {
	for {
		n, err := f(fd, p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}
