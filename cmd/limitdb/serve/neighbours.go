package serve

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"limitdb/replication"
	"limitdb/replication/peers"
	"limitdb/server"
)

// surveyEvery is how often a node asks the others what they are, and silence after how long without an answer a node counts as
// silent.
const (
	surveyEvery = time.Second
	silence     = 3 * time.Second
)

// neighbours are the other nodes, as they have last said.
type neighbours struct {
	*several
	mu sync.Mutex // guards all below
	at map[string]*neighbour
}

// neighbour is another node.
type neighbour struct {
	id      string
	address string // where it is dialed
	// look is for questions that are answered at once, and work for others.
	look, work line

	said  nodeState // its last answer
	heard int64     // Elapsed when that came, 0 for never
	asked int       // questions of what it is that are underway
	there bool      // it has answered the last question
	bare  bool      // its last answer does not say which groups it has
	down  bool      // nothing listened at its address when it was asked last
}

// neighbour returns another node. If its address has changed, its lines are new.
func (s *neighbours) neighbour(id, address string) *neighbour {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.at[id]
	if n == nil || address != "" && n.address != address {
		if n != nil {
			n.close()
		}
		n = &neighbour{id: id, address: address}
		dial := func() (net.Conn, error) {
			node := s.home().node.Load()
			if node == nil {
				return nil, replication.ErrNotReady
			}
			conn, _, err := node.Call(peers.CallGroups, address, id)
			return conn, err
		}
		n.look.dial, n.work.dial = dial, dial
		s.at[id] = n
	}
	return n
}

// close closes the connections, each after the answer to its last question.
func (n *neighbour) close() {
	go n.look.close()
	go n.work.close()
}

// known returns the other nodes that the directory has, or that are members of a group of this one, and where they are dialed.
func (s *neighbours) known() map[string]string {
	all := map[string]string{}
	_ = s.each(func(r *replica, node *replication.Node) error {
		members, _ := node.Members() // none while the node stops
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, m := range members {
			all[m.ID] = m.Address
		}
		return nil
	})
	for _, n := range s.dir.current().Nodes {
		all[n.ID] = n.Raft
	}
	delete(all, s.who.ID)
	return all
}

// survey asks the other nodes what they are, and tells the replicas of this one. If hurried, it leaves out those that are still being asked, and waits
// no longer than surveyEvery: a node that hangs, or whose machine is off, must not make others seem silent.
func (s *neighbours) survey(hurried bool) {
	known := s.known()
	s.mu.Lock()
	for id, n := range s.at {
		if _, ok := known[id]; !ok {
			n.close()
			delete(s.at, id)
		}
	}
	s.mu.Unlock()
	all, answered := 0, make(chan struct{}, len(known))
	for id, address := range known {
		n := s.neighbour(id, address)
		if !s.asks(n, hurried) {
			continue
		}
		all++
		go func() {
			s.ask(n)
			answered <- struct{}{}
		}()
	}
	var late <-chan time.Time
	if hurried {
		late = time.After(surveyEvery)
	}
	for over := false; all > 0 && !over; all-- {
		select {
		case <-answered:
		case <-late:
			over = true
		}
	}
	s.tell(slices.Sorted(maps.Keys(known)))
}

// asks notes that a neighbour is being asked. It reports whether it may be: not again in a hurry.
func (s *neighbours) asks(n *neighbour, hurried bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hurried && n.asked > 0 {
		return false
	}
	n.asked++
	return true
}

