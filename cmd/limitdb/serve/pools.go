package serve

import (
	"context"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/config"
	"limitdb/replication"
	"limitdb/replication/peers"
	"limitdb/uplink"
)

// pools are the uplinks to the other nodes that lead groups: one pool for each node, since groups that it leads share it.
type pools struct {
	*several
	led atomic.Pointer[[]*pool] // those to the node that leads each group, nil for none

	mu     sync.Mutex // guards all below
	all    map[string]*pool
	closed bool
}

type pool struct {
	*uplink.Pool
	address string // where the node is dialed
}

// loopsOf returns how many event loops there are.
func loopsOf(set *config.Settings) int {
	if loops := int(set.Loops.Get()); loops != 0 {
		return loops
	}
	return runtime.GOMAXPROCS(0)
}

// link returns the uplink of an event loop to the node that leads a group, or nil.
func (s *pools) link(group, loop int) *uplink.Link {
	if led := s.led.Load(); led != nil && (*led)[group] != nil {
		return (*led)[group].Link(loop)
	}
	return nil
}

// pool returns the uplinks to a node, nil for this one and if there is none.
func (s *pools) pool(id string) *pool {
	s.near.mu.Lock()
	n := s.near.at[id]
	s.near.mu.Unlock()
	if n == nil {
		return nil
	}
	return s.newPool(n)
}

// newPool makes the pool for a node, or another one if the node has another address.
func (s *pools) newPool(n *neighbour) *pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.all[n.id]
	switch {
	case s.closed:
		return nil
	case old != nil && old.address == n.address:
		return old
	case old != nil:
		old.SetLeader("")
	}
	to := &pool{address: n.address}
	to.Pool = uplink.NewPool(loopsOf(s.p.set), func() (net.Conn, error) {
		node := s.home().node.Load()
		if node == nil {
			return nil, replication.ErrNotReady
		}
		conn, _, err := node.Call(peers.CallClients, n.address, n.id)
		return conn, err
	}, s.p.server.LeaderChanged)
	to.SetLeader(n.address)
	s.all[n.id] = to
	return to
}

// closePools ends all uplinks to other nodes.
func (s *pools) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, to := range s.all {
		to.Close()
	}
}

// followLeaders tells the server when another node leads a group, until ctx ends.
func (s *pools) followLeaders(ctx context.Context) {
	var before []string
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		now, led := make([]string, len(s.replicas)), make([]*pool, len(s.replicas))
		for g := range now {
			var id string
			if id, now[g] = s.near.leader(g); id != "" && id != s.who.ID {
				led[g] = s.pool(id)
			}
		}
		s.led.Store(&led)
		if !slices.Equal(before, now) {
			before = now
			s.p.server.LeaderChanged()
		}
		select {
		case <-ctx.Done():
			return
		case <-s.home().look:
			s.p.server.LeaderChanged()
		case <-tick.C:
		}
	}
}
