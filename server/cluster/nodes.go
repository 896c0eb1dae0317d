package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
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

// CLUSTER, for clients that know clusters. All slots belong to the node that decides; the other nodes are its replicas.
// There is one group of nodes, so no slot ever moves alone.

// slotCount is how many slots there are.
const slotCount = 16384

// shard describes the nodes, for CLUSTER.
type shard struct {
	stats.Replication
	// nodes are the members whose address for clients is known. The first is the primary: the node that decides, or
	// this one while none is known, so that a client asks this one again.
	nodes []Member
	// absent are the other members.
	absent []Member
}

// shard returns the nodes, or replies with the error.
func (r *Replication) shard(c *call) (s shard, ok bool) {
	all, err := r.Members()
	if err != nil {
		c.Fail("ERR " + resp.Excerpt([]byte(spec.Plain(err))))
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

// asked is shard for a client that asks for the nodes, and so knows clusters. A node that has just started and does not know who decides
// replies with an error, and the client asks another one.
func (r *Replication) asked(c *call) (s shard, ok bool) {
	if s, ok = r.shard(c); !ok {
		return s, false
	}
	if c.Client != nil {
		c.Client.KnowsClusters()
	}
	if s.Behind && s.Leader == "" {
		c.Fail(errBehind)
		return s, false
	}
	return s, true
}

// roleOf returns what Redis calls the role of a node.
func (s *shard) roleOf(m *Member) string {
	if len(s.nodes) > 0 && m.ID == s.nodes[0].ID {
		return "master"
	}
	return "replica"
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
			sub("NODES", 2, about, each, "Returns the nodes, a line for each.", r.nodes),
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
	s, ok := r.asked(c)
	if !ok {
		return
	}
	c.Array(1)
	c.Array(2 + len(s.nodes))
	c.Int(0)
	c.Int(slotCount - 1)
	for _, m := range s.nodes {
		host, port := splitAddress(m.Client)
		c.Array(4)
		c.Text(host)
		c.Int(int64(port))
		c.Text(NodeID(m.ID))
		c.Array(0)
	}
}

func (r *Replication) shards(c *call) {
	s, ok := r.asked(c)
	if !ok {
		return
	}
	c.Array(1)
	c.Map(2)
	c.Text("slots")
	c.Array(2)
	c.Int(0)
	c.Int(slotCount - 1)
	c.Text("nodes")
	c.Array(len(s.nodes))
	for i := range s.nodes {
		m := &s.nodes[i]
		host, port := splitAddress(m.Client)
		health := "online"
		if m.Self && !s.Current {
			health = "loading"
		}
		c.Fields("id", NodeID(m.ID), "port", port, "ip", host, "endpoint", host, "role", s.roleOf(m), "replication-offset", m.Last, "health", health)
	}
}

// nodes replies a line for each node: id, address, flags, the id of its master, two times, the term, whether it answers, slots.
func (r *Replication) nodes(c *call) {
	s, ok := r.asked(c)
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
		fmt.Fprintf(&b, "%s %s:%d@%d %s %s 0 0 %d %s%s\n", NodeID(m.ID), host, port, bus, flags, master, s.Term, link, slots)
	}
	master := "-"
	for i := range s.nodes {
		m := &s.nodes[i]
		if i == 0 {
			line(m, "master", "-", "connected", " 0-"+strconv.Itoa(slotCount-1))
			master = NodeID(m.ID)
			continue
		}
		line(m, "slave", master, "connected", "")
	}
	for i := range s.absent {
		line(&s.absent[i], "slave,fail,noaddr", master, "disconnected", "")
	}
	c.Verbatim(b.String())
}

func (r *Replication) info(c *call) {
	s, ok := r.shard(c)
	if !ok {
		return
	}
	state, served := "ok", slotCount
	if s.Leader == "" {
		state, served = "fail", 0
	}
	t := info.Text{}
	t.Field("cluster_enabled", 1)
	t.Field("cluster_state", state)
	t.Field("cluster_slots_assigned", slotCount)
	t.Field("cluster_slots_ok", served)
	t.Field("cluster_slots_pfail", 0)
	t.Field("cluster_slots_fail", slotCount-served)
	t.Field("cluster_known_nodes", len(s.nodes)+len(s.absent))
	t.Field("cluster_size", 1)
	t.Field("cluster_current_epoch", s.Term)
	t.Field("cluster_my_epoch", s.Term)
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
