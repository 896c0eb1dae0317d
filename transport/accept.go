package transport

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	minBackoff  = 5 * time.Millisecond
	maxBackoff  = time.Second
	reportEvery = time.Second
)

// acceptLoop accepts until the listener is stopped. It never spins: a failure is
// followed by a pause that doubles, or uses up a waiting connection.
func (g *Group) acceptLoop(l *listener) {
	defer g.accepting.Done()
	spare := newSpare()
	defer spare.close()
	var backoff time.Duration
	var reported time.Time
	for {
		nc, err := l.Accept()
		if err == nil {
			backoff = 0
			g.accept(nc, l.tls)
			continue
		}
		if l.stopped() || errors.Is(err, net.ErrClosed) {
			return
		}
		g.acceptErrors.Add(1)
		first := backoff == 0
		wait := time.Duration(0)
		if !g.refuse(l, spare, err) {
			backoff = min(max(2*backoff, minBackoff), maxBackoff)
			wait = backoff
		}
		if now := time.Now(); g.opts.OnAcceptError != nil && (first && wait > 0 || now.Sub(reported) >= reportEvery) {
			reported = now
			g.opts.OnAcceptError(l.Addr(), err, wait)
		}
		if wait > 0 && !l.pause(wait) {
			return
		}
	}
}

func (l *listener) stopped() bool {
	select {
	case <-l.quit:
		return true
	default:
		return false
	}
}

// pause waits; it returns false if the listener was stopped in the meantime.
func (l *listener) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.quit:
		return false
	}
}

// refuse deals with a failure for want of descriptors: it gives up the spare one to accept
// one waiting connection, tells it so and closes it. Otherwise the peer would wait in the
// dark and accept would fail again at once. It returns false if err is another, or if
// somebody else took the descriptor.
func (g *Group) refuse(l *listener, s *spare, err error) bool {
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		return false
	}
	if !s.close() {
		s.open()
		return false
	}
	defer s.open()
	// Somebody else may have accepted what was waiting, so do not wait for the next.
	if d, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		_ = d.SetDeadline(time.Now().Add(minBackoff))
		defer func() { _ = d.SetDeadline(time.Time{}) }()
	}
	nc, err := l.Accept()
	if err != nil {
		return false
	}
	g.refused.Add(1)
	if l.tls == nil {
		// A new socket takes a short text at once. What the peer sent is read, since
		// closing with unread input would reset the connection and lose the text.
		_ = nc.SetDeadline(time.Now().Add(minBackoff))
		_, _ = nc.Write(g.opts.Refusal)
		if sc, ok := nc.(syscall.Conn); ok {
			if raw, err := sc.SyscallConn(); err == nil {
				var b [512]byte
				_ = raw.Read(func(fd uintptr) bool { _, _ = syscall.Read(int(fd), b[:]); return true })
			}
		}
	}
	_ = nc.Close()
	return true
}

// spare is a descriptor kept for the moment at which there is no other.
type spare struct{ f *os.File }

func newSpare() *spare {
	s := &spare{}
	s.open()
	return s
}

func (s *spare) open() {
	if f, err := os.Open(os.DevNull); err == nil {
		s.f = f
	}
}

// close gives the descriptor up; it returns false if there was none.
func (s *spare) close() bool {
	if s.f == nil {
		return false
	}
	_ = s.f.Close()
	s.f = nil
	return true
}

// accept hands nc to the handler and starts its reader.
func (g *Group) accept(nc net.Conn, t *TLS) {
	g.accepted.Add(1)
	c, err := newStream(g, nc)
	if err != nil {
		_ = nc.Close() // it was reset already
		return
	}
	if t != nil {
		c.useTLS(t.server())
	}
	if !g.add(c) {
		_ = nc.Close()
		return
	}
	c.begin(g.handler)
}
