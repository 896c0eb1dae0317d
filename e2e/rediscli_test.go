package e2e

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// follow starts a program that does not end by itself, and collects what it prints. The program is killed at
// the end of the test.
func follow(t *testing.T, name string, args ...string) *logBuffer {
	t.Helper()
	out := &logBuffer{}
	cmd := exec.Command(name, args...)
	cmd.Env = cleanEnviron()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return out
}

func TestRedisCLI(t *testing.T) {
	t.Parallel()
	cli := need(t, "redis-cli")
	p := start(t)
	tests := []struct {
		name string
		args string
		want string // a regular expression
	}{
		{"throttle", "CL.THROTTLE user123 15 30 60", `0\n16\n15\n-1\n2\n`},
		{"ping", "PING", `PONG\n`},
		{"take", "RL.TAKE t GCRA 5/h COST 5", `0\n5\n0\n-1\n3600000\n`},
		{"denied", "RL.TAKE t GCRA 5/h COST 5", `1\n5\n0\n3[56]\d{5}\n3[56]\d{5}\n`},
		{"type", "TYPE t", `gcra\n`},
		{"error", "CL.THROTTLE t 15 30 sixty", notANumber + `\n\n`},
		{"RESP3", "-3 CL.THROTTLE resp3 15 30 60", `0\n16\n15\n-1\n2\n`},
		{"a RESP3 map", "-3 --json CONFIG GET maxclients", `{"maxclients":"10000"}\n`},
		{"unknown command", "NOPE", `ERR unknown command 'NOPE', with args beginning with: \n\n`},
	}
	for _, tt := range tests {
		r := run(t, "", cli, append([]string{"-p", p.Port()}, strings.Fields(tt.args)...)...)
		if !regexp.MustCompile("^" + tt.want + "$").MatchString(r.Stdout) {
			t.Errorf("%s: redis-cli %s printed %q, want %q (%s)", tt.name, tt.args, r.Stdout, tt.want, r.Stderr)
		}
	}
	r := run(t, strings.Repeat("CL.THROTTLE piped 1 1 3600\n", 3), cli, "-p", p.Port())
	if want := `^0\n2\n1\n-1\n3600\n\n?0\n2\n0\n-1\n7200\n\n?1\n2\n0\n3600\n7200\n\n?$`; !regexp.MustCompile(want).MatchString(r.Stdout) {
		t.Errorf("commands on the standard input printed %q, want %q", r.Stdout, want)
	}
	r = run(t, command("PING")+command("CL.THROTTLE", "pipe", "15", "30", "60"), cli, "-p", p.Port(), "--pipe")
	if want := "errors: 0, replies: 2"; r.Code != 0 || !strings.Contains(r.Stdout, want) {
		t.Errorf("--pipe ended with %d and printed %q, want %q", r.Code, r.Stdout, want)
	}
}

// TestRedisCLIHints types into redis-cli as a user would, and checks what it shows from COMMAND DOCS.
func TestRedisCLIHints(t *testing.T) {
	t.Parallel()
	p := start(t)
	term := openTerminal(t, need(t, "redis-cli"), "-p", p.Port())
	term.press("", p.Addr+"> ")
	const clear = "\x15" // Ctrl-U

	term.press("cl.thr\t", "CL.THROTTLE")
	term.press(" ", "key max_burst count_per_period period [quantity]")
	term.press("user123 15 ", "count_per_period period [quantity]")
	term.press(clear+"rl.ta\t", "RL.TAKE")
	term.press(" ", "key ")
	term.press(clear+"client setn\t", "CLIENT SETNAME")
	term.press(" ", "connection-name")
	term.press(clear+"config g\t", "CONFIG GET")

	help := term.press(clear+"help cl.throttle\r", "group:")
	eventually(t, "the next prompt, before which redis-cli drops what is typed", func() bool {
		screen := term.screen.String()
		return strings.Contains(screen[strings.LastIndex(screen, "group:"):], p.Addr+"> ")
	})
	for _, want := range []string{"CL.THROTTLE", "summary:", "since:"} {
		if !strings.Contains(help, want) {
			t.Errorf("help cl.throttle shows %q, want %q in it", help, want)
		}
	}
	term.press("CL.THROTTLE user123 15 30 60\r", "1) (integer) 0\r\n2) (integer) 16\r\n3) (integer) 15\r\n4) (integer) -1\r\n5) (integer) 2\r\n")
}

