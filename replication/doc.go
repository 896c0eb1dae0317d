// Package replication is the place of Raft, and the only one that may import
// it. There is nothing in it yet: a server stands alone (INFO replication).
package replication
