package e2e

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRefusesToStart starts the server with wrong settings. It ends with status 1 and one line that says why.
func TestRefusesToStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t, dir, "one")
	_, otherKey := certificate(t, dir, "two")
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	garbage := write("garbage.pem", "no certificate")
	unknown := write("unknown.conf", "# one\nport 7000\nmaxclient 5\n")
	value := write("value.conf", "maxclients many\n")
	quotes := write("quotes.conf", "\n\ndir \"abc\n")
	port := freePort(t)
	taken := startWith(t, options{noPort: true, ready: func(*proc) bool { return answers("127.0.0.1:" + port) }}, "--port", port)
	_, httpPort, _ := net.SplitHostPort(taken.HTTPAddr)
	free := []string{"--port", freePort(t), "--http-port", "0"}
	with := func(args ...string) []string { return append(args, free...) }
	withTLS := func(cert, key string) []string {
		return with("--tls-port", freePort(t), "--tls-cert-file", cert, "--tls-key-file", key)
	}

	tests := []struct {
		name string
		args []string
		env  []string
		want string // a regular expression
	}{
		{"unknown option", with("--maxclient", "5"), nil, `unknown option "--maxclient" \(did you mean "--maxclients"\?\)`},
		{"unknown directive in the file", append([]string{unknown}, free...), nil, `.*/unknown\.conf:3: unknown directive "maxclient" \(did you mean "maxclients"\?\)`},
		{"bad value in the file", append([]string{value}, free...), nil, `.*/value\.conf:1: maxclients "many": .+`},
		{"unbalanced quotes in the file", append([]string{quotes}, free...), nil, `.*/quotes\.conf:3: unbalanced quotes`},
		{"bad value", with("--loglevel", "loud"), nil, `--loglevel "loud": .+`},
		{"bad value in the environment", free, []string{"LIMITDB_MAXCLIENTS=-1"}, `LIMITDB_MAXCLIENTS "-1": .+`},
		{"unknown variable", free, []string{"LIMITDB_MAXCLIENT=1"}, `unknown environment variable "LIMITDB_MAXCLIENT" \(did you mean "LIMITDB_MAXCLIENTS"\?\)`},
		{"no such file", append([]string{filepath.Join(dir, "absent.conf")}, free...), nil, `.*absent\.conf: no such file.*`},
		{"no address", with("--bind", "nowhere"), nil, `.*bind.*nowhere.*`},
		{"port that is taken", []string{"--port", port, "--http-port", "0"}, nil, `.*127\.0\.0\.1:` + port + `.*address already in use: the port is taken; choose another with --port N`},
		{"HTTP port that is taken", []string{"--port", freePort(t), "--http-port", httpPort}, nil, `.*127\.0\.0\.1:` + httpPort + `.*address already in use: the port is taken; choose another with --http-port N \(0 for none\)`},
		{"certificate that is not there", withTLS(filepath.Join(dir, "absent.crt"), key), nil, `.*absent\.crt": no such file.*`},
		{"certificate that is none", withTLS(garbage, key), nil, `.*garbage\.pem.*`},
		{"key that is not there", withTLS(cert, filepath.Join(dir, "absent.key")), nil, `.*absent\.key": no such file.*`},
		{"key of another certificate", withTLS(cert, otherKey), nil, `.*private key does not match.*`},
		{"TLS without a certificate", with("--tls-port", freePort(t)), nil, `.*tls-cert-file.*`},
		{"socket in no folder", with("--unixsocket", filepath.Join(dir, "absent", "s")), nil, `.*absent/s.*no such file.*`},
		{"password file that is not there", with("--requirepass-file", filepath.Join(dir, "absent.txt")), nil, `.*absent\.txt.*no such file.*`},
	}
	for _, tt := range tests {
		r := runEnv(t, tt.env, "", plainBinary(t), append(tt.args, "--dir", filepath.Join(dir, "data"))...)
		if r.Code != 1 {
			t.Errorf("%s: exit code %d, want 1", tt.name, r.Code)
		}
		// Log lines may come before the last line, which is the reason.
		lines := strings.Split(strings.TrimSuffix(r.Stderr, "\n"), "\n")
		last := lines[len(lines)-1]
		if !regexp.MustCompile(`^limitdb: ` + tt.want + `$`).MatchString(last) {
			t.Errorf("%s: the last line is %q, want %q", tt.name, last, tt.want)
		}
		if n := strings.Count(r.Stderr, "limitdb: "); n != 1 || r.Stdout != "" {
			t.Errorf("%s: not one line: %q, %q", tt.name, r.Stderr, r.Stdout)
		}
	}
}

