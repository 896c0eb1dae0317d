package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"limitdb/groups"
	"limitdb/replication"
	"limitdb/replication/peers"
	"limitdb/server"
)

// The directory is kept in group 0's log as the rules are: each change puts the whole of it there. It is at most some 150 kB, and changes seldom.

// directoryText is the name of the value.
const directoryText = "groups"

// directory is the directory of the groups, as this node has it.
type directory struct {
	*several
	changes sync.Mutex // held while it is changed
	plans   sync.Mutex // held while a plan is made: one processor is enough for that

	reading sync.Mutex // guards all below
	from    []byte     // the value from which it was read
	is      groups.Directory
}

// current returns the directory that this node has.
func (s *directory) current() groups.Directory {
	text := s.p.kept.directory()
	s.reading.Lock()
	defer s.reading.Unlock()
	if text == nil || bytes.Equal(text, s.from) { // while the table is rebuilt there is none
		return s.is
	}
	d, err := groups.ReadSnapshot(text)
	if err != nil {
		s.m.fatal(fmt.Errorf("the directory of the groups: %w", err))
		return s.is
	}
	s.from, s.is = text, d
	return d
}

// directory returns the bytes of the directory, nil if there is none.
func (k *keptRules) directory() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.values[directoryText]
}

// errNotBegun is returned for a change of a directory that has not begun: its beginning is the first thing in group 0's log, but comes there only
// when the node leads.
var errNotBegun = fmt.Errorf("%w: the directory of the groups has not begun", server.ErrNotYet)

// begun reports whether the directory has begun, as far as this node knows.
func (s *directory) begun() bool { return s.current().Groups() > 0 }

// knows reports whether this node has heard what it needs of group 0: where the groups are to be, and how keys of rules are hashed.
func (s *several) knows() bool { return s.dir.begun() && s.hasSecret() }

// change changes the directory, and returns when the change is accepted. It returns server.ErrNotLeading on a node that does not lead group 0,
// errNotBegun, and the errors of groups.Directory.Apply.
func (s *directory) change(r groups.Record) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	return s.apply(r)
}

// apply is change with the lock held.
func (s *directory) apply(r groups.Record) error {
	node := s.home().node.Load()
	if node == nil || node.Turn() == 0 {
		return server.ErrNotLeading
	}
	if _, begins := r.(groups.Begin); !begins && !s.begun() {
		return errNotBegun
	}
	next, err := s.current().Apply(r)
	if err != nil {
		return err
	}
	if err := s.p.kept.change(func() { s.p.kept.put(directoryText, groups.AppendSnapshot(nil, next)) }); err != nil {
		return err
	}
	return raftError(node.Confirm())
}

// confirm returns the version of a group's place, if this node leads group 0.
func (s *directory) confirm(group int) (version uint64, err error) {
	node := s.home().node.Load()
	if node == nil {
		return 0, server.ErrNotLeading
	}
	if err := node.Confirm(); err != nil {
		return 0, err
	}
	d := s.current()
	if group < 0 || group >= len(d.Places) {
		return 0, fmt.Errorf("there is no group %d", group)
	}
	return d.Places[group].Version, nil
}

// stays reports whether this node is known to have come to the place of a group, and stays there.
func (s *directory) stays(group int) bool {
	d := s.current()
	if group == 0 || group >= len(d.Places) {
		return true
	}
	at := d.Places[group]
	return at.Has(s.who.ID) && !slices.Contains(at.Joining, s.who.ID)
}

// arrived notes that a group has come to its place.
func (s *directory) arrived(group int, version uint64) error {
	return s.change(groups.Complete{Group: group, Version: version})
}

// changed notes what a node reports of itself.
func (s *directory) changed(from string, n groups.Node) error {
	if n.ID != from {
		return fmt.Errorf("node %s reports a change of node %s", from, n.ID)
	}
	s.changes.Lock()
	defer s.changes.Unlock()
	if _, ok := s.current().Node(n.ID); !ok { // it has been removed, and does not come back by this
		return groups.ErrNode
	}
	return s.apply(groups.SetNode{Node: n})
}

