package server

import (
	"strconv"
	"strings"
	"testing"

	"limitdb/server/spec"
)

// Commands about the nodes, and the errors of commands that change them.
func TestRaftCommands(t *testing.T) {
	ts, p := newNode(t)
	ts.group.Follow()
	p.status.ID, p.status.Cluster, p.status.State, p.status.Term = "me", "c", "follower", 3
	c := ts.client()
	wrong := "-ERR syntax error: use RAFT SERVER LIST, ADD id address, REMOVE id, PROMOTE id or DEMOTE id\r\n"
	for _, in := range [][2]string{
		{"RAFT SERVER LIST extra", wrong},
		{"RAFT SERVER ADD b", wrong},
		{"RAFT SERVER REMOVE", wrong},
		{"RAFT SERVER BURY b", wrong},
		{"RAFT SERVER ADD x 127.0.0.1:1", "-ERR no room for x\r\n"},
		{"RAFT SERVER REMOVE x", "-" + spec.ErrNoLeader + "\r\n"},
		{"RAFT SERVER PROMOTE x", "-TRYAGAIN not yet: x\r\n"},
		{"RAFT SERVER DEMOTE x", "+OK\r\n"},
		{"RAFT TRANSFER", "-ERR to []\r\n"},
		{"RAFT TRANSFER b", "-ERR to [b]\r\n"},
		{"RAFT TRANSFER b c", "-ERR syntax error\r\n"},
	} {
		got := c.raw(in[0] + "\r\n")
		if got == "" {
			got = c.resume()
		}
		if got != in[1] {
			t.Errorf("%s: %q, want %q", in[0], got, in[1])
		}
	}
	p.leader = "127.0.0.1:7"
	c.raw("RAFT SERVER REMOVE x\r\n")
	if got := c.resume(); got != "-MOVED 0 127.0.0.1:7\r\n" {
		t.Errorf("of a follower: %q", got)
	}
	text := func(words ...string) string {
		var b strings.Builder
		for _, w := range words {
			if strings.HasPrefix(w, ":") {
				b.WriteString(w + "\r\n")
				continue
			}
			b.WriteString("$" + strconv.Itoa(len(w)) + "\r\n" + w + "\r\n")
		}
		return b.String()
	}
	want := "*22\r\n" + text("id", "me", "cluster", "c", "state", "follower", "serves", "redirects", "leader", "127.0.0.1:7",
		"term", ":3", "last-index", ":0", "commit-index", ":0", "applied-index", ":0", "members", ":3", "voters", ":2")
	if got := c.raw("RAFT INFO\r\n"); got != want {
		t.Errorf("RAFT INFO: %q, want %q", got, want)
	}
	row := func(id, address, client, vote, role, last, state, contact string) string {
		return "*16\r\n" + text("id", id, "address", address, "client", client, "vote", vote, "role", role, "last-index", ":"+last, "state", state, "last-contact-ms", ":"+contact)
	}
	want = "*3\r\n" + row("me", "127.0.0.1:7000", "127.0.0.1:6", "voter", "follower", "9", "online", "0") +
		row("b", "127.0.0.1:7001", "127.0.0.1:7", "nonvoter", "leader", "8", "online", "1500") + row("c", "127.0.0.1:7002", "", "voter", "follower", "-1", "unreachable", "-1")
	if got := c.raw("RAFT SERVER LIST\r\n"); got != want {
		t.Errorf("RAFT SERVER LIST: %q, want %q", got, want)
	}
}
