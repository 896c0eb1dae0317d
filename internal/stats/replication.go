package stats

// Replication describes a node of a cluster. Times are in ns.
type Replication struct {
	On bool   // several nodes hold the state; if not, the other fields are 0
	ID string // of the node
	// Cluster is the id of the cluster, "" until the node is a member of one.
	Cluster string
	// Member says that the node is one of the Members of its cluster, as far as it knows, and Voter that it has a vote. Voters have one, and Answering
	// of the members answer this node.
	Member, Voter              bool
	Members, Voters, Answering int
	// Differ has the settings that all nodes should share and do not, such as "maxmemory of n2".
	Differ []string

	Leads   bool   // the node decides
	Leader  string // where clients reach the node that decides, "" if this one knows of none
	State   string // Raft's: follower, candidate, leader or shutdown
	Behind  bool   // since its start, the node has not yet had all that the others had then
	Begins  bool   // of several groups, the node does not know yet where they are to be
	Current bool   // the table is the result of the log up to Applied; false while it is rebuilt

	Term                     uint64 // Raft's
	Last, Committed, Applied uint64 // indexes of the log
	LastContact              int64  // how long ago the leader was heard; 0 on the leader, -1 for never

	Epoch               string // of the last primary that the log names
	EpochTerm, Sequence uint64 // the log's term of its Epoch, and its last batch
	Clock               int64  // the replicated time, of Unix

	OverMemory      bool   // the node holds more than its maxmemory
	Format          int    // of the current epoch's entries
	HashIndex, Hash uint64 // of all states, at an index when nothing was in flight; 0 for none yet
	GroupBytes      uint64 // running mean of the sizes of the groups that this node has proposed
	WriteP99        int64  // how long 99 of 100 writes of the log took at most, with their syncs
	Offset          int64  // how far the machine's clock is ahead of the replicated time

	Epochs   uint64 // of this node, that were opened since the start
	Ignored  uint64 // entries of the log that came too late to count, since the start
	Rebuilds uint64 // of the table, since the start
	Refused  uint64 // connections on the Raft port that were closed because of what they said, since the start
}

// Unready returns why the node serves nobody, or why no other node should stop now; "" if neither is the case.
func (r *Replication) Unready() string {
	switch {
	case r.Serves() && r.Behind:
		return "this node has not yet caught up with the others"
	case r.Serves() && r.Begins:
		return "this node does not know yet where the groups of its cluster are to be"
	case r.Serves():
		return ""
	case r.Members == 0:
		return "this node is a member of no cluster yet"
	case !r.Member:
		return "this node was removed from its cluster"
	}
	return "no node leads, as far as this one knows"
}

// Serves reports whether the node decides, or can say which node does.
func (r *Replication) Serves() bool { return r.Leads || r.Leader != "" }
