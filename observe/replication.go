package observe

// replicationScalars returns the metrics of a node of a cluster.
func replicationScalars() []scalar {
	return []scalar{
		gauge("raft_leading", "Whether this node decides: 1 or 0.",
			func(s *Snapshot) float64 { return oneIf(s.Replication.Leads) }),
		gauge("raft_leader_known", "Whether this node knows a node that decides: 1 or 0.",
			func(s *Snapshot) float64 { return oneIf(s.Replication.Serves()) }),
		gauge("raft_term", "Raft's term.",
			func(s *Snapshot) float64 { return float64(s.Replication.Term) }),
		gauge("raft_last_index", "Index of the last entry of this node's log.",
			func(s *Snapshot) float64 { return float64(s.Replication.Last) }),
		gauge("raft_commit_index", "Index of the last entry that this node knows to be on a majority of the nodes.",
			func(s *Snapshot) float64 { return float64(s.Replication.Committed) }),
		gauge("raft_applied_index", "Index of the last entry that this node has applied.",
			func(s *Snapshot) float64 { return float64(s.Replication.Applied) }),
		gauge("raft_last_contact_seconds", "How long ago this node heard of the leader; 0 on the leader, negative for never.",
			func(s *Snapshot) float64 { return seconds(s.Replication.LastContact) }),
		counter("raft_epochs_total", "How often this node began to decide.",
			func(s *Snapshot) float64 { return float64(s.Replication.Epochs) }),
		counter("raft_ignored_entries_total", "Entries of the log that came too late to count.",
			func(s *Snapshot) float64 { return float64(s.Replication.Ignored) }),
		counter("raft_rebuilds_total", "How often this node has built its table anew from the log.",
			func(s *Snapshot) float64 { return float64(s.Replication.Rebuilds) }),
	}
}
