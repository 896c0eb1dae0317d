package serve

import (
	"context"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"limitdb/engine"
	"limitdb/replication"
	"limitdb/uplink"
)

// uplinks are the connections that carry commands of clients between the nodes: to the leader, and from the
// others. They share the Raft port.
type uplinks struct {
	p    *process
	pool atomic.Pointer[uplink.Pool] // nil until the node runs
	host atomic.Pointer[uplink.Host]
	look chan struct{} // another node may lead, capacity 1
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
func (u *uplinks) serve(conn net.Conn, from string) {
	host := u.host.Load()
	if host == nil {
		_ = conn.Close()
		return
	}
	if err := host.Serve(conn); err != nil {
		u.p.log.Warn("an uplink is closed", "node", from, "err", err)
	}
}

// elapsed returns the function by which the age of forwarded commands is measured: the time since the machine's start, which also goes on while
// the machine is suspended, or since the process's if the system does not know it.
func (u *uplinks) elapsed() func() int64 {
	if id, _ := u.p.boot(); id == 0 {
		return u.p.clock.Elapsed
	}
	return func() int64 {
		_, elapsed := u.p.boot()
		return elapsed
	}
}

// begin makes the two ends. The server and the node must be there.
func (u *uplinks) begin(node *replication.Node) {
	loops := int(u.p.set.Loops.Get())
	if loops == 0 {
		loops = runtime.GOMAXPROCS(0)
	}
	u.pool.Store(uplink.NewPool(loops, node.DialLeader, u.p.server.LeaderChanged))
}

// close ends all uplinks. Those of the other nodes end when their replies are sent.
func (u *uplinks) close(ctx context.Context) {
	if pool := u.pool.Load(); pool != nil {
		pool.Close()
	}
	if host := u.host.Load(); host != nil {
		host.Close(ctx)
	}
}

// followLeader has commands go to the node that leads, until ctx ends.
func (r *replica) followLeader(ctx context.Context, node *replication.Node) {
	u := &r.uplinks
	u.begin(node)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		u.pool.Load().SetLeader(node.Peer())
		select {
		case <-ctx.Done():
			return
		case <-u.look:
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
