package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"limitdb/internal/clock"
)

func newEcho(t *testing.T, o Options) *Group {
	g := New(handlerFunc(func(c Conn) Session {
		f := &funcs{t: t, conn: c, closed: make(chan error, 2)}
		echo(f)
		return f
	}), o)
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	return g
}

func TestListenErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g := newEcho(t, Options{})
	live := filepath.Join(dir, "live")
	for _, l := range [][2]string{{"tcp", "127.0.0.1:0"}, {"unix", live}} {
		if err := g.Listen(l[0], l[1], nil); err != nil {
			t.Fatal(err)
		}
	}
	taken := g.Addrs()[0].String()
	for _, c := range []struct {
		network, addr string
		is            error
		text          string
	}{
		{"tcp", taken, syscall.EADDRINUSE, fmt.Sprintf("cannot listen on tcp %q: bind: address already in use", taken)},
		{"unix", live, syscall.EADDRINUSE, fmt.Sprintf("cannot listen on unix %q: another process listens there: address already in use", live)},
		{"unix", file, nil, fmt.Sprintf("cannot listen on unix %q: the file exists and is not a socket", file)},
		{"unix", filepath.Join(dir, "none", "s"), syscall.ENOENT, "no such file or directory"},
		{"tcp", "127.0.0.1:99999", nil, "invalid port"},
		{"tcp", "192.0.2.1:0", syscall.EADDRNOTAVAIL, "cannot assign requested address"},
		{"udp", "127.0.0.1:0", nil, "must be tcp, tcp4, tcp6 or unix"},
	} {
		err := g.Listen(c.network, c.addr, nil)
		if err == nil || !strings.Contains(err.Error(), c.text) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("Listen(%s, %s): %v, want %q", c.network, c.addr, err, c.text)
		}
	}
	if n := len(g.Addrs()); n != 2 {
		t.Errorf("%d addresses are listened on", n)
	}
	g.StopAccepting()
	if err := g.Listen("tcp", "127.0.0.1:0", nil); !errors.Is(err, ErrStopped) {
		t.Errorf("Listen after StopAccepting: %v", err)
	}
}

func TestUnixSocketFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()

	g := newEcho(t, Options{UnixPerm: 0o772})
	if err := g.Listen("unix", path, nil); err != nil {
		t.Fatalf("a stale file is in the way: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o772 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	g.StopAccepting()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}

	g = newEcho(t, Options{})
	if err := g.Listen("unix", path, nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	g.StopAccepting()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("somebody else's file was removed: %v", err)
	}
}

// Close lets the current method finish and its replies be sent.
func TestCloseAnswersWhatWasRead(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		inside, goOn := newOnce(), make(chan struct{})
		fx := start(t, d, Options{}, func(f *funcs) {
			f.data = func(b []byte) bool {
				inside.signal()
				<-goOn
				f.conn.Write(bytes.Repeat(b, 1<<20))
				return true
			}
		})
		p, f := fx.dial()
		if _, err := p.Write([]byte("12345678")); err != nil {
			t.Fatal(err)
		}
		receive(t, inside.c)
		closed := make(chan error, 1)
		go func() { closed <- fx.g.Close(context.Background()) }()
		until(t, "the listener is closed", func() bool { return len(fx.g.Addrs()) == 0 })
		close(goOn)
		if n, err := io.Copy(io.Discard, p); err != nil || n != 8<<20 {
			t.Errorf("read %d, %v", n, err)
		}
		_ = p.Close()
		if err := receive(t, closed); err != nil {
			t.Errorf("Close: %v", err)
		}
		wantReason(t, f, ErrStopped)
	})
}

// A session that was woken before Close has its Resume first.
func TestCloseAnswersWhoWasWoken(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		fx := start(t, d, Options{}, func(f *funcs) {
			f.data = func([]byte) bool { f.conn.Write([]byte("in")); return false }
			f.resume = func() bool { f.conn.Write([]byte("out")); return true }
		})
		var peers []*peer
		var sessions []*funcs
		for range 20 {
			p, f := fx.dial()
			if _, err := p.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(p, make([]byte, 2)); err != nil {
				t.Fatal(err)
			}
			peers, sessions = append(peers, p), append(sessions, f)
		}
		for _, f := range sessions {
			f.conn.Wake()
		}
		closed := make(chan error, 1)
		go func() { closed <- fx.g.Close(context.Background()) }()
		for _, p := range peers {
			if b, err := io.ReadAll(p); err != nil || string(b) != "out" {
				t.Errorf("read %q, %v", b, err)
			}
			_ = p.Close()
		}
		if err := receive(t, closed); err != nil {
			t.Errorf("Close: %v", err)
		}
		for _, f := range sessions {
			wantReason(t, f, ErrStopped)
		}
	})
}

// When its context ends, Close does not wait for peers.
func TestCloseInAHurry(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		fx := start(t, d, Options{FlushTimeout: time.Hour}, func(f *funcs) {
			f.data = func([]byte) bool { f.conn.Write(make([]byte, 64<<20)); return true }
		})
		p, f := fx.dial()
		if _, err := p.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		until(t, "much is pending", func() bool { return f.conn.Pending() > 32<<20 })
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := fx.g.Close(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Close: %v", err)
		}
		wantReason(t, f, ErrStopped)
	})
}

func TestConnDescribesItself(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driver) {
		clk := clock.NewFake(1000)
		fx := start(t, d, Options{Clock: clk}, echo)
		p, f := fx.dial()
		if c := f.conn; c.TLS() != d.tls || c.FD() <= 2 || c.LocalAddr().String() != fx.g.Addrs()[0].String() ||
			d.network == "tcp" && c.RemoteAddr().String() != p.LocalAddr().String() {
			t.Errorf("TLS %v, FD %d, local %v, remote %v", c.TLS(), c.FD(), c.LocalAddr(), c.RemoteAddr())
		}
		if n := f.conn.Progress(); n != 1000 {
			t.Errorf("Progress is %d at the start", n)
		}
		clk.Set(2000)
		ping(t, p)
		if n := f.conn.Progress(); n != 2000 {
			t.Errorf("Progress is %d after input", n)
		}
		clk.Set(3000)
		f.conn.Write([]byte("pong"))
		if n := f.conn.Progress(); n != 3000 {
			t.Errorf("Progress is %d after output", n)
		}
		if s := fx.g.Stats(); s.Accepted != 1 || s.Open != 1 || s.AcceptErrors != 0 || s.Refused != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// ping sends four bytes to an echo and waits for them.
func ping(t testing.TB, p io.ReadWriter) {
	t.Helper()
	if _, err := io.WriteString(p, "ping"); err != nil {
		t.Fatal(err)
	}
	var b [4]byte
	if _, err := io.ReadFull(p, b[:]); err != nil || string(b[:]) != "ping" {
		t.Fatalf("read %q, %v", b, err)
	}
}
