package observe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
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

// served sends a request on a connection and returns the status of the answer, or 0 if there is none. The connection remains open if
// the server leaves it open.
func served(c net.Conn, path, password string) int {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n\r\n", path, password); err != nil {
		return 0
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	if _, err = io.Copy(io.Discard, res.Body); err != nil {
		return 0
	}
	return res.StatusCode
}

// isCut reports whether the server has closed a connection; it waits for that.
func isCut(c net.Conn) bool {
	_, err := io.Copy(io.Discard, c)
	return err == nil || errors.Is(err, syscall.ECONNRESET)
}

// TestStrangersGiveWay opens more connections than there are places, and leaves each with half a request or with one that anybody may
// make: the oldest give way, and neither a health check nor somebody with the password waits.
func TestStrangersGiveWay(t *testing.T) {
	b := patient()
	b.connections, b.spare = 4, 2
	s := start(t, Options{Addrs: []string{"127.0.0.1:0"}, Password: func() string { return "secret" }}, b)
	friend := dial(t, s, "")
	if got := served(friend, "/metrics", "secret"); got != 200 {
		t.Fatal(got)
	}
	var strangers []net.Conn
	for i := range 20 {
		c := dial(t, s, "")
		switch i % 3 {
		case 0:
			io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: a\r\nX: ")
		case 1:
			if got := served(c, "/livez", ""); got != 200 {
				t.Fatalf("connection %d: %d", i, got)
			}
		case 2:
			io.WriteString(c, "POST /v1/take HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer wrong\r\nContent-Length: 1000\r\n\r\n")
		}
		strangers = append(strangers, c)
		if got := served(dial(t, s, ""), "/readyz", ""); got != 200 {
			t.Fatalf("a health check beside %d strangers: %d", i+1, got)
		}
	}
	for i, c := range strangers[:10] {
		if !isCut(c) {
			t.Errorf("stranger %d keeps its place", i)
		}
	}
	if got := served(dial(t, s, ""), "/metrics", "secret"); got != 200 {
		t.Errorf("somebody new with the password: %d", got)
	}
	if got := served(friend, "/metrics", "secret"); got != 200 {
		t.Errorf("somebody with the password: %d", got)
	}
}

// TestConnectionsAreLimited takes all places of those that have the password: no other gets one, but health checks do.
func TestConnectionsAreLimited(t *testing.T) {
	b := patient()
	b.connections, b.spare = 3, 2
	s := start(t, Options{Addrs: []string{"127.0.0.1:0"}, Password: func() string { return "secret" }}, b)
	var held []net.Conn
	for i := range b.connections {
		c := dial(t, s, "")
		for range 2 {
			if got := served(c, "/metrics", "secret"); got != 200 {
				t.Fatalf("connection %d: %d", i, got)
			}
		}
		held = append(held, c)
	}
	for range 10 {
		over := dial(t, s, "")
		if got := served(over, "/metrics", "secret"); got != 503 || !isCut(over) {
			t.Fatalf("one too many: %d", got)
		}
		dial(t, s, "GET /met")
		if got := served(dial(t, s, ""), "/livez", ""); got != 200 {
			t.Fatalf("a health check: %d", got)
		}
	}
	// When one closes, there is room for another.
	held[0].Close()
	for end := time.Now().Add(deadline); served(dial(t, s, ""), "/metrics", "secret") != 200; {
		if time.Now().After(end) {
			t.Fatal("no room again")
		}
	}
}

// TestPlaces compares the places with a plain model, step by step.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlaces(rapid.IntRange(1, 4).Draw(t, "most"), rapid.IntRange(1, 3).Draw(t, "spare"))
		type conn struct {
			net.Conn // nil
			n        int
		}
		var strangers, kept []*conn
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			some := func() *conn {
				all := append(slices.Clone(strangers), kept...)
				if len(all) == 0 {
					return &conn{n: -1}
				}
				return rapid.SampledFrom(all).Draw(t, "connection")
			}
			without := func(from []*conn, c *conn) []*conn {
				return slices.DeleteFunc(from, func(o *conn) bool { return o == c })
			}
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				c := &conn{n: i}
				var want *conn
				if len(strangers)+len(kept) == p.most+p.spare {
					want, strangers = strangers[0], strangers[1:]
				}
				strangers = append(strangers, c)
				if got, _ := p.enter(c).(*conn); got != want {
					t.Fatalf("%v gives way, not %v", got, want)
				}
			case 2:
				c := some()
				strangers, kept = without(strangers, c), without(kept, c)
				p.leave(c)
			case 3:
				c := some()
				want := !slices.Contains(strangers, c) || len(kept) < p.most
				if want && slices.Contains(strangers, c) {
					strangers, kept = without(strangers, c), append(kept, c)
				}
				r := new(http.Request).WithContext(withConn(context.Background(), c))
				if got := p.keep(r); got != want {
					t.Fatalf("keep: %v", got)
				}
			}
			if len(p.all) != len(strangers)+len(kept) || p.strangers.Len() != len(strangers) {
				t.Fatalf("%d connections, %d strangers; want %d and %d", len(p.all), p.strangers.Len(), len(strangers)+len(kept), len(strangers))
			}
		}
	})
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
