package serve

import (
	"context"
	"errors"
	"sync"
	"time"

	"limitdb/groups"
	"limitdb/replication"
	"limitdb/replication/peers"
)

const (
	// reconcileEvery is how often the node that leads a group looks whether the group is at its place.
	reconcileEvery = 250 * time.Millisecond
	// confirmedFor is how long it counts that the version of a place was confirmed.
	confirmedFor = 3 * time.Second
	// readyAfter is for how long a replica has caught up before it may be made to lead.
	readyAfter = 30 * time.Second
	// discardEvery is how often a node asks whether it may discard a replica that is at no place.
	discardEvery = 5 * time.Second
)

// reconciling is what the node that leads a group remembers of that.
type reconciling struct {
	s         *several
	group     int
	version   uint64                       // of the place that was last confirmed
	confirmed int64                        // Elapsed at that moment, 0 for never
	caughtUp  map[replication.Server]int64 // Elapsed since when
	said      string                       // the last error in the log
}

// reconcileAll brings the groups that this node leads to their places, until ctx ends. One timer is for all of them, and those that the node
// does not lead do not wake up.
func (s *several) reconcileAll(ctx context.Context, background *sync.WaitGroup) {
	look, led := make([]chan struct{}, len(s.replicas)), make([]bool, len(s.replicas))
	for g := range look {
		look[g] = make(chan struct{}, 1)
		background.Go(func() { s.reconcile(ctx, g, look[g]) })
	}
	background.Go(func() {
		every(ctx, reconcileEvery, func() {
			for g, r := range s.replicas {
				node := r.node.Load()
				leads := node != nil && node.Turn() != 0
				if leads || led[g] { // a last look forgets what it remembers
					select {
					case look[g] <- struct{}{}:
					default:
					}
				}
				led[g] = leads
			}
		})
	})
}

// reconcile brings a group to its place, step by step, while this node leads it, until ctx ends.
func (s *several) reconcile(ctx context.Context, group int, look <-chan struct{}) {
	r := &reconciling{s: s, group: group}
	for {
		select {
		case <-ctx.Done():
			return
		case <-look:
		}
		for range mostSteps {
			if ctx.Err() != nil || !r.step() {
				break
			}
		}
	}
}

// step takes the next step, and reports whether another may follow at once.
func (r *reconciling) step() bool {
	s := r.s
	node := s.replicas[r.group].node.Load()
	if node == nil || node.Turn() == 0 {
		r.version, r.confirmed, r.caughtUp = 0, 0, nil
		s.ready[r.group].Store(nil)
		return false
	}
	d := s.dir.current()
	c, err := node.Configuration()
	if err != nil || r.group >= len(d.Places) {
		return false
	}
	v := r.view(&c)
	if moved, ok := r.moved(d, &c, v); ok && err == nil {
		err = node.Alter(replication.Learn, moved.Node, moved.Incarnation, moved.Address, c.Index)
		r.say("another address", moved.Node, err)
		return err == nil
	}
	step := groups.Reconcile(d.Places[r.group], r.learners(d), v)
	if step.Action == groups.Wait {
		return false
	}
	err = r.take(node, d, step)
	if step.Action != groups.Confirm || err != nil {
		r.say(step.Action.String(), step.Node, err)
	}
	return err == nil
}

// say logs a step, and an error that is another than the last.
func (r *reconciling) say(step, node string, err error) {
	log := r.s.p.log.With("group", r.group)
	switch {
	case err != nil && err.Error() == r.said:
		return
	case err != nil:
		log.Info("a group does not come to its place yet", "step", step, "node", node, "err", err)
		r.said = err.Error()
		return
	case step == groups.Report.String():
		log.Info("a group has come to its place")
	default: // one of several on the way
		log.Debug("a group comes to its place", "step", step, "node", node)
	}
	r.said = ""
}

