package groups

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// A world is a cluster in memory: the nodes, what their directories hold, and the groups with their configurations, as
// Raft would keep them. Messages are late, lost, or doubled; nodes crash between any two steps; copies of the directory
// are old. What a leader sees of who answers is true or too pessimistic: to take a node for one that answers, for longer
// than a heartbeat, would be Raft's own failure.
type world struct {
	t     *testing.T
	r     *rand.Rand
	seed  uint64
	tick  int
	dir   Directory   // as committed in group 0
	past  []Directory // former ones, the newest last
	nodes map[string]*simNode
	group []*simGroup
	sent  []message
	turn  int // the group that may change its leader
	since int // when its turn began
	named int // how many nodes have had a name

	calm               bool // nothing fails any more
	moves, owed, steps int
	stale, refused     int
}

type simNode struct {
	up           bool
	back         int            // when it starts again, 0 for never
	lag          int            // how many changes its copy of the directory is behind
	incarnations map[int]string // of its directories, by group
	newest       map[int]uint64 // the newest configuration in each
}

type simServer struct {
	Server
	behind int // ticks that it still needs to catch up, if it is up
}

type simGroup struct {
	servers   []simServer
	index     uint64
	leader    string
	confirmed uint64
	confirmAt int
	changedAt int // when its place last changed
}

// A message is a step on its way.
type message struct {
	step  Step
	group int
	from  string
	at    int
	alive map[string]string // the incarnations that were there when it was sent, by node
}

func newWorld(t *testing.T, seed uint64, groups, replicas int) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 7)), seed: seed, nodes: map[string]*simNode{}}
	first := w.newNode()
	w.nodes[first.ID].incarnations = map[int]string{}
	w.apply(Begin{groups, replicas, first})
	for g := range 1 + groups {
		inc := w.incarnation()
		w.nodes[first.ID].incarnations[g] = inc
		w.group = append(w.group, &simGroup{servers: []simServer{{Server: Server{first.ID, inc, true, true, true}}}, index: 1, leader: first.ID})
	}
	return w
}

func (w *world) chance(percent int) bool { return w.r.IntN(100) < percent }

func (w *world) fails(percent int) bool { return !w.calm && w.chance(percent) }

func (w *world) incarnation() string { return strconv.FormatUint(w.r.Uint64(), 16) }

func (w *world) newNode() Node {
	w.named++
	id := fmt.Sprintf("n%03d", w.named)
	w.nodes[id] = &simNode{up: true, incarnations: map[int]string{}, newest: map[int]uint64{}}
	return Node{
		ID: id, Client: id + ":6379", Raft: id + ":7380", Zone: []string{"a", "b", "c"}[w.r.IntN(3)],
		Weight: []int{100, 100, 100, 50, 200}[w.r.IntN(5)],
	}
}

// apply makes a change of the directory, over its bytes. It reports whether it was made.
func (w *world) apply(r Record) bool {
	b, err := Append(nil, r)
	if err != nil {
		w.t.Fatalf("seed %d: %+v: %v", w.seed, r, err)
	}
	read, err := Read(b)
	if err != nil {
		w.t.Fatalf("seed %d: %+v: %v", w.seed, r, err)
	}
	next, err := w.dir.Apply(read)
	if errors.Is(err, ErrStale) {
		w.stale++
		return false
	}
	if err != nil {
		w.t.Fatalf("seed %d: %+v: %v", w.seed, r, err)
	}
	if err := next.Check(); err != nil {
		w.t.Fatalf("seed %d: after %+v: %v", w.seed, r, err)
	}
	for g := range w.group {
		if w.dir.Places[g].Version != next.Places[g].Version {
			w.group[g].changedAt = w.tick
		}
	}
	w.past = append(w.past, w.dir)
	if len(w.past) > 50 {
		w.past = slices.Delete(w.past, 0, 10)
	}
	w.dir = next
	return true
}

// copyOf returns the directory as a node has it.
func (w *world) copyOf(id string) Directory {
	lag := min(w.nodes[id].lag, len(w.past)-1)
	if lag <= 0 {
		return w.dir
	}
	return w.past[len(w.past)-lag]
}

// live reports whether a server is there in truth.
func (w *world) live(group int, s *simServer) bool {
	n := w.nodes[s.Node]
	return n.up && n.incarnations[group] == s.Incarnation
}

// majority reports whether a majority of the voters of a configuration is there.
func (w *world) majority(group int, servers []simServer) bool {
	voters, live := 0, 0
	for i := range servers {
		if servers[i].Voter {
			voters++
			if w.live(group, &servers[i]) {
				live++
			}
		}
	}
	return live > voters/2
}

