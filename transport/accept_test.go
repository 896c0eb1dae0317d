package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// scripted is a listener whose Accept returns what the test sends. It ends when it is closed.
type scripted struct {
	results chan any // error or net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (s *scripted) Accept() (net.Conn, error) {
	select {
	case r := <-s.results:
		if c, ok := r.(net.Conn); ok {
			return c, nil
		}
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: r.(error)}
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *scripted) Close() error   { s.once.Do(func() { close(s.closed) }); return nil }
func (s *scripted) Addr() net.Addr { return &net.UnixAddr{Name: "scripted", Net: "unix"} }

type report struct {
	err  error
	wait time.Duration
}

func startScripted(t *testing.T, o Options) (*Group, *scripted, chan report) {
	t.Helper()
	reports := make(chan report, 64)
	o.OnAcceptError = func(_ net.Addr, err error, wait time.Duration) { reports <- report{err, wait} }
	g := newEcho(t, o)
	s := &scripted{results: make(chan any, 64), closed: make(chan struct{})}
	if err := g.serve(g.streamListener(s, nil)); err != nil {
		t.Fatal(err)
	}
	return g, s, reports
}

// pair returns both ends of a connection over loopback.
func pair(t *testing.T) (server, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	_ = client.SetDeadline(time.Now().Add(deadline))
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return server, client
}

func TestAcceptErrorsBackOff(t *testing.T) {
	g, s, reports := startScripted(t, Options{})
	begin := time.Now()
	for range 5 {
		s.results <- syscall.ENOBUFS
	}
	r := receive(t, reports)
	if !errors.Is(r.err, syscall.ENOBUFS) || r.wait != minBackoff {
		t.Errorf("reported %v, %v", r.err, r.wait)
	}
	server, client := pair(t)
	s.results <- server
	ping(t, client)
	if took := time.Since(begin); took < 31*minBackoff { // 5+10+20+40+80 ms; slower is fine
		t.Errorf("five failures were over after %v: too fast", took)
	}
	if n := g.Stats().AcceptErrors; n != 5 {
		t.Errorf("%d errors were counted", n)
	}
	if len(reports) != 0 {
		t.Errorf("one run of failures was reported twice: %v", <-reports)
	}
	s.results <- syscall.ENOBUFS
	if r := receive(t, reports); r.wait != minBackoff {
		t.Errorf("after a success the pause is %v", r.wait)
	}
}

func TestStopEndsABackOff(t *testing.T) {
	g, s, reports := startScripted(t, Options{})
	for range 64 {
		s.results <- syscall.ENOMEM
	}
	receive(t, reports)
	g.StopAccepting()
	g.StopAccepting()
}

func TestDescriptorsRunOut(t *testing.T) {
	g, s, _ := startScripted(t, Options{Refusal: []byte("-ERR max number of clients reached\r\n")})
	server, client := pair(t)
	if _, err := io.WriteString(client, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	s.results <- syscall.EMFILE
	s.results <- server
	b, err := io.ReadAll(client)
	if err != nil || string(b) != "-ERR max number of clients reached\r\n" {
		t.Errorf("read %q, %v", b, err)
	}
	server, client = pair(t)
	s.results <- server
	ping(t, client)
	if st := g.Stats(); st.Refused != 1 || st.AcceptErrors != 1 || st.Accepted != 1 {
		t.Errorf("%+v", st)
	}
}

// childMain is what TestUlimit starts: an echo server with few descriptors.
func childMain() bool {
	if os.Getenv("TRANSPORT_TEST_CHILD") == "" {
		return false
	}
	limit := syscall.Rlimit{Cur: 32, Max: 32}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		panic(err)
	}
	g := New(handlerFunc(func(c Conn) Session { return echoer{c} }), Options{Refusal: []byte("-ERR full\r\n")})
	if err := g.Listen("tcp", "127.0.0.1:0", nil); err != nil {
		panic(err)
	}
	_, _ = io.WriteString(os.Stdout, g.Addrs()[0].String()+"\n")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test closes it
	_ = g.Close(context.Background())
	return true
}

type echoer struct{ c Conn }

func (e echoer) Data(b []byte) bool { e.c.Write(b); return true }
func (echoer) Resume() bool         { return true }
func (echoer) EOF() bool            { return true }
func (echoer) Closed(error)         {}

// A process with 32 descriptors refuses the rest of 100 clients with a text, and serves new ones when the old
// ones have gone.
func TestUlimit(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TRANSPORT_TEST_CHILD=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	}()
	buf := make([]byte, 100)
	n, err := out.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimSpace(string(buf[:n]))

	var served []net.Conn
	refused := 0
	for range 100 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(deadline))
		_, _ = io.WriteString(c, "ping")
		switch n, err := c.Read(buf); {
		case err == nil && string(buf[:n]) == "ping":
			served = append(served, c)
		case err == nil && string(buf[:n]) == "-ERR full\r\n", errors.Is(err, syscall.ECONNRESET):
			refused++ // the text is lost if input arrives after it
		default:
			t.Fatalf("read %q, %v", buf[:n], err)
		}
	}
	if len(served) < 10 || refused < 60 {
		t.Errorf("%d were served, %d refused", len(served), refused)
	}
	for _, c := range served {
		ping(t, c)
		_ = c.Close()
	}
	until(t, "a new client is served", func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(deadline))
		_, _ = io.WriteString(c, "ping")
		n, err := c.Read(buf)
		return err == nil && string(buf[:n]) == "ping"
	})
}
