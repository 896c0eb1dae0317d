package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// guide returns the code of a page of docs by file name, from the fences that name a file. Files in two
// languages may have the same name.
func guide(t *testing.T, name string) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(repository(t), "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```[a-z]+ ([a-z-]+\\.[a-z]+)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		files[m[1]] = m[2]
	}
	return files
}

// TestGuide runs the limiters of docs/clients.md with a server that answers, stalls, continues, is killed, and
// is started again.
func TestGuide(t *testing.T) {
	t.Parallel()
	files := guide(t, "clients.md")
	for _, test := range []struct {
		name    string
		files   []string // in the page
		driver  string   // in testdata/guide
		command func(t *testing.T, dir string) []string
		timeout string // 2 s, since a busy machine may take that long
		memory  bool   // it remembers denials
		http    bool   // it has a middleware
	}{
		{"go-redis", []string{"goredis.go", "middleware.go"}, "goredis_main.go", goRun, "2s", true, true},
		{"rueidis", []string{"rueidis.go"}, "rueidis_main.go", goRun, "2s", false, false},
		{"ioredis", []string{"limiter.js", "ioredis.js", "middleware.js"}, "main.js", nodeRun("ioredis"), "2000", true, true},
		{"node-redis", []string{"limiter.js", "node-redis.js", "middleware.js"}, "main.js", nodeRun("node-redis"), "2000", true, true},
		{"redis-py", []string{"limiter.py", "middleware.py"}, "main.py", interpreted("/usr/bin/python3", "main.py"), "2000", true, true},
		{"redis-rb", []string{"limiter.rb"}, "main.rb", interpreted("ruby", "main.rb"), "2000", true, false},
		{"phpredis", []string{"limiter.php"}, "main.php", interpreted("php", "main.php"), "2000", true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			driver, err := os.ReadFile(filepath.Join("testdata", "guide", test.driver))
			if err != nil {
				t.Fatal(err)
			}
			write := func(name, text string) {
				text = strings.Replace(text, "package limiter\n", "package main\n", 1)
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write(test.driver, string(driver))
			for _, name := range test.files {
				if files[name] == "" {
					t.Fatalf("docs/clients.md has no %s", name)
				}
				write(name, files[name])
			}
			data := filepath.Join(t.TempDir(), "data")
			p := startIn(t, data)
			web := "127.0.0.1:" + freePort(t)
			line := append(test.command(t, dir), p.Addr, test.timeout, web, "GCRA", "2/h")
			d := drive(t, line)
			if test.name == "redis-py" { // more threads than connections
				d.eventually(t, "60 threads at once", "crowd")
			}
			if test.http {
				middleware(t, "http://"+web+"/")
			}

			denied := d.limits(t)
			stall(t, p)
			func() {
				defer p.Signal(syscall.SIGCONT)
				d.away(t, denied, test.memory)
			}()
			d.eventually(t, "after the stall", "b")
			p.Kill()
			d.away(t, denied, test.memory)
			startAt(t, data, p.Addr)
			d.eventually(t, "after the restart", "c")
			d.eventually(t, "after the restart", "closed")
		})
	}
}

func goRun(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "driver")
	if out, err := exec.Command("go", append([]string{"build", "-o", bin}, files...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return []string{bin}
}

func nodeRun(library string) func(t *testing.T, dir string) []string {
	return func(t *testing.T, dir string) []string {
		t.Helper()
		bin := need(t, "node")
		modules, err := filepath.Abs("clients/node/node_modules")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(modules, "express")); err != nil {
			lacking(t, "no express: run `npm ci` in e2e/clients/node")
		}
		// The tests have two versions of each library; the page is about the newer one.
		if err := os.Mkdir(filepath.Join(dir, "node_modules"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, installed := range map[string]string{"ioredis": "ioredis6", "redis": "redis6", "express": "express"} {
			if err := os.Symlink(filepath.Join(modules, installed), filepath.Join(dir, "node_modules", name)); err != nil {
				t.Fatal(err)
			}
		}
		return []string{bin, filepath.Join(dir, "main.js"), library}
	}
}

func interpreted(interpreter, program string) func(t *testing.T, dir string) []string {
	return func(t *testing.T, dir string) []string {
		t.Helper()
		return []string{need(t, interpreter), filepath.Join(dir, program)}
	}
}

// stall stops every thread of the server.
func stall(t *testing.T, p *proc) {
	t.Helper()
	p.Signal(syscall.SIGSTOP)
	eventually(t, "all threads have stopped", func() bool {
		threads, err := filepath.Glob("/proc/" + p.pid() + "/task/*/stat")
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			if err != nil || !bytes.Contains(stat, []byte(") T ")) {
				return false
			}
		}
		return err == nil
	})
}

// startAt starts a server with the data directory and the address of an earlier one.
func startAt(t *testing.T, dir, addr string) *proc {
	t.Helper()
	port := addr[strings.LastIndexByte(addr, ':')+1:]
	return startWith(t, options{noPort: true, ready: func(*proc) bool { return answers(addr) }}, "--port", port, "--dir", dir)
}

// driver is a program that takes from the key on each line of its input, and prints the result.
type driver struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
	err *logBuffer
}

