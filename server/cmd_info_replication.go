package server

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"limitdb/engine"
	"limitdb/internal/stats"
)

// What a node of a cluster says of itself.

// mode is what Redis calls the way in which the server works with others.
func (srv *Server) mode() string {
	if srv.opts.Replication != nil {
		return "cluster"
	}
	return "standalone"
}

// role is "master" if the server decides, and the given word otherwise: Redis has two.
func (srv *Server) role(follower string) string {
	if r := srv.opts.Replication; r != nil && !r.leads() {
		return follower
	}
	return "master"
}

func (r *Replication) leads() bool {
	s := r.Status()
	return s.Leads
}

// held is the engine that holds the server's states, also while another node leads.
func (srv *Server) held() *engine.Engine {
	if r := srv.opts.Replication; r != nil {
		return r.Table()
	}
	return srv.states()
}

// splitAddress returns the host and the port of an address, "" and 0 if it is none.
func splitAddress(address string) (host string, port int) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0
	}
	port, _ = strconv.Atoi(text) // 0 if it is none
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

// node is the section replication of a node: first the fields that Redis' tools read, then limitdb's own.
func (t *infoText) node() {
	r := t.srv.opts.Replication
	s := r.Status()
	all, _ := r.Members() // none while the node starts or stops
	if s.Leads {
		t.field("role", "master")
		replicas := followers(all)
		t.field("connected_slaves", len(replicas))
		for i, m := range replicas {
			host, port := splitAddress(m.Client)
			t.field("slave"+strconv.Itoa(i), fmt.Sprintf("ip=%s,port=%d,state=online,offset=%d,lag=%d", host, port, m.Last, s.Last-min(s.Last, m.Last)))
		}
		t.field("master_repl_offset", s.Last)
	} else {
		host, port := splitAddress(s.Leader)
		t.field("role", "slave")
		t.field("master_host", host)
		t.field("master_port", port)
		t.field("master_link_status", map[bool]string{true: "up", false: "down"}[s.Leader != ""])
		t.field("master_last_io_seconds_ago", ago(s.LastContact, time.Second))
		t.field("master_sync_in_progress", yesNo(!s.Current))
		t.field("slave_repl_offset", s.Applied)
		t.field("slave_read_only", 1)
		t.field("connected_slaves", 0)
		t.field("master_repl_offset", s.Applied)
	}
	voters := 0
	for _, m := range all {
		voters += yesNo(m.Voter)
	}
	t.field("raft_id", s.ID)
	t.field("raft_cluster", s.Cluster)
	t.field("raft_state", s.State)
	t.field("raft_leader", s.Leader)
	t.field("raft_serves", serving(&s))
	t.field("raft_members", len(all))
	t.field("raft_voters", voters)
	t.field("raft_settings_that_differ", strings.Join(s.Differ, ", "))
	t.field("raft_term", s.Term)
	t.field("raft_last_index", s.Last)
	t.field("raft_commit_index", s.Committed)
	t.field("raft_applied_index", s.Applied)
	t.field("raft_last_contact_ms", ago(s.LastContact, time.Millisecond))
	t.field("raft_table_is_current", yesNo(s.Current))
	t.field("raft_epoch", s.Epoch)
	t.field("raft_epoch_term", s.EpochTerm)
	t.field("raft_epoch_sequence", s.Sequence)
	t.field("raft_time_usec", s.Clock/1e3)
	t.field("raft_format", s.Format)
	t.field("raft_over_maxmemory", yesNo(s.OverMemory))
	t.field("raft_clock_offset_ms", s.Offset/int64(time.Millisecond))
	t.field("raft_state_hash", fmt.Sprintf("%016x", s.Hash))
	t.field("raft_state_hash_index", s.HashIndex)
	t.field("raft_group_bytes", s.GroupBytes)
	t.field("raft_log_write_p99_usec", s.WriteP99/int64(time.Microsecond))
	t.field("raft_epochs", s.Epochs)
	t.field("raft_ignored_entries", s.Ignored)
	t.field("raft_rebuilds", s.Rebuilds)
	t.field("raft_refused_connections", s.Refused)
	t.field("raft_forwarded_commands", t.srv.counters.forwarded.Load())
	t.field("raft_unknown_outcomes", t.srv.counters.unknownOutcomes.Load())
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

// roleReply replies what ROLE does in Redis: of a leader its last index and who follows, of a follower its leader.
func (c *call) roleReply() {
	r := c.srv.opts.Replication
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
