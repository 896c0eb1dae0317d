package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"limitdb/replication/peers"
)

// Member is a node of the cluster, as in the configuration that all members share.
type Member struct {
	ID, Address string // Address is the one that peers dial
	Voter       bool
	Leader      bool
	Self        bool   // this node
	Client      string // where clients reach it, "" if it did not answer the last call
	// Contact is how long ago it last answered this node, in ns: 0 for this node, -1 for one that has not answered since this one started.
	Contact int64
	Last    uint64 // the last entry of the log that it is known to have, 0 if unknown

	server string // for Raft
}

// Errors of a change of the members.
var (
	// ErrNotLeader is returned if another node leads, or none.
	ErrNotLeader = errors.New("replication: this node does not lead")
	// ErrMember is returned for an id or an address of another member.
	ErrMember = errors.New("replication: another member has this id or this address")
	// ErrNoMember is returned for an id that no member has.
	ErrNoMember = errors.New("replication: no member has this id")
	// ErrSelf is returned for a change that the node that leads cannot make to itself.
	ErrSelf = errors.New("replication: this node leads: transfer the leadership first")
	// ErrLeads is returned for adding the node that leads.
	ErrLeads = errors.New("replication: the node with this id is a member already, and leads")
	// ErrLeadsAlready is returned for making the node lead that does.
	ErrLeadsAlready = errors.New("replication: the node with this id leads already: name another one")
	// ErrLost is returned for a member that has lost its directory, and with it its votes and acknowledgements.
	ErrLost = errors.New("replication: the node has lost the directory that it had as a member: remove the member first, and add it again")
	// ErrVoters is returned for a change that would leave no majority of voters that answer.
	ErrVoters = errors.New("replication: without it, no majority of the voters would answer")
	// ErrUnreachable is returned for a node that does not answer. The caller may try again.
	ErrUnreachable = errors.New("replication: the node does not answer")
	// ErrLags is returned for a node that does not have the end of the log yet. The caller may try again.
	ErrLags = errors.New("replication: the node has not caught up yet")
	// ErrNoSuccessor is returned if no other voter has caught up.
	ErrNoSuccessor = errors.New("replication: no other voter has caught up")
)

// memberTimeout is how long a change of the members may wait for its turn. catchUp is how long a new member may take to
// get the log.
const (
	memberTimeout = 5 * time.Second
	catchUp       = 30 * time.Second
	catchUpLook   = 50 * time.Millisecond
	// laggards is how long a node that leaves waits for voters that have not caught up.
	laggards = 2 * time.Second
)

// Cluster is the cluster of a node, as that node sees and changes it.
type Cluster struct {
	raft    *raft.Raft
	wire    *peers.Transport // nil for a node in memory
	self    Member
	elapsed func() int64
	life    *lifetime
	leads   func() bool // whether this node decides
}

// Members returns the members, in the order of their addition.
func (c *Cluster) Members() ([]Member, error) {
	f := c.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, err
	}
	_, leader := c.raft.LeaderWithID()
	var all []Member
	for _, s := range f.Configuration().Servers {
		m := Member{
			ID: peers.NameOf(string(s.ID)), Address: string(s.Address), Voter: s.Suffrage == raft.Voter,
			Leader: s.ID == leader, Self: string(s.ID) == c.self.server, Contact: -1, server: string(s.ID),
		}
		switch {
		case m.Self:
			m.Client, m.Last, m.Contact = c.self.Client, c.raft.LastIndex(), 0
		case c.wire != nil:
			m.Client, m.Last = c.wire.Layer.Said(s.ID).Client, c.wire.LastLog(s.ID)
			if said := c.wire.Layer.Heard(s.ID); said.At != 0 {
				m.Last, m.Contact = max(m.Last, said.Last), max(0, c.elapsed()-said.At)
			}
		}
		all = append(all, m)
	}
	return all, nil
}

