package observe

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// deadline bounds the wait for what should come immediately.
const deadline = 2 * time.Minute

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func testSource() Source {
	return Source{Snapshot: sample, Ready: func() error { return nil }}
}

// start serves o until the end of the test.
func start(t *testing.T, o Options, b bounds) *Server {
	t.Helper()
	if o.Source.Snapshot == nil {
		o.Source = testSource()
	}
	s, err := listen(o, b)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// do sends one request on a connection of its own.
func do(t *testing.T, method, url string) (status int, header http.Header, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

func TestEndpoints(t *testing.T) {
	s := start(t, Options{Addrs: []string{"127.0.0.1:0"}}, defaultBounds())
	base := "http://" + s.Addrs()[0].String()
	for _, c := range []struct {
		method, path string
		status       int
		kind, body   string // the start of the content type, and text that the body contains
	}{
		{"GET", "/", 200, "text/plain", "limitdb 1.2.3\n\n/metrics"},
		{"HEAD", "/", 200, "text/plain", ""},
		{"GET", "/livez", 200, "text/plain", "ok\n"},
		{"GET", "/livez?verbose", 200, "text/plain", "ok\n"},
		{"GET", "/readyz", 200, "text/plain", "ok\n"},
		{"GET", "/metrics", 200, "text/plain; version=0.0.4", "limitdb_decisions_total{result=\"limited\"} 29\n"},
		{"GET", "/metrics", 200, "text/plain", "\ngo_goroutines "},
		{"GET", "/metrics", 200, "text/plain", "\nprocess_resident_memory_bytes "},
		{"POST", "/metrics", 405, "text/plain", "Method Not Allowed"},
		{"DELETE", "/", 405, "text/plain", "Method Not Allowed"},
		{"PUT", "/livez", 405, "text/plain", "Method Not Allowed"},
		{"POST", "/readyz", 405, "text/plain", "Method Not Allowed"},
		{"GET", "/metrics/", 404, "text/plain", "404"},
		{"GET", "/favicon.ico", 404, "text/plain", "404"},
		{"POST", "/nothing", 404, "text/plain", "404"},
		{"POST", "/v1/take", 404, "text/plain", "--http-decisions yes"},
		{"GET", "/auth", 404, "text/plain", "--http-decisions yes"},
		{"GET", "/debug/pprof/", 404, "text/plain", "404"},
		{"GET", "/debug/vars", 404, "text/plain", "404"},
	} {
		status, header, body := do(t, c.method, base+c.path)
		if status != c.status || !strings.HasPrefix(header.Get("Content-Type"), c.kind) || !strings.Contains(body, c.body) {
			t.Errorf("%s %s: %d %q %.200q, want %d %q %q",
				c.method, c.path, status, header.Get("Content-Type"), body, c.status, c.kind, c.body)
		}
		if status == 405 && header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: Allow is %q", c.method, c.path, header.Get("Allow"))
		}
		if header.Get("Cache-Control") != "no-store" || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: headers %v", c.method, c.path, header)
		}
	}
}

func TestReadyzTellsTheReason(t *testing.T) {
	var reason atomic.Pointer[string]
	src := testSource()
	src.Ready = func() error {
		if r := reason.Load(); r != nil {
			return errors.New(*r)
		}
		return nil
	}
	s := start(t, Options{Addrs: []string{"127.0.0.1:0"}, Source: src}, defaultBounds())
	base := "http://" + s.Addrs()[0].String()
	for _, r := range []string{"loading", "", "stopping"} {
		want, text := 200, "ok\n"
		reason.Store(nil)
		if r != "" {
			reason.Store(&r)
			want, text = 503, "not ready: "+r+"\n"
		}
		if status, _, body := do(t, "GET", base+"/readyz"); status != want || body != text {
			t.Errorf("while %q: %d %q, want %d %q", r, status, body, want, text)
		}
		if status, _, _ := do(t, "GET", base+"/livez"); status != 200 {
			t.Errorf("while %q: livez is %d", r, status)
		}
	}
}

