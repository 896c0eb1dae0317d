package transport

import (
	"net"
	"os"
	"syscall"
	"time"
)

// setTCP sets options on a listening socket that accepted sockets inherit, which saves five system calls for
// each. TCP_NODELAY sends replies as they are written.
func setTCP(fd int, keepAlive time.Duration) error {
	type option struct{ level, name, value int }
	on := 0
	if keepAlive > 0 {
		on = 1
	}
	options := []option{{syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1}, {syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, on}}
	if keepAlive > 0 {
		idle, interval := keepAliveTimes(keepAlive)
		options = append(options,
			option{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, seconds(idle)},
			option{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, seconds(interval)},
			option{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, keepAliveProbes},
		)
	}
	for _, o := range options {
		if err := syscall.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return nil
}

// setBacklog bounds the queue of a listening socket, unless n is 0. Package net uses the system's limit;
// listening again changes that.
func setBacklog(l net.Listener, n int) error {
	c, ok := l.(syscall.Conn)
	if n == 0 || !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), n) }); err != nil {
		return err
	}
	return os.NewSyscallError("listen", failed)
}

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
