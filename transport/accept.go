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

// acceptLoop accepts connections until the listener is stopped. It never spins: after a failure it either
// pauses, twice as long each time, or uses up a waiting connection.
func (g *Group) acceptLoop(l *listener) {
	defer g.accepting.Done()
	spare := newSpare()
	defer spare.close()
	var backoff time.Duration
	var reported time.Time
	for {
		a, err := l.take()
		if err == nil {
			backoff = 0
			g.accepted.Add(1)
			a.begin()
			continue
		}
		if l.stopped() || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) {
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

// pause waits for d. It returns false if the listener is stopped in the meantime.
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

// refuse handles the failure that the process has no descriptors left. It closes the spare descriptor to
// accept one waiting connection, sends it the refusal and closes it. Otherwise the peer would wait without an
// answer, and accept would fail again immediately. It returns false if err is another error, or if somebody
// else took the descriptor.
func (g *Group) refuse(l *listener, s *spare, err error) bool {
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		return false
	}
	if !s.close() {
		s.open()
		return false
	}
	defer s.open()
	// Somebody else may have accepted the waiting connection, so do not wait long for another.
	if d, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		_ = d.SetDeadline(time.Now().Add(minBackoff))
		defer func() { _ = d.SetDeadline(time.Time{}) }()
	}
	a, err := l.take()
	if err != nil {
		return false
	}
	g.refused.Add(1)
	a.refuse(g.opts.Refusal)
	return true
}

// spare is a descriptor kept for the time when there is no other.
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

// close closes the descriptor. It returns false if there was none.
func (s *spare) close() bool {
	if s.f == nil {
		return false
	}
	_ = s.f.Close()
	s.f = nil
	return true
}

// accepted is a new connection about which nothing is known yet.
type accepted interface {
	// begin passes it to the Handler and serves it.
	begin()
	// refuse sends it a short text, if that is possible without waiting, and closes it.
	refuse(text []byte)
}

// acceptedStream is a new connection that a goroutine of its own will serve.
type acceptedStream struct {
	g   *Group
	nc  net.Conn
	tls *TLS // nil: plain
}

func (a acceptedStream) begin() {
	c, err := newStream(a.g, a.nc)
	if err != nil {
		_ = a.nc.Close() // it was already reset
		return
	}
	if a.tls != nil {
		c.useTLS(a.tls.server(a.g.opts.HTTP2))
	}
	if !a.g.add(c) {
		_ = a.nc.Close()
		return
	}
	c.begin(a.g.handler)
}

func (a acceptedStream) refuse(text []byte) {
	defer func() { _ = a.nc.Close() }()
	sc, ok := a.nc.(syscall.Conn)
	if a.tls != nil || !ok {
		return
	}
	if raw, err := sc.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { refuse(int(fd), text) })
	}
}

// refuse writes text to a new, non-blocking socket, which has room for it. It also reads what the peer has
// sent, since closing with unread input would reset the connection and lose the text.
func refuse(fd int, text []byte) {
	var b [4096]byte
	_, _ = syscall.Write(fd, text)
	_, _ = syscall.Read(fd, b[:])
}