func TestCheckConfig(t *testing.T) {
	t.Parallel()
	bin := plainBinary(t)
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.conf"), filepath.Join(dir, "bad.conf")
	p := start(t)
	os.WriteFile(good, []byte("port "+p.Port()+"\nmaxclients 5\n"), 0o600) // only checked, so a port in use is fine
	os.WriteFile(bad, []byte("port 7000\nmaxclients 0\n"), 0o600)
	if r := run(t, "", bin, good, "--check-config"); r.Code != 0 {
		t.Errorf("a good file: exit code %d, %q", r.Code, r.Stderr)
	}
	if r := run(t, "", bin, "--check-config", good); r.Code != 0 {
		t.Errorf("a good file after the option: exit code %d, %q", r.Code, r.Stderr)
	}
	r := run(t, "", bin, bad, "--check-config")
	if r.Code != 1 || strings.Count(r.Stderr, "\n") != 1 || !strings.Contains(r.Stderr, "bad.conf:2: maxclients \"0\": ") {
		t.Errorf("a bad file: exit code %d, %q", r.Code, r.Stderr)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"version", "--version", "-v"} {
		r := run(t, "", plainBinary(t), arg)
		if want := `^limitdb \d+\.\d+\.\d+\S*( \([0-9a-f]{12}\))? go1\.\d+\S* linux/\w+\n$`; r.Code != 0 || !regexp.MustCompile(want).MatchString(r.Stdout) {
			t.Errorf("limitdb %s: exit code %d, %q", arg, r.Code, r.Stdout)
		}
	}
	for _, arg := range []string{"--help", "-h", "help"} {
		r := run(t, "", plainBinary(t), arg)
		if r.Code != 0 || !strings.Contains(r.Stdout, "limitdb [FILE] [--directive value …]") {
			t.Errorf("limitdb %s: exit code %d, %q", arg, r.Code, r.Stdout)
		}
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	bin := plainBinary(t)
	f := startFixture(t)
	socket := filepath.Join(t.TempDir(), "s")
	start(t, "--unixsocket", socket)
	nobody := freePort(t)
	tests := []struct {
		name string
		args []string
		env  []string
		code int
		out  string
		err  string // the start of the line
	}{
		{"plain", []string{"--port", f.open.Port()}, nil, 0, "PONG\n", ""},
		{"from the environment", nil, []string{"LIMITDB_PORT=" + f.open.Port()}, 0, "PONG\n", ""},
		{"all addresses", []string{"--port", f.open.Port(), "--bind", "*"}, nil, 0, "PONG\n", ""},
		{"password", []string{"--port", f.locked.Port(), "--requirepass", password}, nil, 0, "PONG\n", ""},
		{"wrong password", []string{"--port", f.locked.Port(), "--requirepass", "wrong"}, nil, 1, "", "limitdb: no answer: WRONGPASS"},
		{"TLS", []string{"--port", "0", "--tls-port", f.tlsPort, "--tls-cert-file", f.cert, "--tls-key-file", strings.TrimSuffix(f.cert, "crt") + "key"}, nil, 0, "PONG\n", ""},
		{"unix socket", []string{"--port", "0", "--unixsocket", socket}, nil, 0, "PONG\n", ""},
		{"nobody", []string{"--port", nobody}, nil, 1, "", "limitdb: no answer: "},
		{"ready", []string{"--ready", "--http-port", f.open.HTTPAddr[strings.LastIndex(f.open.HTTPAddr, ":")+1:]}, nil, 0, "ready\n", ""},
		{"not ready", []string{"--ready", "--http-port", nobody}, nil, 1, "", "limitdb: no answer: "},
		{"ready without a port", []string{"--ready", "--http-port", "0"}, nil, 1, "", "limitdb: the configuration has no http-port"},
		{"unknown option", []string{"--prot", nobody}, nil, 1, "", `limitdb: unknown option "--prot"`},
	}
	for _, tt := range tests {
		r := runEnv(t, tt.env, "", bin, append([]string{"ping"}, tt.args...)...)
		if r.Code != tt.code || r.Stdout != tt.out || !strings.HasPrefix(r.Stderr, tt.err) || strings.Count(r.Stderr, "\n") != tt.code {
			t.Errorf("%s: exit code %d, %q, %q; want %d, %q, %q…", tt.name, r.Code, r.Stdout, r.Stderr, tt.code, tt.out, tt.err)
		}
	}
}

// TestStop stops the server while a client's commands are running. The commands that were read are answered.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := startRace(t)
		c := dial(t, p.Addr)
		if got := c.do("PING"); got != "+PONG" {
			t.Fatal(got)
		}
		p.Signal(sig)
		if rest := c.rest(); rest != "" {
			t.Errorf("an idle client is sent %q", rest)
		}
		if code := p.Wait(); code != 0 {
			t.Errorf("%v: exit code %d, want 0", sig, code)
		}
	}
}

