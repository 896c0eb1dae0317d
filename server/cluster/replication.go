// Package cluster has the commands about nodes, CLUSTER, RAFT and ROLE, and the section of INFO about replication.
package cluster

import (
	"errors"
	"strconv"
	"strings"

	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
	"limitdb/uplink"
)

// Replication is the server's interface to the code that keeps its state on several nodes. Any
// goroutine may call the functions. Those that block say so.
type Replication struct {
	// Keyed are those of the groups that have keys, in their order. The server sets it. Empty: this one has all keys.
	Keyed []*Replication
	// Leader returns the id of this node, and the address at which clients reach the leader,
	// "" while that is unknown.
	Leader func() (id, leader string)
	// Members returns the nodes of the cluster.
	Members func() ([]Member, error)
	// Status is what this node knows of itself and the cluster.
	Status func() stats.Replication
	// Table has the states that the node holds while another leads.
	Table func() *engine.Engine
	// Groups is how many groups with keys the cluster has, 0 if it has only one.
	Groups int
	// Directory says where the groups of a cluster are. It is nil in a cluster of one group.
	Directory *Directory
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
	Contact       int64  // how long ago it last answered, in ns, -1 for never
	Last          uint64 // the last entry of the log that it is known to have, 0 if unknown
}

// Leads reports whether the node decides. One without replication always does.
func (r *Replication) Leads() bool {
	if r == nil {
		return true
	}
	s := r.Status()
	return s.Leads
}

// Elsewhere returns the error for a command that another node must serve.
func (r *Replication) Elsewhere(cmd *spec.Command, args [][]byte) string {
	slot := -1
	cmd.Keys(args, func(i int) {
		if slot < 0 {
			slot = resp.Slot(args[i])
		}
	})
	return r.moved(max(slot, 0))
}

// moved returns the error that says which node has a slot.
func (r *Replication) moved(slot int) string {
	if r != nil {
		if _, leader := r.Leader(); leader != "" {
			return "MOVED " + strconv.Itoa(slot) + " " + leader
		}
	}
	return spec.ErrNoLeader
}

// Fail replies with the error of a change. One that only the leader can make is answered with its address, as for commands about keys.
func (r *Replication) Fail(c *handler.Call, err error) {
	// The names of packages say nothing to clients. They stand before each error, and nowhere else: "several groups: use" is no such name.
	text := strings.NewReplacer(": replication: ", ": ", ": groups: ", ": ").Replace(": " + err.Error())
	text = resp.Excerpt([]byte(text[len(": "):]))
	switch {
	case errors.Is(err, ErrNotYet):
		c.Fail("TRYAGAIN " + text)
	case errors.Is(err, ErrNotLeading):
		c.Fail(r.moved(0))
	default:
		c.Fail("ERR " + text)
	}
}
