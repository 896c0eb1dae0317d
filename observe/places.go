package observe

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// places bounds the connections. A connection is a stranger's until it has made a request that the server serves for more than
// anybody: one with the password, if there is one. There may be most connections that are no strangers', and spare
// connections more. When all places are taken, the oldest stranger gives way. So strangers keep nobody out, and a
// health check, which is a stranger's request, always finds a place.
type places struct {
	most, spare int

	mu        sync.Mutex // guards all below
	all       map[net.Conn]*list.Element
	strangers list.List // of net.Conn, the oldest first; those in all have a nil element if they are no strangers'
}

func newPlaces(most, spare int) *places {
	return &places{most: most, spare: spare, all: make(map[net.Conn]*list.Element)}
}

// track follows a connection; it is an http.Server's ConnState.
func (p *places) track(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		if oldest := p.enter(c); oldest != nil {
			cut(oldest)
		}
	case http.StateClosed, http.StateHijacked:
		p.leave(c)
	}
}

// enter gives c a place, and returns the connection that gives way for it, or nil.
func (p *places) enter(c net.Conn) (oldest net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) >= p.most+p.spare {
		// There is one, since no more than most are no strangers'.
		oldest = p.strangers.Remove(p.strangers.Front()).(net.Conn)
		delete(p.all, oldest)
	}
	p.all[c] = p.strangers.PushBack(c)
	return oldest
}

// leave frees the place of c, if it has one.
func (p *places) leave(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if stranger := p.all[c]; stranger != nil {
		p.strangers.Remove(stranger)
	}
	delete(p.all, c)
}

// keep lets a request's connection keep its place, as no stranger's. It returns false if there are too many of them.
func (p *places) keep(r *http.Request) bool {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	p.mu.Lock()
	defer p.mu.Unlock()
	stranger := p.all[c]
	if stranger == nil {
		return true // it is none's, or gives way
	}
	if len(p.all)-p.strangers.Len() >= p.most {
		return false
	}
	p.strangers.Remove(stranger)
	p.all[c] = nil
	return true
}

// cut closes a connection without waiting for its peer.
func cut(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	_ = c.Close() // its peer may have closed it
}

// connKey is the key under which a request's context has its connection.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}