// said returns what a member says of itself, the zero Hello if it did not answer.
func (c *Cluster) said(m *Member) peers.Hello {
	if c.wire == nil {
		return peers.Hello{}
	}
	return c.wire.Layer.Said(raft.ServerID(m.server))
}

// admits returns why a server may not talk to this node now, or nil. A node that hears no leader admits every server,
// because its list of members may be old. The leader is admitted by a node that has no list yet.
func (c *Cluster) admits(server string) error {
	if _, leader := c.raft.LeaderWithID(); leader == "" || string(leader) == server {
		return nil
	}
	f := c.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return err
	}
	for _, s := range f.Configuration().Servers {
		if string(s.ID) == server {
			return nil
		}
	}
	return fmt.Errorf("%s is not a member", peers.NameOf(server))
}

// DialLeader connects to the node that leads, for the commands of this node's clients: see Options.Clients.
// It returns ErrNotLeader if this node leads or knows of no leader.
func (c *Cluster) DialLeader() (net.Conn, error) {
	address, leader := c.raft.LeaderWithID()
	if leader == "" || string(leader) == c.self.server || c.wire == nil {
		return nil, ErrNotLeader
	}
	conn, _, err := c.wire.Layer.Call(peers.CallClients, string(address), string(leader), peers.Timeout)
	return conn, err
}

// leading returns the members if this node leads.
func (c *Cluster) leading() ([]Member, error) {
	if !c.leads() {
		return nil, ErrNotLeader
	}
	return c.Members()
}

// find returns the member with an id.
func find(all []Member, id string) (*Member, error) {
	for i := range all {
		if all[i].ID == id {
			return &all[i], nil
		}
	}
	return nil, ErrNoMember
}

// Add makes the node at an address a member, and blocks until it is a voter. The node gets no vote before it has the
// log: the cluster could need that vote, and stop. For a member, Add changes the address.
func (c *Cluster) Add(id, address string) error {
	all, err := c.leading()
	if err != nil {
		return err
	}
	if id == c.self.ID {
		return ErrLeads
	}
	server := id
	if c.wire != nil {
		_, h, err := c.wire.Layer.Call(peers.CallAsk, address, id, peers.Timeout)
		if err != nil {
			return unreachable(fmt.Errorf("replication: node %s at %s: %w", id, address, err))
		}
		server = h.From
	}
	for _, m := range all {
		switch {
		case m.ID == id && m.server != server:
			return ErrLost
		case m.ID == id && m.Address == address && m.Voter:
			return nil
		case m.ID == id && m.Address != address:
			return c.addServer(c.raft.AddNonvoter, server, address) // which leaves it its vote
		case m.ID != id && m.Address == address:
			return ErrMember
		}
	}
	if err := c.addServer(c.raft.AddNonvoter, server, address); err != nil {
		return err
	}
	if err := c.awaitCaughtUp(raft.ServerID(server)); err != nil {
		return err
	}
	return c.addServer(c.raft.AddVoter, server, address)
}

