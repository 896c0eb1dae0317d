package groups

import (
	"cmp"
	"slices"
)

// DefaultMoves is how many replicas of a node move at once, if Facts.Moves is 0.
const DefaultMoves = 2

// Facts are what the node that leads group 0 knows beside the directory.
type Facts struct {
	// Silent are the nodes that do not answer. They keep what they have, until they are removed or drained, and get
	// nothing.
	Silent map[string]bool
	// Moves is how many replicas of a node may move at once.
	Moves int
}

// Next returns the next change of a place, or false if there is none to make now. It is computed from the directory and
// the facts alone, and each change comes nearer to an end: a place for every group that has
//
//   - as many replicas as it should have, on nodes that stay, as few of them in one zone as possible,
//   - and all of them as evenly on the nodes as their weights and zones allow, with as few moves as possible,
//   - and likewise its leader.
//
// One replica of a group moves at a time. While one does, a group gets another place only if the new node leaves as well.
func Next(d Directory, f Facts) (SetPlace, bool) {
	if d.Groups() == 0 {
		return SetPlace{}, false
	}
	p := newPlacement(d, f)
	if next, ok := p.vote(); ok {
		return next, true
	}
	if next, ok := p.lead(true); ok {
		return next, true
	}
	next, ok, placed := p.replica()
	if ok || !placed {
		return next, ok
	}
	return p.lead(false)
}

// Plan returns all changes that Next would make if every group came to each of its places at once, in their order.
func Plan(d Directory, f Facts) (plan []SetPlace) {
	for {
		next, ok := Next(d, f)
		if !ok {
			return plan
		}
		for _, r := range []Record{next, Complete{next.Group, next.Version}} {
			changed, err := d.Apply(r)
			if err != nil {
				return plan // which does not happen: Next makes only changes that can be made
			}
			d = changed
		}
		plan = append(plan, next)
	}
}

// A placement is a directory as Next looks at it.
type placement struct {
	d      Directory
	f      Facts
	stay   []Node         // nodes that do not drain
	able   []Node         // those that also answer: they may get something
	zones  map[string]int // a number for each zone
	moving map[string]int // how many replicas of a node move
}

func newPlacement(d Directory, f Facts) *placement {
	p := &placement{d: d, f: f, zones: map[string]int{}, moving: map[string]int{}}
	if p.f.Moves <= 0 {
		p.f.Moves = DefaultMoves
	}
	for _, n := range d.Nodes {
		if _, ok := p.zones[n.Zone]; !ok {
			p.zones[n.Zone] = len(p.zones)
		}
		if n.Draining {
			continue
		}
		if p.stay = append(p.stay, n); !f.Silent[n.ID] {
			p.able = append(p.able, n)
		}
	}
	for _, at := range d.Places[1:] {
		for _, id := range at.Joining {
			p.moving[id]++
		}
		for _, id := range at.Leaving {
			p.moving[id]++
		}
	}
	return p
}

// state says what is to become of a replica on a node, the most urgent first.
type state int

const (
	gone   state = iota // the node has been removed
	leaves              // the node drains
	silent              // it keeps its place
	answers
)

func (p *placement) state(id string) state {
	n, ok := p.d.Node(id)
	switch {
	case !ok:
		return gone
	case n.Draining:
		return leaves
	case p.f.Silent[id]:
		return silent
	}
	return answers
}

// A demand is what a group needs of a spread.
type demand struct {
	now  []string             // where it has replicas
	want int                  // how many it is to have
	kept []string             // those of them that stay where they are, on nodes that are not in the spread
	may  func(id string) bool // where it may have any; nil is everywhere
}

// spread returns the spread of groups over nodes, each of which counts as its weight, or all the same.
func (p *placement) spread(on []Node, same bool, demands []demand) *spread {
	s := newSpread(len(on), len(demands), len(p.zones))
	for i, n := range on {
		if s.weight[i], s.zone[i] = int64(n.Weight), p.zones[n.Zone]; same {
			s.weight[i] = 1
		}
	}
	for g, needs := range demands {
		cost := s.cost[g*s.nodes : (g+1)*s.nodes]
		for i, n := range on {
			switch {
			case needs.may != nil && !needs.may(n.ID):
				cost[i] = barred
			case !slices.Contains(needs.now, n.ID):
				cost[i] = 1
			}
		}
		has := make([]int, len(p.zones))
		for _, id := range needs.kept {
			n, _ := p.d.Node(id)
			has[p.zones[n.Zone]]++
		}
		s.fit(g, max(0, needs.want-len(needs.kept)), has)
	}
	s.solve()
	return s
}

