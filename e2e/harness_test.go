package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// deadline bounds the wait for anything that a healthy machine does in milliseconds. It is generous because
// it only matters when a test fails.
const deadline = 2 * time.Minute

// long reports whether the soak tests take their full time.
func long() bool { return os.Getenv("LIMITDB_LONG") == "1" }

// builds has the binaries of this run, each built at first use.
var builds struct {
	dir               string
	plain, race, next func() (string, error)
}

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "limitdb-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	ports.Store(10_000 + int32(os.Getpid()*499%20_000))
	builds.dir = dir
	builds.plain = sync.OnceValues(func() (string, error) { return build(dir, "limitdb") })
	builds.race = sync.OnceValues(func() (string, error) { return build(dir, "limitdb-race", "-race", "-ldflags=-s -w") })
	builds.next = sync.OnceValues(func() (string, error) { return build(dir, "limitdb-next", "-tags", "nextformat", "-ldflags=-s -w") })
	return m.Run()
}

func build(dir, name string, flags ...string) (string, error) {
	out := filepath.Join(dir, name)
	args := append([]string{"build", "-o", out}, flags...)
	cmd := exec.Command("go", append(args, "limitdb/cmd/limitdb")...)
	if msg, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, msg)
	}
	return out, nil
}

// plainBinary returns the binary as users run it.
func plainBinary(t *testing.T) string { return must(t)(builds.plain()) }

// raceBinary returns the binary with the race detector.
func raceBinary(t *testing.T) string { return must(t)(builds.race()) }

// nextBinary returns the binary of a version with another format of entries.
func nextBinary(t *testing.T) string { return must(t)(builds.next()) }

func must(t *testing.T) func(string, error) string {
	return func(path string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// need returns the path of a tool. If the machine lacks it, the test is skipped, or fails if LIMITDB_E2E=1
// promises that all tools are there.
func need(t *testing.T, tool string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		lacking(t, "%s is not installed (scripts/install-test-tools installs it)", tool)
	}
	return path
}

// lacking ends the test because the machine lacks something that it needs.
func lacking(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("LIMITDB_E2E") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// logBuffer collects what a process prints. Several goroutines may use it.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// proc is a running limitdb. It is stopped at the end of its test. The test fails if the process does not
// exit with 0, or if its log shows a panic or a data race.
type proc struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *os.File      // the process writes it itself, so that it has said all before it answers
	done chan struct{} // closed when the process has ended
	// gone: the test has ended the process itself.
	gone bool

	// Addr is host:port of the RESP port, HTTPAddr that of the HTTP port.
	Addr, HTTPAddr string
	// Dir is the data directory.
	Dir string
}

// options says how to start a process differently from start.
type options struct {
	bin   string   // default: the plain binary
	first []string // arguments of bin before those of the server
	chdir string   // the working directory; default: the test's
	wrap  []string // a command line in front of the binary's
	env   []string // in addition to the environment of the test
	// output receives what the process prints; default: the log of the proc.
	output io.Writer
	// noPort starts the server without the RESP port on Addr. ready reports whether it is up; the default is
	// that Addr answers a PING.
	noPort bool
	ready  func(p *proc) bool
}

// start starts the plain binary on free ports of 127.0.0.1 with args, and waits until it answers.
func start(t *testing.T, args ...string) *proc {
	t.Helper()
	return startWith(t, options{}, args...)
}

// startRace is start for the binary with the race detector.
func startRace(t *testing.T, args ...string) *proc {
	t.Helper()
	return startWith(t, options{bin: raceBinary(t)}, args...)
}

func startWith(t *testing.T, o options, args ...string) *proc {
	t.Helper()
	if o.bin == "" {
		o.bin = plainBinary(t)
	}
	if o.ready == nil {
		o.ready = func(p *proc) bool {
			if hasLoaded(p) {
				return true
			}
			// Behind a password, only the HTTP port reports whether the state is loaded.
			return answers(p.Addr) && get("http://"+p.HTTPAddr+"/readyz") != ""
		}
	}
	dir := t.TempDir()
	// A free port may be taken before the server binds it, so try again.
	for range 3 {
		p := launch(t, o, dir, args)
		if p != nil {
			t.Cleanup(p.Stop)
			return p
		}
	}
	t.Fatal("no port stayed free")
	return nil
}

// launch starts one process and waits until it is ready. It returns nil if a port was taken.
func launch(t *testing.T, o options, dir string, args []string) *proc {
	t.Helper()
	port, httpPort := freePort(t), freePort(t)
	p := &proc{
		t: t, log: newLog(t), done: make(chan struct{}), Dir: dir,
		Addr: "127.0.0.1:" + port, HTTPAddr: "127.0.0.1:" + httpPort,
	}
	line := append(append([]string{}, o.wrap...), o.bin)
	line = append(line, o.first...)
	if !o.noPort {
		line = append(line, "--port", port)
	}
	// A busy machine's disk may hang for longer than the default allows.
	line = append(line, "--bind", "127.0.0.1", "--http-port", httpPort, "--dir", dir, "--appendfsync-max-delay", "3600")
	line = append(line, args...)
	p.cmd = exec.Command(line[0], line[1:]...)
	p.cmd.Dir = o.chdir
	// By default, a binary with the race detector waits for a second at its end.
	p.cmd.Env = append(cleanEnviron(), "GORACE=atexit_sleep_ms=0")
	p.cmd.Env = append(p.cmd.Env, o.env...)
	if o.output == nil {
		o.output = p.log
	}
	p.cmd.Stdout, p.cmd.Stderr = o.output, o.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	for end := time.Now().Add(deadline); time.Now().Before(end); {
		select {
		case <-p.done:
			if strings.Contains(p.Log(), "address already in use") {
				return nil
			}
			t.Fatalf("%s ended at its start: %v\n%s", strings.Join(line, " "), p.cmd.ProcessState, p.Log())
		case <-time.After(5 * time.Millisecond):
		}
		if o.ready(p) {
			return p
		}
	}
	p.Kill()
	t.Fatalf("%s does not answer\n%s", strings.Join(line, " "), p.Log())
	return nil
}

// cleanEnviron returns the environment of the tests without what the server would read as its configuration.
func cleanEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, "LIMITDB_") || strings.HasPrefix(e, "NOTIFY_SOCKET=")
	})
}

