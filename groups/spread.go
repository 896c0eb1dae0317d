package groups

import "cmp"

// A spread divides the replicas of groups among nodes. Of all ways to give each group what it needs, with no more of it in
// a zone than there is room for, it takes one with the most even loads; among those, one that costs the fewest moves.
//
// Loads are even if the sum of load²/weight over all nodes is as small as it can be. One more replica at a node adds
// (2·load+1)/weight to it, its gain; one fewer takes (2·load−1)/weight away, its loss. So the loads are those of
// Webster's method wherever zones allow it.
//
// It is a flow of the least cost: from each group over its zones to nodes. From where the replicas are now, three
// kinds of changes lead to it, each along a way in which every node between the ends gives one replica and gets
// another: a group that lacks one gets it; a node with a large loss gives to one with a smaller gain; and where loss and gain are
// the same, or a way comes back to its beginning, a change saves moves. When there is no such change, there is no better
// spread, as for every flow with convex costs.
type spread struct {
	nodes, groups, zones int
	weight               []int64 // by node
	zone                 []int   // by node
	need                 []int   // by group
	room                 []int   // by group and zone: how many replicas may be there
	cost                 []int8  // by group and node: 0 where a replica is now, 1 elsewhere, barred if none may be there

	at   []bool  // by group and node: the result
	used []int   // by group and zone
	load []int64 // by node

	ways ways
}

// barred is the cost of what must not be.
const barred = -1

func newSpread(nodes, groups, zones int) *spread {
	return &spread{
		nodes: nodes, groups: groups, zones: zones,
		weight: make([]int64, nodes), zone: make([]int, nodes), need: make([]int, groups),
		room: make([]int, groups*zones), cost: make([]int8, groups*nodes),
		at: make([]bool, groups*nodes), used: make([]int, groups*zones), load: make([]int64, nodes),
	}
}

// solve computes the spread. What a group needs must be possible: see fit.
func (s *spread) solve() {
	s.ways.init(s)
	for g := range s.groups {
		s.keep(g)
	}
	for g := range s.groups {
		for count(s.at[g*s.nodes:(g+1)*s.nodes]) < s.need[g] {
			s.ways.from(s, s.group(g))
			to := s.cheapest(nil)
			if to < 0 {
				break // there is no room, which fit would have told
			}
			s.ways.take(s, to)
		}
	}
	s.level()
	for s.ways.cycle(s) {
	}
}

// keep leaves the replicas of a group where they are, as far as they may stay.
func (s *spread) keep(g int) {
	kept := 0
	for n := range s.nodes {
		z := g*s.zones + s.zone[n]
		if s.cost[g*s.nodes+n] == 0 && kept < s.need[g] && s.used[z] < s.room[z] {
			s.at[g*s.nodes+n] = true
			s.used[z]++
			s.load[n]++
			kept++
		}
	}
}

// level lets nodes give to others as long as that makes loads more even, the one with the largest loss first. One that cannot give
// never can later: what it leads to gains no less than it loses, so no other node, with no larger loss, gives to that either.
func (s *spread) level() {
	stuck := make([]bool, s.nodes)
	for {
		most := -1
		for n := range s.nodes {
			if !stuck[n] && s.load[n] > 0 && (most < 0 || s.loss(n).compare(s.loss(most)) > 0) {
				most = n
			}
		}
		if most < 0 || !s.worse(most) {
			return // nor is it for those with a smaller loss
		}
		s.ways.from(s, most)
		if to := s.cheapest(&most); to >= 0 {
			s.ways.take(s, to)
		} else {
			stuck[most] = true
		}
	}
}

// worse reports whether some node would gain less than node n loses.
func (s *spread) worse(n int) bool {
	loss := s.loss(n)
	for m := range s.nodes {
		if s.gain(m).compare(loss) < 0 {
			return true
		}
	}
	return false
}

// cheapest returns the node that gains the least among those that the ways lead to, or −1. If from is not nil, it must
// gain less than that one loses.
func (s *spread) cheapest(from *int) int {
	best := -1
	for n := range s.nodes {
		if s.ways.far[n] == unreached || from != nil && s.gain(n).compare(s.loss(*from)) >= 0 {
			continue
		}
		if best < 0 || cmp.Or(s.gain(n).compare(s.gain(best)), cmp.Compare(s.ways.far[n], s.ways.far[best])) < 0 {
			best = n
		}
	}
	return best
}

// A ratio is a fraction whose parts are not negative, but for the loss of a node without load.
type ratio struct{ num, den int64 }

func (a ratio) compare(b ratio) int { return cmp.Compare(a.num*b.den, b.num*a.den) }

func (s *spread) gain(n int) ratio { return ratio{2*s.load[n] + 1, s.weight[n]} }
func (s *spread) loss(n int) ratio { return ratio{2*s.load[n] - 1, s.weight[n]} }

// fit sets what a group needs, and the room that it has in each zone: the least that lets it have so many replicas, or
// as many as there are nodes. has is how many it has in each zone beside the nodes of the spread.
func (s *spread) fit(g, need int, has []int) {
	free := make([]int, s.zones)
	total := 0
	for n := range s.nodes {
		if s.cost[g*s.nodes+n] != barred {
			free[s.zone[n]]++
			total++
		}
	}
	s.need[g] = min(need, total)
	room := s.room[g*s.zones : (g+1)*s.zones]
	for most := 0; ; most++ {
		fits := 0
		for z := range room {
			room[z] = min(max(0, most-has[z]), free[z])
			fits += room[z]
		}
		if fits >= s.need[g] {
			return
		}
	}
}

func count(set []bool) (n int) {
	for _, b := range set {
		if b {
			n++
		}
	}
	return n
}
