// Package replication keeps one state on several nodes. It is the only one that may import
// Raft.
//
// It replicates outcomes, the records of package journal, not requests. The leader decides on
// its own table at once. The changes of its table become entries of the Raft log, and a reply
// is sent when everything that it depends on is committed. Followers only apply records.
//
// PROTOCOL.md draws the entries and says what each node does with them. entry.go encodes them,
// machine.go applies them, primary.go proposes them, and node.go joins that with Raft.
package replication
