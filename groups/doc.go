// Package groups computes how keys are divided among several Raft groups, and where the replicas of these groups are to
// be. It keeps the state that all nodes share about that, and decides on the next step towards a better one. All of it is
// pure: no clock, no I/O, no randomness, so every node comes to the same result, and tests run whole clusters in a loop.
//
// Group 0 keeps the Directory: its log has records, and every node applies them. Its leader asks Next what to change, and
// appends the answer to that log. The leader of every group asks Reconcile what to do next, does it, and asks again. Both
// may stop at any moment and begin again elsewhere.
//
//	slot.go       which group has a key
//	directory.go  what all nodes know: the nodes, and the place of each group
//	record.go     the changes of that, as bytes; apply.go makes them, snapshot.go has all of it as bytes
//	placement.go  the next step of the directory; spread.go computes where it leads to, path.go looks for ways
//	reconcile.go  the next step of one group towards its place
//	guard.go      whether a node may be removed
package groups
