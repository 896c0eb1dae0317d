package stats

// Durability has the figures of what keeps the state on a disk. Times are in ns of Unix
// time, durations in ns, 0 where there is nothing to tell.
type Durability struct {
	Kept bool // state is kept on a disk; all else is 0 where it is not
	Log  bool // as appendonly promises

	LogBytes, BaseBytes     int64 // of the log, without zeros that were written ahead, and of the last snapshot
	LogFiles                int   // the one being written among them; -1 while that changes
	BytesWritten            uint64
	Writes, Syncs, Failures uint64
	LastSync                int64 // when the log was made durable last
	UnsyncedAge             int64 // of the oldest byte that should be durable by now and is not
	Waiting                 int   // replies that wait for a sync

	Snapshotting              bool
	SnapshotBegan             int64
	Snapshots, SnapshotErrors uint64
	LastSnapshot              int64 // when the last one that was made had been
	LastSnapshotTook          int64 // made or not
	LastSnapshotFailed        bool

	Loading                           bool // what was kept is being read: the figures above are still 0
	LoadBegan, LoadTotal, LoadedBytes int64
}
