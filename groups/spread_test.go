package groups

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A problem is what a spread solves, as plain data, for an oracle that shares no code with it.
type problem struct {
	weight, zone []int
	zones        int
	need         []int
	room         [][]int  // by group and zone
	now, barred  [][]bool // by group and node
}

// unit is a common multiple of the weights of the tests.
const unit = 1200

// large weighs more than all moves.
const large = 100_000

// An edge of a flow.
type edge struct {
	to, back, left int
	cost           int64
}

type flow struct{ edges [][]edge }

func (f *flow) add(from, to, room int, cost int64) {
	f.edges[from] = append(f.edges[from], edge{to, len(f.edges[to]), room, cost})
	f.edges[to] = append(f.edges[to], edge{from, len(f.edges[from]) - 1, 0, -cost})
}

// least returns the flow and the cost of the cheapest largest flow, by Bellman and Ford's way for one unit after the other.
func (f *flow) least(source, sink int) (total int, cost int64) {
	const never = int64(1) << 60
	for {
		far := make([]int64, len(f.edges))
		via := make([][2]int, len(f.edges))
		for v := range far {
			far[v] = never
		}
		far[source] = 0
		for changed := true; changed; {
			changed = false
			for v := range f.edges {
				if far[v] == never {
					continue
				}
				for i, e := range f.edges[v] {
					if e.left > 0 && far[v]+e.cost < far[e.to] {
						far[e.to], via[e.to], changed = far[v]+e.cost, [2]int{v, i}, true
					}
				}
			}
		}
		if far[sink] == never {
			return total, cost
		}
		for v := sink; v != source; v = via[v][0] {
			e := &f.edges[via[v][0]][via[v][1]]
			e.left--
			f.edges[v][e.back].left++
		}
		total, cost = total+1, cost+far[sink]
	}
}

// best returns the least sum of load²/weight, times unit, and the fewest moves with it.
func (p *problem) best() (uneven, moves int64) {
	groups, nodes := len(p.need), len(p.weight)
	source, sink := 0, 1
	group := func(g int) int { return 2 + g }
	zone := func(g, z int) int { return 2 + groups + g*p.zones + z }
	node := func(n int) int { return 2 + groups + groups*p.zones + n }
	f := flow{make([][]edge, node(nodes))}
	for g := range groups {
		f.add(source, group(g), p.need[g], 0)
		for z := range p.zones {
			f.add(group(g), zone(g, z), p.room[g][z], 0)
		}
		for n := range nodes {
			switch {
			case p.barred[g][n]:
			case p.now[g][n]:
				f.add(zone(g, p.zone[n]), node(n), 1, 0)
			default:
				f.add(zone(g, p.zone[n]), node(n), 1, 1)
			}
		}
	}
	for n := range nodes {
		for k := range groups {
			f.add(node(n), sink, 1, int64(2*k+1)*unit/int64(p.weight[n])*large)
		}
	}
	_, cost := f.least(source, sink)
	return cost / large, cost % large
}

func (p *problem) spread() *spread {
	s := newSpread(len(p.weight), len(p.need), p.zones)
	copy(s.need, p.need)
	copy(s.zone, p.zone)
	for n, w := range p.weight {
		s.weight[n] = int64(w)
	}
	for g := range p.need {
		copy(s.room[g*p.zones:], p.room[g])
		for n := range p.weight {
			switch {
			case p.barred[g][n]:
				s.cost[g*s.nodes+n] = barred
			case !p.now[g][n]:
				s.cost[g*s.nodes+n] = 1
			}
		}
	}
	return s
}

// measure returns what best does, of a spread that has been solved.
func (s *spread) measure() (uneven, moves int64) {
	for n, load := range s.load {
		for k := range load {
			uneven += (2*k + 1) * unit / s.weight[n]
		}
	}
	for i, at := range s.at {
		if at {
			moves += int64(s.cost[i])
		}
	}
	return uneven, moves
}

func drawProblem(t *rapid.T) *problem {
	nodes, groups := rapid.IntRange(1, 9).Draw(t, "nodes"), rapid.IntRange(1, 8).Draw(t, "groups")
	p := &problem{zones: rapid.IntRange(1, 4).Draw(t, "zones")}
	for range nodes {
		p.weight = append(p.weight, rapid.SampledFrom([]int{100, 100, 100, 50, 150, 200, 400}).Draw(t, "weight"))
		p.zone = append(p.zone, rapid.IntRange(0, p.zones-1).Draw(t, "zone"))
	}
	for range groups {
		now, barred := make([]bool, nodes), make([]bool, nodes)
		for n := range nodes {
			now[n] = rapid.IntRange(0, 3).Draw(t, "now") == 0
			barred[n] = rapid.IntRange(0, 5).Draw(t, "barred") == 0
		}
		p.now, p.barred = append(p.now, now), append(p.barred, barred)
		p.need, p.room = append(p.need, rapid.IntRange(0, 5).Draw(t, "need")), append(p.room, make([]int, p.zones))
	}
	s := p.spread()
	for g := range groups {
		has := make([]int, p.zones)
		if rapid.IntRange(0, 3).Draw(t, "beside") == 0 {
			has[rapid.IntRange(0, p.zones-1).Draw(t, "in")] = 1
		}
		s.fit(g, p.need[g], has)
		p.need[g] = s.need[g]
		copy(p.room[g], s.room[g*p.zones:(g+1)*p.zones])
	}
	return p
}

