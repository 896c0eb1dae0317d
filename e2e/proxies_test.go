package e2e

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// proxyConfig writes a configuration of deploy/proxies with other addresses, and returns its path.
func proxyConfig(t *testing.T, name, dir string, change ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "deploy", "proxies", name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(change); i += 2 {
		if !strings.Contains(string(text), change[i]) {
			t.Fatalf("%s has no %q", name, change[i])
		}
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(strings.NewReplacer(change...).Replace(string(text))), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// runCaddy does what runNginx does, for Caddy.
func runCaddy(t *testing.T, limitdb, app, limit string, change ...string) string {
	t.Helper()
	need(t, "caddy")
	addr, dir := "127.0.0.1:"+freePort(t), t.TempDir()
	conf := proxyConfig(t, "Caddyfile", dir, append(change, "http://127.0.0.1:8080 {", "{\n\tadmin off\n}\nhttp://"+addr+" {", "127.0.0.1:6380", limitdb, "127.0.0.1:9000", app, proxiesLimit, limit)...)
	runProxy(t, addr, "env", "HOME="+dir, "caddy", "run", "--adapter", "caddyfile", "--config", conf)
	return addr
}

// runProxy runs a reverse proxy until the end of the test, and waits until it listens on addr.
func runProxy(t *testing.T, addr string, line ...string) {
	t.Helper()
	cmd := exec.Command(need(t, line[0]), line[1:]...)
	log := &logBuffer{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", line[0], log)
		}
	})
	eventually(t, line[0]+" listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// ask sends a request and returns its status and headers.
func ask(t *testing.T, url string) (int, http.Header, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(body)
}

// A proxy is one of those with a configuration in deploy/proxies.
type proxy struct {
	name    string
	run     func(t *testing.T, limitdb, app, limit string, change ...string) (addr string)
	patient []string // changes of the configuration for a busy machine: it waits for limitdb for a minute
}

var proxies = []proxy{
	{"nginx", runNginx, []string{"proxy_connect_timeout 50ms", "proxy_connect_timeout 60s", "proxy_read_timeout 50ms", "proxy_read_timeout 60s"}},
	{"haproxy", runHAProxy, []string{"timeout connect 50ms", "timeout connect 60s", "timeout server 50ms", "timeout server 60s", "timeout check 500ms", "timeout check 60s"}},
	{"caddy", runCaddy, []string{"dial_timeout 50ms", "dial_timeout 60s", "response_header_timeout 50ms", "response_header_timeout 60s"}},
}

// proxiesLimit is the limit in the configurations.
const proxiesLimit = "GCRA+100/m+BURST+20"

// runNginx runs nginx with the shipped configuration, but for other addresses, another limit and what change says.
func runNginx(t *testing.T, limitdb, app, limit string, change ...string) string {
	t.Helper()
	addr, dir := "127.0.0.1:"+freePort(t), t.TempDir()
	conf := proxyConfig(t, "nginx.conf", dir, append(change, "127.0.0.1:8080", addr, "127.0.0.1:6380", limitdb, "127.0.0.1:9000", app, proxiesLimit, limit)...)
	runProxy(t, addr, "nginx", "-p", dir, "-e", "stderr", "-c", conf, "-g", "daemon off; master_process off; pid "+filepath.Join(dir, "pid")+";")
	return addr
}

// runHAProxy does what runNginx does, for HAProxy.
func runHAProxy(t *testing.T, limitdb, app, limit string, change ...string) string {
	t.Helper()
	addr, dir := "127.0.0.1:"+freePort(t), t.TempDir()
	ask := "abns@limitdb-" + strings.TrimPrefix(addr, "127.0.0.1:")
	lua := proxyConfig(t, "limitdb.lua", dir, "abns@limitdb", ask)
	conf := proxyConfig(t, "haproxy.cfg", dir, append(change, "/etc/haproxy/limitdb.lua", lua, "abns@limitdb", ask, "127.0.0.1:8080", addr, "127.0.0.1:6380", limitdb, "127.0.0.1:9000", app, proxiesLimit, limit)...)
	runProxy(t, addr, "haproxy", "-db", "-f", conf)
	return addr
}

// TestProxies runs nginx, HAProxy and Caddy with the configurations in deploy/proxies in front of a service.
func TestProxies(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "served "+r.URL.Path)
	}))
	t.Cleanup(app.Close)
	appAddr := strings.TrimPrefix(app.URL, "http://")
	left := regexp.MustCompile(`;t=(3[56]|1[78])\d\d$`) // nearly an hour, or half of one
	for _, c := range proxies {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, "--http-decisions", "yes", "--http-hosts", "limits.example")
			addr := c.run(t, p.HTTPAddr, appAddr, "GCRA+2/h", c.patient...)
			url := "http://" + addr + "/page?x=1"
			for i, state := range []string{`"api";r=1`, `"api";r=0`} {
				status, header, body := ask(t, url)
				if status != 200 || body != "served /page" || left.ReplaceAllString(header.Get("RateLimit"), "") != state || header.Get("RateLimit-Policy") != `"api";q=2;w=3600` {
					t.Errorf("request %d: %d %q %v", i+1, status, body, header)
				}
			}
			status, header, _ := ask(t, url)
			if after := header.Get("Retry-After"); status != 429 || header.Get("RateLimit") != `"api";r=0;t=`+after || !left.MatchString(";t="+after) {
				t.Errorf("over the limit: %d %v", status, header)
			}
			// Requests pass while limitdb is away.
			p.Stop()
			if status, _, body := ask(t, url); status != 200 || body != "served /page" {
				t.Errorf("without limitdb: %d %q", status, body)
			}
		})
	}
}

