package serve

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"limitdb/replication"
	"limitdb/replication/peers"
)

// respondent answers what other nodes ask.
type respondent struct{ *several }

// state returns what this node is. node is its replica of group 0.
func (s *respondent) state(node *replication.Node) *nodeState {
	state := &nodeState{Hello: node.Says(), Zone: s.p.set.RaftZone.Get(), Weight: int(s.p.set.RaftWeight.Get())}
	if node.Turn() != 0 {
		state.Turn = int(s.placing.turn.Load())
	}
	for g, r := range s.replicas {
		node := r.node.Load()
		if node == nil {
			continue
		}
		state.Groups = append(state.Groups, s.groupState(g, r, node))
	}
	return state
}

// groupState returns what this node says about a group of which it has a replica.
func (s *respondent) groupState(g int, r *replica, node *replication.Node) groupState {
	h, states := node.Says(), r.states.Load().Stats()
	_, term := node.LeaderServer()
	of := groupState{
		Group: g, Incarnation: peers.IncarnationOf(h.From), Writes: h.Writes, Last: h.Last, Term: term, Leads: node.Turn() != 0, Keys: states.Keys, Bytes: states.Bytes, Decisions: states.Allowed + states.Limited, Rate: s.rates.of[g].Load(),
	}
	if room := s.room.Load(); room != nil {
		of.Budget = (*room)[g]
	}
	if of.Leads {
		if c, err := node.Configuration(); err == nil {
			for _, m := range c.Servers {
				if m.Voter {
					of.Voters = append(of.Voters, m.Node)
				}
			}
		}
		if ready := s.ready[g].Load(); ready != nil {
			of.Ready = *ready
		}
	}
	return of
}

// asked serves a connection on which another node asks.
func (s *respondent) asked(c net.Conn, from string) {
	answerQuestions(c, peers.NameOf(from), s.answers)
}

// answers answers a question.
func (s *respondent) answers(q *question, from string) (answer, error) {
	home := s.home().node.Load()
	if home == nil {
		return answer{}, errors.New("the node is starting, or stopping")
	}
	switch {
	case q.State != nil:
		return answer{State: s.state(home)}, nil
	case q.Prepare != nil:
		incarnation, err := s.prepare(q.Prepare.Group)
		return answer{Incarnation: incarnation}, err
	case q.Place != nil:
		version, err := s.dir.confirm(q.Place.Group)
		return answer{Version: version}, err
	case q.Arrived != nil:
		return answer{}, s.dir.arrived(q.Arrived.Group, q.Arrived.Version)
	case q.Node != nil:
		return answer{}, s.dir.changed(from, *q.Node)
	case q.Member != nil:
		m, err := s.membership(q.Member.Group, from, q.Member.Incarnation)
		return answer{Member: m}, err
	case q.Transfer != nil:
		return answer{}, s.transfer(q.Transfer.Group, q.Transfer.Node)
	}
	return answer{}, errors.New("a question that this node does not know")
}

// held returns the node of a group with keys, or nil, or an error for a group that there is not.
func (s *respondent) held(group int) (*replication.Node, error) {
	if group < 0 || group > s.count {
		return nil, fmt.Errorf("there is no group %d", group)
	}
	return s.replicas[group].node.Load(), nil
}

// prepare makes the directory of this node for a group, if it has none, and returns its incarnation.
func (s *respondent) prepare(group int) (string, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	node, err := s.held(group)
	switch {
	case err != nil:
		return "", err
	case s.closed:
		return "", errStopping
	}
	if node == nil {
		who, err := replication.Known(s.p.durable.groupDir(0))
		if err != nil || who.Cluster == "" {
			return "", errors.Join(errors.New("this node is in no cluster yet"), err)
		}
		if !s.knows() { // or it could lead a group and make other keys than the rest
			return "", errors.New("this node has not heard of group 0 yet")
		}
		if err := s.openGroup(group, false, s.home().node.Load().Says().Client); err != nil {
			return "", err
		}
		node = s.replicas[group].node.Load()
		s.p.log.Info("this node gets a replica of a group", "group", group)
	}
	return peers.IncarnationOf(node.Says().From), nil
}

// transfer makes another node lead a group that this one leads.
func (s *respondent) transfer(group int, id string) error {
	node, err := s.held(group)
	if err != nil {
		return err
	}
	if node == nil {
		return replication.ErrNotLeader
	}
	return node.Transfer(id)
}

// membership answers whether a server is a member of a group, if this node leads it.
func (s *respondent) membership(group int, id, incarnation string) (*membership, error) {
	node, err := s.held(group)
	if err != nil {
		return nil, err
	}
	if node == nil {
		return &membership{}, nil
	}
	c, err := node.Configuration()
	if err != nil {
		return nil, err
	}
	m := &membership{Decides: !c.Pending && node.Confirm() == nil, Index: c.Index}
	m.Member = slices.ContainsFunc(c.Servers, func(o replication.Server) bool { return o.Node == id && o.Incarnation == incarnation })
	return m, nil
}
