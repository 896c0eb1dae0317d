package replication

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"limitdb/internal/pulse"
	"limitdb/internal/stats"
)

// stallLimit is how long a write may take. Raft does not give up the leadership while its disk hangs.
const stallLimit = 3 * time.Second

// guarded is a log and a stable store whose errors end the node: it neither retries a failed operation
// nor hides an error. A write that hangs ends the node, too.
type guarded struct {
	raft.LogStore
	raft.StableStore
	snapshots *snapshotStore // nil if there are none
	elapsed   func() int64   // a monotonic time, in ns
	stall     time.Duration  // see Options
	fatal     func(error)
	ended     atomic.Pointer[error]
	writes    writeTimes
}

// guard runs a write, and ends the node if it fails or hangs. From then on it runs none: Raft may try again while the node stops, and
// what follows a write that failed is not durable, whatever the disk says.
func (g *guarded) guard(what string, write func() error) error {
	if ended := g.ended.Load(); ended != nil {
		return *ended
	}
	limit := orDefault(g.stall, stallLimit)
	watch := pulse.NewWatch(limit, func() {
		g.end(fmt.Errorf("replication: %s has taken %v: the disk hangs", what, limit))
	})
	began := g.elapsed()
	err := write()
	g.writes.add(g.elapsed() - began)
	watch.Stop()
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

// StoreLogs stores all of the entries, or none.
func (g *guarded) StoreLogs(logs []*raft.Log) error {
	if err := g.sees(logs[len(logs)-1].Term); err != nil {
		return err
	}
	return g.guard("a write of the log", func() error { return g.LogStore.StoreLogs(logs) })
}

// DeleteRange deletes the entries of a range that the log has. They are at the beginning or at the end of
// the log.
func (g *guarded) DeleteRange(first, last uint64) error {
	begin, err := g.FirstIndex()
	if err != nil || begin == 0 {
		return err
	}
	return g.guard("a cut of the log", func() error { return g.LogStore.DeleteRange(max(first, begin), last) })
}

// Set stores a value.
func (g *guarded) Set(key, val []byte) error {
	return g.orGoexit(g.guard("a write of the term", func() error { return g.StableStore.Set(key, val) }))
}

// sees makes the stored term at least that of an entry or a snapshot that is about to be stored, so that a term which is behind the log is one
// that was lost. Raft's own may be behind: a leader that has just been deposed sends on, in its term, and what it sends may have come from
// the next leader.
func (g *guarded) sees(term uint64) error {
	if term <= g.term() {
		return nil
	}
	return g.guard("a write of the term", func() error { return g.StableStore.SetUint64([]byte(termKey), term) })
}

// term returns the stored term, 0 before the first.
func (g *guarded) term() uint64 {
	term, _ := g.StableStore.GetUint64([]byte(termKey))
	return term
}

// SetUint64 stores a number. It keeps a later term than the one that Raft knows of: see sees.
func (g *guarded) SetUint64(key []byte, val uint64) error {
	if string(key) == termKey && val < g.term() {
		return nil
	}
	return g.orGoexit(g.guard("a write of the term", func() error { return g.StableStore.SetUint64(key, val) }))
}

// apart runs a part of Raft in a goroutine of its own, because an error of the store ends that goroutine. It returns
// that error, or what f returns.
func (g *guarded) apart(f func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%v", r)
			}
		}()
		err = f()
	}()
	<-done
	if ended := g.ended.Load(); ended != nil {
		return *ended
	}
	if err != nil {
		err = fmt.Errorf("replication: %w", err)
	}
	return err
}

// orGoexit ends Raft's goroutine after an error. Raft would panic; this way the node stops in order, and
// reports the error.
func (g *guarded) orGoexit(err error) error {
	if err != nil {
		runtime.Goexit()
	}
	return nil
}

// writeTimes counts how long the writes of the log took, each with its syncs.
type writeTimes [stats.Buckets]atomic.Uint64

func (w *writeTimes) add(took int64) { w[stats.Bucket(took)].Add(1) }

// p99 returns the time, in ns, within which 99 of 100 writes were done; 0 if there were none.
func (w *writeTimes) p99() int64 {
	var h stats.Histogram
	for i := range w {
		h.Buckets[i] = w[i].Load()
	}
	if h.Count() == 0 {
		return 0
	}
	return h.Quantile(0.99)
}
