package serve

import (
	"cmp"
	"errors"

	"limitdb/internal/stats"
	"limitdb/replication"
	"limitdb/server"
	"limitdb/uplink"
)

// errPlaced is returned for changes of a group that placement undoes, or makes.
var errPlaced = errors.New("placement decides who votes in several groups: use RAFT SERVER ADD, RAFT SERVER REMOVE or RAFT DRAIN")

// ofGroup sets what is otherwise in a cluster of several groups, of what the server asks about the nodes of a group.
func (s *several) ofGroup(group int, o *server.Replication) {
	o.Directory = s.dir.forServer()
	o.Leader = func() (id, leader string) {
		_, client := s.near.leader(group)
		return s.who.ID, client
	}
	o.Uplink = func(loop int) *uplink.Link { return s.pools.link(group, loop) }
	held := o.Members
	o.Members = func() ([]server.Member, error) {
		if s.replicas[group].node.Load() == nil && group != 0 {
			return s.near.members(group), nil
		}
		return held()
	}
	no := func(string) error { return errPlaced }
	o.Add = func(id, address string) error { return raftError(s.dir.add(id, address)) }
	o.Remove = func(id string) error { return raftError(s.dir.remove(id)) }
	o.Promote, o.Demote = no, no
}

// absent is the status of a group of which this node has no replica.
func (s *several) absent(group int) stats.Replication {
	all := stats.Replication{On: true, ID: s.who.ID, State: "absent", LastContact: -1, Current: true}
	if home := s.home().node.Load(); home != nil {
		all.Cluster = home.Says().Cluster
	}
	_, all.Leader = s.near.leader(group)
	for _, m := range s.near.members(group) {
		all.Members++
		if m.Client != "" {
			all.Answering++
			all.Leader = cmp.Or(all.Leader, m.Client) // any of them: the node need not wait for this group to serve clients
		}
	}
	all.Voters = all.Members
	return all
}

// leave hands over all that this node leads before it stops.
func (s *several) leave() (led bool, err error) {
	turns := make([]bool, len(s.replicas))
	err = s.each(func(r *replica, node *replication.Node) error {
		turns[r.number] = node.Turn() != 0
		err := node.Leave()
		turns[r.number] = turns[r.number] && node.Turn() == 0
		return err
	})
	for _, handed := range turns {
		led = led || handed
	}
	return led, err
}

// close stops the replicas.
func (s *several) close() error {
	s.opening.Lock()
	s.closed = true
	s.opening.Unlock() // who serves a question that waits for it must end before group 0 does
	err := s.each(func(r *replica, _ *replication.Node) error { return r.shut() })
	if s.redo != nil {
		err = errors.Join(err, s.redo.Close())
		s.redo = nil
	}
	return err
}
