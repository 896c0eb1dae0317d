package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/info"
	"limitdb/server/keys"
	"limitdb/server/spec"
)

type (
	call = handler.Call
	row  = handler.Row[call]
)

// The error texts for clients.
const (
	ErrNoRaft    = "ERR this server stands alone: raft-addr is not set"
	ErrNoCluster = "ERR This instance has cluster support disabled"
	errBehind    = "LOADING this node has not yet caught up with the others"
)

// CLUSTER, for clients that know clusters. All slots of a group belong to the node that decides there. While none is known, they belong to
// this node, so that a client asks this one again: clients refuse a map with holes. No slot ever moves alone.
//
// A node has one role for clients, which some of them rely on: one that leads any group is a primary, and the others are replicas.

// slotCount is how many slots there are.
const slotCount = resp.Slots

// layout describes the nodes, for CLUSTER.
type layout struct {
	stats.Replication
	nodes  []node // whose address for clients is known, those that lead first
	absent []Member
	ranges []slotRange // of all groups, in order
	known  int         // slots of groups whose leader is known
}

// node is a node that answers.
type node struct {
	Member
	slots  []slotRange // that it decides; none: it is a replica
	master int         // of a replica: the index of the node whose slots it has as well
}

// slotRange is the slots of a group.
type slotRange struct {
	first, last int
	leader      int   // the index of a node
	replicas    []int // of those that lead no group
}

// layout returns the nodes, or replies with the error.
func (r *Replication) layout(c *call) (l *layout, ok bool) {
	all, err := r.Members()
	if err != nil {
		c.Fail("ERR " + resp.Excerpt([]byte(spec.Plain(err))))
		return nil, false
	}
	l = &layout{Replication: r.Status()}
	of := r.Keyed
	if len(of) == 0 {
		of = []*Replication{r}
	}
	self, at := 0, map[string]int{} // by the address for clients
	for _, m := range all {
		if m.Client == "" {
			l.absent = append(l.absent, m)
			continue
		}
		if m.Self {
			self = len(l.nodes)
		}
		at[m.Client] = len(l.nodes)
		l.nodes = append(l.nodes, node{Member: m, master: -1})
	}
	if len(l.nodes) == 0 {
		return l, true
	}
	for i, g := range of {
		first, last := i*slotCount/len(of), (i+1)*slotCount/len(of)-1
		leader := self
		if _, address := g.Leader(); address != "" {
			if n, there := at[address]; there {
				leader = n
				l.known += last - first + 1
			}
		}
		l.ranges = append(l.ranges, slotRange{first: first, last: last, leader: leader})
		l.nodes[leader].slots = append(l.nodes[leader].slots, l.ranges[i])
	}
	for i, g := range of {
		members := all
		if len(of) > 1 {
			members, _ = g.Members() // none while the node starts
		}
		for _, m := range members {
			if n, there := at[m.Client]; there && len(l.nodes[n].slots) == 0 {
				l.ranges[i].replicas = append(l.ranges[i].replicas, n)
				if l.nodes[n].master < 0 {
					l.nodes[n].master = l.ranges[i].leader
				}
			}
		}
	}
	return l, true
}

// asked is layout for a client that asks for the nodes, and so knows clusters. A node that has just started and does not know who decides
// replies with an error, and the client asks another one.
func (r *Replication) asked(c *call) (l *layout, ok bool) {
	if l, ok = r.layout(c); !ok {
		return l, false
	}
	if c.Client != nil {
		c.Client.KnowsClusters()
	}
	if l.Behind && l.Leader == "" {
		c.Fail(errBehind)
		return l, false
	}
	return l, true
}

// role returns what Redis calls the role of a node.
func (n *node) role() string {
	if len(n.slots) > 0 {
		return "master"
	}
	return "replica"
}

// masterOf returns the name of the node whose replica n is, "-" if it is known of none.
func (l *layout) masterOf(n *node) string {
	switch {
	case n.master >= 0:
		return NodeID(l.nodes[n.master].ID)
	case len(l.ranges) > 0:
		return NodeID(l.nodes[l.ranges[0].leader].ID)
	}
	return "-"
}

// NodeID returns the name of a node in Redis' form, 40 digits that follow from its raft-id.
func NodeID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:20])
}

// Rows returns the commands of the package, in the order of the reference. snapshot makes a snapshot of the node. r is nil
// for a standalone server, which says so.
func (r *Replication) Rows(snapshot func() error) []row {
	const about, conn = spec.Loading | spec.Stale, spec.Fast | spec.Loading | spec.Stale | spec.Conn
	const each = "O(n) for n nodes"
	once := handler.Rows[call]("cluster", "O(1)", 0)
	sub := func(name string, arity int, f spec.Flags, complexity, summary string, run func(*call), args ...spec.Argument) row {
		return handler.Rows[call]("cluster", complexity, f)(name, arity, 0, summary, r.inCluster(run), args...)
	}
	reads := func(on bool) func(*call) {
		return r.inCluster(func(c *call) {
			c.Client.KnowsClusters()
			c.Client.ReadsHere(on)
			c.OK()
		})
	}
	return []row{
		handler.Container("CLUSTER", "cluster", "A container for commands by which clients find the nodes. Without raft-addr, each is an error.",
			sub("SLOTS", 2, about, each, "Returns the nodes of all slots, first the one that decides.", r.slots),
			sub("SHARDS", 2, about, each, "Returns the nodes of all slots, with their roles and whether they answer.", r.shards),
			sub("NODES", 2, about, each, "Returns the nodes, a line for each.", r.nodeLines),
			sub("INFO", 2, about, each, "Returns the state of the cluster.", r.info),
			sub("MYID", 2, about, "O(1)", "Returns the name of this node in the other replies.", r.myID),
			sub("KEYSLOT", 3, about, "O(n) for n bytes", "Returns the slot of a key.", func(c *call) { c.Int(int64(resp.Slot(c.Args[2]))) }, spec.Text("key")),
			sub("COUNTKEYSINSLOT", 3, spec.Readonly|spec.StaleRead, "O(n) for n keys in the table", "Counts the keys of a slot.", countKeys, spec.Integer("slot")),
		),
		once("READONLY", 1, conn|spec.Client, "Lets a node that does not lead serve reads from its own table, which may be out of date. An error without raft-addr.", reads(true)),
		once("READWRITE", 1, conn|spec.Client, "Ends READONLY.", reads(false)),
		once("ASKING", 1, spec.Fast|spec.Conn, "Returns an error: cluster support is disabled.", func(c *call) { c.Fail(ErrNoCluster) }),
		once("ROLE", 1, spec.Fast|spec.Loading|spec.Stale|spec.Admin, "Reports whether this node leads (master) or another one does (slave), and which.", r.role),
		r.raftRow(snapshot),
	}
}