func TestLivezSaysWhatIsStuck(t *testing.T) {
	src := testSource()
	var stuck atomic.Pointer[string]
	src.Live = func() error {
		if text := stuck.Load(); text != nil {
			return errors.New(*text)
		}
		return nil
	}
	s := start(t, Options{Addrs: []string{"127.0.0.1:0"}, Source: src}, defaultBounds())
	url := "http://" + s.Addrs()[0].String() + "/livez"
	if status, _, body := do(t, "GET", url); status != 200 || body != "ok\n" {
		t.Errorf("%d %q", status, body)
	}
	text := "a loop has made no progress"
	stuck.Store(&text)
	if status, _, body := do(t, "GET", url); status != 503 || body != "stuck: "+text+"\n" {
		t.Errorf("%d %q", status, body)
	}
}

// Who may see profiles. The test asks the handler, since it has only loopback addresses.
func TestProfilesAreForThisMachineOnly(t *testing.T) {
	const lo = "127.0.0.1:6380"
	for _, c := range []struct {
		name, listener, remote, host, header string
		enabled                              bool
		want                                 int
	}{
		{"loopback", lo, "127.0.0.1:4000", "127.0.0.1:6380", "", true, 200},
		{"loopback 127.1.2.3", lo, "127.1.2.3:4000", "127.0.0.1:6380", "", true, 200},
		{"loopback by name", lo, "127.0.0.1:4000", "localhost:6380", "", true, 200},
		{"loopback, IPv6", "[::1]:6380", "[::1]:4000", "[::1]:6380", "", true, 200},
		{"loopback, IPv6, no port", "[::1]:80", "[::1]:4000", "[::1]", "", true, 200},
		{"mapped", "[::1]:80", "[::ffff:127.0.0.1]:4000", "[::1]", "", true, 200},
		{"not enabled", lo, "127.0.0.1:4000", "127.0.0.1:6380", "", false, 404},
		{"from elsewhere", lo, "192.0.2.1:4000", "127.0.0.1:6380", "", true, 404},
		{"listener on every address", "0.0.0.0:6380", "127.0.0.1:4000", "127.0.0.1:6380", "", true, 404},
		{"listener on every address, IPv6", "[::]:6380", "[::1]:4000", "[::1]:6380", "", true, 404},
		{"listener elsewhere", "192.0.2.2:6380", "192.0.2.2:4000", "192.0.2.2:6380", "", true, 404},
		{"another name that resolves to loopback", lo, "127.0.0.1:4000", "rebound.example:6380", "", true, 404},
		{"no host", lo, "127.0.0.1:4000", "", "", true, 404},
		{"through a proxy", lo, "127.0.0.1:4000", "127.0.0.1:6380", "X-Forwarded-For", true, 404},
		{"through a proxy that says so", lo, "127.0.0.1:4000", "127.0.0.1:6380", "Forwarded", true, 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Source: testSource(), Pprof: c.enabled}
			h, err := newHandler(&o, newPlaces(1, 1), discard())
			if err != nil {
				t.Fatal(err)
			}
			for _, page := range []string{"/debug/pprof/", "/debug/pprof/heap?debug=1", "/debug/pprof/symbol"} {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodGet, page, nil)
				r.RemoteAddr, r.Host = c.remote, c.host
				if c.header != "" {
					r.Header.Set(c.header, "192.0.2.9")
				}
				h.ServeHTTP(w, r.WithContext(withListener(fakeListener(c.listener))))
				if w.Code != c.want {
					t.Errorf("%s: %d, want %d", page, w.Code, c.want)
				}
			}
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr, r.Host = c.remote, c.host
			if c.header != "" {
				r.Header.Set(c.header, "192.0.2.9")
			}
			h.ServeHTTP(w, r.WithContext(withListener(fakeListener(c.listener))))
			if got := strings.Contains(w.Body.String(), "pprof"); got != (c.want == 200) {
				t.Errorf("the index names profiles: %t", got)
			}
		})
	}
}