// A spread is as even as one can be, and costs no more moves than one must.
func TestSpreadIsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		s := p.spread()
		s.solve()
		for g, need := range p.need {
			at := s.at[g*s.nodes : (g+1)*s.nodes]
			in := make([]int, p.zones)
			for n, b := range at {
				if b {
					in[p.zone[n]]++
				}
				if b && p.barred[g][n] {
					t.Fatalf("group %d is where it must not be", g)
				}
			}
			for z := range in {
				if in[z] > p.room[g][z] {
					t.Fatalf("group %d: %d in zone %d, which has room for %d", g, in[z], z, p.room[g][z])
				}
			}
			if count(at) != need {
				t.Fatalf("group %d has %d, not %d", g, count(at), need)
			}
		}
		uneven, moves := s.measure()
		if u, m := p.best(); uneven != u || moves != m {
			t.Fatalf("uneven by %d with %d moves; it could be %d with %d: %+v", uneven, moves, u, m, p)
		}
	})
}

// Three groups, of which one could only move, unless the two others make room for it.
func TestSpreadSavesAMove(t *testing.T) {
	p := &problem{zones: 1, zone: make([]int, 8), weight: slices.Repeat([]int{100}, 8), need: []int{2, 1, 3}, room: [][]int{{2}, {1}, {3}}}
	for _, nodes := range []struct{ now, barred string }{{"yyyyyyyy", "yyynyyny"}, {"yyyyyyyn", "yyynyyyn"}, {"yyyyyyyy", "yyyynnnn"}} {
		var now, barred []bool
		for n := range nodes.now {
			now, barred = append(now, nodes.now[n] == 'y'), append(barred, nodes.barred[n] == 'y')
		}
		p.now, p.barred = append(p.now, now), append(p.barred, barred)
	}
	s := p.spread()
	s.solve()
	uneven, moves := s.measure()
	if u, m := p.best(); uneven != u || moves != m || moves != 0 {
		t.Errorf("uneven by %d with %d moves; it could be %d with %d", uneven, moves, u, m)
	}
}

// large clusters, some nearly even and some not at all.
func TestSpreadOfMany(t *testing.T) {
	for _, c := range []struct{ nodes, groups, zones, old int }{
		{100, 64, 5, 100}, {100, 64, 5, 3}, {100, 64, 100, 50}, {100, 64, 1, 97}, {60, 64, 3, 40}, {7, 64, 3, 6}, {256, 64, 7, 200},
	} {
		p := &problem{zones: c.zones}
		for n := range c.nodes {
			p.weight = append(p.weight, []int{100, 100, 200, 50}[n*n%7%4])
			p.zone = append(p.zone, n*n%c.zones)
		}
		for g := range c.groups {
			now := make([]bool, c.nodes)
			for k := range 3 {
				now[(g*g*7+k*k*13+k)%c.old] = true
			}
			p.now, p.barred = append(p.now, now), append(p.barred, make([]bool, c.nodes))
			p.need, p.room = append(p.need, 3), append(p.room, slices.Repeat([]int{0}, c.zones))
		}
		s := p.spread()
		for g := range c.groups {
			s.fit(g, 3, make([]int, c.zones))
			copy(p.room[g], s.room[g*c.zones:])
		}
		s.solve()
		uneven, moves := s.measure()
		if u, m := p.best(); uneven != u || moves != m {
			t.Errorf("%+v: uneven by %d with %d moves; it could be %d with %d", c, uneven, moves, u, m)
		}
		t.Logf("%+v: %d moves", c, moves)
	}
}

func BenchmarkSpread(b *testing.B) {
	for range b.N {
		s := newSpread(100, 64, 5)
		for n := range s.weight {
			s.weight[n], s.zone[n] = 100, n%5
		}
		for i := range s.cost {
			s.cost[i] = 1
		}
		for g := range s.groups {
			for k := range 3 {
				s.cost[g*s.nodes+k] = 0
			}
			s.fit(g, 3, make([]int, 5))
		}
		s.solve()
	}
}
