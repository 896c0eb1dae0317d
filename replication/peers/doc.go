// Package peers makes the connections between the nodes of a cluster: who is at the other end, whether the two can work
// together, and Raft's messages. It knows no log and no state.
package peers
