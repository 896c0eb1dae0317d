package uplink

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// grace is how long uplinks to a former leader may still bring replies.
const grace = time.Second

// Pool has the uplinks to the node that leads, one for each event loop.
type Pool struct {
	dial    func() (net.Conn, error)
	changed func()
	leader  atomic.Pointer[string] // nil: none that could be called
	slots   []slot
}

type slot struct {
	now atomic.Pointer[linkTo]

	mu      sync.Mutex // guards dialing
	dialing *string    // the leader that is called, nil for none
}

type linkTo struct {
	*Link
	to *string
}

// NewPool returns a pool for as many loops. dial calls the node that leads. The pool calls changed, in another
// goroutine, when an uplink is ready, or a call may succeed.
func NewPool(loops int, dial func() (net.Conn, error), changed func()) *Pool {
	return &Pool{dial: dial, changed: changed, slots: make([]slot, loops+1)}
}

// SetLeader sets which node leads, "" for none or this one.
func (p *Pool) SetLeader(to string) {
	before := p.leader.Load()
	switch {
	case before != nil && *before == to, before == nil && to == "":
		return
	case to == "":
		p.leader.Store(nil)
	default:
		p.leader.Store(&to)
	}
	for i := range p.slots {
		if l := p.slots[i].now.Swap(nil); l != nil {
			time.AfterFunc(grace, l.Close)
		}
	}
	go p.changed()
}

// Link returns the uplink of a loop, -1 for no loop. If there is none, it returns nil and begins to call the node that
// leads, if any.
func (p *Pool) Link(loop int) *Link {
	to := p.leader.Load()
	if to == nil {
		return nil
	}
	s := &p.slots[(loop+1)%len(p.slots)]
	if l := s.now.Load(); l != nil && l.to == to && l.Alive() {
		return l.Link
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dialing != to {
		s.dialing = to
		go p.call(s, to)
	}
	return nil
}

// call dials. After a failure, it is tried again when somebody asks for the uplink. If another leader is called
// meanwhile, the connection is not used.
func (p *Pool) call(s *slot, to *string) {
	var link *Link
	if conn, err := p.dial(); err == nil {
		link = NewLink(conn)
	}
	if link != nil && !link.Alive() {
		link = nil
	}
	s.mu.Lock()
	latest := s.dialing == to
	if latest {
		s.dialing = nil
	}
	if latest && link != nil {
		l := &linkTo{link, to}
		if old := s.now.Swap(l); old != nil {
			old.Close()
		}
		if p.leader.Load() != to && s.now.CompareAndSwap(l, nil) {
			l.Close()
		}
	}
	s.mu.Unlock()
	switch {
	case latest && link != nil:
		p.changed()
	case link != nil:
		link.Close()
	}
}

// Close ends all uplinks.
func (p *Pool) Close() {
	p.leader.Store(nil)
	for i := range p.slots {
		if l := p.slots[i].now.Swap(nil); l != nil {
			l.Close()
		}
	}
}
