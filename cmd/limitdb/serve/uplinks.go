package serve

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"limitdb/engine"
	"limitdb/replication"
	"limitdb/uplink"
)

// Uplinks are the connections that carry commands of clients between the nodes: to the leader of a group, and from the
// other nodes. They share the Raft port.

// uplinks are those to the leader of a group.
type uplinks struct {
	pool atomic.Pointer[uplink.Pool] // nil until the node runs
	look chan struct{}               // another node may lead, capacity 1
}

// lookEvery is how often followLeader checks which node leads, if it hears of no change.
const lookEvery = 100 * time.Millisecond

// changed makes followLeader check which node leads.
func (u *uplinks) changed() {
	select {
	case u.look <- struct{}{}:
	default:
	}
}

// link returns the uplink to the leader for an event loop.
func (u *uplinks) link(loop int) *uplink.Link {
	if pool := u.pool.Load(); pool != nil {
		return pool.Link(loop)
	}
	return nil
}

// serve serves the uplink of another node, and closes it.
func (m *member) serve(conn net.Conn, from string) {
	host := m.host.Load()
	if host == nil {
		_ = conn.Close()
		return
	}
	if err := host.Serve(conn); err != nil {
		m.p.log.Warn("an uplink is closed", "node", from, "err", err)
	}
}

// elapsed returns the function by which the age of forwarded commands is measured: the time since the machine's start, which also goes on while
// the machine is suspended, or since the process's if the system does not know it.
func (m *member) elapsed() func() int64 {
	if id, _ := m.p.boot(); id == 0 {
		return m.p.clock.Elapsed
	}
	return func() int64 {
		_, elapsed := m.p.boot()
		return elapsed
	}
}

// closeUplinks ends all uplinks. Those of the other nodes end when their replies are sent.
func (m *member) closeUplinks(ctx context.Context) {
	if m.several != nil {
		m.several.pools.close()
	}
	if pool := m.replica.pool.Load(); pool != nil {
		pool.Close()
	}
	if host := m.host.Load(); host != nil {
		host.Close(ctx)
	}
}

// followLeader has commands go to the node that leads, until ctx ends.
func (r *replica) followLeader(ctx context.Context, node *replication.Node) {
	r.pool.Store(uplink.NewPool(loopsOf(r.p.set), node.DialLeader, r.p.server.LeaderChanged))
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		r.pool.Load().SetLeader(node.Peer())
		select {
		case <-ctx.Done():
			return
		case <-r.look:
			r.p.server.LeaderChanged()
		case <-tick.C:
		}
	}
}

// read returns the table while another node leads, the replicated time, and whether the table is current.
func (r *replica) read() (states *engine.Engine, now int64, current bool) {
	node := r.node.Load()
	if node == nil {
		return nil, 0, false
	}
	states = r.states.Load()
	return states, node.Now(), node.Ready() && node.Turn() == 0 && states == r.states.Load()
}
