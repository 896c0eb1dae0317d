package e2e

import (
	"crypto/tls"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestBadInput sends what no client should send to the binary with the race detector. Each case gets the
// right replies and, with close, a closed connection. A good client is served all the time.
func TestBadInput(t *testing.T) {
	t.Parallel()
	p := startRace(t)
	good := dial(t, p.Addr)
	const (
		ping  = "*1\r\n$4\r\nPING\r\n"
		args  = "-ERR Protocol error: invalid multibulk length"
		bulk  = "-ERR Protocol error: invalid bulk length"
		crlf  = "(-ERR Protocol error: expected CRLF after .*)"
		quote = "-ERR Protocol error: unbalanced quotes in request"
	)
	tests := []struct {
		name, send string
		want       string // a regular expression for everything that comes back, with ; at the end of each line
		close      bool
	}{
		{"max int64 in $", "*1\r\n$9223372036854775807\r\n", bulk, true},
		{"above int64 in $", "*1\r\n$9223372036854775808\r\n", bulk, true},
		{"max int32 in $", "*1\r\n$2147483647\r\n", bulk, true},
		{"wraps to 4 in $", "*1\r\n$4294967300\r\nPING\r\n", bulk, true},
		{"wraps 2^64 in $", "*1\r\n$18446744073709551620\r\nPING\r\n", bulk, true},
		{"-1 in $", "*1\r\n$-1\r\n", bulk, true},
		{"min int64 in $", "*1\r\n$-9223372036854775808\r\n", bulk, true},
		{"max int64 in *", "*9223372036854775807\r\n", args, true},
		{"above int64 in *", "*9223372036854775808\r\n", args, true},
		{"wraps to 1 in *", "*18446744073709551617\r\n$4\r\nPING\r\n", args, true},
		{"five hundred million in *", "*500000000\r\n", args, true},
		{"no number in *", "*x\r\n", args, true},
		{"no number in $", "*1\r\n$x\r\n", bulk, true},
		{"a sign in $", "*1\r\n$+4\r\nPING\r\n", bulk, true},
		{"*0 and *-1", "*0\r\n*-1\r\n" + ping, `\+PONG`, false},
		{"min int64 in *", "*-9223372036854775808\r\n" + ping, `(\+PONG|` + args + ")", false},
		{"LF only", "PING\nPING\n", `\+PONG;\+PONG`, false},
		{"LF only in a header", "*1\n$4\r\nPING\r\n", `(\+PONG|` + crlf + ")", false},
		{"CR only", "*1\r$4\rPING\r" + strings.Repeat("x", 70000), "-ERR Protocol error: .*", true},
		{"wrong end of a bulk", "*1\r\n$4\r\nPINGxx", crlf, true},
		{"not a $", "*1\r\n:4\r\nPING\r\n", `-ERR Protocol error: expected '\$', got ':'`, true},
		{"a RESP3 map as an argument", "*2\r\n$4\r\nPING\r\n%1\r\n+a\r\n+b\r\n", `-ERR Protocol error: expected '\$', got '%'`, true},
		{"a RESP3 null as an argument", "*2\r\n$4\r\nPING\r\n_\r\n", `-ERR Protocol error: expected '\$', got '_'`, true},
		{"NUL alone", "\x00\r\n", `-ERR unknown command '\\x00'.*`, false},
		{"NUL in a name", "*1\r\n$5\r\nPI\x00NG\r\n", `-ERR unknown command 'PI\\x00NG'.*`, false},
		{"unbalanced quotes", "PING \"abc\r\n", quote, true},
		{"text after a quote", "PING \"abc\"def\r\n", quote, true},
		{"an endless line", strings.Repeat("a", 70000), "-ERR Protocol error: too big inline request", true},
		{"a valid command before the fault", ping + "*1\r\n$-5\r\n", `\+PONG;` + bulk, true},
		{"a newline in an error", "*1\r\n$9\r\nfoo\r\nbar1\r\n", `-ERR unknown command 'foo\\r\\nbar1'.*`, false},
		{"a TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "", true},
		{"POST", "POST / HTTP/1.1\r\nHost: localhost\r\n\r\nFLUSHALL\r\n", "", true},
		{"GET", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "", true},
		{"Host:", "Host: localhost\r\n", "", true},
		{"half a command, then half-close", "*2\r\n$4\r\nECHO\r\n$5\r\nhe", "", true},
		{"half-close after commands", strings.Repeat(ping, 3), `\+PONG;\+PONG;\+PONG`, false},
	}
	for _, tt := range tests {
		c := dial(t, p.Addr)
		// The server may close the connection before it has read everything, so write errors do not matter.
		io.WriteString(c, tt.send)
		if !tt.close || strings.HasPrefix(tt.name, "half") {
			c.Conn.(*net.TCPConn).CloseWrite()
		}
		got := strings.ReplaceAll(strings.TrimSuffix(c.rest(), "\r\n"), "\r\n", ";")
		if !regexp.MustCompile("^(?:" + tt.want + ")$").MatchString(got) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if reply := good.do("PING"); reply != "+PONG" {
			t.Fatalf("after %q a good client gets %q", tt.name, reply)
		}
	}
	for _, want := range []string{"TLS", "POST", "GET", "Host:"} {
		if !regexp.MustCompile(`(?m)^.*level=warning .*port.*` + want + `|` + want + `.*port.*$`).MatchString(p.Log()) {
			t.Errorf("the log does not tell of %s on the port:\n%s", want, p.Log())
		}
	}
}

// TestPlainOnTLS speaks RESP and HTTP to the TLS port.
func TestPlainOnTLS(t *testing.T) {
	t.Parallel()
	f := startFixture(t)
	addr := "127.0.0.1:" + f.tlsPort
	good := dialTLS(t, addr, trust(t, f.cert))
	for _, s := range []string{"PING\r\n", command("PING"), "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x00\x05hello", strings.Repeat("\x00", 100)} {
		c := dial(t, addr)
		c.send(s)
		if got := c.rest(); strings.Contains(got, "PONG") {
			t.Errorf("%q on the TLS port is answered with %q", s, got)
		}
		if got := good.do("PING"); got != "+PONG" {
			t.Fatalf("after %q a good client gets %q", s, got)
		}
	}
	// A client that does not trust the certificate ends its own handshake.
	if c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: nil}); err == nil {
		c.Close()
		t.Error("an unknown certificate is trusted")
	}
	if got := good.do("PING"); got != "+PONG" {
		t.Fatalf("after a failed handshake a good client gets %q", got)
	}
}

