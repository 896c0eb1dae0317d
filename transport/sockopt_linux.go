package transport

import (
	"os"
	"syscall"
	"time"
)

// setTCP sets the options of a listening socket that the sockets it accepts inherit, which saves
// five system calls for each. Replies are sent as they are written: TCP_NODELAY.
func setTCP(fd int, keepAlive time.Duration) error {
	type option struct{ level, name, value int }
	options := []option{{syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1}}
	if keepAlive > 0 {
		idle, interval := keepAliveTimes(keepAlive)
		options = append(options,
			option{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
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

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
