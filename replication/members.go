package replication

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// Member is a node of the cluster, as all members have agreed.
type Member struct {
	ID, Address string // Address is the one that peers dial
	Voter       bool
	Leader      bool
	Self        bool   // this node
	Client      string // where clients reach it, "" if it did not answer when it was asked last
	Last        uint64 // the last entry of the log that it is known to have, 0 if this node does not know
}

// Errors of a change of the members.
var (
	// ErrNotLeader is returned where another node leads, or none.
	ErrNotLeader = errors.New("replication: this node does not lead")
	// ErrMember is returned for a node that is a member already, under another address or id.
	ErrMember = errors.New("replication: another member has this id or this address")
)

// memberTimeout is how long a change of the members may wait for its turn, catchUp how long
// a new member may take to have the log.
const (
	memberTimeout = 5 * time.Second
	catchUp       = 30 * time.Second
	catchUpLook   = 50 * time.Millisecond
)

// ID is the node's.
func (n *Node) ID() string { return n.o.ID }

// Members returns the members, in the order of their addition.
func (n *Node) Members() ([]Member, error) {
	f := n.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, err
	}
	_, leader := n.raft.LeaderWithID()
	var all []Member
	for _, s := range f.Configuration().Servers {
		m := Member{ID: string(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter, Leader: s.ID == leader, Self: string(s.ID) == n.o.ID}
		switch {
		case m.Self:
			m.Client, m.Last = n.o.Address, n.raft.LastIndex()
		case n.parts.client != nil:
			m.Client, m.Last = n.parts.client(s.Address), n.parts.lastLog(s.Address)
		}
		all = append(all, m)
	}
	return all, nil
}

// Add makes a node a member, and blocks until it is a voter. It has no vote until it has
// the log: a vote that cannot be had would stop the cluster.
func (n *Node) Add(id, address string) error {
	members, err := n.Members()
	if err != nil {
		return err
	}
	for _, m := range members {
		switch {
		case m.ID == id && m.Address == address && m.Voter:
			return nil
		case (m.ID == id) != (m.Address == address):
			return ErrMember
		}
	}
	if n.Turn() == 0 {
		return ErrNotLeader
	}
	if err := n.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(address), 0, memberTimeout).Error(); err != nil {
		return fmt.Errorf("replication: %w", err)
	}
	if err := n.awaitCaughtUp(address); err != nil {
		return err
	}
	if err := n.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(address), 0, memberTimeout).Error(); err != nil {
		return fmt.Errorf("replication: %w", err)
	}
	return nil
}

// awaitCaughtUp waits until a member has all but the last few entries of the log.
func (n *Node) awaitCaughtUp(address string) error {
	tick := time.NewTicker(catchUpLook)
	defer tick.Stop()
	late := time.NewTimer(catchUp)
	defer late.Stop()
	for {
		if last := n.parts.lastLog(raft.ServerAddress(address)); last > 0 && last+trailingLeast >= n.raft.CommitIndex() {
			return nil
		}
		select {
		case <-tick.C:
		case <-late.C:
			return errors.New("replication: the new member has not caught up yet; it stays a member without a vote")
		case <-n.stop:
			return raft.ErrRaftShutdown
		}
		if n.Turn() == 0 {
			return ErrNotLeader
		}
	}
}
