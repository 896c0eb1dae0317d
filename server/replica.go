package server

import (
	"errors"
	"strconv"

	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/server/spec"
	"limitdb/uplink"
)

// Replication is the server's interface to the code that keeps its state on several nodes. Any
// goroutine may call the functions. Those that block say so.
type Replication struct {
	// Leader returns the id of this node, and the address at which clients reach the leader,
	// "" while that is unknown.
	Leader func() (id, leader string)
	// Members returns the nodes of the cluster.
	Members func() ([]Member, error)
	// Status is what this node knows of itself and the cluster.
	Status func() stats.Replication
	// Table has the states that the node holds while another leads.
	Table func() *engine.Engine
	// Uplink returns the uplink to the leader for the clients of an event loop, -1 for none. It returns nil if
	// there is none now; LeaderChanged is called when there is. nil: nothing is forwarded.
	Uplink func(loop int) *uplink.Link
	// Read returns the states of a node that does not lead, the replicated time, and whether they are current.
	Read func() (states *engine.Engine, now int64, current bool)
	// Add makes a node a member, and blocks until it has a vote. Remove, Promote and Demote change one
	// of the members, and Transfer makes another one lead, any if id is "". They block. Their errors may be
	// ErrNotLeading and ErrNotYet.
	Add                               func(id, address string) error
	Remove, Promote, Demote, Transfer func(id string) error
}

// Errors of the functions of Replication.
var (
	// ErrNotLeading is returned for what only the node that leads can do.
	ErrNotLeading = errors.New("this node does not lead")
	// ErrNotYet is returned for what will be possible soon.
	ErrNotYet = errors.New("not yet")
)

// Member is a node of the cluster.
type Member struct {
	ID, Address   string // Address is the one that peers dial
	Voter, Leader bool
	Self          bool   // this node
	Client        string // where clients reach it, "" if it does not answer
	Last          uint64 // the last entry of the log that it is known to have
}

// states returns the engine in force.
func (srv *Server) states() *engine.Engine { return srv.parts.Engine.Load() }

// Lead puts an engine in force and allows decisions on it.
func (srv *Server) Lead(e *engine.Engine) {
	srv.parts.Engine.Store(e)
	srv.setSpecial(specialFollowing, false)
	select {
	case srv.swapped <- struct{}{}:
	default:
	}
}

// Follow makes the server refuse commands that read or change state from now on, and tell
// clients which node serves them. Commands admitted before still reach the engine, which the
// caller closes.
func (srv *Server) Follow() { srv.setSpecial(specialFollowing, true) }

// elsewhere returns the error for a command that another node must serve.
func (c *call) elsewhere() string {
	if c.srv.opts.Replication == nil {
		return spec.ErrNoLeader
	}
	_, leader := c.srv.opts.Replication.Leader()
	if leader == "" {
		return spec.ErrNoLeader
	}
	slot := 0
	first := true
	c.cmd.Keys(c.Args, func(i int) {
		if first {
			slot, first = resp.Slot(c.Args[i]), false
		}
	})
	return "MOVED " + strconv.Itoa(slot) + " " + leader
}
