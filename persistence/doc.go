// Package persistence keeps state over restarts and crashes: an append-only
// log with group commit, snapshots that do not stop the world, and recovery.
// FORMAT.md draws what is on the disk.
//
// The package knows nothing of limits. Whoever has state is a Part: it appends
// records of its changes to a buffer (package journal), copies itself for a
// snapshot, and takes states back. A Store has the parts of a process and one directory.
//
// Look into store.go for how a change becomes durable, snapshot.go for how
// logs are compacted, recover.go for what a start does, failure.go for
// disks that fail, check.go for what limitdb check does.
package persistence
