package cluster

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"limitdb/internal/stats"
	"limitdb/server/info"
)

// splitAddress returns the host and the port of an address, or "" and 0 if it is not one.
func splitAddress(address string) (host string, port int) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0
	}
	port, _ = strconv.Atoi(text) // 0 if it is not a number
	return host, port
}

// followers are the members that answer and do not lead, as the leader sees them.
func followers(all []Member) []Member {
	var out []Member
	for _, m := range all {
		if !m.Self && m.Client != "" {
			out = append(out, m)
		}
	}
	return out
}

// Section writes the section replication of a node: first the fields that Redis' tools read, then limitdb's own. forwarded
// and unknown are the numbers of commands that were forwarded, and of those without a known outcome.
func (r *Replication) Section(t *info.Text, forwarded, unknown uint64) {
	s := r.Status()
	all, _ := r.Members() // none while the node starts or stops
	if s.Leads {
		t.Field("role", "master")
		replicas := followers(all)
		t.Field("connected_slaves", len(replicas))
		for i, m := range replicas {
			host, port := splitAddress(m.Client)
			t.Field("slave"+strconv.Itoa(i), fmt.Sprintf("ip=%s,port=%d,state=online,offset=%d,lag=%d", host, port, m.Last, s.Last-min(s.Last, m.Last)))
		}
		t.Field("master_repl_offset", s.Last)
	} else {
		host, port := splitAddress(s.Leader)
		t.Field("role", "slave")
		t.Field("master_host", host)
		t.Field("master_port", port)
		t.Field("master_link_status", map[bool]string{true: "up", false: "down"}[s.Leader != ""])
		t.Field("master_last_io_seconds_ago", ago(s.LastContact, time.Second))
		t.Field("master_sync_in_progress", info.YesNo(!s.Current))
		t.Field("slave_repl_offset", s.Applied)
		t.Field("slave_read_only", 1)
		t.Field("connected_slaves", 0)
		t.Field("master_repl_offset", s.Applied)
	}
	voters := 0
	for _, m := range all {
		voters += info.YesNo(m.Voter)
	}
	t.Field("raft_id", s.ID)
	t.Field("raft_cluster", s.Cluster)
	t.Field("raft_state", s.State)
	t.Field("raft_leader", s.Leader)
	t.Field("raft_serves", serving(&s))
	t.Field("raft_members", len(all))
	t.Field("raft_voters", voters)
	t.Field("raft_settings_that_differ", strings.Join(s.Differ, ", "))
	t.Field("raft_term", s.Term)
	t.Field("raft_last_index", s.Last)
	t.Field("raft_commit_index", s.Committed)
	t.Field("raft_applied_index", s.Applied)
	t.Field("raft_last_contact_ms", ago(s.LastContact, time.Millisecond))
	t.Field("raft_table_is_current", info.YesNo(s.Current))
	t.Field("raft_epoch", s.Epoch)
	t.Field("raft_epoch_term", s.EpochTerm)
	t.Field("raft_epoch_sequence", s.Sequence)
	t.Field("raft_time_usec", s.Clock/1e3)
	t.Field("raft_format", s.Format)
	t.Field("raft_over_maxmemory", info.YesNo(s.OverMemory))
	t.Field("raft_clock_offset_ms", s.Offset/int64(time.Millisecond))
	t.Field("raft_state_hash", fmt.Sprintf("%016x", s.Hash))
	t.Field("raft_state_hash_index", s.HashIndex)
	t.Field("raft_group_bytes", s.GroupBytes)
	t.Field("raft_log_write_p99_usec", s.WriteP99/int64(time.Microsecond))
	t.Field("raft_epochs", s.Epochs)
	t.Field("raft_ignored_entries", s.Ignored)
	t.Field("raft_rebuilds", s.Rebuilds)
	t.Field("raft_refused_connections", s.Refused)
	t.Field("raft_forwarded_commands", forwarded)
	t.Field("raft_unknown_outcomes", unknown)
}

// serving is what clients get from the node.
func serving(s *stats.Replication) string {
	switch {
	case s.Leads:
		return "decisions"
	case s.Leader != "":
		return "redirects"
	}
	return "nothing"
}

// ago is a time in ns in a unit, -1 for never.
func ago(ns int64, unit time.Duration) int64 {
	if ns < 0 {
		return -1
	}
	return ns / int64(unit)
}

// role replies what ROLE does in Redis: of a leader its last index and who follows, of a follower its leader.
func (r *Replication) role(c *call) {
	if r == nil {
		c.Array(3)
		c.Text("master")
		c.Int(0)
		c.Array(0)
		return
	}
	s := r.Status()
	if !s.Leads {
		host, port := splitAddress(s.Leader)
		state := "connected"
		switch {
		case s.Leader == "":
			state = "connect"
		case !s.Current:
			state = "sync"
		}
		c.Array(5)
		c.Text("slave")
		c.Text(host)
		c.Int(int64(port))
		c.Text(state)
		c.Int(int64(s.Applied))
		return
	}
	all, _ := r.Members() // none while the node stops
	replicas := followers(all)
	c.Array(3)
	c.Text("master")
	c.Int(int64(s.Last))
	c.Array(len(replicas))
	for _, m := range replicas {
		host, port := splitAddress(m.Client)
		c.Array(3)
		c.Text(host)
		c.Text(strconv.Itoa(port))
		c.Text(strconv.FormatUint(m.Last, 10))
	}
}
