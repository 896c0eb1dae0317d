package replication

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// deleteMost is how many entries are deleted in one transaction.
const deleteMost = 1024

// guarded is a log and a stable store whose errors end the node: the node retries none and
// hides none. A write that hangs ends it as well.
type guarded struct {
	raft.LogStore
	stable    raft.StableStore
	snapshots *snapshotStore // nil if there are none
	elapsed   func() int64   // a monotonic time, in ns
	stall     time.Duration  // see Options
	fatal     func(error)
	ended     atomic.Pointer[error]
	writes    writeTimes
}

// guard runs a write.
func (g *guarded) guard(what string, write func() error) error {
	limit := orDefault(g.stall, stallLimit)
	watch := watchStall(limit, func() {
		g.end(fmt.Errorf("replication: %s has taken %v: the disk hangs", what, limit))
	})
	began := g.elapsed()
	err := write()
	g.writes.add(g.elapsed() - began)
	watch.stop()
	if err != nil {
		err = fmt.Errorf("replication: %s: %w", what, err)
		g.end(err)
	}
	return err
}

func (g *guarded) end(err error) {
	if g.ended.CompareAndSwap(nil, &err) {
		g.fatal(err)
	}
}

// StoreLog stores one entry.
func (g *guarded) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

// StoreLogs stores entries, all or none.
func (g *guarded) StoreLogs(logs []*raft.Log) error {
	return g.guard("a write of the log", func() error { return g.LogStore.StoreLogs(logs) })
}

// DeleteRange deletes entries in pieces, so that other writes come between. What goes
// on to the log's end goes from the end: a log that ends in the middle of this has no gap.
func (g *guarded) DeleteRange(first, last uint64) error {
	begin, err := g.FirstIndex()
	if err != nil || begin == 0 {
		return err
	}
	return g.guardEach(max(first, begin), last, first > begin)
}

func (g *guarded) guardEach(first, last uint64, fromEnd bool) error {
	for first <= last {
		from, to := first, min(last, first+deleteMost-1)
		if fromEnd {
			from, to = max(first, last-min(last, deleteMost-1)), last
		}
		if err := g.guard("a cut of the log", func() error { return g.LogStore.DeleteRange(from, to) }); err != nil {
			return err
		}
		if fromEnd {
			last = from - 1
		} else {
			first = to + 1
		}
	}
	return nil
}

// Set stores a value.
func (g *guarded) Set(key, val []byte) error {
	return g.orGoexit(g.guard("a write of the term", func() error { return g.stable.Set(key, val) }))
}

// SetUint64 stores a number.
func (g *guarded) SetUint64(key []byte, val uint64) error {
	return g.orGoexit(g.guard("a write of the term", func() error { return g.stable.SetUint64(key, val) }))
}

// orGoexit ends Raft's goroutine after an error, where Raft would panic: the node stops in order, and
// says why.
func (g *guarded) orGoexit(err error) error {
	if err != nil {
		runtime.Goexit()
	}
	return nil
}

// Get returns a value. Raft tells one that is not there by the error's text, which is raft-boltdb's.
func (g *guarded) Get(key []byte) ([]byte, error) { return g.stable.Get(key) }

// GetUint64 returns a number, 0 where there is none.
func (g *guarded) GetUint64(key []byte) (uint64, error) {
	v, err := g.stable.GetUint64(key)
	if errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return 0, nil
	}
	return v, err
}