// TestSecondSignal stops a server whose client does not read its replies. After the first SIGTERM the server
// waits for the client; after the second it does not.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	p := start(t, "--shutdown-timeout", "3600", "--write-timeout", "3600", "--client-output-buffer-limit", "256mb")
	c := dial(t, p.Addr)
	c.Conn.(*net.TCPConn).SetReadBuffer(4096)
	other := dial(t, p.Addr)
	for range 40 {
		c.send(strings.Repeat(command("ECHO", strings.Repeat("x", 10_000)), 100))
	}
	eventually(t, "replies wait", func() bool {
		return !regexp.MustCompile(` cmd=echo .* omem=0 `).MatchString(other.do("CLIENT", "LIST")) &&
			strings.Contains(other.do("CLIENT", "LIST"), "cmd=echo")
	})
	p.Signal(syscall.SIGTERM)
	if rest := other.rest(); rest != "" { // it has begun to stop
		t.Errorf("an idle client is sent %q", rest)
	}
	select {
	case <-p.done:
		t.Fatal("the first SIGTERM did not wait for the client")
	case <-time.After(300 * time.Millisecond):
	}
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != 0 && code != 1 {
		t.Errorf("exit code %d", code)
	}
}

// TestShutdownOnSIGTERM stops servers as the directive says: now, although a client does not read its replies,
// and with a snapshot.
func TestShutdownOnSIGTERM(t *testing.T) {
	t.Parallel()
	p := start(t, "--shutdown-on-sigterm", "now", "--shutdown-timeout", "3600", "--write-timeout", "3600", "--client-output-buffer-limit", "256mb")
	c := dial(t, p.Addr)
	c.Conn.(*net.TCPConn).SetReadBuffer(4096)
	other := dial(t, p.Addr)
	for range 40 {
		c.send(strings.Repeat(command("ECHO", strings.Repeat("x", 10_000)), 100))
	}
	eventually(t, "replies wait", func() bool {
		list := other.do("CLIENT", "LIST")
		return strings.Contains(list, "cmd=echo") && !regexp.MustCompile(` cmd=echo .* omem=0 `).MatchString(list)
	})
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != 0 {
		t.Errorf("now: exit code %d, want 0", code)
	}

	p = start(t, "--shutdown-on-sigterm", "save")
	c = dial(t, p.Addr)
	c.do("RL.TAKE", "k", "GCRA", "5/h")
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != 0 {
		t.Errorf("save: exit code %d, want 0", code)
	}
	if bases, err := filepath.Glob(filepath.Join(p.Dir, "base-*")); err != nil || len(bases) != 1 || !strings.Contains(p.Log(), "a snapshot is durable") {
		t.Errorf("save: the snapshots %q, and the log %s", bases, p.Log())
	}
	if n := (&taker{key: "k"}).used(t, startIn(t, p.Dir).Addr); n != 1 {
		t.Errorf("%d units are used after the next start, want 1", n)
	}
}