func TestRedisCLIModes(t *testing.T) {
	t.Parallel()
	cli := need(t, "redis-cli")
	p := start(t)
	c := dial(t, p.Addr)
	for i := range 250 {
		c.do("RL.TAKE", fmt.Sprintf("user:%d", i), "GCRA", "10/h")
	}

	t.Run("stat", func(t *testing.T) {
		out := follow(t, cli, "-p", p.Port(), "--stat", "-i", "0.05")
		// keys, memory, clients, blocked, requests, connections
		row := regexp.MustCompile(`(?m)^250 +[0-9.]+[KMG] +[1-9]\d* +0 +[1-9]\d*( \(\+\d+\))? +[1-9]\d* *$`)
		eventually(t, "two rows of --stat", func() bool { return len(row.FindAllString(out.String(), -1)) >= 2 })
	})
	t.Run("latency", func(t *testing.T) {
		r := run(t, "", cli, "-p", p.Port(), "--latency", "-i", "0.3")
		if !regexp.MustCompile(`^\d+ \d+ [0-9.]+ [1-9]\d*\n$`).MatchString(r.Stdout) {
			t.Errorf("--latency printed %q (%s), want min, max, average and the number of samples", r.Stdout, r.Stderr)
		}
	})
	t.Run("bigkeys", func(t *testing.T) {
		r := run(t, "", cli, "-p", p.Port(), "--bigkeys")
		if r.Code != 0 || !strings.Contains(r.Stdout, "Sampled 250 keys in the keyspace!") ||
			!regexp.MustCompile(`(?m)^250 gcras with `).MatchString(r.Stdout) {
			t.Errorf("--bigkeys ended with %d and printed\n%s%s", r.Code, r.Stdout, r.Stderr)
		}
	})
	t.Run("memkeys", func(t *testing.T) {
		r := run(t, "", cli, "-p", p.Port(), "--memkeys")
		if r.Code != 0 || !regexp.MustCompile(`(?m)^250 gcras with [1-9]\d* bytes`).MatchString(r.Stdout) {
			t.Errorf("--memkeys ended with %d and printed\n%s%s", r.Code, r.Stdout, r.Stderr)
		}
	})
	t.Run("scan", func(t *testing.T) {
		r := run(t, "", cli, "-p", p.Port(), "--scan", "--pattern", "user:1?")
		if n := strings.Count(r.Stdout, "\n"); n != 10 {
			t.Errorf("--scan --pattern user:1? printed %d keys, want 10: %q", n, r.Stdout)
		}
	})
	t.Run("MONITOR", func(t *testing.T) {
		out := follow(t, cli, "-p", p.Port(), "MONITOR")
		eventually(t, "OK", func() bool { return strings.HasPrefix(out.String(), "OK\n") })
		c.do("CL.THROTTLE", "with \"quotes\"\n", "15", "30", "60")
		line := regexp.MustCompile(`(?m)^\d+\.\d{6} \[0 127\.0\.0\.1:\d+\] "CL.THROTTLE" "with \\"quotes\\"\\n" "15" "30" "60"$`)
		eventually(t, "the command", func() bool { return line.MatchString(out.String()) })
	})
	t.Run("a script that waits", func(t *testing.T) {
		begin := time.Now()
		r := run(t, "", cli, "-p", p.Port(), "-r", "3", "-i", "0.01", "PING")
		if r.Stdout != "PONG\nPONG\nPONG\n" {
			t.Errorf("-r 3 printed %q after %v", r.Stdout, time.Since(begin))
		}
	})
}

// TestRedisCLISecure connects with a password, over TLS and over a unix socket.
func TestRedisCLISecure(t *testing.T) {
	t.Parallel()
	cli := need(t, "redis-cli")
	f := startFixture(t)
	socket := t.TempDir() + "/limitdb.sock"
	p := start(t, "--unixsocket", socket, "--unixsocketperm", "700")
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no password", []string{"-p", f.locked.Port(), "PING"}, "NOAUTH Authentication required.\n\n"},
		{"password", []string{"-p", f.locked.Port(), "--no-auth-warning", "-a", password, "PING"}, "PONG\n"},
		{"TLS", []string{"-p", f.tlsPort, "--tls", "--cacert", f.cert, "PING"}, "PONG\n"},
		{"unix socket", []string{"-s", socket, "PING"}, "PONG\n"},
		{"the other port", []string{"-p", p.Port(), "PING"}, "PONG\n"},
	}
	for _, tt := range tests {
		if r := run(t, "", cli, tt.args...); r.Stdout != tt.want {
			t.Errorf("%s: %q (%s), want %q", tt.name, r.Stdout, r.Stderr, tt.want)
		}
	}
}