// TestAuthOfAMegabyte sends a password of 1 MB, which is over the limit for an unauthenticated client.
func TestAuthOfAMegabyte(t *testing.T) {
	t.Parallel()
	p := startRace(t, "--requirepass", password)
	c := dial(t, p.Addr)
	io.WriteString(c, command("AUTH", strings.Repeat("x", 1<<20)))
	if got, want := c.rest(), "-ERR Protocol error: unauthenticated bulk length\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	c = dial(t, p.Addr)
	io.WriteString(c, "*11\r\n")
	if got, want := c.rest(), "-ERR Protocol error: unauthenticated multibulk length\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	c = dial(t, p.Addr)
	for range 3 {
		if got, want := c.do("AUTH", "wrong"), "-WRONGPASS invalid username-password pair or user is disabled."; got != want {
			t.Errorf("a wrong password got %q, want %q", got, want)
		}
	}
	if got := c.do("AUTH", password); got != "+OK" {
		t.Errorf("the right password got %q", got)
	}
	if strings.Contains(p.Log(), password) {
		t.Error("the log shows the password")
	}
}

// TestByteByByte sends one bulk of 2 MB in 2 M writes.
func TestByteByByte(t *testing.T) {
	t.Parallel()
	const size = 2_000_000
	p := start(t, "--proto-max-bulk-len", "4mb", "--client-query-buffer-limit", "8mb", "--command-timeout", "3600")
	c := dial(t, p.Addr)
	c.SetDeadline(time.Now().Add(4 * deadline))
	c.send("*2\r\n$4\r\nECHO\r\n$2000000\r\n")
	b := []byte("x")
	for range size {
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	c.send("\r\n")
	if got := c.reply(); got != strings.Repeat("x", size) {
		t.Errorf("ECHO of %d bytes, one at a time, replied with %d", size, len(got))
	}
	if rss := p.PeakRSS(); rss > 150<<20 {
		t.Errorf("the server took %d MB for it", rss>>20)
	}
}
