//go:build !linux

package peers

import "net"

// resetsLate does nothing.
func resetsLate(*net.TCPConn) {}
