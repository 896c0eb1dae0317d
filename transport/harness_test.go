package transport

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if childMain() {
		return
	}
	goleak.VerifyTestMain(m)
}

// deadline is generous: a test that reaches it hangs.
const deadline = 2 * time.Minute

// funcs is a session made of functions; nil ones do nothing. It checks what the driver promises: never two
// methods at the same time, and Closed once and last.
type funcs struct {
	t      testing.TB
	conn   Conn
	data   func(b []byte) bool
	resume func() bool
	eof    func() bool
	closed chan error // receives the reason

	inside atomic.Bool
	over   atomic.Bool
}

func (f *funcs) enter() {
	if !f.inside.CompareAndSwap(false, true) {
		f.t.Error("two methods of a session run at once")
	}
	if f.over.Load() {
		f.t.Error("a method of the session runs after Closed")
	}
}

func (f *funcs) leave() { f.inside.Store(false) }

func (f *funcs) Data(b []byte) bool {
	f.enter()
	defer f.leave()
	return f.data == nil || f.data(b)
}

func (f *funcs) Resume() bool {
	f.enter()
	defer f.leave()
	return f.resume == nil || f.resume()
}

func (f *funcs) EOF() bool {
	f.enter()
	defer f.leave()
	return f.eof == nil || f.eof()
}

func (f *funcs) Closed(reason error) {
	f.enter()
	defer f.leave()
	f.over.Store(true)
	if reason == nil {
		f.t.Error("a connection was closed without a reason")
	}
	f.closed <- reason
}

// handlerFunc implements Handler.
type handlerFunc func(Conn) Session

func (f handlerFunc) Accept(c Conn) Session { return f(c) }

// driver is a way of serving connections; the tests run with each.
type driver struct {
	name    string
	network string
	tls     bool
	loops   int // Options.Loops
}

func drivers() []driver {
	return []driver{
		{name: "tcp", network: "tcp", loops: -1},
		{name: "unix", network: "unix", loops: -1},
		{name: "tls", network: "tcp", tls: true},
		{name: "loop tcp", network: "tcp", loops: 1},
		{name: "loop unix", network: "unix", loops: 2},
	}
}

// eachDriver runs f with every driver.
func eachDriver(t *testing.T, f func(t *testing.T, d driver)) {
	t.Helper()
	for _, d := range drivers() {
		t.Run(d.name, func(t *testing.T) { f(t, d) })
	}
}

// fixture is a Group with one listener and the sessions it accepted.
type fixture struct {
	t        testing.TB
	g        *Group
	d        driver
	certs    *certs
	sessions chan *funcs
}

// start serves sessions that setup prepares; it runs in Handler.Accept.
func start(t testing.TB, d driver, o Options, setup func(f *funcs)) *fixture {
	t.Helper()
	o.Loops = d.loops
	fx := &fixture{t: t, d: d, sessions: make(chan *funcs, 4096)}
	fx.g = New(handlerFunc(func(c Conn) Session {
		f := &funcs{t: t, conn: c, closed: make(chan error, 2)}
		setup(f)
		fx.sessions <- f
		return f
	}), o)
	addr := "127.0.0.1:0"
	if d.network == "unix" {
		addr = filepath.Join(t.TempDir(), "s")
	}
	var conf *TLS
	if d.tls {
		fx.certs = newCerts(t)
		var err error
		if conf, err = LoadTLS(fx.certs.server("localhost", ClientAuthNo)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fx.g.Listen(d.network, addr, conf); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := fx.g.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		if n := fx.g.Stats().Open; n != 0 {
			t.Errorf("%d connections are left after Close", n)
		}
	})
	return fx
}

// peer is the remote end of a connection.
type peer struct {
	net.Conn
	raw net.Conn // the connection under TLS
}

func (p *peer) CloseWrite() error {
	return p.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

// reset makes the connection end in a reset. It works only for TCP.
func (p *peer) reset() {
	_ = p.raw.(*net.TCPConn).SetLinger(0)
	_ = p.raw.Close()
}

// dial connects and returns both ends.
func (fx *fixture) dial() (*peer, *funcs) {
	fx.t.Helper()
	addr := fx.g.Addrs()[0]
	raw, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		fx.t.Fatal(err)
	}
	fx.t.Cleanup(func() { _ = raw.Close() })
	_ = raw.SetDeadline(time.Now().Add(deadline))
	p := &peer{Conn: raw, raw: raw}
	if fx.d.tls {
		p.Conn = fx.certs.client(raw)
	}
	return p, receive(fx.t, fx.sessions)
}

// receive returns the next value from c.
func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(deadline):
		t.Fatal("nothing came in time")
		panic("unreachable")
	}
}

// until polls for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("never came true: %s", what)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// wantReason checks the reason that the session was closed with.
func wantReason(t testing.TB, f *funcs, want error) {
	t.Helper()
	if got := receive(t, f.closed); !errors.Is(got, want) {
		t.Errorf("closed with %v, want %v", got, want)
	}
}

// lines splits a byte stream at newlines, whatever pieces it comes in.
type lines struct{ rest []byte }

func (l *lines) add(b []byte, each func(line []byte)) {
	l.rest = append(l.rest, b...)
	for i := 0; i < len(l.rest); i++ {
		if l.rest[i] == '\n' {
			each(l.rest[:i])
			l.rest, i = l.rest[i+1:], -1
		}
	}
}

// once is a channel that may be closed twice.
type once struct {
	sync.Once
	c chan struct{}
}

func newOnce() *once    { return &once{c: make(chan struct{})} }
func (o *once) signal() { o.Do(func() { close(o.c) }) }
