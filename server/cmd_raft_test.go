package server

import (
	"bufio"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"limitdb/resp"
	"limitdb/server/cluster"
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
		{"RAFT SERVER ADD x host", "-ERR the address must be a host and a port, as in 10.0.0.7:7380: \"host\"\r\n"},
		{"RAFT SERVER ADD x 127.0.0.1:1", "-ERR no room for x\r\n"},
		{"RAFT SERVER REMOVE x", "-" + spec.ErrNoLeader + "\r\n"},
		{"RAFT SERVER PROMOTE x", "-TRYAGAIN not yet: x\r\n"},
		{"RAFT SERVER DEMOTE x", "+OK\r\n"},
		{"RAFT SERVER DEMOTE placed", "-ERR the votes are those of several groups: use RAFT DRAIN\r\n"},
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
	want := "*24\r\n" + text("id", "me", "cluster", "c", "state", "follower", "serves", "redirects", "leader", "127.0.0.1:7",
		"term", ":3", "last-index", ":0", "commit-index", ":0", "applied-index", ":0", "members", ":3", "voters", ":2", "groups", ":1")
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

// plainly returns the texts and numbers of a reply.
func plainly(v resp.Value) string {
	switch {
	case v.Elems != nil:
		var all []string
		for _, e := range v.Elems {
			all = append(all, plainly(e))
		}
		return "[" + strings.Join(all, " ") + "]"
	case v.Kind == ':':
		return strconv.FormatInt(v.Int, 10)
	}
	return v.Text
}

// Commands about the groups of a cluster.
func TestRaftGroups(t *testing.T) {
	ts, _ := newNode(t)
	c := ts.client()
	one := "-ERR this cluster has one group of keys: RAFT SERVER LIST has its nodes\r\n"
	for _, in := range []string{"RAFT GROUPS", "RAFT NODES", "RAFT PLAN", "RAFT DRAIN n1", "RAFT REPLICAS", "RAFT REPLICAS 3"} {
		if got := c.raw(in + "\r\n"); got != one {
			t.Errorf("%s: %q", in, got)
		}
	}
	ts.opts.Replication.Directory = &cluster.Directory{
		Count: 2,
		Groups: func() []cluster.Group {
			return []cluster.Group{{
				Number: 1, First: 0, Last: 8191, Leader: "n1", Wanted: "n2", Term: 7, Nodes: []string{"n1", "n2"}, Keys: 5, Bytes: 600, Decisions: 70, Rate: 8,
				Replicas: []cluster.Replica{{Node: "n1", Voter: true}, {Node: "n2", Lag: 3}},
			}}
		},
		Nodes: func() []cluster.Node {
			return []cluster.Node{{ID: "n1", Client: "h:1", Address: "h:2", Zone: "z", Weight: 4, Draining: true, Replicas: 2, Leads: 1}}
		},
		Transfer: func(group int, id string) error {
			if group == 2 {
				return fmt.Errorf("%w: groups: nobody leads it", ErrNotYet)
			}
			return fmt.Errorf("group %d to %s", group, id)
		},
		Replicas: func() int { return 3 },
		SetReplicas: func(n int) error {
			if n == 1 {
				return ErrNotLeading
			}
			return errors.New(strconv.Itoa(n))
		},
		Plan: func() []string { return []string{"first", "second"} },
		Drain: func(id string, on bool) error {
			if id == "other" {
				return ErrNotLeading
			}
			return errors.New(id + " " + strconv.FormatBool(on))
		},
	}
	for in, want := range map[string]string{
		"RAFT GROUPS":            "[[group 1 first-slot 0 last-slot 8191 leader n1 wanted-leader n2 term 7 nodes [n1 n2] replicas [n1 n2 (learner)] settled 0 lag 3 keys 5 bytes 600 decisions 70 decisions-per-second 8]]",
		"RAFT NODES":             "[[id n1 client h:1 address h:2 zone z weight 4 state unreachable draining 1 replicas 2 leads 1]]",
		"RAFT PLAN":              "[first second]",
		"RAFT DRAIN n1":          "ERR n1 true",
		"RAFT DRAIN n1 off":      "ERR n1 false",
		"RAFT DRAIN n1 now":      spec.ErrSyntax,
		"RAFT DRAIN n1 off more": spec.ErrSyntax,
		"RAFT DRAIN other":       spec.ErrNoLeader,
		"RAFT REPLICAS":          "3",
		"RAFT REPLICAS 5":        "ERR 5",
		"RAFT REPLICAS 1":        spec.ErrNoLeader,
		"RAFT REPLICAS 2":        "ERR the number of replicas must be 1, 3 or 5: \"2\"",
		"RAFT REPLICAS 7":        "ERR the number of replicas must be 1, 3 or 5: \"7\"",
		"RAFT REPLICAS x":        "ERR the number of replicas must be 1, 3 or 5: \"x\"",
		"RAFT REPLICAS 3 3":      spec.ErrSyntax,
		"RAFT TRANSFER 1 n2":     "ERR group 1 to n2",
		"RAFT TRANSFER 2 n2":     "TRYAGAIN not yet: nobody leads it",
		"RAFT TRANSFER 3 n2":     "ERR the group must be an integer from 1 to 2: \"3\"",
		"RAFT TRANSFER 0 n2":     "ERR the group must be an integer from 1 to 2: \"0\"",
		"RAFT TRANSFER n2":       "ERR to [n2]",
		"RAFT TRANSFER 1 n2 now": spec.ErrSyntax,
	} {
		got := c.raw(in + "\r\n")
		if got != "" && in == "RAFT PLAN" {
			t.Error("the other clients wait for a plan")
		}
		if got == "" {
			got = c.resume()
		}
		v, err := resp.ReadReply(bufio.NewReader(strings.NewReader(got)), 1<<20)
		if shown := plainly(v); shown != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", in, shown, err, want)
		}
	}
	if got := c.raw("RAFT INFO\r\n"); !strings.HasSuffix(got, "groups\r\n:2\r\n") {
		t.Errorf("RAFT INFO: %q", got)
	}
}
