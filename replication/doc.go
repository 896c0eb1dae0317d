// Package replication keeps one state on several nodes. It is the only one that may import
// Raft.
//
// It replicates outcomes, the records of package journal, not requests. The leader decides on
// its own table at once. The changes of its table become entries of the Raft log, and a reply
// is sent when everything that it depends on is committed. Followers only apply records.
//
// PROTOCOL.md draws the entries and says what each node does with them. entry.go encodes them,
// machine.go is the fence that orders them, replica.go applies them to the table, and primary.go
// proposes them. node.go joins these parts with Raft; none of them knows the node.
package replication
