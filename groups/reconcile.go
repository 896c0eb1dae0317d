package groups

import (
	"cmp"
	"slices"
)

// View is what the leader of a group sees of the group.
type View struct {
	Self    string   // the node that leads
	Servers []Server // the newest configuration
	Index   uint64   // the index of that configuration in the log
	Pending bool     // it is not known yet to be committed
	// Confirmed is the version of the place that the leader of group 0 has last confirmed to be the current one.
	Confirmed uint64
	// Silent are the nodes that do not answer.
	Silent map[string]bool
	// Incarnations are those of the directories that nodes have for the group, by node, as they said when they last answered.
	Incarnations map[string]string
	// MayTransfer reports whether it is this group's turn to have another leader: see Turn.
	MayTransfer bool
}

// Server is a member of a group. Every directory of a replica has an incarnation of its own, so a replica that has lost its
// directory is another server, which knows nothing of what the former has promised.
type Server struct {
	Node, Incarnation string
	Voter             bool
	CaughtUp          bool // it has nearly all of the log
	Ready             bool // it has had for so long that it may be made to lead
}

// Action is what a leader is to do next for its group.
type Action int

// The actions. Each of them may be done again, and does no harm then.
const (
	// Wait is for nothing to do now.
	Wait Action = iota
	// Confirm asks the leader of group 0 whether the version of the place is the current one.
	Confirm
	// Prepare has a node make a directory for the group, if it has none, and tell the incarnation.
	Prepare
	// AddLearner makes a server with an incarnation a member without a vote.
	AddLearner
	// MakeVoter gives a learner that has caught up a vote.
	MakeVoter
	// Demote takes the vote of a server away.
	Demote
	// Remove ends the membership of a server.
	Remove
	// Transfer makes another node lead.
	Transfer
	// Report tells group 0 that the group has come to its place: see Complete.
	Report
)

// String returns the name of an action.
func (a Action) String() string {
	return [...]string{"wait", "confirm", "prepare", "add learner", "make voter", "demote", "remove", "transfer", "report"}[a]
}

// Step is an action, and what it was computed from. Who acts must give the index with a change of the configuration, so
// that the change is refused if there has been another.
type Step struct {
	Action            Action
	Node, Incarnation string
	Version           uint64 // of the place
	Index             uint64 // of the configuration
}

// Reconcile returns the next step that brings a group to its place. It remembers nothing: whoever leads after a crash finds
// the next step again by comparing the place with the configuration. learners are the nodes that are to have a replica
// without a vote, which only group 0 has: all nodes that have no vote, in a directory to which its leader has applied
// all that was committed before.
//
// The new replica is a learner until it has caught up, then it gets its vote, and only then the old one goes. Nothing
// takes a vote away unless the other voters that answer are a majority without it. A learner is no voter, and a node
// that answers with another incarnation is not the server that has the vote. A copy of the directory may be old, so
// nothing is done before the version of the place is confirmed.
func Reconcile(place Place, learners []string, v View) Step {
	r := reconciler{place: place, learners: learners, v: v}
	step := r.next()
	if step.Action != Wait && v.Confirmed != place.Version {
		step = Step{Action: Confirm}
	}
	step.Version, step.Index = place.Version, v.Index
	return step
}

type reconciler struct {
	place    Place
	learners []string
	v        View
}

func (r *reconciler) next() Step {
	if r.v.Pending {
		return Step{}
	}
	for _, s := range r.v.Servers {
		if !s.Voter && !r.belongs(s) {
			return Step{Action: Remove, Node: s.Node, Incarnation: s.Incarnation}
		}
	}
	if s, ok := r.surplus(true); ok {
		return r.expel(s)
	}
	if step, missing := r.join(); missing {
		return step
	}
	if s, ok := r.surplus(false); ok {
		return r.expel(s)
	}
	if !r.place.Settled() && r.arrived() {
		return Step{Action: Report}
	}
	if step, missing := r.learn(r.learners); missing {
		return step
	}
	return r.lead()
}

// belongs reports whether a server is to be a member, with a vote or without: it is on one of the nodes, and it is not
// what was there before.
func (r *reconciler) belongs(s Server) bool {
	now := r.v.Incarnations[s.Node]
	return (now == "" || now == s.Incarnation) && (r.place.Has(s.Node) || slices.Contains(r.learners, s.Node))
}

// live reports whether a server is there: its node answers, and with the same incarnation.
func (r *reconciler) live(s Server) bool {
	return s.Node == r.v.Self || !r.v.Silent[s.Node] && r.v.Incarnations[s.Node] == s.Incarnation
}

// spare reports whether the voters other than s that are there would be a majority without it.
func (r *reconciler) spare(s Server) bool {
	others, live := 0, 0
	for _, o := range r.v.Servers {
		if !o.Voter || o == s {
			continue
		}
		others++
		if r.live(o) {
			live++
		}
	}
	return live > others/2
}

