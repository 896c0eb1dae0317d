package transport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// listener is one listening socket.
type listener struct {
	net.Listener
	take  func() (accepted, error) // accepts a connection
	quit  chan struct{}
	file  os.FileInfo // of a unix socket, so that stop removes only our own file
	asked string      // the address that Listen was given
}

// Listen opens a listening socket and serves it until StopAccepting. network is tcp, tcp4, tcp6 or unix; addr
// is host:port, or the path of the socket. If t is not nil, connections use TLS.
//
// Listen replaces a socket file that nobody listens on. The error names the address and wraps the system's
// error, such as syscall.EADDRINUSE if the address is taken.
func (g *Group) Listen(network, addr string, t *TLS) error {
	var l net.Listener
	var file os.FileInfo
	var err error
	switch network {
	case "tcp", "tcp4", "tcp6":
		l, err = g.listenTCP(network, addr)
	case "unix":
		l, file, err = g.listenUnix(addr)
	default:
		err = errors.New("the network must be tcp, tcp4, tcp6 or unix")
	}
	if err != nil {
		return fmt.Errorf("cannot listen on %s %q: %w", network, addr, cause(err))
	}
	if err := setBacklog(l, g.opts.Backlog); err != nil {
		return errors.Join(err, l.Close())
	}
	ln := g.streamListener(l, t)
	if t == nil && g.opts.Loops > 0 {
		if ln, err = g.loopListener(l); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	ln.file, ln.asked = file, addr
	return g.serve(ln)
}

// Unlisten closes the listeners that Listen opened for addr. The connections that they accepted stay open.
func (g *Group) Unlisten(addr string) {
	g.mu.Lock()
	var found []*listener
	g.listeners = slices.DeleteFunc(g.listeners, func(l *listener) bool {
		if l.asked == addr {
			found = append(found, l)
		}
		return l.asked == addr
	})
	g.mu.Unlock()
	for _, l := range found {
		l.stop()
	}
}

// SetKeepAlive changes Options.KeepAlive for connections accepted from now on.
func (g *Group) SetKeepAlive(d time.Duration) error {
	g.keepAlive.Store(int64(d))
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for _, l := range g.listeners {
		if c, ok := l.Listener.(syscall.Conn); ok && l.Addr().Network() == "tcp" {
			raw, err := c.SyscallConn()
			if err == nil {
				err = raw.Control(func(fd uintptr) { errs = append(errs, setTCP(int(fd), d)) })
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// streamListener returns a listener that serves each connection from l with a goroutine.
func (g *Group) streamListener(l net.Listener, t *TLS) *listener {
	return &listener{Listener: l, take: func() (accepted, error) {
		nc, err := l.Accept()
		if err != nil {
			return nil, err
		}
		if tc, ok := nc.(*net.TCPConn); ok {
			g.keepStreamAlive(tc)
		}
		return acceptedStream{g, nc, t}, nil
	}}
}

// keepStreamAlive sets the options that a connection does not inherit from its listener on systems other than
// Linux. It fails only if the peer has gone.
func (g *Group) keepStreamAlive(c *net.TCPConn) {
	d := time.Duration(g.keepAlive.Load())
	idle, interval := keepAliveTimes(d)
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: d > 0, Idle: idle, Interval: interval, Count: keepAliveProbes})
}

// serve starts the accept loop of l.
func (g *Group) serve(l *listener) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	l.quit = make(chan struct{})
	if g.stopping {
		l.stop()
		return fmt.Errorf("cannot listen on %s %q: %w", l.Addr().Network(), l.Addr(), ErrStopped)
	}
	g.listeners = append(g.listeners, l)
	g.accepting.Add(1)
	go g.acceptLoop(l)
	return nil
}

func (g *Group) listenTCP(network, addr string) (net.Listener, error) {
	// Accepted sockets inherit what setTCP sets. KeepAlive -1 keeps package net from setting its own values
	// on each of them.
	lc := net.ListenConfig{KeepAlive: -1}
	d := time.Duration(g.keepAlive.Load())
	lc.Control = func(_, _ string, c syscall.RawConn) error {
		var err error
		if cerr := c.Control(func(fd uintptr) { err = setTCP(int(fd), d) }); cerr != nil {
			return cerr
		}
		return err
	}
	return lc.Listen(context.Background(), network, addr)
}

// keepAliveProbes is the number of unanswered probes after which a connection is closed.
const keepAliveProbes = 3

// keepAliveTimes returns the time until the first probe and the time between probes.
func keepAliveTimes(d time.Duration) (idle, interval time.Duration) {
	return max(d, time.Second), max(d/keepAliveProbes, time.Second)
}

func (g *Group) listenUnix(path string) (net.Listener, os.FileInfo, error) {
	abstract := strings.HasPrefix(path, "@")
	if !abstract {
		if err := removeStale(path); err != nil {
			return nil, nil, err
		}
	}
	perm := g.opts.UnixPerm
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		if perm == 0 || abstract {
			return nil
		}
		// Set the umask before bind, so that the file never allows more, not even for an instant.
		var err error
		if cerr := c.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), uint32(perm.Perm())) }); cerr != nil {
			return cerr
		}
		return err
	}}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil || abstract {
		return l, nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // listener.stop removes the file, more carefully
	if perm != 0 {
		// The umask narrowed the mode that bind set.
		if err := os.Chmod(path, perm.Perm()); err != nil {
			return nil, nil, errors.Join(err, l.Close(), os.Remove(path))
		}
	}
	file, err := os.Lstat(path)
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, file, nil
}

// removeStale removes a socket file that a killed process left behind.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("the file exists and is not a socket")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("another process listens there: %w", syscall.EADDRINUSE)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return cause(err)
	}
	return os.Remove(path)
}

// cause removes the address that package net repeats in its errors.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// stop closes the socket and removes its file, unless another process has replaced the file with its own.
func (l *listener) stop() {
	close(l.quit)
	if l.file != nil {
		path := l.Addr().String()
		if now, err := os.Lstat(path); err == nil && os.SameFile(now, l.file) {
			_ = os.Remove(path)
		}
	}
	_ = l.Close()
}
