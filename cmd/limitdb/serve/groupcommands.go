package serve

import (
	"cmp"
	"slices"

	"limitdb/groups"
	"limitdb/server/cluster"
)

// forCommands returns what the commands about groups ask.
func (s *directory) forServer() *cluster.Directory {
	return &cluster.Directory{
		Count: s.count, Groups: s.listGroups, Nodes: s.listNodes, Plan: s.plan,
		Transfer:    func(group int, id string) error { return raftError(s.transfer(group, id)) },
		Replicas:    func() int { return s.current().Replicas },
		SetReplicas: func(n int) error { return raftError(s.change(groups.SetReplicas{Replicas: n})) },
		Drain:       func(id string, on bool) error { return raftError(s.drain(id, on)) },
	}
}

// said is what a node says about a group.
type said struct {
	node string
	groupState
}

// listGroups returns the groups as RAFT GROUPS shows them.
func (s *directory) listGroups() (all []cluster.Group) {
	d, everything := s.current(), s.near.nodesSay()
	for g := 1; g < len(d.Places); g++ {
		place := d.Places[g]
		first, last := groups.Slots(g, s.count)
		of := cluster.Group{Number: g, First: first, Last: last, Wanted: place.Leader, Nodes: place.Nodes, Settled: place.Settled()}
		var end uint64
		var voters []string
		for _, one := range everything {
			if one.Group == g && one.Leads && one.Term >= of.Term {
				of.Leader, of.Term, end, voters = one.node, one.Term, one.Last, one.Voters
				of.Keys, of.Bytes, of.Decisions, of.Rate = one.Keys, one.Bytes, one.Decisions, one.Rate
			}
		}
		for _, one := range everything {
			if one.Group == g {
				of.Replicas = append(of.Replicas, cluster.Replica{Node: one.node, Voter: slices.Contains(voters, one.node), Lag: end - min(end, one.Last)})
			}
		}
		slices.SortFunc(of.Replicas, func(a, b cluster.Replica) int { return cmp.Compare(a.Node, b.Node) })
		all = append(all, of)
	}
	return all
}

// listNodes returns the nodes as RAFT NODES shows them.
func (s *directory) listNodes() (all []cluster.Node) {
	everything, silent := s.near.nodesSay(), s.near.silent()
	for _, n := range s.current().Nodes {
		of := cluster.Node{ID: n.ID, Client: n.Client, Address: n.Raft, Zone: n.Zone, Weight: n.Weight, Draining: n.Draining, Answers: !silent[n.ID]}
		for _, one := range everything {
			if one.node == n.ID && one.Group > 0 {
				of.Replicas++
				if one.Leads {
					of.Leads++
				}
			}
		}
		all = append(all, of)
	}
	return all
}
