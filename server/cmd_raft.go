package server

import (
	"errors"
	"strings"

	"limitdb/resp"
	"limitdb/server/spec"
)

// RAFT, the commands about the nodes of a cluster.

func raftCommands() []command {
	const about = spec.Loading | spec.Stale
	row := func(name string, arity int, f spec.Flags, complexity, summary string, run func(*call), args ...spec.Argument) command {
		return rows("cluster", complexity, 0)(name, arity, f, summary, run, args...)
	}
	action := func(name string, args ...spec.Argument) spec.Argument {
		return spec.Argument{Name: name, Kind: "block", Token: strings.ToUpper(name), Args: args}
	}
	const each = "O(n) for n nodes"
	return []command{{
		Command: spec.Command{
			Name: "RAFT", Arity: -2, Group: "cluster", Complexity: "O(1)",
			Summary: "A container for commands about the nodes that hold one state.",
		},
		subs: []command{
			row("LEADER", 2, spec.Fast|about, "O(1)", "Returns the address at which clients reach the node that leads, or null.", (*call).raftLeader),
			row("INFO", 2, about, each, "Returns what this node is, by name: its id, cluster, state, leader, term, indexes, and how many members and voters there are.", (*call).raftInfo),
			row("SERVER", -3, spec.Admin|about|spec.Client, each, "Lists the nodes of the cluster, or changes them. A node that is added has no vote until it has caught up.", (*call).raftServer,
				spec.Argument{Name: "action", Kind: "oneof", Args: []spec.Argument{
					{Name: "list", Kind: "pure-token", Token: "LIST"},
					action("add", spec.Text("id"), spec.Text("address")),
					action("remove", spec.Text("id")), action("promote", spec.Text("id")), action("demote", spec.Text("id")),
				}}),
			row("TRANSFER", -2, spec.Admin|about|spec.Client, "O(1)", "Makes another node lead, after all replies that are due: the one with this id, or any that has caught up.", (*call).raftTransfer,
				spec.Optional(spec.Text("id"))),
			row("SNAPSHOT", 2, spec.Admin|spec.Client, "O(n) for n keys", "Makes a snapshot of this node and cuts off its log, and replies when that is on the disk.", (*call).raftSnapshot),
			row("HELP", 2, about, "O(1)", "Lists the subcommands.", (*call).help),
		},
	}}
}

// replicated returns the server's Replication. If there is none, it replies with an error and
// returns nil.
func (c *call) replicated() *Replication {
	if c.srv.opts.Replication == nil {
		c.Fail(errNoRaft)
	}
	return c.srv.opts.Replication
}

func (c *call) raftLeader() {
	r := c.replicated()
	if r == nil {
		return
	}
	if _, leader := r.Leader(); leader != "" {
		c.Bulk([]byte(leader))
		return
	}
	c.Null()
}

func (c *call) raftInfo() {
	r := c.replicated()
	if r == nil {
		return
	}
	s := r.Status()
	all, _ := r.Members() // none while the node starts or stops
	voters := 0
	for _, m := range all {
		voters += yesNo(m.Voter)
	}
	c.Map(11)
	for _, f := range [][2]string{{"id", s.ID}, {"cluster", s.Cluster}, {"state", s.State}, {"serves", serving(&s)}, {"leader", s.Leader}} {
		c.Text(f[0])
		c.Text(f[1])
	}
	for _, f := range []struct {
		name string
		n    uint64
	}{
		{"term", s.Term},
		{"last-index", s.Last},
		{"commit-index", s.Committed},
		{"applied-index", s.Applied},
		{"members", uint64(len(all))},
		{"voters", uint64(voters)},
	} {
		c.Text(f.name)
		c.Int(int64(f.n))
	}
}

func (c *call) raftServer() {
	r := c.replicated()
	if r == nil {
		return
	}
	action := strings.ToUpper(string(c.Args[2]))
	args := c.Args[3:]
	arg := func(i int) string { return string(args[i]) }
	switch change := map[string]func(string) error{"REMOVE": r.Remove, "PROMOTE": r.Promote, "DEMOTE": r.Demote}[action]; {
	case action == "LIST" && len(args) == 0:
		c.raftList(r)
	case action == "ADD" && len(args) == 2:
		id, address := arg(0), arg(1)
		c.raftChange(func() error { return r.Add(id, address) })
	case change != nil && len(args) == 1:
		id := arg(0)
		c.raftChange(func() error { return change(id) })
	default:
		c.Fail("ERR syntax error: use RAFT SERVER LIST, ADD id address, REMOVE id, PROMOTE id or DEMOTE id")
	}
}

func (c *call) raftList(r *Replication) {
	all, err := r.Members()
	if err != nil {
		c.raftError(err)
		return
	}
	c.Array(len(all))
	for _, m := range all {
		fields := [][2]string{
			{"id", m.ID},
			{"address", m.Address},
			{"client", m.Client},
			{"vote", map[bool]string{true: "voter", false: "nonvoter"}[m.Voter]},
			{"role", map[bool]string{true: "leader", false: "follower"}[m.Leader]},
		}
		c.Map(len(fields) + 1)
		for _, f := range fields {
			c.Text(f[0])
			c.Text(f[1])
		}
		c.Text("last-index")
		c.Int(int64(m.Last))
	}
}

func (c *call) raftTransfer() {
	r := c.replicated()
	if r == nil {
		return
	}
	if len(c.Args) > 3 {
		c.Fail(spec.ErrSyntax)
		return
	}
	id := ""
	if len(c.Args) == 3 {
		id = string(c.Args[2])
	}
	c.raftChange(func() error { return r.Transfer(id) })
}

func (c *call) raftSnapshot() {
	if c.replicated() != nil {
		c.raftChange(c.srv.Snapshot)
	}
}

// raftChange parks the session until a change is made.
func (c *call) raftChange(change func() error) {
	c.inBackground(change, func(err error) {
		if err != nil {
			c.raftError(err)
			return
		}
		c.OK()
	})
}

// raftError replies with the error of a change. One that only the leader can make is answered with its address, as for commands about keys.
func (c *call) raftError(err error) {
	text := resp.Excerpt([]byte(strings.ReplaceAll(err.Error(), "replication: ", "")))
	switch {
	case errors.Is(err, ErrNotYet):
		c.Fail("TRYAGAIN " + text)
	case !errors.Is(err, ErrNotLeading):
		c.Fail("ERR " + text)
	default:
		_, leader := c.srv.opts.Replication.Leader()
		if leader == "" {
			c.Fail(spec.ErrNoLeader)
			return
		}
		c.Fail("MOVED 0 " + leader)
	}
}