// TestShutdownCommand stops the server with SHUTDOWN.
func TestShutdownCommand(t *testing.T) {
	t.Parallel()
	p := startRace(t)
	c := dial(t, p.Addr)
	c.send(command("SHUTDOWN", "NOSAVE"))
	if rest := c.rest(); rest != "" {
		t.Errorf("SHUTDOWN replied %q", rest)
	}
	if code := p.Wait(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// TestFewDescriptors starts the server with 64 descriptors and opens more connections than that. The server
// refuses some, keeps serving the others without wasting processor time, and accepts new ones when
// there is room again.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	p := startWith(t, options{bin: raceBinary(t), wrap: []string{"bash", "-c", `ulimit -n 64 && exec "$0" "$@"`}})
	eventually(t, "all ports are open", func() bool { return strings.Contains(p.Log(), "limitdb is ready") })
	good := dial(t, p.Addr)
	if got := good.do("PING"); got != "+PONG" {
		t.Fatal(got)
	}
	conns := dialMany(t, p.Addr, 200, "PING\r\n")
	served, refused := 0, 0
	for _, c := range conns {
		b := make([]byte, 64)
		c.SetReadDeadline(time.Now().Add(deadline))
		n, err := c.Read(b)
		switch {
		case string(b[:n]) == "+PONG\r\n":
			served++
		case isTimeout(err):
			t.Fatalf("neither served nor refused; %d served, %d refused before", served, refused)
		default:
			refused++
			if s := string(b[:n]); s != "" && s != "-ERR max number of clients reached\r\n" {
				t.Errorf("refused with %q", s)
			}
		}
	}
	if served < 10 || served > 64 || refused != 200-served {
		t.Errorf("%d served, %d refused", served, refused)
	}
	if got := good.do("PING"); got != "+PONG" {
		t.Errorf("a connected client gets %q", got)
	}
	before := cpuTicks(t, p)
	time.Sleep(500 * time.Millisecond) // the time span that is measured, not a wait
	if used := cpuTicks(t, p) - before; used > 25 {
		t.Errorf("the server used %d0 ms of processor time in half a second of nothing to do", used)
	}
	for _, c := range conns {
		c.Close()
	}
	eventually(t, "there is room again", func() bool { return strings.Contains(good.do("INFO", "clients"), "connected_clients:1\r\n") })
	serves(t, p)
}

// cpuTicks returns the processor time that p has used, in hundredths of a second.
func cpuTicks(t *testing.T, p *proc) int {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + p.pid() + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] { // utime, stime
		ticks += atoi(t, f)
	}
	return ticks
}

// TestReloadCertificate replaces the certificate under a running server.
func TestReloadCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t, dir, "server")
	port := freePort(t)
	p := startRace(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key)
	addr := "127.0.0.1:" + port
	shown := func() []byte {
		c := dialTLS(t, addr, &tls.Config{InsecureSkipVerify: true})
		defer c.Close()
		return c.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw
	}
	old := dialTLS(t, addr, trust(t, cert))
	first := shown()

	if err := os.WriteFile(cert, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := len(p.Log())
	p.Signal(syscall.SIGHUP)
	eventually(t, "the log tells of the certificate", func() bool { return strings.Contains(p.Log()[before:], filepath.Base(cert)) })
	if !bytes.Equal(shown(), first) {
		t.Error("a reload that failed did not keep the certificate")
	}

	if page := get("http://" + p.HTTPAddr + "/metrics"); !strings.Contains(page, `limitdb_certificate_expiry_seconds{certificate="tls-cert-file"} `) {
		t.Error("no metric says when the certificate expires")
	}
	certificate(t, dir, "server") // another certificate in the same files
	p.Signal(syscall.SIGHUP)
	eventually(t, "the new certificate is shown", func() bool { return !bytes.Equal(shown(), first) })
	c := dialTLS(t, addr, trust(t, cert))
	if got := c.do("PING"); got != "+PONG" {
		t.Errorf("with the new certificate: %q", got)
	}
	if got := old.do("PING"); got != "+PONG" {
		t.Errorf("a connection from before: %q", got)
	}
}

