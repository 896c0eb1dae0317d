package persistence

import "limitdb/internal/stats"

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
	st.Waiting = s.waiting()
	c.noting.Lock()
	defer c.noting.Unlock()
	last := &c.snapshot
	st.Snapshotting, st.SnapshotBegan = last.running, last.began
	st.LastSnapshot, st.LastSnapshotTook, st.LastSnapshotErr = last.ended, last.lastDuration, last.lastErr
	st.LastSnapshotFailed = st.LastSnapshotErr != nil
	return st
}
