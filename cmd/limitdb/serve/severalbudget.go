package serve

import (
	"math/bits"

	"limitdb/engine"
)

// With several groups, maxmemory bounds the keys of all groups of which a node has a replica. Each has a share by its bytes, and keeps to the
// smallest share that it has on a node where it votes.

// spare is how many bytes a group counts for beside its own, so that one without keys has room for some.
const spare = 1 << 20

// shares divides a budget among groups that hold so many bytes.
func shares(most int64, bytes []int64) []int64 {
	all := uint64(0)
	for _, n := range bytes {
		all += uint64(n + spare)
	}
	out := make([]int64, len(bytes))
	for i, n := range bytes {
		if most > 0 {
			high, low := bits.Mul64(uint64(most), uint64(n+spare))
			part, _ := bits.Div64(high, low, all) // it is at most most, since n is in all
			out[i] = max(int64(part), 1)
		}
	}
	return out
}

// watchBudget divides maxmemory anew, and warns when the node holds more.
func (s *several) watchBudget() {
	own := s.p.set.MaxMemory.Get()
	var held []int
	var bytes []int64
	all := int64(0)
	for g, r := range s.replicas {
		if g > 0 && r.node.Load() != nil {
			n := r.states.Load().Stats().Bytes
			held, bytes, all = append(held, g), append(bytes, n), all+n
		}
	}
	room := make([]int64, len(s.replicas))
	for i, n := range shares(own, bytes) {
		room[held[i]] = n
		s.replicas[held[i]].smallest.Store(s.smallest(held[i]))
	}
	s.room.Store(&room)
	s.setBudgets()
	if r, over := s.home(), own > 0 && all > own; r.over.Swap(over) != over && over {
		s.p.log.Warn("this node holds more than its maxmemory, because it holds all keys of its groups", "maxmemory", own)
	}
}

// setBudgets gives the engines that decide their budgets. Those that follow have none: see budget.go.
func (s *several) setBudgets() {
	policy := policyOf(s.p.set)
	for g, r := range s.replicas {
		most := s.budget(g)
		if most == 0 {
			r.states.Load().SetMaxMemory(0, engine.NoEviction)
			continue
		}
		r.states.Load().SetMaxMemory(most, policy)
	}
}

// budget returns how many bytes the table of a group may have, 0 for any.
func (s *several) budget(group int) (most int64) {
	r, room := s.replicas[group], s.room.Load()
	if group == 0 || !r.leads.Load() || room == nil {
		return 0
	}
	most = (*room)[group]
	if of := r.smallest.Load(); of > 0 && (most == 0 || of < most) {
		most = of
	}
	return most
}

// smallest returns the smallest budget that a group has on the other nodes that vote in it, 0 for none.
func (s *several) smallest(group int) int64 {
	voters := map[string]bool{}
	if node := s.replicas[group].node.Load(); node != nil {
		c, _ := node.Configuration() // none while the node stops
		for _, m := range c.Servers {
			voters[m.Node] = m.Voter
		}
	}
	return s.near.leastBudget(group, voters)
}

// leastBudget returns the smallest budget of a group that voters have said, 0 for none.
func (s *neighbours) leastBudget(group int, voters map[string]bool) (least int64) {
	s.heard(func(n *neighbour) {
		for _, g := range n.said.Groups {
			if g.Group == group && g.Budget > 0 && voters[n.id] && (least == 0 || g.Budget < least) {
				least = g.Budget
			}
		}
	})
	return least
}
