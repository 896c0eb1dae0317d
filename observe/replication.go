package observe

// replicationScalars returns the metrics of a node of a cluster.
func replicationScalars() []scalar {
	return []scalar{
		gauge("raft_leading", "Whether this node decides: 1 or 0.",
			func(s *Snapshot) float64 { return oneIf(s.Replication.Leads) }),
		gauge("raft_leader_known", "Whether this node knows a node that decides: 1 or 0.",
			func(s *Snapshot) float64 { return oneIf(s.Replication.Serves()) }),
		gauge("raft_members", "How many nodes the cluster has.",
			func(s *Snapshot) float64 { return float64(s.Replication.Members) }),
		gauge("raft_voters", "How many nodes of the cluster have a vote.",
			func(s *Snapshot) float64 { return float64(s.Replication.Voters) }),
		gauge("raft_members_answering", "How many nodes of the cluster answer this one, itself included.",
			func(s *Snapshot) float64 { return float64(s.Replication.Answering) }),
		gauge("raft_voter", "Whether this node has a vote: 1 or 0.",
			func(s *Snapshot) float64 { return oneIf(s.Replication.Voter) }),
		gauge("raft_differences", "How many settings that all nodes must have alike differ from this node's.",
			func(s *Snapshot) float64 { return float64(len(s.Replication.Differ)) }),
		counter("raft_refused_connections_total", "Connections on the Raft port that were closed because of what they said, or did not say.",
			func(s *Snapshot) float64 { return float64(s.Replication.Refused) }),
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
