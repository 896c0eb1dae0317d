package cluster

import (
	"net"
	"strings"
	"time"

	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/info"
	"limitdb/server/spec"
)

// raftRow is RAFT, the commands about the nodes that hold one state.
func (r *Replication) raftRow(snapshot func() error) row {
	const about = spec.Loading | spec.Stale
	const each = "O(n) for n nodes"
	action := func(name string, args ...spec.Argument) spec.Argument {
		return spec.Argument{Name: name, Kind: "block", Token: strings.ToUpper(name), Args: args}
	}
	id := spec.Text("id")
	sub := func(name string, arity int, f spec.Flags, complexity, summary string, run func(*call), args ...spec.Argument) row {
		if r == nil {
			run = func(c *call) { c.Fail(ErrNoRaft) }
		}
		return handler.Rows[call]("cluster", complexity, f)(name, arity, 0, summary, run, args...)
	}
	return handler.Container("RAFT", "cluster", "A container for commands about the nodes that hold one state.",
		sub("LEADER", 2, spec.Fast|about, "O(1)", "Returns the address at which clients reach the node that leads, or null.", r.leader),
		sub("INFO", 2, about, each, "Returns what this node is, by name: its id, cluster, state, leader, term, indexes, and how many members and voters there are.", r.raftInfo),
		sub("SERVER", -3, spec.Admin|about|spec.Client|spec.Works, each, "Lists the nodes of the cluster, or changes them. A node that is added has no vote until it has caught up.", r.server,
			spec.Argument{Name: "action", Kind: "oneof", Args: []spec.Argument{
				spec.Word("LIST"), action("add", id, spec.Text("address")), action("remove", id), action("promote", id), action("demote", id),
			}}),
		sub("TRANSFER", -2, spec.Admin|about|spec.Client, "O(1)", "Makes another node lead: the one with this id, or any that has caught up. Replies that are due are sent first. In a cluster of several groups it is for the group with this number, until placement has another node lead it.", r.transfer,
			spec.Optional(spec.Integer("group")), spec.Optional(id)),
		sub("NODES", 2, about, each, "Lists the nodes of a cluster of several groups, with what each has.", r.placed(r.listNodes)),
		sub("GROUPS", 2, about, "O(n) for n groups", "Lists the groups of a cluster of several: where their replicas are and are to be, and which node leads.", r.placed(r.listGroups)),
		sub("DRAIN", -3, spec.Admin|about|spec.Client, "O(1)", "Has all replicas leave a node, and then its vote in group 0, or, with OFF, has it get some again.", r.placed(r.drain),
			id, spec.Optional(spec.Word("OFF"))),
		sub("REPLICAS", -2, spec.Admin|about|spec.Client, "O(1)", "Returns on how many nodes each group is to be, or changes that to 1, 3 or 5. Placement adds and removes replicas one by one.", r.placed(r.replicas),
			spec.Optional(spec.Integer("count"))),
		sub("PLAN", 2, about|spec.Client|spec.Works|spec.NoMulti, "O(n·m) for n nodes and m groups", "Lists the changes that placement would make now, a line for each.", r.placed(r.plan)),
		sub("SNAPSHOT", 2, spec.Admin|spec.Client, "O(n) for n keys", "Makes a snapshot of this node, cuts its log, and replies when the snapshot is durable.",
			func(c *call) { r.change(c, snapshot) }),
	)
}

func (r *Replication) leader(c *call) {
	if _, leader := r.Leader(); leader != "" {
		c.Bulk([]byte(leader))
		return
	}
	c.Null()
}

func (r *Replication) raftInfo(c *call) {
	s := r.Status()
	all, _ := r.Members() // none while the node starts or stops
	voters := 0
	for _, m := range all {
		voters += info.YesNo(m.Voter)
	}
	c.Fields("id", s.ID, "cluster", s.Cluster, "state", s.State, "serves", serving(&s), "leader", s.Leader,
		"term", s.Term, "last-index", s.Last, "commit-index", s.Committed, "applied-index", s.Applied, "members", len(all), "voters", voters, "groups", r.groups())
}

func (r *Replication) server(c *call) {
	action := strings.ToUpper(string(c.Args[2]))
	args := c.Args[3:]
	arg := func(i int) string { return string(args[i]) }
	switch change := map[string]func(string) error{"REMOVE": r.Remove, "PROMOTE": r.Promote, "DEMOTE": r.Demote}[action]; {
	case action == "LIST" && len(args) == 0:
		r.list(c)
	case action == "ADD" && len(args) == 2:
		id, address := arg(0), arg(1)
		if _, _, err := net.SplitHostPort(address); err != nil {
			c.Fail("ERR the address must be a host and a port, as in 10.0.0.7:7380: " + resp.Quote(args[1]))
			return
		}
		r.change(c, func() error { return r.Add(id, address) })
	case change != nil && len(args) == 1:
		id := arg(0)
		r.change(c, func() error { return change(id) })
	default:
		c.Fail("ERR syntax error: use RAFT SERVER LIST, ADD id address, REMOVE id, PROMOTE id or DEMOTE id")
	}
}

func (r *Replication) list(c *call) {
	all, err := r.Members()
	if err != nil {
		r.Fail(c, err)
		return
	}
	c.Array(len(all))
	for _, m := range all {
		last := int64(m.Last)
		if last == 0 && !m.Self {
			last = -1
		}
		c.Fields("id", m.ID, "address", m.Address, "client", m.Client,
			"vote", map[bool]string{true: "voter", false: "nonvoter"}[m.Voter],
			"role", map[bool]string{true: "leader", false: "follower"}[m.Leader], "last-index", last,
			"state", map[bool]string{true: "online", false: "unreachable"}[m.Self || m.Client != ""], "last-contact-ms", ago(m.Contact, time.Millisecond))
	}
}

func (r *Replication) transfer(c *call) {
	switch {
	case len(c.Args) == 4 && r.Directory != nil:
		r.transferGroup(c)
		return
	case len(c.Args) > 3:
		c.Fail(spec.ErrSyntax)
		return
	}
	id := ""
	if len(c.Args) == 3 {
		id = string(c.Args[2])
	}
	r.change(c, func() error { return r.Transfer(id) })
}

// change parks the session until a change is made.
func (r *Replication) change(c *call, change func() error) {
	c.Client.Background(change, func(err error) {
		if err != nil {
			r.Fail(c, err)
			return
		}
		c.OK()
	})
}
