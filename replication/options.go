package replication

import (
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"limitdb/internal/group"
)

// Options configure a node.
type Options struct {
	// ID is the node's name in its cluster, which never changes. Address is where clients reach it.
	ID, Address string
	Table       Table
	Clock       Clock
	// Fatal is called once when the node cannot continue. It must not block.
	Fatal func(error)
	// Changed is called when the node begins to lead, stops leading, or learns of another leader. It must not block.
	Changed func()
	Log     *slog.Logger
	// Asks serves a connection on which another node asks something about groups, and closes it. from is that node's server id. If Asks is nil, such
	// connections are refused.
	Asks func(c net.Conn, from string)
	// Clients serves a connection on which another node forwards its clients' commands, and closes it. from names that
	// node. If Clients is nil, such connections are refused.
	Clients func(c net.Conn, from string)
	// Agree returns the settings that must be the same on all nodes, by name. Nodes compare them, and warn.
	Agree func() map[string]string
	// Heartbeat is after how long without the leader a node asks for votes, Election how long it waits for them, Lease
	// after how long without a majority a leader steps down. 0 stands for the default. That of Lease is Heartbeat: with
	// a shorter one, a stall that no follower has noticed would cost the leadership.
	Heartbeat, Election, Lease time.Duration
	// Idle returns after how long without changes the group that leads proposes an empty group of changes, which carries the replicated
	// time on. If it is nil, that is a second.
	Idle func() time.Duration
	// Surveyed says that the owner of the node asks the other nodes what they are, and calls Node.Told. Else the node asks the other members
	// itself, once a second.
	Surveyed bool
	// Turns counts the turns of the group in this process, over the nodes that it opens for the group one after the other, so that no turn comes
	// twice. If it is nil, the node counts its own.
	Turns *atomic.Uint64
	// Beat, if it is not nil, says when the node's rounds begin. The nodes of one process share it.
	Beat *group.Beat
	// Away has what was said of nodes that are not reached, so that it is said once. The nodes of one process share it. If it is nil, the node has
	// its own.
	Away *Warnings
	// SnapshotBytes is after how many bytes of log a snapshot is made, TrailingBytes about how many stay behind it. 0
	// stands for the default.
	SnapshotBytes, TrailingBytes int64

	server string        // the node's server id: see identity.go; in tests, just its ID
	stall  time.Duration // how long a write of the log may take; 0 for stallLimit
}

// The defaults of the timeouts. A follower whose disk stalls for longer than the heartbeat's timeout asks for votes,
// because heartbeats wait for the disk.
const (
	defaultHeartbeat = 500 * time.Millisecond
	defaultElection  = 500 * time.Millisecond
)

// config is Raft's, see PROTOCOL.md for the reasons.
func (o *Options) config() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(o.server)
	c.HeartbeatTimeout = orDefault(o.Heartbeat, defaultHeartbeat)
	c.ElectionTimeout = orDefault(o.Election, defaultElection)
	c.LeaderLeaseTimeout = orDefault(o.Lease, c.HeartbeatTimeout)
	c.MaxAppendEntries = 64 // or fewer, by their bytes: see peers.Bound
	c.BatchApplyCh = false
	c.ShutdownOnRemove = false
	c.NoLegacyTelemetry = true
	// Bytes of log trigger snapshots, not entries.
	c.SnapshotThreshold = 1 << 62
	c.SnapshotInterval = 24 * time.Hour
	c.TrailingLogs = trailingLeast
	c.Logger = newRaftLog(o.Log, o.Away)
	return c
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// nodeNumber returns the number of a node in the ids of its epochs. Two nodes may share a number, because each id also
// has a random part.
func nodeNumber(name string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}
