// Package groups computes how keys are divided among several Raft groups. It keeps the state that all nodes share about
// that. All of it is pure: no clock, no I/O, no randomness, so every node comes to the same result.
//
//	slot.go       which group has a key
//	directory.go  what all nodes know: the nodes, and the place of each group
//	record.go     the changes of that, as bytes; apply.go makes them, snapshot.go has all of it as bytes
package groups
