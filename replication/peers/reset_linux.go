package peers

import (
	"net"

	"golang.org/x/sys/unix"
)

// ackTimeout is how long sent bytes may stay without an answer of the peer's system, in ms.
const ackTimeout = 10_000

// resetsLate has the system end a connection whose peer has not acknowledged bytes for ackTimeout. An error does not matter: the
// system then takes longer.
func resetsLate(c *net.TCPConn) {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, ackTimeout) })
	}
}
