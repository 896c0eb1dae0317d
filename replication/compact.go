package replication

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// A snapshot is made after snapshotBytes to one and a half times as many bytes of log: see snapshotAfter.
	snapshotBytes = 64 << 20
	// trailingBytes is about how many bytes of log stay behind a snapshot, for followers that were away for a moment.
	// At least trailingLeast entries stay.
	trailingBytes = 64 << 20
	trailingLeast = 64
)

// Snapshot makes a snapshot, and blocks until it is durable. It returns ErrNotReady while the table is being rebuilt,
// and if the node abdicates meanwhile.
func (n *Node) Snapshot() error {
	n.mu.Lock()
	bytes, entries := n.logBytes, n.logEntries
	n.logBytes, n.logEntries = 0, 0
	n.mu.Unlock()
	if entries > 0 {
		// Raft counts entries; ours are large or small.
		trailing := uint64(n.o.trailing()) * entries / max(bytes, 1)
		if err := n.raft.ReloadConfig(n.reloadable(max(trailing, trailingLeast))); err != nil {
			return err
		}
	}
	err := n.request(func() raft.Future { return n.raft.Snapshot() })
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// SetTimeouts changes the timeouts of a running node: see Options.
func (n *Node) SetTimeouts(heartbeat, election time.Duration) error {
	c := n.raft.ReloadableConfig()
	c.HeartbeatTimeout, c.ElectionTimeout = orDefault(heartbeat, defaultHeartbeat), orDefault(election, defaultElection)
	if c.HeartbeatTimeout < n.lease {
		return fmt.Errorf("the lease timeout is %v since the start, and the heartbeat timeout must not be less", n.lease)
	}
	return n.raft.ReloadConfig(c)
}

func (n *Node) reloadable(trailing uint64) raft.ReloadableConfig {
	c := n.raft.ReloadableConfig()
	c.TrailingLogs = trailing
	return c
}

func (o *Options) trailing() int64 {
	if o.TrailingBytes == 0 {
		return trailingBytes
	}
	return o.TrailingBytes
}

// snapshotAfter returns after how many bytes of log this node makes a snapshot. All nodes count the same log. With the
// same number, all would make their snapshots at once, and no majority would be free of that work.
func (o *Options) snapshotAfter() int64 {
	after := o.SnapshotBytes
	if after == 0 {
		after = snapshotBytes
	}
	const shares = 16
	return after + after/2*int64(nodeNumber(o.ID)%shares)/shares
}

// grew counts an entry of the log. The lock is held.
func (n *Node) grew(bytes int) {
	n.logBytes += uint64(bytes)
	n.logEntries++
	if n.due() {
		signal(n.grown)
	}
}

// due reports whether the log has grown enough for a snapshot. The lock is held.
func (n *Node) due() bool { return int64(n.logBytes) >= n.o.snapshotAfter() }

// compact makes snapshots as the log grows.
func (n *Node) compact() {
	defer n.loops.Done()
	for {
		select {
		case <-n.stop:
			return
		case <-n.grown:
		}
		n.mu.Lock()
		due := n.due() // the signal may be older than the last snapshot
		n.mu.Unlock()
		if !due {
			continue
		}
		if err := n.Snapshot(); err != nil {
			n.log.Info("no snapshot was made: the node tries again later", "err", err)
		}
	}
}
