// Package persistence keeps state over restarts and crashes: an append-only
// log with group commit, snapshots that do not stop the world, and recovery.
// FORMAT.md draws the files.
//
// The package knows nothing of limits. What has state is a Part: it appends records of its changes to a
// buffer (package journal), copies itself for a snapshot, and restores states. A Store keeps the parts of one
// process in one directory.
//
// From the bottom to the top: a directory is the files that count; a writer drains the parts and writes the log
// (writer.go says how a change becomes durable); a Store has one of each, and what needs both. See snapshot.go for
// how the log is compacted, recovery.go for what happens at a start, rescue.go for disks that fail, and check.go for
// limitdb check.
package persistence