// unreachable wraps an error of the network as ErrUnreachable.
func unreachable(err error) error {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// change has Raft change the members, and waits for that.
func (c *Cluster) change(make func() raft.Future) error {
	if err := c.life.request(make); err != nil {
		return fmt.Errorf("replication: %w", err)
	}
	return nil
}

// addServer has Raft make a server a member, or give a member another address.
func (c *Cluster) addServer(add func(raft.ServerID, raft.ServerAddress, uint64, time.Duration) raft.IndexFuture, server, address string) error {
	return c.change(func() raft.Future { return add(raft.ServerID(server), raft.ServerAddress(address), 0, memberTimeout) })
}

// Remove ends a node's membership. It returns ErrSelf for the leader, and ErrVoters if the other voters that answer
// would be no majority.
func (c *Cluster) Remove(id string) error {
	m, err := c.dispensable(id)
	if err != nil {
		return err
	}
	return c.change(func() raft.Future { return c.raft.RemoveServer(raft.ServerID(m.server), 0, memberTimeout) })
}

// Demote takes a member's vote away. Its errors are those of Remove.
func (c *Cluster) Demote(id string) error {
	m, err := c.dispensable(id)
	if err != nil || !m.Voter {
		return err
	}
	return c.change(func() raft.Future { return c.raft.DemoteVoter(raft.ServerID(m.server), 0, memberTimeout) })
}

// Promote gives a member a vote. It returns ErrLags for one that does not have the log yet.
func (c *Cluster) Promote(id string) error {
	all, err := c.leading()
	if err != nil {
		return err
	}
	m, err := find(all, id)
	switch {
	case err != nil || m.Voter:
		return err
	case !c.caughtUp(raft.ServerID(m.server)):
		return ErrLags
	}
	return c.addServer(c.raft.AddVoter, m.server, m.Address)
}

// dispensable returns the member with an id, if the voters that answer are a majority without it.
func (c *Cluster) dispensable(id string) (*Member, error) {
	all, err := c.leading()
	if err != nil {
		return nil, err
	}
	m, err := find(all, id)
	switch {
	case err != nil:
		return nil, err
	case !m.Voter:
		return m, nil
	}
	voters, answer := 0, 0
	for _, other := range all {
		if !other.Voter || other.ID == id {
			continue
		}
		voters++
		if other.Self || c.wire == nil || other.Client != "" {
			answer++
		}
	}
	switch {
	case answer <= voters/2:
		return nil, ErrVoters
	case m.Self:
		return nil, ErrSelf
	}
	return m, nil
}

// caughtUp reports whether a member has all but the last few entries of the log.
func (c *Cluster) caughtUp(server raft.ServerID) bool {
	if c.wire == nil {
		return true
	}
	last := c.wire.LastLog(server)
	return last > 0 && last+trailingLeast >= c.raft.CommitIndex()
}

// holdsUp reports whether a node that leaves waits for a member: for a voter that answers and has not caught up.
func (c *Cluster) holdsUp(m Member) bool {
	return m.Voter && !m.Self && m.Client != "" && !c.caughtUp(raft.ServerID(m.server))
}

// awaitCaughtUp waits until a member has caught up. It returns ErrLags if that takes long, and ErrNotLeader if this
// node leads no more.
func (c *Cluster) awaitCaughtUp(server raft.ServerID) error {
	err := c.life.await(catchUpLook, catchUp, func() bool { return c.caughtUp(server) || !c.leads() })
	switch {
	case errors.Is(err, errLate):
		return fmt.Errorf("%w: it stays a member without a vote; ask again", ErrLags)
	case err == nil && !c.caughtUp(server):
		return ErrNotLeader
	}
	return err
}

// awaitVoters waits until all voters that answer have caught up, but not for long. Without this node, the others may
// need each of them to commit anything.
func (c *Cluster) awaitVoters() {
	_ = c.life.await(catchUpLook, laggards, func() bool {
		all, err := c.leading()
		return err != nil || !slices.ContainsFunc(all, c.holdsUp)
	})
}

// successor returns the member to which the leadership may be transferred.
func (c *Cluster) successor(id string) (*Member, error) {
	all, err := c.leading()
	if err != nil {
		return nil, err
	}
	var best *Member
	for i := range all {
		m := &all[i]
		able := m.Voter && (c.wire == nil || m.Client != "") && c.caughtUp(raft.ServerID(m.server))
		switch {
		case id != "" && m.ID != id:
		case m.Self && id != "":
			return nil, ErrLeadsAlready
		case m.Self:
		case able && (best == nil || m.Last > best.Last):
			best = m
		case id != "" && !able:
			return nil, ErrLags
		}
	}
	switch {
	case best != nil:
		return best, nil
	case id != "":
		return nil, ErrNoMember
	}
	return nil, ErrNoSuccessor
}