// of returns the nodes that a spread over nodes gives to a group.
func (s *spread) of(g int, on []Node) (ids []string) {
	for i, n := range on {
		if s.has(g, i) {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// vote returns the next change of the voters of group 0. A node that drains keeps its vote until it has nothing else.
func (p *placement) vote() (SetPlace, bool) {
	place := p.d.Places[0]
	var kept []string
	seats := len(p.stay)
	for _, id := range place.Nodes {
		switch p.state(id) {
		case silent:
			kept = append(kept, id)
		case leaves:
			if p.busy(id) {
				kept = append(kept, id)
				seats++
			}
		}
	}
	seats = min(seats, MaxReplicas)
	// With their weights, each node of a larger one would take a vote from another.
	s := p.spread(p.able, true, []demand{{now: place.Nodes, want: seats, kept: kept}})
	c, _ := p.change(0, slices.Concat(s.of(0, p.able), kept), seats)
	return SetPlace{0, place.Version + 1, c.nodes, ""}, c.nodes != nil
}

// busy reports whether a node has, or may have, a replica of a group with keys.
func (p *placement) busy(id string) bool {
	return slices.ContainsFunc(p.d.Places[1:], func(at Place) bool { return at.Has(id) || slices.Contains(at.Leaving, id) })
}

// lead returns the next change of who is to lead, of a group that has come to its place. If urgent, it is of a group
// whose leader does not stay.
func (p *placement) lead(urgent bool) (SetPlace, bool) {
	var leaders *spread
	for g, place := range p.d.Places[1:] {
		stays := place.Leader != "" && p.state(place.Leader) >= silent
		if !place.Settled() || urgent && stays {
			continue
		}
		if leaders == nil {
			leaders = p.leaders(p.d.Places[1:])
		}
		if to := leaders.of(g, p.able); len(to) == 1 && to[0] != place.Leader {
			return SetPlace{g + 1, place.Version + 1, place.Nodes, to[0]}, true
		}
	}
	return SetPlace{}, false
}

// leaders returns the spread of the leaders of groups at some places. A silent node remains the one to lead: another leads
// meanwhile.
func (p *placement) leaders(places []Place) *spread {
	demands := make([]demand, len(places))
	for g, place := range places {
		demands[g] = demand{
			now: []string{place.Leader}, want: 1,
			may: func(id string) bool { return place.Has(id) && !slices.Contains(place.Joining, id) },
		}
		if place.Leader != "" && p.state(place.Leader) == silent {
			demands[g].want = 0
		}
	}
	return p.spread(p.able, false, demands)
}

// replica returns the next change of the replicas of a group with keys. placed reports whether all groups have the places that they
// should have, or are on the way to them, but for those that wait for a silent node.
//
// It leads to where replicas would be if all nodes answered, so that a node that is silent for a while costs no moves. Only where a
// replica is missing, or has to leave, and the node that should get it is silent, another one does.
func (p *placement) replica() (next SetPlace, ok, placed bool) {
	var best change
	places := p.d.Places[1:]
	want := min(p.d.Replicas, len(p.stay))
	demands := make([]demand, len(places))
	for g, place := range places {
		demands[g] = demand{now: p.keep(place, want), want: want}
	}
	s := p.spread(p.stay, false, demands)
	placed = true
	waits := make([]bool, len(places))
	for g := range places {
		c, blocked := p.change(g+1, s.of(g, p.stay), want)
		best.take(c)
		waits[g] = blocked == bySilence
		placed = placed && (blocked == nothing && c.nodes == nil || waits[g])
	}
	if best.nodes == nil && slices.Contains(waits, true) {
		for g, place := range places {
			demands[g].kept = p.kept(place, want)
		}
		s := p.spread(p.able, false, demands)
		for g := range places {
			if waits[g] {
				if c, _ := p.change(g+1, slices.Concat(s.of(g, p.able), demands[g].kept), want); c.urgency <= leaves {
					best.take(c)
				}
			}
		}
	}
	if best.nodes == nil {
		return SetPlace{}, false, placed
	}
	old := places[best.group-1]
	next = SetPlace{best.group, old.Version + 1, best.nodes, old.Leader}
	if !slices.Contains(best.nodes, old.Leader) {
		after := slices.Clone(places)
		after[best.group-1] = Place{Nodes: best.nodes, Joining: append(slices.Clone(old.Joining), best.in)}
		next.Leader = best.in // if no other can
		if to := p.leaders(after).of(best.group-1, p.able); len(to) == 1 {
			next.Leader = to[0]
		}
	}
	return next, true, false
}

// keep returns the nodes that a group has and may keep. If it is to have fewer, silent ones go first.
func (p *placement) keep(place Place, want int) []string {
	return slices.DeleteFunc(slices.Clone(place.Nodes), func(id string) bool {
		return p.state(id) == silent && !slices.Contains(p.kept(place, want), id)
	})
}

// kept returns the silent nodes that a group keeps: all of them, unless it has more nodes than it wants.
func (p *placement) kept(place Place, want int) (ids []string) {
	for _, id := range place.Nodes {
		switch p.state(id) {
		case silent:
			ids = append(ids, id)
		case answers:
			want--
		}
	}
	return ids[:min(len(ids), max(0, want))]
}

// A change of a place takes out one node, puts in one, or both.
type change struct {
	group   int
	nodes   []string // the place, or nil for no change
	out, in string
	urgency state
	crowd   int // how many replicas are then in the zone of the new node
	load    int // how many replicas the new node has, or is to have
}

// take makes c another change, if that one comes first.
func (c *change) take(b change) {
	if b.nodes != nil && (c.nodes == nil || b.compare(*c) < 0) {
		*c = b
	}
}

func (c change) compare(b change) int {
	return cmp.Or(cmp.Compare(c.urgency, b.urgency), cmp.Compare(c.crowd, b.crowd), cmp.Compare(c.load, b.load),
		cmp.Compare(c.group, b.group), cmp.Compare(c.out, b.out), cmp.Compare(c.in, b.in))
}

// A block is why a change cannot be made now.
type block int

const (
	nothing   block = iota
	bySilence       // it waits for a silent node
	byMoves         // it waits for what moves
	byLaw           // it must not be
)

// change returns the best first change of a group's place towards other nodes; want is how many it is to have. If there is none, it
// returns what is in the way, or nothing if the group is there already, or cannot move without a majority.
func (p *placement) change(group int, to []string, want int) (best change, by block) {
	place := p.d.Places[group]
	out, in := without(place.Nodes, to), without(to, place.Nodes)
	if len(out)+len(in) == 0 || !p.movable(place) {
		return change{}, nothing
	}
	if place.Settled() && len(place.Nodes) < len(to) || len(out) == 0 {
		out = []string{""}
	}
	if place.Settled() && len(place.Nodes) > len(to) || len(in) == 0 {
		in = []string{""}
	}
	by = byLaw
	for _, a := range out {
		for _, b := range in {
			c := p.swap(group, a, b)
			why := p.blocks(c, want)
			if by = min(by, why); why == nothing {
				best.take(c)
			}
		}
	}
	return best, by
}

// movable reports whether so many nodes of a place answer that its group can change its members.
func (p *placement) movable(place Place) bool {
	there, answer := 0, 0
	for _, id := range slices.Concat(without(place.Nodes, place.Joining), place.Leaving) {
		if p.state(id) == gone {
			continue // it may never have had a vote
		}
		there++
		if !p.f.Silent[id] {
			answer++
		}
	}
	return answer > there/2
}

// swap returns the change of a place that takes out one node, if any, and puts in another, if any.
func (p *placement) swap(group int, out, in string) change {
	place := p.d.Places[group]
	c := change{group: group, out: out, in: in, nodes: without(place.Nodes, []string{out})}
	c.urgency = p.state(out) // gone as well where one is missing
	if in == "" {
		return c
	}
	c.nodes = append(c.nodes, in)
	slices.Sort(c.nodes)
	to, _ := p.d.Node(in)
	for _, id := range c.nodes {
		if n, ok := p.d.Node(id); ok && n.Zone == to.Zone {
			c.crowd++
		}
	}
	for _, at := range p.d.Places[1:] {
		if at.Has(in) {
			c.load++
		}
	}
	return c
}

// blocks returns why a change cannot be made now, in a group that is to have so many replicas.
func (p *placement) blocks(c change, want int) block {
	place := p.d.Places[c.group]
	switch {
	case len(c.nodes) == 0 || c.in == "" && len(c.nodes) < want:
		return byLaw // it must not have less than it could have soon
	case !place.Settled() && !(slices.Contains(place.Joining, c.out) && p.state(c.out) <= leaves):
		return byMoves
	case p.state(c.in) == silent || c.in != "" && p.state(c.out) == silent || !p.stands(c):
		return bySilence
	case !place.Settled() || c.group == 0:
		return nothing
	case p.moving[c.in] >= p.f.Moves || p.state(c.out) != gone && p.moving[c.out] >= p.f.Moves:
		return byMoves
	}
	return nothing
}

// stands reports whether a group has a majority that answers after a change, if that takes out a node that does.
func (p *placement) stands(c change) bool {
	if p.state(c.out) == gone || p.f.Silent[c.out] {
		return true
	}
	answer := 0
	for _, id := range c.nodes {
		if p.state(id) != gone && !p.f.Silent[id] {
			answer++
		}
	}
	return answer > len(c.nodes)/2
}

// without returns the members of a list that are not in another one.
func without(ids, others []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(others, id) })
}