// inCluster returns run, or an error in its place if the server stands alone.
func (r *Replication) inCluster(run func(*call)) func(*call) {
	if r == nil {
		return func(c *call) { c.Fail(ErrNoCluster) }
	}
	return run
}

func (r *Replication) slots(c *call) {
	l, ok := r.asked(c)
	if !ok {
		return
	}
	c.Array(len(l.ranges))
	for i := range l.ranges {
		g := &l.ranges[i]
		c.Array(3 + len(g.replicas))
		c.Int(int64(g.first))
		c.Int(int64(g.last))
		for _, n := range append([]int{g.leader}, g.replicas...) {
			m := &l.nodes[n]
			host, port := splitAddress(m.Client)
			c.Array(4)
			c.Text(host)
			c.Int(int64(port))
			c.Text(NodeID(m.ID))
			c.Array(0)
		}
	}
}

// shards replies with a shard for each node that leads: its slots, itself and its replicas.
func (r *Replication) shards(c *call) {
	l, ok := r.asked(c)
	if !ok {
		return
	}
	var of []int
	for i := range l.nodes {
		if len(l.nodes[i].slots) > 0 {
			of = append(of, i)
		}
	}
	c.Array(len(of))
	for _, leader := range of {
		c.Map(2)
		c.Text("slots")
		c.Array(2 * len(l.nodes[leader].slots))
		for _, g := range l.nodes[leader].slots {
			c.Int(int64(g.first))
			c.Int(int64(g.last))
		}
		c.Text("nodes")
		nodes := []int{leader}
		for i := range l.nodes {
			if n := &l.nodes[i]; len(n.slots) == 0 && (n.master == leader || n.master < 0 && leader == of[0]) {
				nodes = append(nodes, i)
			}
		}
		c.Array(len(nodes))
		for _, i := range nodes {
			m := &l.nodes[i]
			host, port := splitAddress(m.Client)
			health := "online"
			if m.Self && !l.Current {
				health = "loading"
			}
			c.Fields("id", NodeID(m.ID), "port", port, "ip", host, "endpoint", host, "role", m.role(), "replication-offset", m.Last, "health", health)
		}
	}
}

// nodeLines replies a line for each node: id, address, flags, the id of its master, two times, the term, whether it answers, slots.
func (r *Replication) nodeLines(c *call) {
	l, ok := r.asked(c)
	if !ok {
		return
	}
	var b strings.Builder
	line := func(m *Member, flags, master, link, slots string) {
		if m.Self {
			flags = "myself," + flags
		}
		host, port := splitAddress(m.Client)
		_, bus := splitAddress(m.Address)
		fmt.Fprintf(&b, "%s %s:%d@%d %s %s 0 0 %d %s%s\n", NodeID(m.ID), host, port, bus, flags, master, l.Term, link, slots)
	}
	for _, leads := range []bool{true, false} {
		for i := range l.nodes {
			n := &l.nodes[i]
			switch {
			case leads != (len(n.slots) > 0):
			case leads:
				slots := ""
				for _, g := range n.slots {
					slots += fmt.Sprintf(" %d-%d", g.first, g.last)
				}
				line(&n.Member, "master", "-", "connected", slots)
			default:
				line(&n.Member, "slave", l.masterOf(n), "connected", "")
			}
		}
	}
	for i := range l.absent {
		line(&l.absent[i], "slave,fail,noaddr", l.masterOf(&node{master: -1}), "disconnected", "")
	}
	c.Verbatim(b.String())
}

func (r *Replication) info(c *call) {
	l, ok := r.layout(c)
	if !ok {
		return
	}
	state := "ok"
	if l.known < slotCount {
		state = "fail"
	}
	size := 0
	for i := range l.nodes {
		size += info.YesNo(len(l.nodes[i].slots) > 0)
	}
	t := info.Text{}
	t.Field("cluster_enabled", 1)
	t.Field("cluster_state", state)
	t.Field("cluster_slots_assigned", slotCount)
	t.Field("cluster_slots_ok", l.known)
	t.Field("cluster_slots_pfail", 0)
	t.Field("cluster_slots_fail", slotCount-l.known)
	t.Field("cluster_known_nodes", len(l.nodes)+len(l.absent))
	t.Field("cluster_size", max(1, size))
	t.Field("cluster_current_epoch", l.Term)
	t.Field("cluster_my_epoch", l.Term)
	c.Verbatim(string(t.B))
}

func (r *Replication) myID(c *call) {
	id, _ := r.Leader()
	c.Text(NodeID(id))
}

func countKeys(c *call) {
	slot, ok := resp.ParseInt(c.Args[2])
	switch {
	case !ok:
		c.Fail(spec.ErrNotInt)
		return
	case slot < 0 || slot >= slotCount:
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
