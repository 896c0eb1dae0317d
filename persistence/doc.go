// Package persistence is the place of what keeps state over a restart: the
// append-only log, snapshots and recovery. There is nothing in it yet: the
// server keeps its state in memory only, and says so (CONFIG GET appendonly is
// no, SAVE is an error).
package persistence
