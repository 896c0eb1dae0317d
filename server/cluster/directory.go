package cluster

import (
	"strconv"
	"strings"

	"limitdb/resp"
	"limitdb/server/spec"
)

// Directory is the server's interface to the code that places the groups of a cluster. Any goroutine may call the functions.
type Directory struct {
	// Count is how many groups with keys the cluster has. It is not 1.
	Count int
	// Groups are those groups, by their numbers from 1 on.
	Groups func() []Group
	Nodes  func() []Node
	// Drain has all replicas leave a node, or no longer. It blocks. Its errors may be ErrNotLeading.
	Drain func(id string, on bool) error
	// Replicas returns on how many nodes each group is to be.
	Replicas func() int
	// SetReplicas changes that. It blocks. Its errors may be ErrNotLeading.
	SetReplicas func(n int) error
	// Transfer makes a node lead a group with keys, until placement makes another one lead it. It blocks. Its errors may be ErrNotYet.
	Transfer func(group int, id string) error
	// Plan returns what placement would do now, a line for each change. It may take seconds.
	Plan func() []string
}

// Group is a group of keys.
type Group struct {
	Number      int
	First, Last int    // its slots
	Leader      string // the node that leads, "" if none is known
	Wanted      string // the node that is to lead
	Term        uint64 // Raft's, as the leader says
	Nodes       []string
	Settled     bool // the group is known to have come to Nodes
	Replicas    []Replica
	Keys, Bytes int64  // as the leader says
	Decisions   uint64 // of the leader, since it started
	Rate        uint64 // of these, a second
}

// Replica is a replica of a group, as its node says.
type Replica struct {
	Node  string
	Voter bool
	Lag   uint64 // how many entries of the leader's log it lacks
}

// Node is a node of the directory.
type Node struct {
	ID, Client, Address, Zone string
	Weight                    int
	Draining, Answers         bool
	Replicas, Leads           int // of groups with keys
}

// errOneGroup is replied by a node of a cluster that has one group.
const errOneGroup = "ERR this cluster has one group of keys: RAFT SERVER LIST has its nodes"

// groups returns how many groups with keys there are.
func (r *Replication) groups() int {
	if r.Directory == nil {
		return 1
	}
	return r.Directory.Count
}

// placed returns run, or the error of a cluster that has one group.
func (r *Replication) placed(run func(*call)) func(*call) {
	return func(c *call) {
		if r.Directory == nil {
			c.Fail(errOneGroup)
			return
		}
		run(c)
	}
}

func (r *Replication) listNodes(c *call) {
	all := r.Directory.Nodes()
	c.Array(len(all))
	for _, n := range all {
		c.Fields("id", n.ID, "client", n.Client, "address", n.Address, "zone", n.Zone, "weight", n.Weight,
			"state", map[bool]string{true: "online", false: "unreachable"}[n.Answers], "draining", map[bool]int{true: 1}[n.Draining], "replicas", n.Replicas, "leads", n.Leads)
	}
}

func (r *Replication) listGroups(c *call) {
	all := r.Directory.Groups()
	c.Array(len(all))
	for _, g := range all {
		var replicas []string
		lag := uint64(0)
		for _, p := range g.Replicas {
			text := p.Node
			if !p.Voter && g.Leader != "" { // else nobody says who votes
				text += " (learner)"
			}
			replicas, lag = append(replicas, text), max(lag, p.Lag)
		}
		c.Fields("group", g.Number, "first-slot", g.First, "last-slot", g.Last, "leader", g.Leader, "wanted-leader", g.Wanted, "term", g.Term,
			"nodes", g.Nodes, "replicas", replicas, "settled", map[bool]int{true: 1}[g.Settled], "lag", lag, "keys", g.Keys, "bytes", g.Bytes, "decisions", g.Decisions, "decisions-per-second", g.Rate)
	}
}

func (r *Replication) plan(c *call) {
	var lines []string
	c.Client.Background(func() error {
		lines = r.Directory.Plan()
		return nil
	}, func(error) {
		c.Array(len(lines))
		for _, line := range lines {
			c.Text(line)
		}
	})
}

// transferGroup is RAFT TRANSFER group id.
func (r *Replication) transferGroup(c *call) {
	group, ok := resp.ParseInt(c.Args[2])
	if !ok || group < 1 || group > int64(r.Directory.Count) {
		c.Fail("ERR the group must be an integer from 1 to " + strconv.Itoa(r.Directory.Count) + ": " + resp.Quote(c.Args[2]))
		return
	}
	id := string(c.Args[3])
	r.change(c, func() error { return r.Directory.Transfer(int(group), id) })
}

// replicas is RAFT REPLICAS.
func (r *Replication) replicas(c *call) {
	if len(c.Args) == 2 {
		c.Int(int64(r.Directory.Replicas()))
		return
	}
	n, ok := resp.ParseInt(c.Args[2])
	switch {
	case len(c.Args) > 3:
		c.Fail(spec.ErrSyntax)
	case !ok || n != 1 && n != 3 && n != 5:
		c.Fail("ERR the number of replicas must be 1, 3 or 5: " + resp.Quote(c.Args[2]))
	default:
		r.change(c, func() error { return r.Directory.SetReplicas(int(n)) })
	}
}

func (r *Replication) drain(c *call) {
	id, on := string(c.Args[2]), len(c.Args) == 3
	if !on && (len(c.Args) != 4 || !strings.EqualFold(string(c.Args[3]), "OFF")) {
		c.Fail(spec.ErrSyntax)
		return
	}
	r.change(c, func() error { return r.Directory.Drain(id, on) })
}