// self returns this node as the directory should have it.
func (s *directory) self() groups.Node {
	return groups.Node{ID: s.who.ID, Client: s.home().node.Load().Says().Client, Raft: s.p.set.RaftAddr.Get(), Zone: s.p.set.RaftZone.Get(), Weight: int(s.p.set.RaftWeight.Get())}
}

// refresh tells the node that leads group 0 what has changed of this one since it was added.
func (s *directory) refresh() {
	was, ok := s.current().Node(s.who.ID)
	now := s.self()
	now.Draining = was.Draining
	if !ok || was == now {
		return
	}
	if _, err := s.near.atHome(&question{Node: &now}); err != nil && !errors.Is(err, errNotNow) {
		s.p.log.Info("the directory has not been told yet what is new of this node", "err", err)
	}
}

// What commands ask for. They run on the node that leads group 0.

// joinWait is how long a node that is added may take to be a member of group 0 that has caught up.
const joinWait = 30 * time.Second

// add adds a node, or gives it another address.
func (s *directory) add(id, address string) error {
	node := s.home().node.Load()
	if node == nil || node.Turn() == 0 {
		return server.ErrNotLeading
	}
	switch {
	case id == s.who.ID:
		return replication.ErrLeads
	case !s.begun():
		return errNotBegun
	}
	_, h, err := node.Call(peers.CallAsk, address, id)
	if err != nil {
		return withKind{fmt.Errorf("node %s at %s: %w", id, address, err), server.ErrNotYet}
	}
	c, err := node.Configuration()
	if err != nil {
		return err
	}
	incarnation := peers.IncarnationOf(h.From)
	if slices.ContainsFunc(c.Servers, func(m replication.Server) bool { return m.Node == id && m.Incarnation != incarnation }) {
		return replication.ErrLost
	}
	n := groups.Node{ID: id, Client: h.Client, Raft: address, Weight: 1} // it tells its zone and weight itself
	if was, ok := s.current().Node(id); ok {
		n.Zone, n.Weight = was.Zone, was.Weight
		if was.Draining = false; was == n {
			return s.awaitMember(id, incarnation)
		}
	}
	if err := s.change(groups.SetNode{Node: n}); err != nil {
		return err
	}
	return s.awaitMember(id, incarnation)
}

// awaitMember waits until a node is a member of group 0 that has caught up.
func (s *directory) awaitMember(id, incarnation string) error {
	ctx, cancel := context.WithTimeout(context.Background(), joinWait)
	defer cancel()
	for {
		node := s.home().node.Load()
		if node == nil || node.Turn() == 0 {
			return server.ErrNotLeading
		}
		c, err := node.Configuration()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(c.Servers, func(m replication.Server) bool {
			return m.Node == id && m.Incarnation == incarnation && m.CaughtUp
		}) {
			return nil
		}
		if !sleep(ctx, reconcileEvery) {
			return withKind{fmt.Errorf("node %s is added, and has not caught up yet", id), server.ErrNotYet}
		}
	}
}

// errNoNode is returned for an id that no node has, or may have.
var errNoNode = fmt.Errorf("%w: RAFT NODES lists those that there are", groups.ErrNode)

// drain has everything leave a node, or no longer.
func (s *directory) drain(id string, on bool) error {
	err := s.change(groups.Drain{ID: id, On: on})
	if _, known := s.current().Node(id); !known && (errors.Is(err, groups.ErrNode) || errors.Is(err, groups.ErrInvalid)) {
		return errNoNode
	}
	return err
}

