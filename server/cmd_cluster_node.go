package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/server/keys"
	"limitdb/server/spec"
)

// CLUSTER, for clients that know clusters. All slots are those of the node that decides; the others are its replicas. There is
// one group of nodes, so no slot ever moves without the others.

// slots is how many there are.
const slots = 16384

// shard is what CLUSTER says of the nodes.
type shard struct {
	stats.Replication
	// nodes are the members of which an address for clients is known, the primary first: the node that decides, or this one
	// while none is known. A client asks that one again, and learns which node decides.
	nodes []Member
	// absent are the other members.
	absent []Member
}

// shard returns the nodes, or replies with the error.
func (c *call) shard() (s shard, ok bool) {
	r := c.srv.opts.Replication
	if r == nil {
		c.Fail(errNoCluster)
		return s, false
	}
	all, err := r.Members()
	if err != nil {
		c.Fail("ERR " + resp.Excerpt([]byte(err.Error())))
		return s, false
	}
	s.Replication = r.Status()
	for _, m := range all {
		first := m.Self && s.Leader == "" || m.Client != "" && m.Client == s.Leader
		switch {
		case m.Client == "":
			s.absent = append(s.absent, m)
		case first:
			s.nodes = append([]Member{m}, s.nodes...)
		default:
			s.nodes = append(s.nodes, m)
		}
	}
	return s, true
}

// role is what Redis calls the role of a node.
func (s *shard) role(m *Member) string {
	if len(s.nodes) > 0 && m.ID == s.nodes[0].ID {
		return "master"
	}
	return "replica"
}

// nodeID is the name of a node as Redis has it, 40 digits: of its raft-id.
func nodeID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:20])
}

// clusterSubs are the subcommands of CLUSTER.
func clusterSubs() []command {
	const about = spec.Loading | spec.Stale
	row := func(name string, arity int, f spec.Flags, complexity, summary string, run func(*call), args ...spec.Argument) command {
		return rows("cluster", complexity, 0)(name, arity, f, summary, run, args...)
	}
	const each = "O(n) for n nodes"
	return []command{
		row("SLOTS", 2, about, each, "Returns the nodes of all slots, first the one that decides.", (*call).clusterSlots),
		row("SHARDS", 2, about, each, "Returns the nodes of all slots, with their roles and whether they answer.", (*call).clusterShards),
		row("NODES", 2, about, each, "Returns the nodes, a line for each.", (*call).clusterNodes),
		row("INFO", 2, about, each, "Returns the state of the cluster.", (*call).clusterInfo),
		row("MYID", 2, about, "O(1)", "Returns the name of this node in the other replies.", (*call).clusterMyID),
		row("KEYSLOT", 3, about, "O(n) for n bytes", "Returns the slot of a key.", (*call).clusterKeySlot, spec.Text("key")),
		row("COUNTKEYSINSLOT", 3, spec.Readonly|spec.StaleRead, "O(n) for n keys in the table", "Counts the keys of a slot.", (*call).clusterCountKeys, spec.Integer("slot")),
		row("HELP", 2, about, "O(1)", "Lists the subcommands.", (*call).help),
	}
}

func (c *call) clusterSlots() {
	s, ok := c.shard()
	if !ok {
		return
	}
	c.asksForNodes()
	c.Array(1)
	c.Array(2 + len(s.nodes))
	c.Int(0)
	c.Int(slots - 1)
	for _, m := range s.nodes {
		host, port := splitAddress(m.Client)
		c.Array(4)
		c.Text(host)
		c.Int(int64(port))
		c.Text(nodeID(m.ID))
		c.Array(0)
	}
}

