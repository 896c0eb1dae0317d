package e2e

import (
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

// TestProxies runs nginx and HAProxy with the configurations in deploy/proxies in front of a service.
func TestProxies(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "served "+r.URL.Path)
	}))
	t.Cleanup(app.Close)
	appAddr := strings.TrimPrefix(app.URL, "http://")
	const theirs, ours = "GCRA+100/m+BURST+20", "GCRA+2/h"
	left := regexp.MustCompile(`;t=(3[56]|1[78])\d\d$`) // nearly an hour, or half of one
	for _, c := range []struct {
		name string
		run  func(addr, limitdb, dir string)
	}{
		{"nginx", func(addr, limitdb, dir string) {
			conf := proxyConfig(t, "nginx.conf", dir, "127.0.0.1:8080", addr, "127.0.0.1:6380", limitdb, "127.0.0.1:9000", appAddr, theirs, ours,
				"proxy_connect_timeout 100ms", "proxy_connect_timeout 60s", "proxy_read_timeout 200ms", "proxy_read_timeout 60s") // on a busy machine
			runProxy(t, addr, "nginx", "-p", dir, "-e", "stderr", "-c", conf,
				"-g", "daemon off; master_process off; pid "+filepath.Join(dir, "pid")+";")
		}},
		{"haproxy", func(addr, limitdb, dir string) {
			lua := proxyConfig(t, "limitdb.lua", dir, "timeout_ms = 200", "timeout_ms = 60000")
			conf := proxyConfig(t, "haproxy.cfg", dir, "/etc/haproxy/limitdb.lua", lua, "127.0.0.1:8080", addr, "127.0.0.1:6380", limitdb, "127.0.0.1:9000", appAddr, theirs, ours, "timeout check 500ms", "timeout check 60s")
			runProxy(t, addr, "haproxy", "-db", "-f", conf)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, "--http-decisions", "yes")
			addr := "127.0.0.1:" + freePort(t)
			c.run(addr, p.HTTPAddr, t.TempDir())
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

// Behind HAProxy with the shipped files, requests pass within 10 ms while limitdb is stopped, killed, frozen or cut off, as soon as the check has
// found out; and when it is back, it is asked again.
func TestHAProxyWithoutLimitdb(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "served") }))
	t.Cleanup(app.Close)
	for name, away := range map[string]func(t *testing.T, p *proc, link *cutLink){
		"stopped": func(t *testing.T, p *proc, _ *cutLink) { p.Stop() },
		"killed":  func(t *testing.T, p *proc, _ *cutLink) { p.Kill() },
		"frozen": func(t *testing.T, p *proc, _ *cutLink) {
			p.Signal(syscall.SIGSTOP)
			t.Cleanup(func() { p.Signal(syscall.SIGCONT) })
		},
		"cut off": func(t *testing.T, _ *proc, link *cutLink) { link.cut() },
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, "--http-decisions", "yes", "--http-trusted-proxies", "127.0.0.1")
			link := newCutLink(t, p.HTTPAddr)
			addr, dir := "127.0.0.1:"+freePort(t), t.TempDir()
			lua := proxyConfig(t, "limitdb.lua", dir)
			conf := proxyConfig(t, "haproxy.cfg", dir, "/etc/haproxy/limitdb.lua", lua, "127.0.0.1:8080", addr, "127.0.0.1:6380", link.addr,
				"127.0.0.1:9000", strings.TrimPrefix(app.URL, "http://"), "GCRA+100/m+BURST+20", "GCRA+1000000/h")
			runProxy(t, addr, "haproxy", "-db", "-f", conf)
			url := "http://" + addr + "/page"
			limited := func() bool {
				_, header, _ := ask(t, url)
				return header.Get("RateLimit") != ""
			}
			eventually(t, "limitdb is asked", limited)
			away(t, p, link)
			worst := time.Duration(0)
			eventually(t, "the check has found out", func() bool {
				began := time.Now()
				ask(t, url)
				took := time.Since(began)
				worst = max(worst, took)
				return took < 10*time.Millisecond
			})
			var took []time.Duration
			for range 51 {
				began := time.Now()
				if status, _, body := ask(t, url); status != 200 || body != "served" {
					t.Fatalf("%d %q", status, body)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			t.Logf("%s: until the check had found out %v at most; then the median is %v, the most %v", name, worst, took[25], took[50])
			if took[25] > 10*time.Millisecond {
				t.Errorf("half of the requests take more than %v", took[25])
			}
			if name == "cut off" {
				link.mend()
				eventually(t, "limitdb is asked again", limited)
			}
		})
	}
}

// cutLink passes connections on to an address, until it is cut: then nothing comes through, and nobody is told.
type cutLink struct {
	addr string
	mu   sync.Mutex
	open chan struct{} // closed while bytes pass
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
	<-l.passes()
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