// Behind a proxy with the shipped files, requests pass within 10 ms while limitdb is stopped, killed, frozen or cut off. Only the first that finds it
// away waits. When limitdb is back, it is asked again.
func TestProxiesWithoutLimitdb(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "served") }))
	t.Cleanup(app.Close)
	for _, way := range []struct {
		name string
		away func(t *testing.T, p *proc, link *cutLink)
		back func(p *proc, link *cutLink) // nil if it does not come back
	}{
		{"stopped", func(t *testing.T, p *proc, _ *cutLink) { p.Stop() }, nil},
		{"killed", func(t *testing.T, p *proc, _ *cutLink) { p.Kill() }, nil},
		{"frozen", func(t *testing.T, p *proc, _ *cutLink) { stall(t, p) }, func(p *proc, _ *cutLink) { p.Signal(syscall.SIGCONT) }},
		{"cut off", func(t *testing.T, _ *proc, link *cutLink) { link.cut() }, func(_ *proc, link *cutLink) { link.mend() }},
	} {
		for _, c := range proxies {
			t.Run(c.name+"/"+way.name, func(t *testing.T) {
				p := start(t, "--http-decisions", "yes", "--http-trusted-proxies", "127.0.0.1")
				defer func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }()
				link, to := newCutLink(t, p.HTTPAddr), p.HTTPAddr
				if way.name == "cut off" {
					to = link.addr
				}
				url := "http://" + c.run(t, to, strings.TrimPrefix(app.URL, "http://"), "GCRA+1000000/h") + "/page"
				limited := func() bool {
					_, header, _ := ask(t, url)
					return header.Get("RateLimit") != ""
				}
				eventually(t, "limitdb is asked", limited)
				way.away(t, p, link)
				asked := link.asked.Load()
				var took []time.Duration
				for range 52 {
					began := time.Now()
					if status, _, body := ask(t, url); status != 200 || body != "served" {
						t.Fatalf("%d %q", status, body)
					}
					took = append(took, time.Since(began))
				}
				first, rest := took[0], took[1:]
				slices.Sort(rest)
				t.Logf("%s, limitdb %s: the first request takes %v, those after it %v in the median and %v at most", c.name, way.name, first, rest[25], rest[50])
				if rest[25] > 10*time.Millisecond {
					t.Errorf("half of the requests take more than %v", rest[25])
				}
				if n := link.asked.Load() - asked; n > 2 {
					t.Errorf("limitdb is asked %d times while it is away", n)
				}
				if way.back != nil {
					way.back(p, link)
					eventually(t, "limitdb is asked again", limited)
				}
			})
		}
	}
}

// HAProxy denies requests while limitdb is away if the line of the shipped file that says so is uncommented.
func TestHAProxyFailsClosed(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	t.Cleanup(app.Close)
	p := start(t, "--http-decisions", "yes")
	change := append(proxies[1].patient, "# http-request return status 503", "http-request return status 503")
	url := "http://" + runHAProxy(t, p.HTTPAddr, strings.TrimPrefix(app.URL, "http://"), "GCRA+1/h", change...) + "/"
	for _, want := range []int{200, 429} {
		if status, _, _ := ask(t, url); status != want {
			t.Errorf("%d, want %d", status, want)
		}
	}
	p.Stop()
	for range 2 {
		if status, _, _ := ask(t, url); status != 503 {
			t.Errorf("without limitdb: %d", status)
		}
	}
}

// cutLink passes connections on to an address, until it is cut: then nothing comes through, and nobody is told.
type cutLink struct {
	addr  string
	asked atomic.Int64 // how many requests for a decision have come
	mu    sync.Mutex
	open  chan struct{} // closed while bytes pass
}

func newCutLink(t *testing.T, to string) *cutLink {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	l := &cutLink{addr: ln.Addr().String(), open: make(chan struct{})}
	close(l.open)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go l.pass(c, to)
		}
	}()
	return l
}

func (l *cutLink) pass(c net.Conn, to string) {
	defer c.Close()
	d, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	go func() { l.copy(d, c); _ = d.Close() }()
	l.copy(c, d)
}

func (l *cutLink) copy(to, from net.Conn) {
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		l.asked.Add(int64(bytes.Count(b[:n], []byte("GET /auth"))))
		<-l.passes()
		if _, werr := to.Write(b[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (l *cutLink) passes() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

func (l *cutLink) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = make(chan struct{})
}

func (l *cutLink) mend() { close(l.passes()) }