// silent returns the nodes that seem not to answer.
func (w *world) silent() map[string]bool {
	silent := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
		if !w.nodes[id].up || w.fails(3) {
			silent[id] = true
		}
	}
	return silent
}

// run lets one tick pass.
func (w *world) run() {
	w.tick++
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
		n := w.nodes[id]
		if !n.up && n.back > 0 && w.tick >= n.back {
			n.up, n.back = true, 0
		}
		if n.lag = max(0, n.lag-1-w.r.IntN(8)); w.fails(10) {
			n.lag = w.r.IntN(40)
		}
	}
	for g := range w.group {
		w.elect(g)
		w.replicate(g)
	}
	w.discard()
	if w.group[0].leader != "" {
		w.place()
		w.turns()
	}
	for g := range w.group {
		w.decide(g)
	}
	due := w.sent
	w.sent = nil
	w.r.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	for _, m := range due {
		switch {
		case w.fails(10): // lost
		case m.at > w.tick:
			w.sent = append(w.sent, m)
		default:
			w.act(m)
		}
	}
}

func (w *world) elect(g int) {
	group := w.group[g]
	if !w.majority(g, group.servers) {
		group.leader = ""
		return
	}
	var can []string
	for i, s := range group.servers {
		if s.Voter && w.live(g, &group.servers[i]) {
			can = append(can, s.Node)
		}
	}
	if !slices.Contains(can, group.leader) || w.fails(1) {
		group.leader, group.confirmed = can[w.r.IntN(len(can))], 0
	}
}

func (w *world) replicate(g int) {
	group := w.group[g]
	if group.leader == "" {
		return
	}
	for i := range group.servers {
		s := &group.servers[i]
		if w.live(g, s) {
			s.behind = max(0, s.behind-1)
			w.nodes[s.Node].newest[g] = group.index
		}
		s.CaughtUp = s.behind == 0 || s.Voter
		s.Ready = s.CaughtUp
	}
}

// turns gives the turn to the next group when the one that has it has used it, or has had it for long.
func (w *world) turns() {
	if g := w.turn; w.tick-w.since > 10 || w.group[g].leader == w.dir.Places[g].Leader {
		w.turn, w.since = Turn(w.dir, func(g int) string { return w.group[g].leader }, w.ready, g), w.tick
	}
}

// ready reports whether a node can lead a group.
func (w *world) ready(g int, id string) bool {
	return slices.ContainsFunc(w.group[g].servers, func(s simServer) bool { return s.Node == id && s.Voter && s.Ready && w.live(g, &s) })
}

// discard has nodes ask whether they may delete what they have of groups that they are no member of.
func (w *world) discard() {
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
		n := w.nodes[id]
		for g, group := range w.group {
			inc, has := n.incarnations[g]
			if !has || !n.up || group.leader == "" || !w.chance(5) {
				continue
			}
			member := slices.ContainsFunc(group.servers, func(s simServer) bool { return s.Incarnation == inc })
			if Discard(n.newest[g], true, member, group.index) {
				delete(n.incarnations, g)
				delete(n.newest, g)
			}
		}
	}
}

// place has group 0 take steps.
func (w *world) place() {
	for range 1 + w.r.IntN(4) {
		if w.fails(20) {
			return
		}
		next, ok := Next(w.dir, Facts{Silent: w.silent()})
		if !ok {
			return
		}
		w.count(next)
		w.apply(next)
	}
}

// count counts the replicas that a change moves.
func (w *world) count(next SetPlace) {
	if next.Group > 0 {
		w.moves += len(without(next.Nodes, w.dir.Places[next.Group].Nodes))
	}
	w.steps++
}

// decide has the leader of a group send its next step.
func (w *world) decide(g int) {
	group := w.group[g]
	if group.leader == "" || w.fails(20) {
		return
	}
	d := w.copyOf(group.leader)
	if len(d.Places) == 0 {
		return
	}
	if g == 0 {
		d = w.dir // its leader applies all of the log before it acts
	}
	step := Reconcile(d.Places[g], w.learners(d, g), w.view(g))
	switch step.Action {
	case Wait:
		return
	case Confirm:
		if w.group[0].leader != "" && !w.fails(10) {
			group.confirmed, group.confirmAt = w.dir.Places[g].Version, w.tick
		}
		return
	}
	m := message{step, g, group.leader, w.tick, map[string]string{}}
	for id, n := range w.nodes {
		if n.up {
			m.alive[id] = n.incarnations[g]
		}
	}
	if w.fails(30) {
		m.at += w.r.IntN(3)
	}
	w.sent = append(w.sent, m)
	if w.fails(5) {
		w.sent = append(w.sent, m)
	}
}

