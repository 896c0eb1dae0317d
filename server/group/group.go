// Package group has what a group of keys is to the server: the keys on which one node at a time decides. It knows no session.
package group

import (
	"sync/atomic"

	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/internal/pulse"
	"limitdb/server/cluster"
	"limitdb/server/durable"
	"limitdb/server/handler"
	"limitdb/uplink"
)

// A Group has an engine, a time and turns of its own. A server that stands alone always leads.
//
// What every decision needs is in the first cache line: a pipeline may be about many groups.
type Group struct {
	handler.Group
	Number int // from 0 on
	// Special has the reasons to check a command further, one bit each: the server's and Following. So one atomic load covers all of them.
	Special atomic.Uint32
	// Since is the process's clock when the node began to lead last.
	Since       atomic.Int64
	Keeper      durable.Keeper
	Replication *cluster.Replication // nil: the server stands alone
	Clock       Clock                // the process's
	// GoneBack is told of the estimates that go back when their time is over: see engine.TellGoneBack. It is set before any decision; nil: nobody is.
	GoneBack func(*engine.GoneBack)
	// Sweeps and Rings are the pulses of the goroutines that expire the group's keys and wake those who wait.
	Sweeps, Rings pulse.Pulse

	swapped chan struct{} // capacity 1

	_ [40]byte // so groups begin with a cache line
}

// Following is the bit of Special that says that another node decides.
const Following uint32 = 1 << 31

// Clock is the clock of the process. It may differ from the wall clock.
type Clock interface {
	clock.Clock
	// Behind returns by how many nanoseconds the clock is behind the wall clock.
	Behind() int64
	// Adopt moves the clock forward to the wall clock, never back, and returns by how
	// many nanoseconds.
	Adopt() int64
}

// New returns a group that decides on an engine. what keeps its state, and replication, may be nil.
func New(e *engine.Engine, c Clock, keeps *durable.Source, replication *cluster.Replication) *Group {
	g := &Group{Clock: c, Replication: replication, swapped: make(chan struct{}, 1)}
	g.Engine.Store(e)
	g.Keeper.Source = keeps
	return g
}

// Now returns the time of the group, at which decisions are made, in Unix ns.
func (g *Group) Now() int64 { return g.At(g.Clock.Now()) }

// Behind returns by how many ns the time of the group is behind the wall clock.
func (g *Group) Behind() int64 { return g.Clock.Behind() - g.Ahead.Load() }

// Lead puts an engine in force and allows decisions on it. From now on, the group's time is that many ns ahead of the process's clock.
func (g *Group) Lead(e *engine.Engine, ahead int64) {
	g.Ahead.Store(ahead)
	e.TellGoneBack(g.GoneBack)
	g.Engine.Store(e)
	g.Since.Store(g.Clock.Now())
	g.Set(Following, false)
	select {
	case g.swapped <- struct{}{}:
	default:
	}
}

// Follow makes the server refuse commands that read or change the group's state from now on, and tell clients which node serves
// them. Commands admitted before still reach the engine, which the caller closes.
func (g *Group) Follow() { g.Set(Following, true) }

// Set sets a bit of Special.
func (g *Group) Set(bit uint32, on bool) {
	if on {
		g.Special.Or(bit)
	} else {
		g.Special.And(^bit)
	}
}

// Leads reports whether this node decides now.
func (g *Group) Leads() bool {
	_, leads := g.Keeper.Leading()
	return leads && g.Special.Load()&Following == 0
}

// Swapped signals that another engine is in force.
func (g *Group) Swapped() <-chan struct{} { return g.swapped }

// Held returns the engine that holds the group's states, also while another node leads.
func (g *Group) Held() *engine.Engine {
	if g.Replication != nil {
		return g.Replication.Table()
	}
	return g.Engine.Load()
}

// Uplink returns the uplink of an event loop to the leader, or nil if there is none now.
func (g *Group) Uplink(loop int) *uplink.Link {
	if r := g.Replication; r != nil && r.Uplink != nil {
		return r.Uplink(loop)
	}
	return nil
}
