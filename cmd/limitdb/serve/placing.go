package serve

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"limitdb/groups"
)

const (
	// placeEvery is how often the node that leads group 0 looks whether a place is to be changed.
	placeEvery = 500 * time.Millisecond
	// turnTime is how long a group may take to change its leader before it is another one's turn.
	turnTime = 10 * time.Second
	// mostSteps is how many changes of places are made at once.
	mostSteps = 16
)

// placer changes the places of groups while this node leads group 0.
type placer struct {
	*several
	turn atomic.Int64 // see nodeState.Turn
}

// place changes the places of groups while this node leads group 0, until ctx ends.
func (s *placer) place(ctx context.Context) {
	var led, turned int64 // Elapsed since it leads, and since the last turn began
	every(ctx, placeEvery, func() {
		node, now := s.home().node.Load(), s.p.clock.Elapsed()
		if node == nil || node.Turn() == 0 {
			led, turned = 0, 0
			s.turn.Store(0)
			return
		}
		if led == 0 {
			led = now
		}
		s.acceptSecret()
		if !s.dir.begun() {
			s.beginDirectory()
			return
		}
		if now-led < int64(silence) {
			return // those that have not been asked yet are not silent
		}
		for range mostSteps {
			next, ok := groups.Next(s.dir.current(), s.facts())
			if !ok {
				break
			}
			if err := s.dir.change(next); err != nil {
				s.p.log.Info("the place of a group is not changed", "group", next.Group, "err", err)
				return
			}
			s.p.log.Info("a group gets another place", "group", next.Group, "nodes", next.Nodes, "leader", next.Leader)
		}
		turned = s.nextTurn(now, turned)
	})
}

// beginDirectory begins the directory of a new cluster.
func (s *placer) beginDirectory() {
	err := s.dir.change(groups.Begin{Groups: s.count, Replicas: int(s.p.set.RaftReplicas.Get()), Node: s.dir.self()})
	if err != nil {
		s.p.log.Info("the directory of the groups has not begun", "err", err)
	}
}

// facts returns what placement is computed from beside the directory. A node that has not told yet of its zone and its weight, or
// has others than the directory, gets nothing until the directory has them.
func (s *placer) facts() groups.Facts {
	f := groups.Facts{Silent: s.near.silent(), Moves: int(s.p.set.RaftMoves.Get())}
	d := s.dir.current()
	s.near.heard(func(n *neighbour) {
		if at, ok := d.Node(n.id); ok && (at.Zone != n.said.Zone || at.Weight != n.said.Weight) {
			f.Silent[n.id] = true
		}
	})
	return f
}

// nextTurn lets one group at a time change its leader: until it has, or turnTime is over. It returns when the turn began.
func (s *placer) nextTurn(now, began int64) int64 {
	d, g := s.dir.current(), int(s.turn.Load())
	leads := func(group int) string {
		id, _ := s.near.leader(group)
		return id
	}
	if g != 0 && leads(g) != d.Places[g].Leader && now-began < int64(turnTime) {
		return began
	}
	s.turn.Store(int64(groups.Turn(d, leads, s.isReady, g)))
	return now
}

// isReady reports whether a node may be made to lead a group, as the group's leader says.
func (s *placer) isReady(group int, id string) (ready bool) {
	if all := s.ready[group].Load(); all != nil && s.leadsHere(group) {
		return slices.Contains(*all, id)
	}
	s.near.heard(func(n *neighbour) {
		for _, g := range n.said.Groups {
			ready = ready || g.Group == group && g.Leads && slices.Contains(g.Ready, id)
		}
	})
	return ready
}

// leadsHere reports whether this node decides for a group.
func (s *several) leadsHere(group int) bool {
	node := s.replicas[group].node.Load()
	return node != nil && node.Turn() != 0
}

// turnOf returns the group that may change its leader now, as the node says that leads group 0.
func (s *placer) turnOf() (group int) {
	id, _ := s.near.leader(0)
	if id == s.who.ID {
		return int(s.turn.Load())
	}
	s.near.heard(func(n *neighbour) {
		if n.id == id {
			group = n.said.Turn
		}
	})
	return group
}
