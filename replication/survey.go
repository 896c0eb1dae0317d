package replication

import (
	"sync/atomic"
	"time"

	"limitdb/replication/peers"
)

// askEvery is how often a node asks its peers whether they answer, and where clients reach them.
const askEvery = time.Second

// survey asks the other members what they are, and compares that with this node.
type survey struct {
	cluster  *Cluster
	settings *settings
	// goal is the last entry that the others had when this node first asked one of them, or 0 before that. A node that has
	// applied it has caught up.
	goal atomic.Uint64
}

// run asks the peers every askEvery, until Raft stops.
func (s *survey) run() {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		all, err := s.cluster.Members()
		if err != nil {
			return // Raft has stopped
		}
		goal := uint64(0)
		for _, m := range all {
			if m.Self {
				continue
			}
			if _, h, err := s.cluster.wire.Layer.Call(peers.CallAsk, m.Address, m.server, peers.AskTimeout); err == nil { // call notes who does not answer
				goal = max(goal, h.Last, 1)
			}
		}
		s.goal.CompareAndSwap(0, goal)
		s.settings.compare(all)
		select {
		case <-s.cluster.life.stop:
			return
		case <-tick.C:
		}
	}
}

// behind reports whether a node that has applied the log up to an index does not have all entries yet that the others had
// when it started. The node does not decide.
func (s *survey) behind(applied uint64) bool {
	goal := s.goal.Load()
	return s.cluster.wire != nil && (goal == 0 || applied < goal)
}
