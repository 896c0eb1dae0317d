package replication

import (
	"strings"
	"time"

	"limitdb/internal/stats"
)

// Status returns what the node knows about itself and its cluster.
func (n *Node) Status() stats.Replication {
	s := stats.Replication{
		On: true, ID: n.o.ID, Leader: n.Leader(), State: strings.ToLower(n.raft.State().String()),
		Term: n.raft.CurrentTerm(), Last: n.raft.LastIndex(), Committed: n.raft.CommitIndex(), LastContact: -1,
	}
	if n.parts.wire != nil {
		s.Refused = n.parts.wire.Layer.Refused()
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
	s.Differ = n.settings.different()
	s.WriteP99 = n.parts.guarded.writes.p99()
	n.replica.status(&s)
	n.Primary.status(&s)
	s.Behind = !s.Leads && n.survey.behind(s.Applied)
	return s
}

// status fills in what the log says.
func (r *replica) status(s *stats.Replication) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Current = !r.rebuilding && !r.failed
	s.Applied, s.Ignored, s.Rebuilds = r.applied, r.ignored, r.rebuilds
	s.HashIndex, s.Hash = r.hashes.done.index, r.hashes.done.sum
	if r.machine.clock != 0 {
		s.Offset = r.clock.Wall() - r.time.reached(r.machine.clock)
	}
	s.Format = int(r.machine.inForce())
	s.Epoch, s.EpochTerm, s.Sequence, s.Clock = r.machine.epoch.String(), r.machine.term, r.machine.sequence, r.machine.clock
}

// status fills in what a primary does.
func (p *Primary) status(s *stats.Replication) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Leads, s.Epochs, s.GroupBytes = p.turn.Load() != 0, p.turns, p.sizes.mean()
	if s.Leads {
		s.LastContact = 0
	}
}
