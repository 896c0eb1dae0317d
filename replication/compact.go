package replication

import (
	"errors"
	"log/slog"
	"sync"

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

// compactor makes snapshots as the log grows.
type compactor struct {
	raft *raft.Raft // nil until Raft has started
	life *lifetime
	log  *slog.Logger
	// after is after how many bytes of log a snapshot is made, trailing about how many stay behind it.
	after, trailing int64
	grown           chan struct{} // a snapshot is due

	// mu guards what was logged since the last snapshot began.
	mu             sync.Mutex
	bytes, entries uint64
	bad            bool // the newest snapshot is damaged
}

func newCompactor(o *Options, life *lifetime) *compactor {
	trailing := o.TrailingBytes
	if trailing == 0 {
		trailing = trailingBytes
	}
	return &compactor{life: life, log: o.Log, after: o.snapshotAfter(), trailing: trailing, grown: make(chan struct{}, 1)}
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

// snapshot is Node.Snapshot.
func (c *compactor) snapshot() error {
	c.mu.Lock()
	bytes, entries := c.bytes, c.entries
	c.bytes, c.entries, c.bad = 0, 0, false
	c.mu.Unlock()
	if entries > 0 {
		// Raft counts entries; ours are large or small.
		conf := c.raft.ReloadableConfig()
		conf.TrailingLogs = max(uint64(c.trailing)*entries/max(bytes, 1), trailingLeast)
		if err := c.raft.ReloadConfig(conf); err != nil {
			return err
		}
	}
	err := c.life.request(func() raft.Future { return c.raft.Snapshot() })
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// grew counts an entry of the log.
func (c *compactor) grew(bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += uint64(bytes)
	c.entries++
	if c.due() {
		signal(c.grown)
	}
}

// due reports whether the log has grown enough for a snapshot, or the newest one is damaged. The lock is held.
func (c *compactor) due() bool { return int64(c.bytes) >= c.after || c.bad }

// damaged has the node make a new snapshot in place of a damaged one, that with a last entry. Raft sends the new one next. If none can be made now,
// Raft's next attempt finds the damage again.
func (c *compactor) damaged(last uint64, err error) {
	c.log.Error("a snapshot on the disk is damaged: it is not sent, and the node makes a new one", "last", last, "err", err)
	c.mu.Lock()
	c.bad = true
	c.mu.Unlock()
	signal(c.grown)
}

// run makes snapshots until the node stops.
func (c *compactor) run() {
	for {
		select {
		case <-c.life.stop:
			return
		case <-c.grown:
		}
		c.mu.Lock()
		due := c.due() // the signal may be older than the last snapshot
		c.mu.Unlock()
		if !due {
			continue
		}
		if err := c.snapshot(); err != nil {
			c.log.Info("no snapshot was made: the node tries again later", "err", err)
		}
	}
}