func (w *world) learners(d Directory, g int) (ids []string) {
	if g == 0 {
		for _, n := range d.Nodes {
			if !d.Places[0].Has(n.ID) {
				ids = append(ids, n.ID)
			}
		}
	}
	return ids
}

// view is what the leader of a group sees. A confirmation counts for a short time.
func (w *world) view(g int) View {
	group := w.group[g]
	v := View{Self: group.leader, Index: group.index, Silent: w.silent(), Incarnations: map[string]string{}, MayTransfer: g == w.turn}
	for _, s := range group.servers {
		v.Servers = append(v.Servers, s.Server)
	}
	if w.tick-group.confirmAt <= 2 {
		v.Confirmed = group.confirmed
	}
	for id, n := range w.nodes {
		if inc := n.incarnations[g]; inc != "" && n.up {
			v.Incarnations[id] = inc
		}
	}
	return v
}

// act carries out a step that has arrived.
func (w *world) act(m message) {
	group, s := w.group[m.group], m.step
	place := w.dir.Places[m.group]
	if group.leader != m.from {
		return // it leads no more
	}
	if s.Version != place.Version && w.tick-group.changedAt > 5 {
		w.t.Fatalf("seed %d: group %d: %v for place %d, though %d has been there for long", w.seed, m.group, s.Action, s.Version, place.Version)
	}
	switch s.Action {
	case Prepare:
		if n := w.nodes[s.Node]; n.up && n.incarnations[m.group] == "" {
			n.incarnations[m.group], n.newest[m.group] = w.incarnation(), 0
		}
		return
	case Report:
		if w.group[0].leader != "" {
			w.apply(Complete{m.group, s.Version})
		}
		return
	case Transfer:
		i := slices.IndexFunc(group.servers, func(o simServer) bool { return o.Node == s.Node && o.Voter })
		if i >= 0 && w.live(m.group, &group.servers[i]) {
			group.leader, group.confirmed = s.Node, 0
		}
		return
	}
	if s.Index != group.index {
		w.refused++
		return
	}
	w.configure(m)
	if w.fails(5) {
		group.leader = "" // it crashes, or loses its lead
	}
}

// configure changes the configuration of a group.
func (w *world) configure(m message) {
	g, s, group := m.group, m.step, w.group[m.group]
	next := slices.Clone(group.servers)
	i := slices.IndexFunc(next, func(o simServer) bool { return o.Node == s.Node && o.Incarnation == s.Incarnation })
	lost := false // a voter that is there loses its vote
	switch s.Action {
	case AddLearner:
		if slices.ContainsFunc(next, func(o simServer) bool { return o.Node == s.Node }) {
			w.t.Fatalf("seed %d: group %d: a second server on node %s: %+v", w.seed, g, s.Node, next)
		}
		next = append(next, simServer{Server: Server{Node: s.Node, Incarnation: s.Incarnation}, behind: w.r.IntN(6)})
	case MakeVoter:
		if next[i].behind > 0 {
			w.t.Fatalf("seed %d: group %d: node %s gets a vote before it has the log", w.seed, g, s.Node)
		}
		next[i].Voter = true
	case Demote:
		lost = w.live(g, &next[i])
		next[i].Voter = false
	case Remove:
		lost = next[i].Voter && w.live(g, &next[i])
		next = slices.Delete(next, i, i+1)
	}
	if !w.majority(g, next) {
		for i, o := range next {
			if m.alive[o.Node] == o.Incarnation && !w.live(g, &next[i]) {
				return // it has crashed, or lost its disk, since: Raft does not commit the change
			}
		}
		w.t.Fatalf("seed %d, tick %d: group %d has no majority after %v of %s: %+v", w.seed, w.tick, g, s.Action, s.Node, next)
	}
	voters := 0
	for _, o := range next {
		if o.Voter {
			voters++
		}
	}
	if place := w.dir.Places[g]; lost && place.Version == s.Version && voters < len(place.Nodes) {
		w.t.Fatalf("seed %d, tick %d: group %d has %d voters after %v of %s, and should have %d", w.seed, w.tick, g, voters, s.Action, s.Node, len(place.Nodes))
	}
	group.servers = next
	group.index++
}