// TestClientCertificates asks clients for certificates.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t, dir, "server")
	clientCert, clientKey := certificate(t, dir, "client")
	strangerCert, strangerKey := certificate(t, dir, "stranger")
	port := freePort(t)
	start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-auth-clients", "yes", "--tls-ca-cert-file", clientCert)
	try := func(cert, key string) string {
		conf := trust(t, filepath.Join(dir, "server.crt"))
		if cert != "" {
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			// Without the callback, Go would not send a certificate that none of the requested authorities
			// signed.
			conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		c, err := tls.Dial("tcp", "127.0.0.1:"+port, conf)
		if err != nil {
			return ""
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(deadline))
		io.WriteString(c, "PING\r\n")
		b := make([]byte, 64)
		n, _ := c.Read(b)
		return string(b[:n])
	}
	if got := try(clientCert, clientKey); got != "+PONG\r\n" {
		t.Errorf("with a certificate: %q", got)
	}
	if got := try("", ""); got != "" {
		t.Errorf("without a certificate: %q", got)
	}
	if got := try(strangerCert, strangerKey); got != "" {
		t.Errorf("with a stranger's certificate: %q", got)
	}
}

// TestSystemd plays systemd's part of Type=notify.
func TestSystemd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	receive := func(want string) {
		t.Helper()
		l.SetReadDeadline(time.Now().Add(deadline))
		b := make([]byte, 4096)
		n, err := l.Read(b)
		if err != nil || !strings.Contains(string(b[:n]), want) {
			t.Errorf("systemd is told %q (%v), want %q", b[:n], err, want)
		}
	}
	p := startWith(t, options{env: []string{"NOTIFY_SOCKET=" + path}}, "--supervised", "systemd")
	receive("READY=1")
	p.Signal(syscall.SIGTERM)
	receive("STOPPING=1")
	if code := p.Wait(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// TestHTTPPort sends the requests of a probe and of Prometheus.
func TestHTTPPort(t *testing.T) {
	t.Parallel()
	p := start(t)
	c := dial(t, p.Addr)
	for range 3 {
		c.do("CL.THROTTLE", "secret-caller", "1", "1", "3600")
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if get("http://"+p.HTTPAddr+path) == "" {
			t.Errorf("%s does not answer with 200", path)
		}
	}
	page := get("http://" + p.HTTPAddr + "/metrics")
	if !strings.Contains(page, "\nlimitdb_") || strings.Contains(page, "secret-caller") {
		t.Errorf("/metrics shows no metrics, or a caller:\n%s", page)
	}
	if get("http://"+p.HTTPAddr+"/debug/pprof/") != "" {
		t.Error("profiles are given without being asked for")
	}
	// Without http-bind, it follows bind.
	if got := c.do("CONFIG", "SET", "bind", "127.0.0.1 127.0.0.2"); got != "+OK" {
		t.Fatal(got)
	}
	_, port, _ := net.SplitHostPort(p.HTTPAddr)
	if get("http://127.0.0.2:"+port+"/livez") == "" || get("http://"+p.HTTPAddr+"/livez") == "" {
		t.Error("one of the addresses does not answer")
	}
	if got := c.do("CONFIG", "SET", "bind", "127.0.0.2"); got != "+OK" {
		t.Fatal(got)
	}
	if get("http://127.0.0.2:"+port+"/livez") == "" || get("http://"+p.HTTPAddr+"/livez") != "" {
		t.Error("the HTTP port has not followed bind")
	}
}

// TestNobodyReadsTheLog closes the pipe of standard output and standard error at the first line. The server
// continues, and stops as usual.
func TestNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	p := startWith(t, options{output: brokenPipe{}}, "--requirepass", "secret")
	c := dial(t, p.Addr)
	for range 3 { // each writes a line to the log
		if got := c.do("AUTH", "wrong"); !strings.HasPrefix(got, "-WRONGPASS") {
			t.Fatalf("a wrong password: %q", got)
		}
	}
	if got := c.do("AUTH", "secret"); got != "+OK" {
		t.Errorf("the right password: %q", got)
	}
}

// brokenPipe makes package exec close the reading end of a process's output.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
