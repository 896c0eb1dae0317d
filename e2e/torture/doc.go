// Package torture has a test that lets three processes hold one state while everything goes wrong that can: links
// that are cut one way or both ways, delays, broken connections, processes that stop, are killed and start again, wrong clocks, full disks,
// changes of the members and of the leader, and snapshots.
package torture
