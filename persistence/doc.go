// Package persistence keeps state over restarts and crashes: an append-only
// log with group commit, snapshots that do not stop the world, and recovery.
// FORMAT.md draws the files.
//
// The package knows nothing of limits. What has state is a Part: it appends records of its changes to a
// buffer (package journal), copies itself for a snapshot, and restores states. A Store keeps the parts of one
// process in one directory.
//
// See store.go for how a change becomes durable, snapshot.go for how the log is compacted, recover.go for
// what happens at a start, failure.go for disks that fail, and check.go for limitdb check.
package persistence