func (c *call) clusterShards() {
	s, ok := c.shard()
	if !ok {
		return
	}
	c.asksForNodes()
	c.Array(1)
	c.Map(2)
	c.Text("slots")
	c.Array(2)
	c.Int(0)
	c.Int(slots - 1)
	c.Text("nodes")
	c.Array(len(s.nodes))
	for i := range s.nodes {
		m := &s.nodes[i]
		host, port := splitAddress(m.Client)
		c.Map(7)
		c.Text("id")
		c.Text(nodeID(m.ID))
		c.Text("port")
		c.Int(int64(port))
		c.Text("ip")
		c.Text(host)
		c.Text("endpoint")
		c.Text(host)
		c.Text("role")
		c.Text(s.role(m))
		c.Text("replication-offset")
		c.Int(int64(m.Last))
		c.Text("health")
		if m.Self && !s.Current {
			c.Text("loading")
		} else {
			c.Text("online")
		}
	}
}

// clusterNodes replies a line for each node: id, address, flags, the id of its master, two times, the term, whether it answers, slots.
func (c *call) clusterNodes() {
	s, ok := c.shard()
	if !ok {
		return
	}
	c.asksForNodes()
	var b strings.Builder
	line := func(m *Member, flags, master, link, slots string) {
		if m.Self {
			flags = "myself," + flags
		}
		host, port := splitAddress(m.Client)
		_, bus := splitAddress(m.Address)
		fmt.Fprintf(&b, "%s %s:%d@%d %s %s 0 0 %d %s%s\n", nodeID(m.ID), host, port, bus, flags, master, s.Term, link, slots)
	}
	master := "-"
	for i := range s.nodes {
		m := &s.nodes[i]
		if i == 0 {
			line(m, "master", "-", "connected", " 0-"+strconv.Itoa(slots-1))
			master = nodeID(m.ID)
			continue
		}
		line(m, "slave", master, "connected", "")
	}
	for i := range s.absent {
		line(&s.absent[i], "slave,fail,noaddr", master, "disconnected", "")
	}
	c.Verbatim(b.String())
}

func (c *call) clusterInfo() {
	s, ok := c.shard()
	if !ok {
		return
	}
	state, served := "ok", slots
	if s.Leader == "" {
		state, served = "fail", 0
	}
	t := infoText{}
	t.field("cluster_enabled", 1)
	t.field("cluster_state", state)
	t.field("cluster_slots_assigned", slots)
	t.field("cluster_slots_ok", served)
	t.field("cluster_slots_pfail", 0)
	t.field("cluster_slots_fail", slots-served)
	t.field("cluster_known_nodes", len(s.nodes)+len(s.absent))
	t.field("cluster_size", 1)
	t.field("cluster_current_epoch", s.Term)
	t.field("cluster_my_epoch", s.Term)
	c.Verbatim(string(t.b))
}

func (c *call) clusterMyID() {
	if r := c.srv.opts.Replication; r != nil {
		id, _ := r.Leader()
		c.Text(nodeID(id))
		return
	}
	c.Fail(errNoCluster)
}

func (c *call) clusterKeySlot() {
	if c.srv.opts.Replication == nil {
		c.Fail(errNoCluster)
		return
	}
	c.Int(int64(resp.Slot(c.Args[2])))
}

func (c *call) clusterCountKeys() {
	if c.srv.opts.Replication == nil {
		c.Fail(errNoCluster)
		return
	}
	slot, ok := resp.ParseInt(c.Args[2])
	switch {
	case !ok:
		c.Fail(spec.ErrNotInt)
		return
	case slot < 0 || slot >= slots:
		c.Fail("ERR Invalid slot")
		return
	}
	n, cursor := int64(0), uint64(0)
	visit := func(key []byte, _ engine.Info) {
		if resp.Slot(key) == int(slot) {
			n++
		}
	}
	c.InSteps(nil, func() bool {
		if cursor = c.States().Range(c.Now, cursor, keys.WalkStep, visit); cursor != 0 {
			return false
		}
		c.Int(n)
		return true
	})
}

// readsMay is READONLY and READWRITE: whether a node that does not lead may serve reads from its own table.
func (c *call) readsMay(on bool) {
	if c.srv.opts.Replication == nil {
		c.Fail(errNoCluster)
		return
	}
	c.client.knowsClusters, c.client.readOnly = true, on
	c.OK()
}

// asksForNodes notes that the client knows clusters: from now on it is told which node leads.
func (c *call) asksForNodes() {
	if c.client != nil {
		c.client.knowsClusters = true
	}
}