func TestProfilesNeverShowTheCommandLine(t *testing.T) {
	s := start(t, Options{Addrs: []string{"127.0.0.1:0"}, Pprof: true}, defaultBounds())
	base := "http://" + s.Addrs()[0].String()
	if status, _, body := do(t, "GET", base+"/debug/pprof/goroutine?debug=1"); status != 200 || !strings.Contains(body, "goroutine profile") {
		t.Errorf("the goroutine profile: %d %.100q", status, body)
	}
	if status, _, body := do(t, "GET", base+"/debug/pprof/cmdline"); status != 404 {
		t.Errorf("the command line: %d %q", status, body)
	}
}

func TestListenOnSeveral(t *testing.T) {
	addrs := []string{"127.0.0.1:0", "127.0.0.1:0", "-[::1]:0", "-192.0.2.77:0"}
	s := start(t, Options{Addrs: addrs}, defaultBounds())
	// 192.0.2.77 belongs to nobody; IPv6 may be turned off where the test runs.
	if n := len(s.Addrs()); n != 2 && n != 3 {
		t.Fatalf("bound %v", s.Addrs())
	}
	for _, a := range s.Addrs() {
		if status, _, _ := do(t, "GET", "http://"+a.String()+"/livez"); status != 200 {
			t.Errorf("%s: %d", a, status)
		}
	}
}

// All addresses of both families can be used side by side on one port.
func TestListenOnEveryAddress(t *testing.T) {
	s, err := bind([]string{"0.0.0.0:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(s)
	port := s[0].Addr().(*net.TCPAddr).Port
	six, err := bind([]string{"127.0.0.2:0", fmt.Sprintf("-[::]:%d", port)})
	if err != nil {
		t.Fatal(err)
	}
	closeAll(six)
}

func TestListenErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().String()
	for _, c := range []struct {
		name  string
		addrs []string
		want  string
	}{
		{"taken", []string{port}, "http port: listen tcp4 " + port + ": bind: address already in use"},
		{"taken, optional", []string{"-" + port}, "http port: listen tcp4 " + port + ": bind: address already in use"},
		{"the second is taken", []string{"127.0.0.1:0", port}, "http port: listen tcp4 " + port + ": bind: address already in use"},
		{"not ours", []string{"192.0.2.77:0"}, "http port: listen tcp4 192.0.2.77:0: bind: cannot assign requested address"},
		{"no port", []string{"127.0.0.1"}, "http port: listen tcp: address 127.0.0.1: missing port in address"},
		{"port too high", []string{"127.0.0.1:65536"}, "http port: listen tcp4: address 65536: invalid port"},
		{"none left", []string{"-192.0.2.77:0"}, "http port: no address to listen on"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Listen(Options{Addrs: c.addrs, Source: testSource()})
			if err == nil {
				closeAll(s.listeners)
				t.Fatal("no error")
			}
			if err.Error() != c.want {
				t.Errorf("%q, want %q", err, c.want)
			}
		})
	}
	// The address that was free is free again.
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	if _, err := Listen(Options{Addrs: []string{free.Addr().String(), port}, Source: testSource()}); err == nil {
		t.Error("no error")
	}
	if free, err = net.Listen("tcp", free.Addr().String()); err != nil {
		t.Error(err)
	} else {
		free.Close()
	}
	if _, err := Listen(Options{Addrs: []string{port}, Source: testSource()}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v is not EADDRINUSE", err)
	}
	if _, err := Listen(Options{Addrs: []string{"127.0.0.1:0"}}); err == nil {
		t.Error("a source without functions was taken")
	}
}

// If a listener fails for good, Serve ends with its error.
func TestServeReportsAFailedListener(t *testing.T) {
	s, err := Listen(Options{Addrs: []string{"127.0.0.1:0", "127.0.0.1:0"}, Source: testSource()})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	s.listeners[0].Close()
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	if _, err := net.Dial("tcp", s.listeners[1].Addr().String()); err == nil {
		t.Error("the other one still listens")
	}
}

