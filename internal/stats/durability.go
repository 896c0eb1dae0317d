package stats

// Durability has the figures of the state on disk. Times are in Unix ns and durations in ns; 0 means none.
type Durability struct {
	Kept bool // state is kept on disk; if not, the other fields are 0
	Log  bool // appendonly is on

	LogBytes, BaseBytes     int64 // of the log, without zeros written ahead, and of the last snapshot
	LogFiles                int   // including the current one; -1 while that changes
	BytesWritten            uint64
	Writes, Syncs, Failures uint64
	LastSync                int64 // when the log was last made durable
	UnsyncedAge             int64 // age of the oldest byte that should be durable by now and is not
	Waiting                 int   // replies that wait for a sync

	// Changes is the number of changes written since the last successful snapshot began.
	Changes                   int64
	Snapshotting              bool
	SnapshotBegan             int64
	Snapshots, SnapshotErrors uint64
	LastSnapshot              int64 // when the last successful one ended
	LastSnapshotTook          int64 // of the last one, successful or not
	LastSnapshotFailed        bool

	Loading                           bool // state is being loaded, and the figures above are still 0
	LoadBegan, LoadTotal, LoadedBytes int64
}
