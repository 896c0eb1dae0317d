package clients

import (
	"cmp"
	"container/list"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/config"
	"limitdb/server/handler"
)

// A Set holds the connected clients, in the order of their ids. A walk goes from id to id and locks for a few clients at a time, so that
// it can take as many turns as it needs.
type Set struct {
	settings *config.Settings
	log      *slog.Logger
	memory   int64 // the most that the process may use, in bytes
	each     int64 // roughly the bytes of a session and its connection

	Closed     Reasons
	QueryMost  atomic.Int64 // the most bytes that a client had unread, and unsent, at the last Check
	UnsentMost atomic.Int64

	mu        sync.Mutex // guards all, gone, far, lastID and strangers
	all       []entry    // by id
	gone      int        // entries of all whose client is gone
	far       int        // clients that are connected to other nodes
	lastID    int64
	strangers list.List // the clients that have not authenticated, the oldest first
	n, near   atomic.Int64
	kicked    chan struct{} // asks for Evict, capacity 1

	// Every loop reads the fields above for each batch, and writes those below while it serves clients.
	_          [128]byte
	Bytes      atomic.Int64 // held in all clients' buffers
	Exempt     atomic.Int64 // of that, in those of clients with CLIENT NO-EVICT
	Parked     atomic.Int64 // clients that wait for something
	Subscribed atomic.Int64 // clients with a subscription
	Tracking   atomic.Int64 // clients with CLIENT TRACKING
	Watching   atomic.Int64 // clients that watch keys
	_          [128]byte
}

// connMemory is roughly the memory that the transport uses for a connection, in bytes.
const connMemory = 512

// New returns a set without clients. The process may use so many bytes of memory, and a session takes so many.
func New(settings *config.Settings, log *slog.Logger, memory, session int64) *Set {
	return &Set{settings: settings, log: log, memory: memory, each: session + connMemory, kicked: make(chan struct{}, 1)}
}

type entry struct {
	id int64
	c  *Client // nil: it is gone
}

// Few is how many clients one step of a walk visits.
const Few = 64

// GivingWay is how many clients more than maxclients there may be until those that give way are gone. They are within the descriptors
// that the process reserves.
const GivingWay = 16

