package observe

// durabilityScalars returns the metrics of what is kept on disk.
func durabilityScalars() []scalar {
	return []scalar{
		gauge("loading", "Whether the state is being loaded: 1 or 0.",
			func(s *Snapshot) float64 { return oneIf(s.Durability.Loading) }),
		gauge("log_bytes", "Size of the append-only log, since the last snapshot.",
			func(s *Snapshot) float64 { return float64(s.Durability.LogBytes) }),
		gauge("snapshot_bytes", "Size of the last snapshot.",
			func(s *Snapshot) float64 { return float64(s.Durability.BaseBytes) }),
		counter("log_written_bytes_total", "Bytes written to the append-only log.",
			func(s *Snapshot) float64 { return float64(s.Durability.BytesWritten) }),
		counter("log_writes_total", "Writes to the append-only log.",
			func(s *Snapshot) float64 { return float64(s.Durability.Writes) }),
		counter("log_syncs_total", "Syncs of the append-only log to the disk.",
			func(s *Snapshot) float64 { return float64(s.Durability.Syncs) }),
		counter("log_failures_total", "Failures to write or sync the append-only log.",
			func(s *Snapshot) float64 { return float64(s.Durability.Failures) }),
		gauge("log_last_sync_timestamp_seconds", "When the append-only log was synced last, in Unix time; 0 for never.",
			func(s *Snapshot) float64 { return unixSeconds(s.Durability.LastSync) }),
		gauge("log_unsynced_age_seconds", "Age of the oldest byte written to the append-only log that is not yet durable.",
			func(s *Snapshot) float64 { return seconds(s.Durability.UnsyncedAge) }),
		gauge("log_waiting_replies", "Replies that wait for the next sync.",
			func(s *Snapshot) float64 { return float64(s.Durability.Waiting) }),
		gauge("writes_refused", "Whether changes are refused because the append-only log cannot be written: 1 or 0.",
			func(s *Snapshot) float64 { return oneIf(s.Refusing) }),
		gauge("snapshot_in_progress", "Whether a snapshot is being written: 1 or 0.",
			func(s *Snapshot) float64 { return oneIf(s.Durability.Snapshotting) }),
		counter("snapshots_total", "Snapshots made.",
			func(s *Snapshot) float64 { return float64(s.Durability.Snapshots) }),
		counter("snapshot_failures_total", "Snapshots that could not be made.",
			func(s *Snapshot) float64 { return float64(s.Durability.SnapshotErrors) }),
		gauge("snapshot_last_successful", "Whether the last snapshot succeeded: 1 or 0; 1 before the first.",
			func(s *Snapshot) float64 { return oneIf(!s.Durability.LastSnapshotFailed) }),
		gauge("snapshot_last_success_timestamp_seconds", "When the last snapshot was made, in Unix time; 0 for never.",
			func(s *Snapshot) float64 { return unixSeconds(s.Durability.LastSnapshot) }),
		gauge("snapshot_last_duration_seconds", "How long the last snapshot took.",
			func(s *Snapshot) float64 { return seconds(s.Durability.LastSnapshotTook) }),
	}
}

// backupScalars returns the metrics of backups.
func backupScalars() []scalar {
	return []scalar{
		counter("backups_total", "Backups made and verified, by limitdb backup and by backup-every.",
			func(s *Snapshot) float64 { return float64(s.Backups.Made) }),
		counter("backup_failures_total", "Backups that failed, or that nobody has finished.",
			func(s *Snapshot) float64 { return float64(s.Backups.Failed) }),
		gauge("backup_last_success_timestamp_seconds", "When the last backup was made, in Unix time, also before the last restart; 0 for never.",
			func(s *Snapshot) float64 { return unixSeconds(s.Backups.Last) }),
		gauge("backup_every_seconds", "The time between scheduled backups (backup-every); 0 for none.",
			func(s *Snapshot) float64 { return seconds(s.Backups.Every) }),
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// seconds converts a duration in ns to seconds.
func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// unixSeconds converts a time in Unix ns to seconds with three decimals.
func unixSeconds(ns int64) float64 { return float64(ns/1e6) / 1e3 }
