package persistence

import (
	"sync"
	"sync/atomic"
	"time"
)

// snapshotPause is how long, in ns, the store waits after a failed snapshot before it begins one by itself.
const snapshotPause = int64(10 * time.Second)

// counters are atomic, since many goroutines write what Stats reads.
type counters struct {
	logBytes, baseBytes       atomic.Int64
	written                   atomic.Uint64
	commits, syncs, failures  atomic.Uint64
	snapshots, snapshotErrors atomic.Uint64
	changes                   atomic.Int64 // drained since the last successful snapshot began
	lastSync                  atomic.Int64

	noting   sync.Mutex // guards snapshot
	snapshot lastSnapshot
}

// lastSnapshot describes snapshots.
type lastSnapshot struct {
	running      bool
	began        int64 // ns
	changes      int64 // counters.changes at that time
	ended        int64 // ns; of the last one that succeeded
	lastDuration int64 // ns; of the last one, successful or not
	lastErr      error
	notBefore    int64 // ns
}

// hasSynced notes that the log is durable.
func (c *counters) hasSynced(now int64) {
	c.syncs.Add(1)
	c.lastSync.Store(now)
}

// began notes that a snapshot begins.
func (c *counters) began(now int64) {
	c.noting.Lock()
	defer c.noting.Unlock()
	c.snapshot.running, c.snapshot.began, c.snapshot.changes = true, now, c.changes.Load()
}

// ended notes the result of a snapshot, and returns how long it took, in ns.
func (c *counters) ended(now int64, err error) (took int64) {
	c.noting.Lock()
	defer c.noting.Unlock()
	st := &c.snapshot
	st.running = false
	st.lastDuration, st.lastErr = now-st.began, err
	if err == nil {
		st.ended = now
		c.snapshots.Add(1)
		c.changes.Add(-st.changes)
	} else {
		st.notBefore = now + snapshotPause
		c.snapshotErrors.Add(1)
	}
	return st.lastDuration
}

// notBefore returns the earliest time, in Unix ns, at which the store may begin a snapshot by itself.
func (c *counters) notBefore() int64 {
	c.noting.Lock()
	defer c.noting.Unlock()
	return c.snapshot.notBefore
}