func drive(t *testing.T, line []string) *driver {
	t.Helper()
	cmd := exec.Command(line[0], line[1:]...)
	d := &driver{cmd: cmd, err: &logBuffer{}}
	cmd.Stderr = d.err
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.in, d.out = in, bufio.NewScanner(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return d
}

func (d *driver) take(t *testing.T, key string) string {
	t.Helper()
	fmt.Fprintln(d.in, key)
	if !d.out.Scan() {
		t.Fatalf("the driver has ended: %s", d.err.String())
	}
	return d.out.Text()
}

// eventually takes from a key until the server grants it.
func (d *driver) eventually(t *testing.T, what, key string) {
	t.Helper()
	eventually(t, what, func() bool { return d.take(t, key) == "allowed asked" })
}

// limits takes from a key until it is denied, and returns the key. On a busy machine the server may be too slow for the
// limiter's timeout: then it is another key's turn.
func (d *driver) limits(t *testing.T) (key string) {
	t.Helper()
	tries := 0
	eventually(t, "three answers in time", func() bool {
		tries++
		key = fmt.Sprint("a", tries)
		for i, want := range []string{"allowed asked", "allowed asked", "denied asked"} {
			got := d.take(t, key)
			if strings.HasSuffix(got, " away") {
				return false
			}
			if got != want {
				t.Fatalf("request %d of %s: %s, want %s", i, key, got, want)
			}
		}
		return true
	})
	return key
}

// away checks the limiter's answers without a server: it denies a key that was denied before, if it remembers that, and admits new
// callers. A limiter that fails closed denies them.
func (d *driver) away(t *testing.T, denied string, memory bool) {
	t.Helper()
	want := map[bool]string{true: "denied away", false: "allowed away"}[memory]
	if got := d.take(t, denied); got != want {
		t.Fatalf("who was denied: %s, want %s", got, want)
	}
	if got := d.take(t, "nobody"); got != "allowed away" {
		t.Fatalf("who was not denied: %s", got)
	}
	if got := d.take(t, "closed"); memory && got != "denied away" {
		t.Fatalf("with a limiter that fails closed: %s", got)
	}
}

// middleware requests the page of a web server until it is limited. It comes from another address if limitdb was too slow
// for the limiter's timeout.
func middleware(t *testing.T, url string) {
	t.Helper()
	var answers []*http.Response
	tries := byte(0)
	eventually(t, "three answers in time", func() bool {
		answers = nil
		tries++
		address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1+tries)} // one for each client: it may still dial when the next one begins
		c := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: address}).DialContext}}
		defer c.CloseIdleConnections()
		for range 3 {
			r, err := c.Get(url)
			if err != nil {
				return false
			}
			r.Body.Close()
			if r.Header.Get("RateLimit") == "" {
				return false
			}
			answers = append(answers, r)
		}
		return true
	})
	retry := answers[2].Header.Get("Retry-After")
	for i, want := range []struct {
		status int
		limit  string // a regular expression
	}{{200, `r=1;t=1800`}, {200, `r=0;t=3[56]\d\d`}, {429, `r=0;t=` + retry}} {
		a := answers[i]
		if a.StatusCode != want.status || !regexp.MustCompile(`^"default";`+want.limit+`$`).MatchString(a.Header.Get("RateLimit")) || a.Header.Get("RateLimit-Policy") != `"default";q=2` {
			t.Errorf("request %d: %s %v, want %+v", i+1, a.Status, a.Header, want)
		}
	}
	if !regexp.MustCompile(`^1[78]\d\d$`).MatchString(retry) {
		t.Errorf("Retry-After: %s", retry)
	}
}

// kill kills the program, and waits until it has gone.
func (d *driver) kill() {
	d.cmd.Process.Kill()
	d.cmd.Wait()
}