// surplus returns the voter that is to lose its vote first, one that is not there before others. If early, it is one
// that must go before others can come: because its node is to have a replica and the old incarnation is in the way, or
// because the group has more voters than it should.
func (r *reconciler) surplus(early bool) (Server, bool) {
	var found []Server
	voters := 0
	for _, s := range r.v.Servers {
		if !s.Voter {
			continue
		}
		voters++
		if !(r.belongs(s) && r.place.Has(s.Node)) && r.spare(s) {
			found = append(found, s)
		}
	}
	if early && voters <= len(r.place.Nodes) {
		found = slices.DeleteFunc(found, func(s Server) bool { return !r.place.Has(s.Node) })
	}
	if len(found) == 0 {
		return Server{}, false
	}
	return slices.MinFunc(found, func(a, b Server) int {
		return cmp.Or(order(r.live(a), r.live(b)), order(a.Node == r.v.Self, b.Node == r.v.Self), cmp.Compare(a.Node, b.Node))
	}), true
}

// order puts false before true.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// expel takes a server's vote away. The leader first makes another node lead.
func (r *reconciler) expel(s Server) Step {
	switch {
	case s.Node == r.v.Self:
		return r.handOver()
	case r.belongs(s):
		return Step{Action: Demote, Node: s.Node, Incarnation: s.Incarnation}
	}
	return Step{Action: Remove, Node: s.Node, Incarnation: s.Incarnation}
}

// join returns the next step of a node that is to vote and does not, or may not be there any more. missing reports whether there is
// one.
func (r *reconciler) join() (step Step, missing bool) {
	for _, id := range r.place.Nodes {
		if s, ok := r.server(id); ok && s.Voter && !r.unknown(id) {
			continue
		} else if ok && !s.Voter && s.CaughtUp && r.live(s) {
			return Step{Action: MakeVoter, Node: id, Incarnation: s.Incarnation}, true
		}
		missing = true
		if next, _ := r.learn([]string{id}); next.Action != Wait {
			return next, true
		}
	}
	return Step{}, missing
}

// learn returns the next step of a node that is to be a member and is not, or may not be there any more.
func (r *reconciler) learn(nodes []string) (step Step, missing bool) {
	for _, id := range nodes {
		_, ok := r.server(id)
		if ok && !r.unknown(id) {
			continue
		}
		missing = true
		switch {
		case r.v.Silent[id]:
		case r.unknown(id):
			return Step{Action: Prepare, Node: id}, true
		case !r.old(id):
			return Step{Action: AddLearner, Node: id, Incarnation: r.v.Incarnations[id]}, true
		}
	}
	return Step{}, missing
}

// unknown reports whether a node answers and has not told that it has a directory for the group. It may have lost the
// one that it had.
func (r *reconciler) unknown(id string) bool {
	return id != r.v.Self && !r.v.Silent[id] && r.v.Incarnations[id] == ""
}

// server returns the member on a node.
func (r *reconciler) server(id string) (Server, bool) {
	i := slices.IndexFunc(r.v.Servers, func(s Server) bool { return s.Node == id && r.belongs(s) })
	if i < 0 {
		return Server{}, false
	}
	return r.v.Servers[i], true
}

// old reports whether the group still has a server with an old incarnation of a node. The new one cannot come beside it:
// both have the same address.
func (r *reconciler) old(id string) bool {
	return slices.ContainsFunc(r.v.Servers, func(s Server) bool { return s.Node == id && !r.belongs(s) })
}

// arrived reports whether the voters are those of the place, and all that have joined are there.
func (r *reconciler) arrived() bool {
	voters := 0
	for _, s := range r.v.Servers {
		if s.Voter {
			voters++
		}
		if s.Voter && slices.Contains(r.place.Joining, s.Node) && !r.live(s) {
			return false
		}
	}
	return voters == len(r.place.Nodes)
}

// lead makes the node lead that is to.
func (r *reconciler) lead() Step {
	s, ok := r.server(r.place.Leader)
	if ok && r.v.MayTransfer && s.Node != r.v.Self && s.Voter && s.Ready && r.live(s) {
		return Step{Action: Transfer, Node: s.Node, Incarnation: s.Incarnation}
	}
	return Step{}
}

// handOver makes any other node of the place lead, the one that is to lead if it can.
func (r *reconciler) handOver() Step {
	for _, id := range append([]string{r.place.Leader}, r.place.Nodes...) {
		if s, ok := r.server(id); ok && id != r.v.Self && s.Voter && s.CaughtUp && r.live(s) {
			return Step{Action: Transfer, Node: id, Incarnation: s.Incarnation}
		}
	}
	return Step{}
}

// Turn returns the group that may be given the leader that it should have, or 0 for none: one at a time in the cluster.
// leads returns the node that leads a group, or "", and ready whether a node is ready to lead it. after is the group that
// had the last turn, so that one whose leader cannot be changed does not hold up the others. A turn lasts until the leader
// has changed, or for long enough that it could have.
func Turn(d Directory, leads func(group int) string, ready func(group int, id string) bool, after int) int {
	for i := range d.Groups() {
		g := 1 + (after+i)%d.Groups()
		leader, want := leads(g), d.Places[g].Leader
		if leader != "" && want != "" && leader != want && ready(g, want) {
			return g
		}
	}
	return 0
}

// Discard reports whether a node may delete its directory for a group, after it has asked a leader of the group. newest
// is the index of the newest configuration in that directory, 0 for none. decides reports whether the leader has
// committed something in its own term, member whether its configuration has this incarnation of the node, and index
// where that configuration is.
func Discard(newest uint64, decides, member bool, index uint64) bool {
	return decides && !member && index >= newest
}
