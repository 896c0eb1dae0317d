package observe

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dial connects and sends text.
func dial(t *testing.T, s *Server, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// patient returns bounds that never end a test by themselves.
func patient() bounds {
	b := defaultBounds()
	b.header, b.read, b.write, b.idle = time.Hour, time.Hour, time.Hour, time.Hour
	return b
}

func TestSlowHeaderIsCut(t *testing.T) {
	b := patient()
	b.header = 50 * time.Millisecond
	s := start(t, Options{Addrs: []string{"127.0.0.1:0"}}, b)
	for _, text := range []string{"", "G", "GET /livez HTTP/1.1\r\nHost: a\r\nX: "} {
		c := dial(t, s, text)
		// The server gives up; our own deadline would be another error.
		if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after %q: %v", text, err)
		}
	}
}

func TestSlowBodyIsCut(t *testing.T) {
	b := patient()
	b.read = 50 * time.Millisecond
	s := start(t, Options{Addrs: []string{"127.0.0.1:0"}}, b)
	c := dial(t, s, "GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx")
	if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
}

func TestIdleIsCut(t *testing.T) {
	b := patient()
	b.idle = 50 * time.Millisecond
	s := start(t, Options{Addrs: []string{"127.0.0.1:0"}}, b)
	c := dial(t, s, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
	got, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 200 OK\r\n") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestMalformedRequests(t *testing.T) {
	s := start(t, Options{Addrs: []string{"127.0.0.1:0"}}, patient())
	huge := strings.Repeat("a", 64<<10)
	for _, c := range []struct{ name, text, want string }{
		{"huge header", "GET /livez HTTP/1.1\r\nHost: a\r\nX: " + huge + "\r\n\r\n", "HTTP/1.1 431 "},
		{"huge path", "GET /" + huge + " HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 431 "},
		{"no host", "GET /livez HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "},
		{"another protocol", "*1\r\n$4\r\nPING\r\n", "HTTP/1.1 400 "},
		{"TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "HTTP/1.1 400 "},
		{"a later version", "GET /livez HTTP/9.9\r\nHost: a\r\n\r\n", "HTTP/1.1 505 "},
		{"two lengths", "GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "HTTP/1.1 400 "},
		{"out of the root", "GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 307 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := dial(t, s, c.text)
			line, err := bufio.NewReader(conn).ReadString('\n')
			if !strings.HasPrefix(line, c.want) {
				t.Errorf("%q, %v, want %q", line, err, c.want)
			}
		})
	}
	if status, _, _ := do(t, "GET", "http://"+s.Addrs()[0].String()+"/livez"); status != 200 {
		t.Errorf("afterwards: %d", status)
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	b := patient()
	b.connections = 3
	s := start(t, Options{Addrs: []string{"127.0.0.1:0"}}, b)
	const request = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
	serve := func(c net.Conn) error {
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		if res.StatusCode == http.StatusServiceUnavailable {
			return errors.New(res.Header.Get("Retry-After"))
		}
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}
	var held []net.Conn
	for i := range b.connections {
		c := dial(t, s, request)
		if err := serve(c); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		held = append(held, c)
	}
	over, err := net.Dial("tcp", s.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	if err := over.SetDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	// It is told so, and closed, before it has sent anything.
	if answer, err := io.ReadAll(over); !strings.HasPrefix(string(answer), "HTTP/1.1 503 ") || !strings.HasSuffix(string(answer), "try later") || err != nil {
		t.Fatalf("one too many: %q, %v", answer, err)
	}
	// When one closes, there is room for another.
	held[0].Close()
	for end := time.Now().Add(deadline); ; {
		c, err := net.Dial("tcp", s.Addrs()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.WriteString(c, request); err == nil {
			err = serve(c)
		}
		c.Close()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no room again: %v", err)
		}
	}
}

// busy returns a port with a request that is answered once release is closed, the request's connection, and what Serve will return.
func busy(t *testing.T) (s *Server, c net.Conn, release chan struct{}, served chan error) {
	entered, release := make(chan struct{}), make(chan struct{})
	src := testSource()
	src.Ready = func() error {
		close(entered)
		<-release
		return nil
	}
	s, err := Listen(Options{Addrs: []string{"127.0.0.1:0"}, Source: src})
	if err != nil {
		t.Fatal(err)
	}
	served = make(chan error, 1)
	go func() { served <- s.Serve() }()
	c = dial(t, s, "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")
	<-entered
	return s, c, release, served
}

// A request in progress is answered, although the port is closed.
func TestShutdownWaitsForRequests(t *testing.T) {
	s, c, release, served := busy(t)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.Background()) }()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := net.Dial("tcp", s.Addrs()[0].String()); err == nil {
		t.Error("still listening")
	}
	close(release)
	if got, _ := io.ReadAll(c); !strings.HasPrefix(string(got), "HTTP/1.1 200 ") {
		t.Errorf("answered %q", got)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

func TestShutdownGivesUpWithItsContext(t *testing.T) {
	s, _, release, served := busy(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	close(release)
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestShutdownBeforeServe(t *testing.T) {
	s, err := Listen(Options{Addrs: []string{"127.0.0.1:0"}, Source: testSource()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.Addrs()[0].String()); err == nil {
		t.Error("still listening")
	}
	if err := s.Serve(); err != nil {
		t.Error(err)
	}
}
