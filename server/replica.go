package server

import (
	"strconv"

	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/resp"
)

// Replication is the server's interface to the code that keeps its state on several nodes. Any
// goroutine may call the functions. Those that block say so.
type Replication struct {
	// Leader returns the id of this node, and the address at which clients reach the leader,
	// "" while that is unknown.
	Leader func() (id, leader string)
	// Members returns the nodes of the cluster.
	Members func() ([]Member, error)
	// Status is what this node knows of itself and the cluster.
	Status func() stats.Replication
	// Table has the states that the node holds while another leads.
	Table func() *engine.Engine
	// Add makes a node a member, and blocks until it has a vote.
	Add func(id, address string) error
}

// Member is a node of the cluster.
type Member struct {
	ID, Address   string // Address is the one that peers dial
	Voter, Leader bool
	Self          bool   // this node
	Client        string // where clients reach it, "" if it does not answer
	Last          uint64 // the last entry of the log that it is known to have
}

// states returns the engine in force. A node uses a new engine each time that it becomes leader,
// so that a late decision meets a closed engine.
func (srv *Server) states() *engine.Engine { return srv.engine.Load() }

// Lead puts an engine in force and allows decisions on it.
func (srv *Server) Lead(e *engine.Engine) {
	srv.engine.Store(e)
	srv.setSpecial(specialFollowing, false)
	select {
	case srv.swapped <- struct{}{}:
	default:
	}
}

// Follow makes the server refuse commands that read or change state from now on, and tell
// clients which node serves them. Commands admitted before still reach the engine, which the
// caller closes.
func (srv *Server) Follow() { srv.setSpecial(specialFollowing, true) }

// elsewhere returns the error for a command that another node must serve.
func (c *call) elsewhere() string {
	if c.srv.opts.Replication == nil {
		return errNoLeader
	}
	_, leader := c.srv.opts.Replication.Leader()
	if leader == "" {
		return errNoLeader
	}
	slot := 0
	first := true
	c.cmd.keys(c.args, func(i int) {
		if first {
			slot, first = resp.Slot(c.args[i]), false
		}
	})
	return "MOVED " + strconv.Itoa(slot) + " " + leader
}

// raftCommands are the commands about the nodes of a cluster.
func raftCommands() []command {
	row := func(name string, arity int, f flags, summary string, run func(*call), args ...argument) command {
		return command{
			name: name, arity: arity, flags: f, group: "cluster", since: "1.0.0",
			complexity: "O(1)", summary: summary, args: args, run: run,
		}
	}
	text := func(name string) argument { return argument{name: name, kind: "string"} }
	return []command{{
		name: "RAFT", arity: -2, group: "cluster", since: "1.0.0", complexity: "O(1)",
		summary: "A container for commands about the nodes that hold one state.",
		subs: []command{
			row("LEADER", 2, flagFast|flagLoading|flagStale, "Returns the address at which clients reach the node that leads, or null.", (*call).raftLeader),
			row("LIST", 2, flagAdmin|flagLoading|flagStale, "Returns the nodes of the cluster: id, address for peers, voter or nonvoter, leader or follower.", (*call).raftList),
			row("ADD", 4, flagAdmin|flagClient, "Makes a node a member, and replies when it has a vote.", (*call).raftAdd, text("id"), text("address")),
			row("HELP", 2, flagLoading|flagStale, "Lists the subcommands.", (*call).help),
			row("ID", 2, flagFast|flagLoading|flagStale, "Returns the id of this node.", func(c *call) {
				if r := c.replicated(); r != nil {
					id, _ := r.Leader()
					c.bulk([]byte(id))
				}
			}),
		},
	}}
}

// replicated returns the server's Replication. If there is none, it replies with an error and
// returns nil.
func (c *call) replicated() *Replication {
	if c.srv.opts.Replication == nil {
		c.fail(errNoRaft)
	}
	return c.srv.opts.Replication
}

func (c *call) raftLeader() {
	r := c.replicated()
	if r == nil {
		return
	}
	if _, leader := r.Leader(); leader != "" {
		c.bulk([]byte(leader))
		return
	}
	c.null()
}

func (c *call) raftList() {
	r := c.replicated()
	if r == nil {
		return
	}
	all, err := r.Members()
	if err != nil {
		c.fail("ERR " + plainCut([]byte(err.Error())))
		return
	}
	c.array(len(all))
	for _, m := range all {
		c.array(4)
		c.bulk([]byte(m.ID))
		c.bulk([]byte(m.Address))
		c.text(map[bool]string{true: "voter", false: "nonvoter"}[m.Voter])
		c.text(map[bool]string{true: "leader", false: "follower"}[m.Leader])
	}
}

func (c *call) raftAdd() {
	r := c.replicated()
	if r == nil {
		return
	}
	id, address := string(c.args[2]), string(c.args[3])
	c.inBackground(func() error { return r.Add(id, address) }, func(err error) {
		if err != nil {
			c.fail("ERR " + plainCut([]byte(err.Error())))
			return
		}
		c.ok()
	})
}
