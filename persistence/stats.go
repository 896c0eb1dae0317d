package persistence

import (
	"sync/atomic"
	"time"

	"limitdb/internal/stats"
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
}

// status describes snapshots.
type status struct {
	running      bool
	began        int64 // ns
	changes      int64 // counters.changes at that time
	ended        int64 // ns; of the last one that succeeded
	lastDuration int64 // ns; of the last one, successful or not
	lastErr      error
	notBefore    int64 // ns
}

// Stats describes a store, for INFO and metrics.
type Stats struct {
	stats.Durability
	Policy          Policy
	LastSnapshotErr error // nil if the last one succeeded
	Failing         error // the result of Store.Failing
}

// Stats returns the current figures.
func (s *Store) Stats() Stats {
	c := &s.counters
	st := Stats{Policy: s.Policy(), Failing: s.Failing(), Durability: stats.Durability{
		Kept:     true,
		LogBytes: c.logBytes.Load(), BaseBytes: c.baseBytes.Load(), BytesWritten: c.written.Load(), LogFiles: -1,
		Writes: c.commits.Load(), Syncs: c.syncs.Load(), Failures: c.failures.Load(), LastSync: c.lastSync.Load(), UnsyncedAge: s.lag(),
		Snapshots: c.snapshots.Load(), SnapshotErrors: c.snapshotErrors.Load(), Changes: c.changes.Load(),
	}}
	if s.files.TryLock() {
		if s.man != nil {
			st.LogFiles = len(s.man.logs)
		}
		s.files.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Waiting = len(s.held)
	st.Snapshotting, st.SnapshotBegan = s.status.running, s.status.began
	st.LastSnapshot, st.LastSnapshotTook, st.LastSnapshotErr = s.status.ended, s.status.lastDuration, s.status.lastErr
	st.LastSnapshotFailed = st.LastSnapshotErr != nil
	return st
}

// hasSynced notes that the log is durable.
func (s *Store) hasSynced() {
	s.counters.syncs.Add(1)
	s.counters.lastSync.Store(s.o.Now())
}

// began notes that a snapshot begins, and returns the time in ns.
func (s *Store) began() int64 {
	now := s.o.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.running, s.status.began, s.status.changes = true, now, s.counters.changes.Load()
	return now
}

// ended notes the result of a snapshot.
func (s *Store) ended(began, size int64, err error) {
	now := s.o.Now()
	s.mu.Lock()
	s.status.running = false
	s.status.lastDuration, s.status.lastErr = now-began, err
	if err == nil {
		s.status.ended = now
		s.counters.snapshots.Add(1)
		s.counters.changes.Add(-s.status.changes)
	} else {
		s.status.notBefore = now + snapshotPause
		s.counters.snapshotErrors.Add(1)
	}
	s.mu.Unlock()
	if err == nil {
		s.log.Info("a snapshot is durable", "bytes", size, "took", time.Duration(now-began))
	}
}

// notBefore returns the earliest time, in Unix ns, at which the store may begin a snapshot by itself.
func (s *Store) notBefore() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.notBefore
}
