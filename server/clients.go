package server

import (
	"cmp"
	"container/list"
	"slices"
	"sync"
	"sync/atomic"
)

// clients is the set of connected sessions, in the order of their ids. A walk goes from id to id
// and locks for a few sessions at a time, so that it can take as many turns as it needs.
type clients struct {
	mu     sync.Mutex // guards all, gone, lastID and strangers
	all    []client   // by id
	gone   int        // entries of all whose session has ended
	lastID int64
	// strangers has the sessions that have not authenticated, the oldest first.
	strangers list.List
	n         atomic.Int64
	max       atomic.Int64 // the most connected so far
}

type client struct {
	id int64
	s  *session // nil: the session has ended
}

// walkClients is how many clients one step of a walk visits.
const walkClients = 64

// givingWay is how many clients more than maxclients there may be until those that give way are gone. They are
// within the descriptors that the process reserves.
const givingWay = 16

// add registers s and gives it an id. If there are most clients already, the oldest that has not authenticated must
// give way: add returns it, and the caller closes it. If there is none, add returns false.
func (c *clients) add(s *session, most int) (oldest *session, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	s.id = c.lastID
	if n := len(c.all) - c.gone; n >= most {
		if c.strangers.Len() == 0 || n >= most+givingWay {
			return nil, false
		}
		oldest = c.strangers.Front().Value.(*session)
		c.know(oldest)
	}
	c.all = append(c.all, client{s.id, s})
	c.doubt(s)
	c.counted()
	return oldest, true
}

// authenticated notes whether s is a client that need not give way.
func (c *clients) authenticated(s *session, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i, ok := c.at(s.id); !ok || c.all[i].s != s {
		return
	}
	if c.know(s); !yes {
		c.doubt(s)
	}
}

// doubt counts s among the strangers, unless it has authenticated. The caller holds mu.
func (c *clients) doubt(s *session) {
	if !s.pub.authed.Load() {
		s.stranger = c.strangers.PushBack(s)
	}
}

// know removes s from the strangers, if it is one. The caller holds mu.
func (c *clients) know(s *session) {
	if s.stranger != nil {
		c.strangers.Remove(s.stranger)
		s.stranger = nil
	}
}

// remove forgets s, and reports whether it was there.
func (c *clients) remove(s *session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := c.at(s.id)
	if !ok || c.all[i].s != s {
		return false
	}
	c.know(s)
	c.all[i].s = nil
	c.gone++
	if c.gone > walkClients && c.gone > len(c.all)/2 {
		c.all = slices.DeleteFunc(c.all, func(x client) bool { return x.s == nil })
		c.gone = 0
	}
	c.counted()
	return true
}

// counted publishes the number of clients. The caller holds mu.
func (c *clients) counted() {
	n := int64(len(c.all) - c.gone)
	c.n.Store(n)
	if n > c.max.Load() {
		c.max.Store(n)
	}
}

// at returns the index of an id in all. The caller holds mu.
func (c *clients) at(id int64) (i int, ok bool) {
	return slices.BinarySearchFunc(c.all, id, func(x client, id int64) int { return cmp.Compare(x.id, id) })
}

// find returns the session with an id, or nil.
func (c *clients) find(id int64) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i, ok := c.at(id); ok {
		return c.all[i].s
	}
	return nil
}

// after fills into with the next sessions whose ids are above id. An empty result means that
// there are no more.
func (c *clients) after(id int64, into []*session) []*session {
	c.mu.Lock()
	defer c.mu.Unlock()
	into = into[:0]
	i, _ := c.at(id + 1)
	for ; i < len(c.all) && len(into) < cap(into); i++ {
		if s := c.all[i].s; s != nil {
			into = append(into, s)
		}
	}
	return into
}

// each calls fn for every session, outside the lock.
func (c *clients) each(fn func(*session)) {
	some := make([]*session, 0, walkClients)
	for last := int64(0); ; last = some[len(some)-1].id {
		if some = c.after(last, some); len(some) == 0 {
			return
		}
		for _, s := range some {
			fn(s)
		}
	}
}

// eachClient calls do for every client, in steps, and then calls end.
func (c *call) eachClient(do func(*session), end func()) { c.fewClients(walkClients, do, end) }

// fewClients is eachClient with few clients in each step, for a do that takes long.
func (c *call) fewClients(few int, do func(*session), end func()) {
	last, some := int64(0), make([]*session, 0, few)
	c.InSteps(nil, func() bool {
		some = c.srv.clients.after(last, some)
		for _, other := range some {
			do(other)
			last = other.id
		}
		clear(some)
		if len(some) > 0 {
			return false
		}
		end()
		return true
	})
}

// countClient adjusts n, a number of clients, to one that was one of them or was not, and now is one or is not.
func countClient(n *atomic.Int64, was, is bool) {
	switch {
	case is && !was:
		n.Add(1)
	case was && !is:
		n.Add(-1)
	}
}

func (c *clients) count() int { return int(c.n.Load()) }

// forget drops everything that the server holds for a closed session.
func (srv *Server) forget(s *session, reason error) {
	if !srv.clients.remove(s) {
		return
	}
	if s.gone != nil {
		close(s.gone)
	}
	srv.monitors.remove(s)
	s.pub.setParked(false)
	if s.subs.Len() > 0 {
		s.dropSubscriptions()
	}
	s.endMulti()
	s.track(nil)
	srv.pause.held.Remove(s.conn)
	srv.authDelays.Remove(s.conn)
	srv.authKnown.leave(s, srv.clock.Now())
	if s.fwd != nil {
		s.fwd.close()
		srv.leaderless.Remove(s.conn)
	}
	if w := s.pub.waits.Load(); w != nil {
		srv.states().Cancel(srv.clock.Now(), w.Waiter, nil)
	}
	held := s.pub.accounted.Swap(0)
	srv.clientBytes.Add(-held)
	if s.pub.noEvict.Load() {
		srv.exemptBytes.Add(-held)
	}
	srv.counters.closed[reasonOf(reason)].Add(1)
	srv.log.Debug("client gone", "id", s.id, "addr", s.pub.addr(), "reason", reason)
}

// closeForOutput closes a client that does not read its replies.
func (srv *Server) closeForOutput(s *session) {
	unsent := s.conn.Pending()
	if !s.conn.Close(errOutput) {
		return // another goroutine has closed it meanwhile
	}
	srv.log.Warn("client closed: its unsent replies are over the limit", "id", s.id, "addr", s.pub.addr(),
		"unsent", unsent, "limit", s.OutputLimit())
}
