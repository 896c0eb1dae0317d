//go:build !linux

package replication

import "net"

// resetsLate does nothing.
func resetsLate(*net.TCPConn) {}