// learners returns the nodes that are to have a replica without a vote.
func (r *reconciling) learners(d groups.Directory) (ids []string) {
	if r.group != 0 {
		return nil
	}
	for _, n := range d.Nodes {
		if !d.Places[0].Has(n.ID) {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// view returns what this node sees of the group.
func (r *reconciling) view(c *replication.Configuration) groups.View {
	s, now := r.s, r.s.p.clock.Elapsed()
	v := groups.View{Self: s.who.ID, Index: c.Index, Pending: c.Pending, Silent: s.near.silent(), Incarnations: map[string]string{}, MayTransfer: s.placing.turnOf() == r.group}
	if r.confirmed != 0 && now-r.confirmed < int64(confirmedFor) {
		v.Confirmed = r.version
	}
	s.near.heard(func(n *neighbour) {
		for _, g := range n.said.Groups {
			if g.Group == r.group {
				v.Incarnations[n.id] = g.Incarnation
			}
		}
	})
	caughtUp := map[replication.Server]int64{}
	var ready []string
	for _, m := range c.Servers {
		if m.Node == s.who.ID {
			v.Incarnations[m.Node] = m.Incarnation
		}
		server := groups.Server{Node: m.Node, Incarnation: m.Incarnation, Voter: m.Voter, CaughtUp: m.CaughtUp}
		if m.CaughtUp && !v.Silent[m.Node] {
			since, ok := r.caughtUp[m]
			if !ok {
				since = now
			}
			caughtUp[m] = since
			server.Ready = now-since >= int64(readyAfter)
		}
		if server.Ready && server.Voter {
			ready = append(ready, m.Node)
		}
		v.Servers = append(v.Servers, server)
	}
	r.caughtUp = caughtUp
	s.ready[r.group].Store(&ready)
	return v
}

// moved returns a member whose node answers at another address than the group has, with that address.
func (r *reconciling) moved(d groups.Directory, c *replication.Configuration, v groups.View) (replication.Server, bool) {
	if c.Pending {
		return replication.Server{}, false
	}
	at := map[string]string{r.s.who.ID: r.s.p.set.RaftAddr.Get()}
	r.s.near.heard(func(n *neighbour) { at[n.id] = n.address })
	for _, m := range c.Servers {
		n, ok := d.Node(m.Node)
		if ok && n.Raft != m.Address && at[m.Node] == n.Raft && v.Incarnations[m.Node] == m.Incarnation {
			m.Address = n.Raft
			return m, true
		}
	}
	return replication.Server{}, false
}

// take takes a step.
func (r *reconciling) take(node *replication.Node, d groups.Directory, step groups.Step) error {
	s := r.s
	switch step.Action {
	case groups.Confirm:
		asked := s.p.clock.Elapsed()
		a, err := s.near.atHome(&question{Place: &aboutGroup{r.group}})
		if err != nil {
			return err
		}
		r.version, r.confirmed = a.Version, max(asked, 1)
		if a.Version != step.Version {
			return errNotCurrent
		}
		return nil
	case groups.Prepare:
		a, err := s.near.askNode(step.Node, &question{Prepare: &aboutGroup{r.group}})
		if err != nil {
			return err
		}
		s.near.prepared(step.Node, r.group, a.Incarnation)
		return nil
	case groups.AddLearner:
		n, ok := d.Node(step.Node)
		if !ok {
			return groups.ErrNode
		}
		return node.Alter(replication.Learn, step.Node, step.Incarnation, n.Raft, step.Index)
	case groups.MakeVoter:
		return node.Alter(replication.Vote, step.Node, step.Incarnation, "", step.Index)
	case groups.Demote:
		return node.Alter(replication.Demote, step.Node, step.Incarnation, "", step.Index)
	case groups.Remove:
		return node.Alter(replication.Expel, step.Node, step.Incarnation, "", step.Index)
	case groups.Transfer:
		return node.Transfer(step.Node)
	case groups.Report:
		_, err := s.near.atHome(&question{Arrived: &aboutPlace{r.group, step.Version}})
		return err
	}
	return nil
}

// errNotCurrent is returned for a place that is not the current one: this node's copy of the directory is old.
var errNotCurrent = errors.New("the place has changed meanwhile")

// discard deletes the replicas that are at no place, each if the node that leads the group says that this one is no member.
func (s *several) discard() {
	d := s.dir.current()
	for g := 1; g < len(d.Places); g++ {
		node := s.replicas[g].node.Load()
		if node == nil || node.Turn() != 0 || d.Places[g].Has(s.who.ID) {
			continue
		}
		if err := s.discardGroup(g, node); err != nil {
			s.p.log.Info("a replica that has left is kept for now", "group", g, "err", err)
		}
	}
}

// discardGroup is discard of one group. While the leader is asked, the group may come back here, and the replica acknowledge entries again. Then it has
// another end of its log, or other members, and stays.
func (s *several) discardGroup(g int, node *replication.Node) error {
	says := node.Says()
	own, err := node.Configuration()
	if err != nil {
		return err
	}
	for _, id := range s.near.leaders(g) {
		a, err := s.near.askNode(id, &question{Member: &aboutServer{g, peers.IncarnationOf(says.From)}})
		if err != nil || a.Member == nil || !groups.Discard(own.Index, a.Member.Decides, a.Member.Member, a.Member.Index) {
			continue
		}
		s.opening.Lock()
		defer s.opening.Unlock()
		r := s.replicas[g]
		switch now, err := node.Configuration(); {
		case err != nil:
			return err
		case s.closed:
			return errStopping
		case now.Index != own.Index || node.Says().Last != says.Last:
			return errComesBack
		}
		if err := r.shut(); err != nil {
			return err
		}
		r.states.Swap(r.newEngine()).Close()
		s.p.log.Info("this node gives up a replica of a group", "group", g)
		return s.removeGroup(g)
	}
	return nil
}

// errComesBack is returned for a replica that has got entries since its group's leader was asked whether it is a member.
var errComesBack = errors.New("it has got entries meanwhile")
