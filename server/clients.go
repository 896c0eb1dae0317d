package server

import (
	"net"
	"sync"
	"sync/atomic"
)

// clients is the set of connected sessions.
type clients struct {
	mu     sync.Mutex // guards byID
	byID   map[int64]*session
	nextID atomic.Int64
	n      atomic.Int64
	max    atomic.Int64 // the most there ever were
}

func (c *clients) init() { c.byID = make(map[int64]*session) }

// add registers s and gives it an id, unless there are most clients already.
func (c *clients) add(s *session, most int) bool {
	s.id = c.nextID.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byID) >= most {
		return false
	}
	c.byID[s.id] = s
	n := int64(len(c.byID))
	c.n.Store(n)
	if n > c.max.Load() {
		c.max.Store(n)
	}
	return true
}

// remove forgets s; it tells whether s was there.
func (c *clients) remove(s *session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID[s.id] != s {
		return false
	}
	delete(c.byID, s.id)
	c.n.Store(int64(len(c.byID)))
	return true
}

// find returns the session with an id, or nil.
func (c *clients) find(id int64) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}

// snapshot returns the sessions there are now, in the order in which they came.
func (c *clients) snapshot(into []*session) []*session {
	c.mu.Lock()
	defer c.mu.Unlock()
	into = into[:0]
	for _, s := range c.byID {
		into = append(into, s)
	}
	return into
}

// each calls fn for every session, outside the lock.
func (c *clients) each(fn func(*session)) {
	for _, s := range c.snapshot(nil) {
		fn(s)
	}
}

func (c *clients) count() int { return int(c.n.Load()) }

// forget drops everything the server holds for a session that is closed.
func (srv *Server) forget(s *session, reason error) {
	if !srv.clients.remove(s) {
		return
	}
	srv.monitors.remove(s)
	srv.pause.remove(s)
	srv.authDelays.remove(s)
	if w := s.pub.waits.Load(); w != nil {
		srv.engine.Cancel(srv.clock.Now(), &w.Waiter, nil)
	}
	srv.clientBytes.Add(-s.pub.accounted.Swap(0))
	srv.counters.closed[reasonOf(reason)].Add(1)
	srv.log.Debug("client gone", "id", s.id, "addr", s.addr(), "reason", reason)
}

// closeForOutput closes a client that does not read its replies.
func (srv *Server) closeForOutput(s *session) {
	unsent := s.conn.Pending()
	if !s.conn.Close(errOutput) {
		return // by somebody else meanwhile
	}
	srv.log.Warn("client closed: its unsent replies are over the limit", "id", s.id, "addr", s.addr(),
		"unsent", unsent, "limit", s.outputLimit())
}

// addrText is the peer's address as Redis shows it; a unix socket by its path.
func addrText(remote, local net.Addr) string {
	if isUnix(local) {
		return local.String() + ":0"
	}
	if remote == nil {
		return "?:0"
	}
	return remote.String()
}

func isUnix(a net.Addr) bool {
	_, ok := a.(*net.UnixAddr)
	return ok
}

// isLocal tells whether the peer is on this machine.
func isLocal(remote net.Addr) bool {
	switch a := remote.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	}
	return false
}

// bufferPool keeps reply buffers, so that an idle client holds none.
type bufferPool struct{ pool sync.Pool }

const (
	bufferSize = 16 << 10
	bufferKeep = 256 << 10 // larger ones are left to the garbage collector
)

func (p *bufferPool) get() []byte {
	if b, ok := p.pool.Get().(*[bufferSize]byte); ok {
		return b[:0]
	}
	return make([]byte, 0, bufferSize)
}

func (p *bufferPool) put(b []byte) {
	if cap(b) >= bufferSize && cap(b) <= bufferKeep {
		p.pool.Put((*[bufferSize]byte)(b[:bufferSize]))
	}
}
