//go:build !linux

package transport

// unacknowledged returns 0 on this system: every byte that the system has taken counts as taken by the peer.
func unacknowledged(int) int64 { return 0 }