// Addresses come and go while the port serves. A connection outlives its address.
func TestAddressesComeAndGo(t *testing.T) {
	s, err := Listen(Options{Source: testSource()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	first := s.Addrs()[0].String()
	answers := func(addr string) bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		defer c.Close()
		fmt.Fprint(c, "GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		b, _ := io.ReadAll(c)
		return strings.HasPrefix(string(b), "HTTP/1.1 200 ")
	}
	if !answers(first) {
		t.Error("the first address does not answer")
	}
	kept := dial(t, s, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, err := kept.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Add("127.0.0.2:0"); err != nil {
		t.Fatal(err)
	}
	second := s.Addrs()[1].String()
	if err := s.Add(second); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("an address that is taken: %v", err)
	}
	s.Remove("127.0.0.1:0")
	if answers(first) || !answers(second) || len(s.Addrs()) != 1 {
		t.Errorf("after the first was removed: %v", s.Addrs())
	}
	fmt.Fprint(kept, "GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if b, _ := io.ReadAll(kept); strings.Count(string(b), "HTTP/1.1 200 ") != 1 {
		t.Errorf("the connection to the first address: %q", b)
	}
	s.Remove("127.0.0.2:0")
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if err := s.Add("127.0.0.1:0"); err == nil {
		t.Error("an address was added after the end")
	}
}

func TestScrapeThatPanicsIsAnError(t *testing.T) {
	src := testSource()
	src.Snapshot = func() Snapshot { panic("a bug") }
	s := start(t, Options{Addrs: []string{"127.0.0.1:0"}, Source: src}, defaultBounds())
	base := "http://" + s.Addrs()[0].String()
	if status, _, _ := do(t, "GET", base+"/metrics"); status != 500 {
		t.Errorf("metrics: %d", status)
	}
	if status, _, _ := do(t, "GET", base+"/livez"); status != 200 {
		t.Errorf("livez: %d", status)
	}
}

// fakeListener is a listener of which only the address matters.
type fakeListener string

func (f fakeListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (f fakeListener) Close() error              { return nil }
func (f fakeListener) Addr() net.Addr            { return f }
func (f fakeListener) Network() string           { return "tcp" }
func (f fakeListener) String() string            { return string(f) }

// With a password, a client without it sees only the probes.
func TestPassword(t *testing.T) {
	var password atomic.Pointer[string]
	set := func(p string) { password.Store(&p) }
	set("pa ss:word\u00e9")
	guesses := new(Guesses)
	s := start(t, Options{Addrs: []string{"127.0.0.1:0"}, Pprof: true, Password: func() string { return *password.Load() }, Guesses: guesses}, defaultBounds())
	base := "http://" + s.Addrs()[0].String()
	ask := func(path, authorization string) (status int, challenge string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "GET", base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if authorization != "" {
			req.Header.Set("Authorization", authorization)
		}
		tr := &http.Transport{DisableKeepAlives: true}
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode, res.Header.Get("WWW-Authenticate")
	}
	basic := func(user, pass string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+pass))
	}
	right := *password.Load()
	forget := func() {
		guesses.mu.Lock()
		defer guesses.mu.Unlock()
		clear(guesses.until)
	}
	for _, path := range []string{"/", "/metrics", "/debug/pprof/", "/nothing", "/livez/../metrics"} {
		forget()
		for _, wrong := range []string{"", basic("", ""), basic("prometheus", "no"), basic(right, ""), "Bearer", "Bearer no", "Bearer " + right + "x", right, "Digest " + right} {
			if status, challenge := ask(path, wrong); status != 401 || !strings.HasPrefix(challenge, "Basic ") {
				t.Errorf("%s with %q: %d %q", path, wrong, status, challenge)
			}
		}
	}
	for range guessBurst {
		ask("/metrics", "Bearer no")
	}
	if status, _ := ask("/metrics", "Bearer "+right); status != 429 {
		t.Errorf("after ten guesses: %d", status)
	}
	if status, _ := ask("/metrics", ""); status != 401 {
		t.Errorf("after ten guesses, without a password: %d", status)
	}
	forget()
	for _, header := range []string{basic("", right), basic("prometheus", right), "Bearer " + right, "bearer " + right} {
		if status, _ := ask("/metrics", header); status != 200 {
			t.Errorf("%q: %d", header, status)
		}
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if status, _ := ask(path, ""); status != 200 {
			t.Errorf("%s without the password: %d", path, status)
		}
	}
	set("")
	if status, _ := ask("/metrics", ""); status != 200 {
		t.Errorf("without a password: %d", status)
	}
}
