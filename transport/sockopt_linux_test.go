package transport

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// SetKeepAlive applies to connections accepted later.
func TestSetKeepAlive(t *testing.T) {
	for _, d := range drivers() {
		if d.network != "tcp" {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			fx := start(t, d, Options{KeepAlive: -1}, echo)
			for _, keep := range []time.Duration{40 * time.Second, -1, 50 * time.Second} {
				if err := fx.g.SetKeepAlive(keep); err != nil {
					t.Fatal(err)
				}
				p, f := fx.dial()
				ping(t, p)
				on, err := syscall.GetsockoptInt(f.conn.FD(), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
				if err != nil || (on == 1) != (keep > 0) {
					t.Errorf("%v: SO_KEEPALIVE is %d, %v", keep, on, err)
				}
				idle, err := syscall.GetsockoptInt(f.conn.FD(), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
				if err != nil || keep > 0 && idle != int(keep/time.Second) {
					t.Errorf("%v: TCP_KEEPIDLE is %d, %v", keep, idle, err)
				}
			}
		})
	}
}

// Unlisten ends one listener; the connections that it accepted stay open.
func TestUnlisten(t *testing.T) {
	g := newEcho(t, Options{})
	for range 2 {
		if err := g.Listen("tcp", "127.0.0.1:0", nil); err != nil {
			t.Fatal(err)
		}
		if err := g.Listen("tcp", "127.0.0.2:0", nil); err != nil {
			t.Fatal(err)
		}
		addr := g.Addrs()[0].String()
		p, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		ping(t, p)
		g.Unlisten("127.0.0.1:0")
		if all := g.Addrs(); len(all) != 1 || all[0].String() == addr {
			t.Errorf("still there: %v", all)
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			t.Error("a listener that was closed takes connections")
		}
		ping(t, p)
		_ = p.Close()
		g.Unlisten("127.0.0.2:0")
		g.Unlisten("never")
	}
}

func TestBacklog(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := setBacklog(l, 7); err != nil {
		t.Fatal(err)
	}
	raw, err := l.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		// For a listening socket, the kernel reports the bound of the queue here.
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Error(err)
		} else if info.Sacked != 7 {
			t.Errorf("the queue's bound is %d, want 7", info.Sacked)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