// remove removes a node, if no group would lose its majority. One that answers must have been drained before: once it is no member of group 0, it
// could not hand over what it leads.
func (s *directory) remove(id string) error {
	if node := s.home().node.Load(); node == nil || node.Turn() == 0 {
		return server.ErrNotLeading
	}
	switch {
	case id == s.who.ID:
		return replication.ErrSelf
	case !s.begun():
		return errNotBegun
	}
	if _, known := s.current().Node(id); !known {
		return errNoNode
	}
	long := s.near.silent()[id] // it was so before the survey, which may last longer than a node is silent for
	s.near.survey(false)        // a node that has just ended must not count as one that answers
	silent := s.near.silent()
	s.near.mu.Lock()
	for _, n := range s.near.at {
		silent[n.id] = silent[n.id] || !n.there
	}
	s.near.mu.Unlock()
	if !long || !silent[id] {
		if err := s.drained(id); err != nil {
			return err
		}
	}
	r, err := groups.Removable(s.current(), groups.Facts{Silent: silent}, id, s.voters)
	if err != nil {
		return err
	}
	return s.change(r)
}

// drained returns an error for a node that has not been silent for long, and may have a replica of a group with keys, or a vote in group 0. A node may be too slow to say
// what it has.
func (s *directory) drained(id string) error {
	s.near.mu.Lock()
	var is neighbour
	if n := s.near.at[id]; n != nil {
		is = neighbour{there: n.there, bare: n.bare, down: n.down}
	}
	s.near.mu.Unlock()
	switch {
	case is.there && !is.bare && s.holds(id):
		return fmt.Errorf("node %s answers and has replicas or votes: drain it first with RAFT DRAIN %s", id, id)
	case is.there && !is.bare, is.down, !s.holds(id) && !s.placed(id):
		return nil
	}
	return withKind{fmt.Errorf("node %s has not said yet which replicas it has: drain it first with RAFT DRAIN %s, or stop it, and ask again in %v", id, id, silence), server.ErrNotYet}
}

// placed reports whether a group with keys is to have a replica on a node, or may still have one there, as the directory or the group's leader says.
func (s *directory) placed(id string) bool {
	for g, place := range s.current().Places {
		if g > 0 && (place.Has(id) || slices.Contains(place.Leaving, id) || slices.Contains(s.voters(g), id)) {
			return true
		}
	}
	return false
}

// holds reports whether a node has a replica of a group with keys, or votes in group 0.
func (s *directory) holds(id string) bool {
	return slices.Contains(s.voters(0), id) || slices.ContainsFunc(s.near.nodesSay(), func(one said) bool { return one.node == id && one.Group > 0 })
}

// voters returns the nodes that vote in a group, as its leader says, nil if none is known.
func (s *directory) voters(group int) (ids []string) {
	id, _ := s.near.leader(group)
	if id == s.who.ID {
		if node := s.replicas[group].node.Load(); node != nil {
			return s.tells.groupState(group, s.replicas[group], node).Voters
		}
	}
	s.near.heard(func(n *neighbour) {
		for _, g := range n.said.Groups {
			if n.id == id && g.Group == group && g.Leads {
				ids = g.Voters
			}
		}
	})
	return ids
}

// transfer makes a node lead a group with keys. The node that leads it does so.
func (s *directory) transfer(group int, id string) error {
	leader, _ := s.near.leader(group)
	if leader == "" {
		return fmt.Errorf("%w: no node leads group %d, as far as this one knows", server.ErrNotYet, group)
	}
	_, err := s.near.askNode(leader, &question{Transfer: &aboutNode{group, id}})
	return err
}

// plan returns what placement would do, a line for each step.
func (s *directory) plan() (lines []string) {
	s.plans.Lock()
	defer s.plans.Unlock()
	for _, step := range groups.Plan(s.current(), s.placing.facts()) {
		lines = append(lines, planned(step))
	}
	return lines
}

// planned is the line of a step. Placement chooses no leader of group 0.
func planned(step groups.SetPlace) string {
	line := fmt.Sprintf("group %d: on %v", step.Group, step.Nodes)
	if step.Leader != "" {
		line += ", led by " + step.Leader
	}
	return line
}