// answers reports whether a RESP server at addr replies to PING, even if with NOAUTH, and has loaded its
// state.
func answers(addr string) bool {
	line := pong(addr)
	return strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "-LOADING")
}

// pong returns the reply to PING of the RESP server at addr, "" if there is none.
func pong(addr string) string {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(deadline))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return ""
	}
	line, _ := bufio.NewReader(c).ReadString('\n')
	return line
}

// ports is the last port that freePort returned.
var ports atomic.Int32

// freePort returns a port of 127.0.0.1 that nobody listens on. It returns each port once, and none that the kernel
// gives to clients, so a port that is used later is still free.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		port := strconv.Itoa(int(ports.Add(1)))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
}

// Port returns the port number in Addr.
func (p *proc) Port() string {
	_, port, _ := net.SplitHostPort(p.Addr)
	return port
}

// pid returns the process's id.
func (p *proc) pid() string { return strconv.Itoa(p.cmd.Process.Pid) }

// Log returns what the process has printed.
func (p *proc) Log() string {
	b, err := io.ReadAll(io.NewSectionReader(p.log, 0, math.MaxInt64))
	if err != nil {
		p.t.Error(err)
	}
	return string(b)
}

// newLog returns a file for what a process prints, which no directory has.
func newLog(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(builds.dir, "log-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	return f
}

// Signal sends sig to the process.
func (p *proc) Signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Errorf("signal %v: %v", sig, err)
	}
}

// Kill ends the process immediately, without warning it.
func (p *proc) Kill() {
	p.gone = true
	p.cmd.Process.Kill()
	<-p.done
}

// Wait waits for the process to end and returns its exit code.
func (p *proc) Wait() int {
	p.t.Helper()
	p.gone = true
	select {
	case <-p.done:
	case <-time.After(deadline):
		p.cmd.Process.Signal(syscall.SIGQUIT)
		select {
		case <-p.done:
		case <-time.After(time.Second):
			p.cmd.Process.Kill()
		}
		p.t.Fatalf("the server does not end\n%s", p.Log())
	}
	return p.cmd.ProcessState.ExitCode()
}

// Stop ends the process with SIGTERM and checks how it ended. A second call only checks the log.
func (p *proc) Stop() {
	p.t.Helper()
	if !p.gone {
		p.Signal(syscall.SIGTERM)
		if code := p.Wait(); code != 0 {
			p.t.Errorf("exit code %d after SIGTERM, want 0", code)
		}
	}
	log := p.Log()
	for _, bad := range []string{"panic", "DATA RACE", "fatal error:"} {
		if strings.Contains(log, bad) {
			p.t.Errorf("the log shows %q", bad)
		}
	}
	if p.t.Failed() {
		p.t.Logf("log of the server:\n%s", tail(log, 8<<10))
	}
}

// tail returns the end of s, at most n bytes.
func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// RSS returns the process's resident memory in bytes.
func (p *proc) RSS() int64 { return p.memory("VmRSS:") }

// PeakRSS returns the maximum resident memory that the process ever had, in bytes.
func (p *proc) PeakRSS() int64 { return p.memory("VmHWM:") }

func (p *proc) memory(field string) int64 {
	p.t.Helper()
	status, err := os.ReadFile("/proc/" + p.pid() + "/status")
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return kb << 10
		}
	}
	p.t.Fatalf("no %s in /proc/PID/status", field)
	return 0
}

// result is the result of a program that has ended.
type result struct {
	Code           int
	Stdout, Stderr string
}

// run runs a program to its end, with input as its standard input.
func run(t *testing.T, input, name string, args ...string) result {
	t.Helper()
	return runEnv(t, nil, input, name, args...)
}

// runEnv is run with additional environment variables.
func runEnv(t *testing.T, env []string, input, name string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(cleanEnviron(), env...)
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s %s: %v %v\n%s%s", name, strings.Join(args, " "), err, ctx.Err(), stdout.String(), stderr.String())
	}
	return result{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	// Long waits ask seldom, for the sake of those who are waited for.
	rest := time.Millisecond
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(rest) {
		if cond() {
			return
		}
		rest = min(2*rest, 25*time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}
