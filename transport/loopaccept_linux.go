package transport

import (
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// loops are the event loops of a Group. They are made with its first plain listener.
type loops struct {
	all     []*loop
	running sync.WaitGroup
	next    atomic.Uint32 // where the search for the least busy loop begins
}

// Stuck returns for how long, in ns, the slowest loop has been in its current round. A loop normally ends a
// round within milliseconds. Connections with a goroutine of their own do not count.
func (g *Group) Stuck() int64 {
	now := g.opts.Clock.Now()
	longest := int64(0)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.loops.all {
		longest = max(longest, l.pulse.Stuck(now))
	}
	return longest
}

// startLoops makes the loops once.
func (g *Group) startLoops() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.loops.all != nil {
		return nil
	}
	var all []*loop
	for i := range g.opts.Loops {
		l, err := newLoop(g, i)
		if err != nil {
			for _, l := range all {
				l.close()
			}
			return err
		}
		all = append(all, l)
	}
	for _, l := range all {
		g.loops.running.Go(l.run)
	}
	g.loops.all = all
	return nil
}

// stopLoops ends the loops when no connections are left.
func (g *Group) stopLoops() {
	g.mu.Lock()
	all := g.loops.all
	g.mu.Unlock()
	for _, l := range all {
		l.stop()
	}
	g.loops.running.Wait()
}

// pick returns the loop with the fewest connections; it takes equal loops in turn.
func (s *loops) pick() *loop {
	first := int(s.next.Add(1))
	best := s.all[first%len(s.all)]
	for i := range s.all {
		if l := s.all[(first+i)%len(s.all)]; l.count.Load() < best.count.Load() {
			best = l
		}
	}
	return best
}

// pollable is a listener that can wait on its descriptor without accepting through package net, which would
// add each accepted connection to its own epoll.
type pollable struct {
	net.Listener
	file *os.File // a duplicate of the descriptor
	raw  syscall.RawConn
}

func newPollable(l net.Listener) (*pollable, error) {
	sc, err := l.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &pollable{Listener: l}
	var fd uintptr
	var errno syscall.Errno
	err = sc.Control(func(lfd uintptr) {
		fd, _, errno = syscall.RawSyscall(syscall.SYS_FCNTL, lfd, syscall.F_DUPFD_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	if errno != 0 {
		return nil, os.NewSyscallError("fcntl", errno)
	}
	p.file = os.NewFile(fd, l.Addr().String()) // NewFile sees that it is non-blocking, so reading waits in Go's scheduler
	if p.raw, err = p.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, p.file.Close())
	}
	return p, nil
}

// Close implements net.Listener.
func (p *pollable) Close() error { return errors.Join(p.file.Close(), p.Listener.Close()) }

// SyscallConn implements syscall.Conn.
func (p *pollable) SyscallConn() (syscall.RawConn, error) { return p.raw, nil }

// SetDeadline bounds how long accept waits.
func (p *pollable) SetDeadline(t time.Time) error { return p.file.SetDeadline(t) }

// accept waits for a connection.
func (p *pollable) accept() (fd int, from syscall.Sockaddr, err error) {
	werr := p.raw.Read(func(lfd uintptr) bool {
		for {
			fd, from, err = syscall.Accept4(int(lfd), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
			if err != syscall.EINTR && err != syscall.ECONNABORTED {
				return err != syscall.EAGAIN
			}
		}
	})
	if werr != nil {
		return -1, nil, werr
	}
	if err != nil {
		return -1, nil, os.NewSyscallError("accept4", err)
	}
	return fd, from, nil
}

// loopListener returns a listener that serves the connections from l with the event loops.
func (g *Group) loopListener(l net.Listener) (*listener, error) {
	if err := g.startLoops(); err != nil {
		return nil, err
	}
	p, err := newPollable(l)
	if err != nil {
		return nil, err
	}
	return &listener{Listener: p, take: func() (accepted, error) {
		fd, from, err := p.accept()
		if err != nil {
			return nil, err
		}
		return acceptedLoop{g: g, fd: fd, remote: netAddr(from)}, nil
	}}, nil
}

// acceptedLoop is a new connection that an event loop will serve.
type acceptedLoop struct {
	g      *Group
	fd     int
	remote net.Addr
}

// busyFor is how long, in ns, a loop has been in one round when it takes no more connections. A round takes milliseconds,
// unless a session runs something that cannot be interrupted, as a script is.
const busyFor = int64(50 * time.Millisecond)

func (a acceptedLoop) begin() {
	g := a.g
	l := g.loops.pick()
	if l.pulse.Stuck(g.opts.Clock.Now()) >= busyFor {
		a.beside()
		return
	}
	c := &loopConn{
		l:      l,
		fd:     a.fd,
		remote: a.remote,
		left:   g.opts.LingerBytes,
		pacer:  g.opts.pacer(),
	}
	if sa, err := syscall.Getsockname(a.fd); err == nil {
		c.local = netAddr(sa)
	}
	c.moved.Store(g.opts.Clock.Now())
	c.todo.Store(postEnter) // holds back posted work until the session exists
	if !g.add(c) {
		_ = syscall.Close(a.fd)
		return
	}
	c.l.count.Add(1)
	c.session = g.handler.Accept(c)
	if c.session == nil {
		c.session = noSession{}
		c.Close(ErrRefused)
	}
	c.l.put(c)
}

// beside serves the connection with a goroutine of its own, so that somebody can still end what keeps the loop busy.
func (a acceptedLoop) beside() {
	f := os.NewFile(uintptr(a.fd), "")
	defer func() { _ = f.Close() }()
	if nc, err := net.FileConn(f); err == nil { // it duplicates the descriptor, unless there are none left
		acceptedStream{g: a.g, nc: nc}.begin()
	}
}

func (a acceptedLoop) refuse(text []byte) {
	refuse(a.fd, text)
	_ = syscall.Close(a.fd)
}

// netAddr converts sa to the address that package net would return.
func netAddr(sa syscall.Sockaddr) net.Addr {
	switch sa := sa.(type) {
	case *syscall.SockaddrInet4:
		return &net.TCPAddr{IP: net.IP(sa.Addr[:]), Port: sa.Port}
	case *syscall.SockaddrInet6:
		a := &net.TCPAddr{IP: net.IP(sa.Addr[:]), Port: sa.Port}
		if sa.ZoneId != 0 {
			a.Zone = strconv.Itoa(int(sa.ZoneId))
			if i, err := net.InterfaceByIndex(int(sa.ZoneId)); err == nil {
				a.Zone = i.Name
			}
		}
		return a
	case *syscall.SockaddrUnix:
		return &net.UnixAddr{Name: sa.Name, Net: "unix"}
	default:
		return &net.UnixAddr{Net: "unix"}
	}
}
