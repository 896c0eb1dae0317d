package transport

import (
	"syscall"
	"testing"
	"time"
)

func TestTCPOptions(t *testing.T) {
	for _, d := range drivers() {
		if d.network != "tcp" {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			for _, keep := range []time.Duration{0, 30 * time.Second, time.Millisecond, -1} {
				fx := start(t, d, Options{KeepAlive: keep}, echo)
				p, f := fx.dial()
				ping(t, p)
				type option struct{ level, name, value int }
				want := []option{{syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1}, {syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1}}
				switch keep {
				case 0:
					want = append(want, option{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 300}, option{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 100})
				case 30 * time.Second:
					want = append(want, option{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 30}, option{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 10})
				case time.Millisecond:
					want = append(want, option{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 1}, option{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 1})
				default:
					want[1].value = 0
				}
				if keep >= 0 {
					want = append(want, option{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 3})
				}
				for _, o := range want {
					if got, err := syscall.GetsockoptInt(f.conn.FD(), o.level, o.name); err != nil || got != o.value {
						t.Errorf("KeepAlive %v: option %d/%d is %d, %v; want %d", keep, o.level, o.name, got, err, o.value)
					}
				}
			}
		})
	}
}