// Add registers c and gives it an id. If there are maxclients on this node already, the oldest that has not authenticated must give way: Add returns
// it, and the caller closes it. If there is none, Add returns false.
func (s *Set) Add(c *Client) (oldest *Client, ok bool) {
	most := math.MaxInt
	if !c.Far {
		most = int(s.settings.MaxClients.Get())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	c.ID = s.lastID
	if n := len(s.all) - s.gone - s.far; n >= most {
		if s.strangers.Len() == 0 || n >= most+GivingWay {
			return nil, false
		}
		oldest = s.strangers.Front().Value.(*Client)
		s.know(oldest)
	}
	s.all = append(s.all, entry{c.ID, c})
	if c.Far {
		s.far++
	}
	s.doubt(c)
	s.counted()
	return oldest, true
}

// Authenticated notes whether c is a client that need not give way.
func (s *Set) Authenticated(c *Client, yes bool) {
	c.Authed.Store(yes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.at(c.ID); !ok || s.all[i].c != c {
		return
	}
	if s.know(c); !yes {
		s.doubt(c)
	}
}

// doubt counts c among the strangers, unless it has authenticated. The caller holds mu.
func (s *Set) doubt(c *Client) {
	if !c.Authed.Load() {
		c.stranger = s.strangers.PushBack(c)
	}
}

// know removes c from the strangers, if it is one. The caller holds mu.
func (s *Set) know(c *Client) {
	if c.stranger != nil {
		s.strangers.Remove(c.stranger)
		c.stranger = nil
	}
}

// Remove forgets c, whose connection was closed for a reason, and reports whether it was there. Its session ends what c subscribes to,
// tracks or watches.
func (s *Set) Remove(c *Client, reason error) bool {
	if !s.remove(c) {
		return false
	}
	c.SetParked(false)
	held := c.accounted.Swap(0)
	s.Bytes.Add(-held)
	if c.noEvict.Load() {
		s.Exempt.Add(-held)
	}
	s.Closed.Add(reason)
	s.log.Debug("client gone", "id", c.ID, "addr", c.Addr(), "reason", reason)
	return true
}

func (s *Set) remove(c *Client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.at(c.ID)
	if !ok || s.all[i].c != c {
		return false
	}
	s.know(c)
	s.all[i].c = nil
	s.gone++
	if c.Far {
		s.far--
	}
	if s.gone > Few && s.gone > len(s.all)/2 {
		s.all = slices.DeleteFunc(s.all, func(x entry) bool { return x.c == nil })
		s.gone = 0
	}
	s.counted()
	return true
}

// counted publishes the numbers of clients. The caller holds mu.
func (s *Set) counted() {
	n := int64(len(s.all) - s.gone)
	s.n.Store(n)
	s.near.Store(n - int64(s.far))
}

// at returns the index of an id in all. The caller holds mu.
func (s *Set) at(id int64) (i int, ok bool) {
	return slices.BinarySearchFunc(s.all, id, func(x entry, id int64) int { return cmp.Compare(x.id, id) })
}

// Len returns the number of clients.
func (s *Set) Len() int { return int(s.n.Load()) }

// Near returns the number of clients that are connected to this node.
func (s *Set) Near() int { return int(s.near.Load()) }

// Strangers returns the number of clients that have not authenticated and need not give way yet.
func (s *Set) Strangers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.strangers.Len()
}

// Find returns the client with an id, or nil.
func (s *Set) Find(id int64) *Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.at(id); ok {
		return s.all[i].c
	}
	return nil
}

// after fills into with the next clients whose ids are above id. An empty result means that there are no more.
func (s *Set) after(id int64, into []*Client) []*Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	into = into[:0]
	i, _ := s.at(id + 1)
	for ; i < len(s.all) && len(into) < cap(into); i++ {
		if c := s.all[i].c; c != nil {
			into = append(into, c)
		}
	}
	return into
}

// Each calls fn for every client, outside the lock.
func (s *Set) Each(fn func(*Client)) {
	some := make([]*Client, 0, Few)
	for last := int64(0); ; last = some[len(some)-1].ID {
		if some = s.after(last, some); len(some) == 0 {
			return
		}
		for _, c := range some {
			fn(c)
		}
	}
}

// Walk has a command call do for every client, few of them in each of its steps, and then end.
func (s *Set) Walk(c *handler.Call, few int, do func(*Client), end func()) {
	last, some := int64(0), make([]*Client, 0, few)
	c.InSteps(nil, func() bool {
		some = s.after(last, some)
		for _, other := range some {
			do(other)
			last = other.ID
		}
		clear(some)
		if len(some) > 0 {
			return false
		}
		end()
		return true
	})
}

// WakeWaiting makes every client that waits for its turn check whether it still may, and whether it must ask again.
func (s *Set) WakeWaiting() {
	s.Each(func(c *Client) {
		if c.Waits.Load() != nil {
			c.Conn.Wake()
		}
	})
}

const (
	// SettleTime is the longest time that Settle waits, and settleLook the time between two looks.
	SettleTime = time.Second
	settleLook = time.Millisecond
)

// Settle returns when the clients have ended the batches that they ran when it was called, or after SettleTime.
func (s *Set) Settle() {
	busy := map[*Client]int64{}
	s.Each(func(c *Client) {
		if n := c.Batches.Load(); n%2 == 1 {
			busy[c] = n
		}
	})
	for range SettleTime / settleLook {
		maps.DeleteFunc(busy, func(c *Client, n int64) bool { return c.Batches.Load() != n })
		if len(busy) == 0 {
			return
		}
		time.Sleep(settleLook)
	}
}