// ask asks a neighbour what it is. One that is in no cluster yet, or has just begun, answers only who it is.
func (s *neighbours) ask(n *neighbour) {
	a, err := n.look.ask(&question{State: &struct{}{}}, askTime)
	state := a.State
	bare := err != nil || state == nil
	if bare {
		if node := s.home().node.Load(); node != nil {
			var h peers.Hello
			if _, h, err = node.Call(peers.CallAsk, n.address, n.id); err == nil {
				state = &nodeState{Hello: h, Groups: []groupState{{Incarnation: peers.IncarnationOf(h.From), Writes: h.Writes, Last: h.Last}}}
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n.asked--
	n.there, n.down = err == nil && state != nil, errors.Is(err, syscall.ECONNREFUSED)
	if n.there {
		n.said, n.bare, n.heard = *state, bare, max(s.p.clock.Elapsed(), 1)
	}
}

// tell tells the replicas of this node what the others have said.
func (s *neighbours) tell(ids []string) {
	hellos := make([][]peers.Hello, len(s.replicas))
	s.mu.Lock()
	for _, id := range ids {
		n := s.at[id]
		if n == nil {
			continue
		}
		for _, g := range n.said.Groups {
			if g.Group < 0 || g.Group >= len(hellos) {
				continue
			}
			h := peers.Hello{From: peers.ServerID(id, g.Incarnation)}
			if n.there {
				h.Group, h.Client, h.Reads, h.Writes, h.Last = g.Group, n.said.Hello.Client, n.said.Hello.Reads, g.Writes, g.Last
			}
			if n.there && g.Group == 0 {
				h.Agree = n.said.Hello.Agree
			}
			hellos[g.Group] = append(hellos[g.Group], h)
		}
	}
	s.mu.Unlock()
	for g, r := range s.replicas {
		if node := r.node.Load(); node != nil {
			node.Told(hellos[g])
		}
	}
}

// heard calls fn for each neighbour that is not silent.
func (s *neighbours) heard(fn func(n *neighbour)) {
	now := s.p.clock.Elapsed()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.at)) {
		if n := s.at[id]; n.heard != 0 && now-n.heard < int64(silence) {
			fn(n)
		}
	}
}

// silent returns the nodes of the directory that do not answer.
func (s *neighbours) silent() map[string]bool {
	all := map[string]bool{}
	for _, n := range s.dir.current().Nodes {
		if n.ID != s.who.ID {
			all[n.ID] = true
		}
	}
	s.heard(func(n *neighbour) { delete(all, n.id) })
	return all
}

// leader returns the node that decides for a group, and where clients reach it; "" if this node does not know. The others know it if this node has no
// replica, or one that hears nothing of the leader since it has left, or has not come yet.
func (s *neighbours) leader(group int) (id, client string) {
	var newest uint64
	if node := s.replicas[group].node.Load(); node != nil {
		if id, client = node.Decides(), node.Leader(); id != "" || s.dir.stays(group) {
			return id, client
		}
		_, newest = node.LeaderServer()
	}
	s.heard(func(n *neighbour) {
		for _, g := range n.said.Groups {
			if g.Group == group && g.Leads && g.Term >= newest {
				newest, id, client = g.Term, n.id, n.said.Hello.Client
			}
		}
	})
	return id, client
}

// errNoDirectory is returned if no node leads group 0, as far as this one knows.
var errNoDirectory = fmt.Errorf("%w: no node leads group 0", errNotNow)

// atHome answers a question by the node that leads group 0.
func (s *neighbours) atHome(q *question) (answer, error) {
	id, _ := s.leader(0)
	switch id {
	case "":
		return answer{}, errNoDirectory
	case s.who.ID:
		return s.tells.answers(q, s.who.ID)
	}
	return s.askNode(id, q)
}

// askNode asks another node something that may take it a while.
func (s *neighbours) askNode(id string, q *question) (answer, error) {
	if id == s.who.ID {
		return s.tells.answers(q, id)
	}
	s.mu.Lock()
	n := s.at[id]
	s.mu.Unlock()
	if n == nil {
		return answer{}, fmt.Errorf("%w: node %s is not known", errNotNow, id)
	}
	return n.work.ask(q, workTime)
}

// members returns the replicas of a group of which this node has none, as the others and the directory say.
func (s *neighbours) members(group int) (all []server.Member) {
	d := s.dir.current()
	if group >= len(d.Places) {
		return nil
	}
	leader, _ := s.leader(group)
	silent := s.silent()
	for _, id := range d.Places[group].Nodes {
		n, _ := d.Node(id)
		m := server.Member{ID: id, Address: n.Raft, Voter: true, Leader: id == leader, Contact: -1}
		if !silent[id] {
			m.Client, m.Contact = n.Client, 0
		}
		all = append(all, m)
	}
	return all
}

// prepared notes that a node has a directory for a group.
func (s *neighbours) prepared(id string, group int, incarnation string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.at[id]
	if n == nil || slices.ContainsFunc(n.said.Groups, func(g groupState) bool { return g.Group == group }) {
		return
	}
	n.said.Groups = append(slices.Clone(n.said.Groups), groupState{Group: group, Incarnation: incarnation, Writes: 1})
}

// leaders returns the other nodes that say that they lead a group.
func (s *neighbours) leaders(group int) (ids []string) {
	at := map[string]bool{}
	s.heard(func(n *neighbour) {
		for _, g := range n.said.Groups {
			if g.Group == group && g.Leads {
				at[n.id] = true
			}
		}
	})
	return slices.Sorted(maps.Keys(at))
}

// nodesSay returns what each node that is not silent says about each group of which it has a replica, this one too.
func (s *neighbours) nodesSay() (all []said) {
	for g, r := range s.replicas {
		if node := r.node.Load(); node != nil {
			all = append(all, said{s.who.ID, s.tells.groupState(g, r, node)})
		}
	}
	s.heard(func(n *neighbour) {
		for _, g := range n.said.Groups {
			all = append(all, said{n.id, g})
		}
	})
	return all
}
