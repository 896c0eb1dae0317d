package replication

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"limitdb/internal/stats"
)

// askEvery is how often a node asks its peers whether they answer, and where clients reach them.
const askEvery = time.Second

// askPeers asks the peers every askEvery, until Raft stops.
func (n *Node) askPeers() {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		members, err := n.Members()
		if err != nil {
			return // Raft has stopped
		}
		goal := uint64(0)
		for _, m := range members {
			if m.Self {
				continue
			}
			if _, h, err := n.parts.wire.l.call(callAsk, m.Address, m.server, askTimeout); err == nil { // call notes who does not answer
				goal = max(goal, h.Last, 1)
			}
		}
		n.mu.Lock()
		n.goal = cmp.Or(n.goal, goal)
		n.mu.Unlock()
		n.compare(members)
		select {
		case <-n.stop:
			return
		case <-tick.C:
		}
	}
}

// Status returns what the node knows about itself and its cluster.
func (n *Node) Status() stats.Replication {
	s := stats.Replication{
		On: true, ID: n.o.ID, Leader: n.Leader(), State: strings.ToLower(n.raft.State().String()),
		Term: n.raft.CurrentTerm(), Last: n.raft.LastIndex(), Committed: n.raft.CommitIndex(), LastContact: -1,
	}
	if n.parts.wire != nil {
		s.Refused = n.parts.wire.l.refused.Load()
		s.Cluster = n.parts.who.cluster()
	}
	all, _ := n.Members() // none while the node stops
	for _, m := range all {
		s.Members++
		if m.Voter {
			s.Voters++
		}
		if m.Self {
			s.Member, s.Voter = true, m.Voter
		}
		if m.Self || m.Client != "" {
			s.Answering++
		}
	}
	if ago, err := time.ParseDuration(n.raft.Stats()["last_contact"]); err == nil { // else "never"
		s.LastContact = int64(ago)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s.Leads = n.turn.Load() != 0
	if s.Leads {
		s.LastContact = 0
	}
	s.Differ = slices.Clone(n.differ.now)
	s.Behind = n.behind()
	s.Current = !n.rebuilding && !n.failed
	s.Applied, s.Ignored, s.Epochs, s.Rebuilds = n.applied, n.ignored, n.turns, n.rebuilds
	s.HashIndex, s.Hash = n.hashes.done.index, n.hashes.done.sum
	s.GroupBytes, s.WriteP99 = n.sizes.mean(), n.parts.guarded.writes.p99()
	if n.machine.clock != 0 {
		s.Offset = n.clock.Wall() - n.reached()
	}
	s.Format = int(n.machine.inForce())
	s.Epoch, s.EpochTerm, s.Sequence, s.Clock = n.machine.epoch.String(), n.machine.term, n.machine.sequence, n.machine.clock
	return s
}
