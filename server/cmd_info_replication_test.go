package server

import (
	"strings"
	"testing"
)

// INFO, ROLE and HELLO show the role of a node, the leader, and what the node serves.
func TestNodeSaysWhatItIs(t *testing.T) {
	ts, p := newNode(t)
	c := ts.client()
	info := func(want string, not ...string) {
		t.Helper()
		got := c.do("INFO", "server", "replication", "cluster").Text
		for _, line := range strings.Fields(want) {
			if !strings.Contains(got, "\n"+line+"\r\n") {
				t.Errorf("INFO lacks %s:\n%s", line, got)
			}
		}
		for _, part := range not {
			if strings.Contains(got, part) {
				t.Errorf("INFO has %s:\n%s", part, got)
			}
		}
	}
	role := func(want, hello string) {
		t.Helper()
		if got := line(c.do("ROLE")); got != want {
			t.Errorf("ROLE: %s, want %s", got, want)
		}
		if got := line(c.do("HELLO", "2")); !strings.Contains(got, `"mode" "cluster" "role" "`+hello+`"`) {
			t.Errorf("HELLO: %s, want the role %s", got, hello)
		}
	}
	p.status.ID, p.status.State, p.status.Term, p.status.Epoch, p.status.Last, p.status.Applied, p.status.Committed = "me", "leader", 5, "a-b", 9, 8, 7
	p.status.Ignored, p.status.Current = 4, true

	p.status.Leads, p.leader = true, "127.0.0.1:6"
	info("redis_mode:cluster cluster_enabled:1 role:master connected_slaves:1 slave0:ip=127.0.0.1,port=7,state=online,offset=8,lag=1 "+
		"raft_id:me raft_state:leader raft_leader:127.0.0.1:6 raft_serves:decisions raft_members:3 raft_voters:2 raft_term:5 raft_epoch:a-b "+
		"raft_last_index:9 raft_applied_index:8 raft_commit_index:7 raft_ignored_entries:4 raft_last_contact_ms:0", "master_host", "slave1")
	role(`["master" 9 [["127.0.0.1" "7" "8"]]]`, "master")
	if err := ts.Ready(); err != nil {
		t.Errorf("a leader: %v", err)
	}

	p.status.Leads, p.leader, p.status.LastContact = false, "127.0.0.1:7", 2_500_000_000
	info("role:slave master_host:127.0.0.1 master_port:7 master_link_status:up master_last_io_seconds_ago:2 slave_repl_offset:8 "+
		"master_sync_in_progress:0 raft_serves:redirects raft_last_contact_ms:2500", "slave0")
	role(`["slave" "127.0.0.1" 7 "connected" 8]`, "replica")
	if err := ts.Ready(); err != nil {
		t.Errorf("a follower that knows its leader: %v", err)
	}
	p.status.Current = false
	role(`["slave" "127.0.0.1" 7 "sync" 8]`, "replica")

	p.leader, p.status.LastContact = "", -1
	info("role:slave master_host: master_port:0 master_link_status:down master_last_io_seconds_ago:-1 raft_serves:nothing master_sync_in_progress:1")
	role(`["slave" "" 0 "connect" 8]`, "replica")
	for _, c := range []struct {
		members int
		member  bool
		want    string
	}{{3, true, "no node leads"}, {0, false, "a member of no cluster yet"}, {2, false, "removed from its cluster"}} {
		p.status.Members, p.status.Member = c.members, c.member
		if err := ts.Ready(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("without a leader: %v, want %q", err, c.want)
		}
	}
}
