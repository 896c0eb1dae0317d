// Package replication keeps one state on several nodes. It is the only one that may import
// Raft.
//
// What is replicated are outcomes, the records of package journal, and not requests: the
// leader decides on its own table at once, what its table has changed becomes entries of the
// Raft log, and replies leave when all that they have seen is committed. Followers apply
// records. They have no part in a decision.
//
// PROTOCOL.md draws the entries and says what each node does with them. entry.go encodes them,
// machine.go applies them, primary.go proposes them, and node.go joins that with Raft.
package replication
