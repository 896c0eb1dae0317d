package replication

import (
	"fmt"
	"net"
	"slices"

	"github.com/hashicorp/raft"

	"limitdb/replication/peers"
)

// The owner of a node that has several groups decides who their members are, step by step. So each change says from which
// configuration it was computed, and is refused if there has been another.

// Configuration is the members of a group, as the newest entry about them says that is known to be committed.
type Configuration struct {
	Servers []Server
	Index   uint64 // of the entry
	Pending bool   // there is a newer entry, which is not known to be committed
}

// Server is a member of a group: the replica with one directory.
type Server struct {
	Node, Incarnation string
	Address           string // which peers dial
	Voter             bool
	CaughtUp          bool // it has all but the last few entries of the log; the leader knows
}

// Change is what becomes of a server.
type Change int

// The changes. Each may be made again.
const (
	// Learn makes a server a member without a vote.
	Learn Change = iota
	// Vote gives it a vote.
	Vote
	// Demote takes its vote away.
	Demote
	// Expel ends its membership.
	Expel
)

// Configuration returns the members, as this node knows them.
func (n *Node) Configuration() (Configuration, error) {
	members, at, err := newestMembers(n.replica, n.parts.snapshots)
	if err != nil {
		return Configuration{}, err
	}
	latest := n.raft.GetConfiguration()
	if err := latest.Error(); err != nil {
		return Configuration{}, err
	}
	c := Configuration{Index: at, Pending: at == 0 || !slices.Equal(members.Servers, latest.Configuration().Servers)}
	for _, s := range members.Servers {
		c.Servers = append(c.Servers, Server{
			Node: peers.NameOf(string(s.ID)), Incarnation: peers.IncarnationOf(string(s.ID)), Address: string(s.Address), Voter: s.Suffrage == raft.Voter,
			CaughtUp: string(s.ID) == n.o.server || n.caughtUp(s.ID),
		})
	}
	return c, nil
}

// newestMembers returns the newest configuration that is applied, and its index. Since the last start, or the last snapshot that was installed,
// there may be none in the log: then it is the snapshot's.
func newestMembers(r *replica, snapshots *snapshotStore) (members raft.Configuration, at uint64, err error) {
	r.mu.Lock()
	members, at = r.members, r.membersAt
	broken := r.broken
	r.mu.Unlock()
	if at != 0 {
		return members, at, nil
	}
	newest, err := snapshots.newest()
	if err != nil || newest == nil {
		return members, 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.membersAt == 0 && r.broken == broken {
		r.members, r.membersAt = newest.Configuration, newest.ConfigurationIndex
	}
	return newest.Configuration, newest.ConfigurationIndex, nil
}

// Alter changes a server of the group, whose address is needed only for one that becomes a member. index is that of the configuration from
// which the change was computed. Alter returns ErrNotLeader if this node does not decide, and another error if there has been another
// configuration since.
func (c *Cluster) Alter(to Change, node, incarnation, address string, index uint64) error {
	if !c.leads() {
		return ErrNotLeader
	}
	id := raft.ServerID(peers.ServerID(node, incarnation))
	if to == Vote {
		all, err := c.Members()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(m Member) bool { return m.server == string(id) })
		if i < 0 {
			return ErrNoMember
		}
		address = all[i].Address
	}
	return c.change(func() raft.Future {
		switch to {
		case Learn:
			return c.raft.AddNonvoter(id, raft.ServerAddress(address), index, memberTimeout)
		case Vote:
			return c.raft.AddVoter(id, raft.ServerAddress(address), index, memberTimeout)
		case Demote:
			return c.raft.DemoteVoter(id, index, memberTimeout)
		default:
			return c.raft.RemoveServer(id, index, memberTimeout)
		}
	})
}

// Told notes what other nodes have said, each by the hello of its replica of this group, to the owner of this node. A hello with nothing but
// From is of a server that does not answer. See Options.Surveyed.
func (n *Node) Told(all []peers.Hello) {
	goal := uint64(0)
	for _, h := range all {
		n.parts.wire.Layer.Tell(h)
		if h.Reads != 0 {
			goal = max(goal, h.Last, 1)
		}
	}
	n.survey.goal.CompareAndSwap(0, goal)
	if members, err := n.Members(); err == nil {
		n.settings.compare(members)
	}
}

// Says returns what this node says of its replica of the group.
func (n *Node) Says() peers.Hello { return n.parts.wire.Layer.Self() }

// Call connects to a node at an address through this group, and returns that node's hello. Each has a directory for the group.
func (c *Cluster) Call(call peers.Call, address, node string) (net.Conn, peers.Hello, error) {
	return c.wire.Layer.Call(call, address, node, peers.Timeout)
}

// Confirm returns when everything in the log that was committed before the call is applied, and no other node led at that moment. It returns
// ErrNotLeader if this node does not decide.
func (n *Node) Confirm() error {
	turn := n.Turn()
	if turn == 0 {
		return ErrNotLeader
	}
	if err := n.await(turn); err != nil {
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	return nil
}

// LeaderServer returns the node that leads the group's Raft, "" if this node knows of none, and the term.
func (c *Cluster) LeaderServer() (node string, term uint64) {
	_, id := c.raft.LeaderWithID()
	return peers.NameOf(string(id)), c.raft.CurrentTerm()
}
