package transport

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Group is a set of listeners and the connections that they accepted, all served by one Handler. Any
// goroutine may call its methods.
type Group struct {
	handler Handler
	opts    Options
	bufs    buffers
	start   time.Time // monotonic times count from here

	mu        sync.Mutex // guards what follows
	listeners []*listener
	members   map[member]struct{}
	loops     loops
	stopping  bool // no new listeners
	closed    bool // no new connections

	turns     chan struct{}  // held by streams that have more to do
	accepting sync.WaitGroup // accept loops
	running   sync.WaitGroup // goroutines of connections

	accepted, acceptErrors, refused atomic.Int64
	keepAlive                       atomic.Int64 // ns; see Options.KeepAlive
}

// member is a connection as the Group sees it.
type member interface {
	Conn
	// stop closes the connection once the session's current method has returned and the queued bytes are
	// sent.
	stop(reason error)
}

// Stats counts what a Group has done.
type Stats struct {
	Accepted     int64 // connections passed to the Handler
	AcceptErrors int64 // failures to accept
	Refused      int64 // connections closed because the process had no descriptors left
	Open         int64 // connections now
}

// New returns a Group without listeners.
func New(h Handler, o Options) *Group {
	g := &Group{
		handler: h,
		opts:    o.withDefaults(),
		start:   time.Now(),
		members: make(map[member]struct{}),
		turns:   make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
	g.keepAlive.Store(int64(g.opts.KeepAlive))
	return g
}

// Addrs returns the addresses that the Group listens on, in the order of the calls of Listen.
func (g *Group) Addrs() []net.Addr {
	g.mu.Lock()
	defer g.mu.Unlock()
	addrs := make([]net.Addr, len(g.listeners))
	for i, l := range g.listeners {
		addrs[i] = l.Addr()
	}
	return addrs
}

// Stats returns the current counts.
func (g *Group) Stats() Stats {
	g.mu.Lock()
	open := int64(len(g.members))
	g.mu.Unlock()
	return Stats{
		Accepted:     g.accepted.Load(),
		AcceptErrors: g.acceptErrors.Load(),
		Refused:      g.refused.Load(),
		Open:         open,
	}
}

// StopAccepting closes the listeners and removes the files of unix sockets. When it returns, no further call
// of Handler.Accept begins. Connections stay open. It may be called more than once.
func (g *Group) StopAccepting() {
	g.mu.Lock()
	g.stopping = true
	listeners := g.listeners
	g.listeners = nil
	g.mu.Unlock()
	for _, l := range listeners {
		l.stop()
	}
	g.accepting.Wait()
}

// Close stops accepting and closes every connection, once its session's current method has returned and the
// queued bytes are sent, or immediately when ctx ends. Close returns when every Session.Closed has returned.
// Its error is that of ctx if ctx ended first.
func (g *Group) Close(ctx context.Context) error {
	g.StopAccepting()
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	for _, m := range g.all() {
		m.stop(ErrStopped)
	}
	done := make(chan struct{})
	go func() {
		g.running.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		for _, m := range g.all() {
			m.Close(ErrStopped)
		}
	}
	<-done
	g.stopLoops()
	return err
}

func (g *Group) all() []member {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]member, 0, len(g.members))
	for m := range g.members {
		all = append(all, m)
	}
	return all
}

// add registers m and counts its first goroutine. It returns false if the Group is closed.
func (g *Group) add(m member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.members[m] = struct{}{}
	g.running.Add(1)
	return true
}

func (g *Group) remove(m member) {
	g.mu.Lock()
	delete(g.members, m)
	g.mu.Unlock()
}

// mono returns a monotonic time in ns, for pauses.
func (g *Group) mono() int64 { return int64(time.Since(g.start)) }
